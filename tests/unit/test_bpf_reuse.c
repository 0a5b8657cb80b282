// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One skb, one packet after another: which hop belongs to which of them. */
#include "host/journey_host.h"

/* The same flow's next segment, and a datagram that differs in its payload alone. */
static struct wire next_of(const struct wire *w)
{
	struct wire next = *w;

	next.seq += 100;
	next.fill++;
	return next;
}

static struct net_device other = DEVICE(other, "other", 99, host_net, NULL);

typedef void (*step_fn)(struct fake *f, struct net_device *dev);

static void send_step(struct fake *f, struct net_device *dev)
{
	(void)dev;
	step_send(f, &host_sock);
}

enum { CPU = 1, TIME = 2, DEV = 4 };

/*
 * Two hops between which nobody can have freed the packet, unless what `but` names
 * has changed.
 */
static const struct pair {
	step_fn from;
	struct net_device *from_dev;
	step_fn to;
	struct net_device *to_dev, *wrong_dev;
	int but;
} links[] = {
	{ send_step, NULL, step_output, &docker0, &other, CPU | TIME },
	{ step_ip_rcv, &vethc, step_output, &docker0, &other, CPU | TIME },
	{ step_output, &docker0, step_queue, &docker0, &other, CPU | TIME | DEV },
	{ step_bridge, &vethc, step_queue, &docker0, &other, CPU | TIME },
	{ step_xmit, &docker0, step_queue, &vethc, &docker0, CPU | TIME | DEV },
	{ step_queue, &vethc, step_xmit, &vethc, &other, DEV },
	{ step_xmit, &vethc, step_netif_rx, &pod_eth0, &vethc, CPU | TIME | DEV },
	{ step_xmit, &lo, step_netif_rx, &lo, &other, CPU | TIME },
	{ step_netif_rx, &pod_eth0, step_receive, &pod_eth0, &other, DEV },
	{ step_bridge, &vethc, step_receive, &docker0, &other, CPU | TIME },
	{ step_receive, &vethc, step_bridge, &vethc, &other, CPU | TIME },
	{ step_receive, &pod_eth0, step_ip_rcv, &pod_eth0, &other, CPU | TIME | DEV },
	{ step_ip_rcv, &pod_eth0, step_tcp_rcv, &pod_eth0, &other, CPU | TIME },
	{ step_ip_rcv, &pod_eth0, step_enqueue, &pod_eth0, &other, CPU | TIME },
};

/* Goes over a link, with what `changed` names changed. Returns whether the packet was looked at. */
static bool go_over(const struct pair *l, const struct wire *a, const struct wire *b, int changed)
{
	struct fake *f;
	unsigned int reads;

	journey_reset(NULL);
	/* the devices' names are known */
	f = fill(0, a);
	l->from(f, l->from_dev);
	l->to(f, changed & DEV ? l->wrong_dev : l->to_dev);
	memset(&host.sets, 0, sizeof(host.sets));

	f = fill(0, a);
	l->from(f, l->from_dev);
	assert_non_null(record_of(f));
	if (b)
		fake_fill(f, b);
	host.cpu += !!(changed & CPU);
	rest(SOON - STEP - !(changed & TIME));
	reads = host.reads;
	l->to(f, changed & DEV ? l->wrong_dev : l->to_dev);
	assert_non_null(record_of(f));
	return host.reads != reads;
}

static void test_links(void **state)
{
	const struct wire b = next_of(&tcp4);

	(void)state;
	for (size_t i = 0; i < LEN(links); i++) {
		for (int changed = 0; changed < 8; changed++) {
			bool ask = changed & links[i].but;

			/* the same packet: its journey goes on in any case */
			assert_int_equal(go_over(&links[i], &tcp4, NULL, changed), ask);
			assert_int_equal(record_of(&pool[0])->hops, 2);
			assert_int_equal(all_counts().matched, 2);
			if (!ask)
				continue;
			/* another one: its own begins here */
			assert_true(go_over(&links[i], &tcp4, &b, changed));
			assert_int_equal(record_of(&pool[0])->hops, 1);
			assert_int_equal(record_of(&pool[0])->seq, b.seq);
			assert_int_equal(record_of(&pool[0])->flags, RECORD_PARTIAL);
			assert_int_equal(all_counts().matched, 3);
		}
	}
}

/* All other pairs of hops: the packet is asked. */
static void test_no_links(void **state)
{
	static const step_fn froms[] = { send_step, step_output, step_queue, step_xmit, step_netif_rx,
					 step_receive, step_bridge, step_ip_rcv, step_tcp_rcv, step_enqueue };
	const struct wire b = next_of(&tcp4);

	(void)state;
	for (size_t from = 0; from < LEN(froms); from++) {
		for (size_t to = 1; to < LEN(froms); to++) {
			const struct pair pair = { froms[from], &docker0, froms[to], &docker0, NULL, 0 };
			bool linked = false;

			for (size_t i = 0; i < LEN(links); i++)
				linked |= links[i].from == pair.from && links[i].to == pair.to;
			if (linked)
				continue;
			assert_true(go_over(&pair, &tcp4, &b, 0));
			assert_int_equal(record_of(&pool[0])->seq, b.seq);
			assert_int_equal(record_of(&pool[0])->hops, 1);
		}
	}
}

/* Where GSO's cutting is not seen a packet may have left its qdisc by it: another one's segment has its skb then. */
static void test_cut_unseen(void **state)
{
	const struct wire next = next_of(&tcp4);

	for (int i = 0; i < 2; i++) {
		struct fake *f;

		journey_reset(state);
		cfg.sees_cut = i;
		f = fill(0, &tcp4);
		step_queue(f, &vethc);
		fake_fill(f, &next);
		step_xmit(f, &vethc);
		assert_int_equal(record_of(f)->seq, i ? tcp4.seq : next.seq);
		assert_int_equal(record_of(f)->hops, i ? 2 : 1);
	}
}

/* On the usual way every packet is looked at where it begins and where it ends, and nowhere else. */
static void test_looks(void **state)
{
	unsigned int reads;
	struct fake *f;

	(void)state;
	for (int round = 0; round < 2; round++) {
		f = fill(0, &udp4);
		step_receive(f, &nic);
		reads = host.reads;
		step_ip_rcv(f, &nic);
		bridge_in(f);
		receive_local(f, &pod_eth0);
		if (round)
			assert_int_equal(host.reads, reads);
		step_read(f);
	}
	assert_table_free();
}

static void nic_step(struct fake *f, struct net_device *dev)
{
	(void)dev;
	step_receive(f, &nic);
}

static void nic_netif_rx_step(struct fake *f, struct net_device *dev)
{
	(void)dev;
	step_netif_rx(f, &nic);
}

/* At an origin it is another packet, even if it looks the same: a retransmission. */
static void check_origin(bool bridged)
{
	static const step_fn origins[] = { send_step, nic_step, nic_netif_rx_step };
	static const struct wire *const wires[] = { &tcp4, &tcp6, &udp4, &udp6 };

	for (size_t i = 0; i < LEN(origins); i++) {
		for (size_t j = 0; j < LEN(wires); j++) {
			struct fake *f = fill(0, wires[j]);

			journey_reset(NULL);
			send_step(f, NULL);
			step_output(f, &docker0);
			if (bridged)	/* from where the packet comes up at a device again */
				step_bridge(f, &vethc);
			else
				step_queue(f, &docker0);
			rest(bridged ? 0 : 400 * MS);	/* not known to have been held */
			origins[i](f, NULL);
			assert_int_equal(host.n_events, 0);
			assert_int_equal(record_of(f)->hops, 1);
			assert_int_equal(record_of(f)->flags & ~RECORD_PAYLOAD, 0);
			assert_int_equal(all_counts().matched, 2);
			/* nor does it matter if no filter lets the next one through */
			cfg.tcp = cfg.udp = 0;
			origins[i](f, NULL);
			assert_null(record_of(f));
			assert_table_free();
		}
	}
}

static void test_origin(void **state)
{
	(void)state;
	check_origin(false);
	check_origin(true);
}

/* The one before was slow by what is known of it: it is told, with an unknown end. */
static void test_lost_slow(void **state)
{
	const struct wire b = next_of(&tcp4);
	const struct record *r;
	struct fake *f;

	(void)state;
	f = fill(0, &tcp4);
	step_send(f, &host_sock);
	step_output(f, &docker0);
	rest(35 * MS);
	step_queue(f, &docker0);
	rest(400 * MS);
	fake_fill(f, &b);
	step_send(f, &host_sock);
	r = only_event(0, END_UNKNOWN);
	assert_hops(r, HOP_IP_QUEUE_XMIT, HOP_IP_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT);
	assert_int_equal(r->end_at, r->hop[2].at);
	assert_int_equal(r->seq, tcp4.seq);
	assert_int_equal(record_of(f)->seq, b.seq);
	/* the same in the middle of the way */
	rest(35 * MS);
	step_output(f, &docker0);
	fake_fill(f, &tcp4);
	step_tcp_rcv(f, &docker0);
	r = only_event(1, END_UNKNOWN);
	assert_int_equal(r->seq, b.seq);
	assert_int_equal(record_of(f)->flags, RECORD_PARTIAL);
}

/* A socket's queue freed a datagram without a word; its skb holds the next one. */
static void test_silent_free(void **state)
{
	const struct wire b = next_of(&udp4);
	const struct record *r;
	struct fake *f;

	(void)state;
	f = fill(0, &udp4);
	receive_local(f, &nic);
	rest(500 * MS);
	fake_fill(f, &b);
	receive_local(f, &nic);
	rest(10 * MS);
	step_read(f);
	r = only_event(0, END_READ);
	assert_hops(r, HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_UDP_ENQUEUE, HOP_UDP_READ);
	assert_true(r->end_at - r->hop[0].at < 11 * MS);
	assert_int_equal(r->flags, RECORD_PAYLOAD);
	assert_int_equal(r->payload & 0xff, b.fill);
}

/* A hop that ends a journey always asks, even right after the hop before. */
static void test_ends_ask(void **state)
{
	const struct wire b = next_of(&udp4), c = next_of(&tcp4);
	struct fake *f;

	(void)state;
	cfg.total_tcp = cfg.total_udp = 0;	/* whatever is known is told */
	f = fill(0, &udp4);
	receive_local(f, &nic);
	fake_fill(f, &b);
	step_read(f);
	only_event(0, END_UNKNOWN);
	assert_table_free();

	f = fill(0, &udp4);
	receive_local(f, &nic);
	fake_fill(f, &b);
	step_drop(f, 5);
	only_event(1, END_UNKNOWN);
	assert_table_free();

	f = fill(0, &tcp4);
	receive_local(f, &nic);
	fake_fill(f, &c);
	step_tcp_state(f);
	only_event(2, END_UNKNOWN);
	assert_table_free();

	/* the end of a packet that nobody has met before says nothing */
	f = fill(1, &udp4);
	step_read(f);
	step_drop(f, 5);
	step_tcp_state(f);
	assert_int_equal(host.n_events, 3);
}

/* The backlog of a busy socket merges later segments into it, which moves its ACK on. */
static void test_ack_moves_on(void **state)
{
	struct tcp_skb_cb *cb;
	struct fake *f;

	(void)state;
	cfg.total_tcp = cfg.total_udp = 0;
	for (int moved = -1; moved <= 1; moved++) {
		f = fill(0, &tcp4);
		cb = (struct tcp_skb_cb *)f->skb.cb;
		receive_local(f, &nic);
		cb->ack_seq += moved;
		step_tcp_state(f);
		only_event(moved + 1, moved < 0 ? END_UNKNOWN : END_DELIVERED);
	}
	/* a datagram's record is no segment's */
	f = fill(0, &udp4);
	receive_local(f, &nic);
	step_tcp_state(f);
	only_event(3, END_UNKNOWN);
}

/* Whether a packet passes for another one that was here a while ago. */
static bool passes_for(const struct wire *b, const struct wire *a)
{
	struct fake *f = fill(0, a);

	journey_reset(NULL);
	step_ip_rcv(f, &vethc);
	fake_fill(f, b);
	rest(2 * MS);
	step_output(f, &docker0);
	return record_of(f)->hops == 2;
}

static void test_identity_tcp(void **state)
{
	struct wire b = tcp4;

	(void)state;
	assert_true(passes_for(&b, &tcp4));
	assert_true(passes_for(&tcp6, &tcp6));
	/* NAT, of both ends even */
	b.src ^= 1, b.dst ^= 2, b.sport++, b.dport++;
	assert_true(passes_for(&b, &tcp4));
	b.id++;	/* a retransmission, or the next keepalive */
	assert_false(passes_for(&b, &tcp4));
	b = tcp6;
	b.src ^= 1, b.dst ^= 2;
	assert_true(passes_for(&b, &tcp6));
	b = tcp4;
	b.seq++;
	assert_false(passes_for(&b, &tcp4));
	b = tcp4;
	b.ack++;
	assert_false(passes_for(&b, &tcp4));
	b = tcp4;
	b.v6 = true;
	assert_false(passes_for(&b, &tcp4));
	b = tcp4;
	b.proto = WIRE_UDP;
	assert_false(passes_for(&b, &tcp4));
	assert_false(passes_for(&tcp4, &b));
}

static void test_identity_udp(void **state)
{
	struct wire a = udp4, b;

	(void)state;
	for (int has_id = 0; has_id < 2; has_id++) {
		a.id = has_id ? 4711 : 0;
		b = a;
		assert_true(passes_for(&b, &a));
		b.src ^= 1, b.dst ^= 2, b.sport++, b.dport++;
		assert_true(passes_for(&b, &a));	/* the payload, or the number */
		b.fill++;
		assert_false(passes_for(&b, &a));
		b = a;
		b.len++;
		assert_false(passes_for(&b, &a));
		b = a;
		b.id = 4712;
		assert_int_equal(passes_for(&b, &a), !has_id);
	}
	/* neither number nor payload: one end must be as it was */
	a.id = a.len = 0;
	b = a;
	b.src ^= 1, b.sport++;
	assert_true(passes_for(&b, &a));
	b = a;
	b.dst ^= 1, b.dport++;
	assert_true(passes_for(&b, &a));
	b.src ^= 1;
	assert_false(passes_for(&b, &a));
	b.src ^= 1, b.sport++;
	assert_false(passes_for(&b, &a));
	a.id = b.id = 5;
	assert_true(passes_for(&b, &a));
}

/* Eight bytes that are not linear at one hop and are at another. */
static void test_payload_comes_and_goes(void **state)
{
	const struct wire b = next_of(&udp6);
	struct fake *f;

	(void)state;
	f = fill(0, &udp6);
	step_ip_rcv(f, &vethc);
	f->skb.data_len = udp6.len;
	rest(2 * MS);
	step_output(f, &docker0);
	assert_int_equal(record_of(f)->hops, 2);
	/* what is learned late counts from then on */
	f = fill(1, &udp6);
	f->skb.data_len = udp6.len;
	step_ip_rcv(f, &vethc);
	assert_int_equal(record_of(f)->flags & RECORD_PAYLOAD, 0);
	f->skb.data_len = 0;
	rest(2 * MS);
	step_output(f, &docker0);
	assert_int_equal(record_of(f)->hops, 2);
	assert_int_equal(record_of(f)->flags & RECORD_PAYLOAD, RECORD_PAYLOAD);
	fake_fill(f, &b);
	rest(2 * MS);
	step_queue(f, &docker0);
	assert_int_equal(record_of(f)->hops, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_journey(test_links), cmocka_journey(test_no_links), cmocka_journey(test_cut_unseen),
		cmocka_journey(test_looks), cmocka_journey(test_origin), cmocka_journey(test_lost_slow), cmocka_journey(test_silent_free),
		cmocka_journey(test_ends_ask), cmocka_journey(test_ack_moves_on),
		cmocka_journey(test_identity_tcp), cmocka_journey(test_identity_udp),
		cmocka_journey(test_payload_comes_and_goes),
	};

	return cmocka_run_group_tests_name("reuse", tests, NULL, NULL);
}
