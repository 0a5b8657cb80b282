// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packets that change their shape: GSO cuts them into segments, tunnels wrap them. */
#include "host/journey_host.h"

/* A container's tunnel device on the host; what it wraps leaves by the NIC. */
static struct net_device vxlan = DEVICE(vxlan, "vxlan0", 8, host_net, NULL);

static const struct wire outer4 = {
	.proto = WIRE_UDP, .src = 0x0a000001, .dst = 0x0a000002, .sport = 55555, .dport = 4789, .id = 1,
};
static const struct wire outer6 = {
	.v6 = true, .proto = WIRE_UDP, .src = 1, .dst = 2, .sport = 55555, .dport = 4789,
};

/* features: what the caller of skb_gso_segment() says that the device can do. */
static void cut_for(struct fake *f, struct sk_buff *segs, u64 features)
{
	host.now += STEP;
	btf___skb_gso_segment(NULL, &f->skb, features, true, segs);
}

static void cut(struct fake *f, struct sk_buff *segs)
{
	cut_for(f, segs, 0);
}

/* A packet on its way to the NIC, 40 ms in the qdisc. */
static struct fake *queue_at_nic(const struct wire *w)
{
	struct fake *f = fill(0, w);

	f->shinfo.gso_segs = 14;
	step_send(f, &host_sock);
	step_output(f, &nic);
	step_queue(f, &nic);
	rest(40 * MS);
	return f;
}

static void test_tcp(void **state)
{
	struct wire whole = tcp4, part = tcp4;
	const struct record *r;
	struct fake *f;

	(void)state;
	whole.len = 20000;
	part.len = 1448;
	/* whichever set of the table the first segment is in */
	for (int i = 1; i < 32; i++) {
		f = queue_at_nic(&whole);
		fill(i, &part);
		cut(f, &pool[i].skb);
		assert_null(record_of(f));
		assert_non_null(record_of(&pool[i]));
		step_xmit(&pool[i], &nic);
		r = only_event(i - 1, END_SENT);
		assert_hops(r, HOP_IP_QUEUE_XMIT, HOP_IP_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT,
			    HOP_DEV_HARD_START_XMIT);
		assert_int_equal(r->seq, whole.seq);
		assert_int_equal(r->len, 20000);	/* its range covers the rest */
		assert_int_equal(r->segs, 14);
		assert_int_equal(r->flags, 0);
		assert_tuple(&r->first, &whole);
		assert_table_free();
	}
	assert_int_equal(all_counts().hits[HOP_GSO_SEGMENT], 31);
	assert_int_equal(all_counts().matched, 31);
	assert_int_equal(all_counts().evicted, 0);
}

/* Fakes that share no place for a refusal. */
static void find_loners(struct fake *loners[], int n)
{
	struct record *slots[LEN(pool)];
	int found = 0;

	for (size_t i = 1; i < LEN(pool) && found < n; i++) {
		struct entry e = {};
		int j = 0;

		assert_true(entry_of(&e, &pool[i].skb, 0));
		while (j < found && slots[j] != e.home)
			j++;
		if (j < found)
			continue;
		slots[found] = e.home;
		loners[found++] = &pool[i];
	}
	assert_int_equal(found, n);
}

/* A device that could send the whole: a qdisc has cut it, and each segment waits for itself. */
static void test_in_a_qdisc(void **state)
{
	struct wire whole = tcp4, part = tcp4;
	struct fake *f, *segs[2];
	const struct record *r;

	(void)state;
	whole.len = 2896;
	part.len = 1448;
	find_loners(segs, 2);
	f = queue_at_nic(&whole);
	for (int i = 0; i < 2; i++) {
		fake_fill(segs[i], &part);
		part.seq += 1448;
	}
	segs[0]->skb.next = &segs[1]->skb;
	f->shinfo.gso_type = 1 << 4;
	nic.features = 1ull << (4 + 16);
	cut(f, &segs[0]->skb);
	nic.features = 0;
	rest(30 * MS);
	step_xmit(segs[0], &nic);
	r = only_event(0, END_SENT);
	assert_hops(r, HOP_IP_QUEUE_XMIT, HOP_IP_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT);
	assert_int_equal(r->seq, whole.seq);
	assert_int_equal(r->len, 1448);
	assert_int_equal(r->segs, 1);
	/* the second one's beginning was not seen */
	cfg.total_tcp = 0;
	step_xmit(segs[1], &nic);
	r = only_event(1, END_SENT);
	assert_hops(r, HOP_DEV_HARD_START_XMIT);
	assert_int_equal(r->seq, whole.seq + 1448);
	assert_int_equal(r->flags & RECORD_PARTIAL, RECORD_PARTIAL);
	assert_table_free();
}

/* Cut for something else that the device cannot do, a checksum in a tunnel say: that is behind the qdisc. */
static void test_behind_the_qdisc(void **state)
{
	struct wire whole = tcp4, part = tcp4;
	const struct record *r;
	struct fake *f, *seg;

	(void)state;
	whole.len = 2896;
	part.len = 1448;
	find_loners(&seg, 1);
	f = queue_at_nic(&whole);
	fake_fill(seg, &part);
	f->shinfo.gso_type = 1 << 4;
	nic.features = 1ull << (4 + 16);
	cut_for(f, &seg->skb, nic.features);
	nic.features = 0;
	step_xmit(seg, &nic);
	r = only_event(0, END_SENT);
	assert_int_equal(r->len, 2896);
	assert_int_equal(r->segs, 14);
}

/* The other segments are in the first one's range: they have no journeys of their own. */
static void test_rest(void **state)
{
	enum { SEGS = 6 };
	struct wire whole = tcp4, part = tcp4;
	struct fake *f, *segs[SEGS];

	(void)state;
	whole.len = 8000;
	part.len = 1448;
	find_loners(segs, SEGS);
	/* one of the skbs was another packet's, a slow one */
	fake_fill(segs[3], &udp4);
	step_receive(segs[3], &nic);
	rest(5 * MS);
	step_ip_rcv(segs[3], &nic);
	f = queue_at_nic(&whole);
	for (int i = 0; i < SEGS; i++) {
		fake_fill(segs[i], &part);
		part.seq += 1448;
		if (i)
			segs[i - 1]->skb.next = &segs[i]->skb;
	}
	cut(f, &segs[0]->skb);
	assert_int_equal(only_event(0, END_UNKNOWN)->first.proto, WIRE_UDP);
	for (int i = 0; i < SEGS; i++) {
		assert_int_equal(!!record_of(segs[i]), !i);
		step_xmit(segs[i], &nic);
	}
	assert_int_equal(only_event(1, END_SENT)->seq, whole.seq);
	assert_int_equal(all_counts().matched, 2);
	/* and later packets in these skbs do */
	fake_fill(segs[2], &tcp4);
	step_send(segs[2], &host_sock);
	step_output(segs[2], &nic);
	assert_int_equal(record_of(segs[2])->hops, 2);
}

static void test_udp(void **state)
{
	struct wire whole = udp4, part = udp4;
	const struct record *r;
	struct fake *f;

	(void)state;
	whole.len = 12000;
	part.len = 1200;
	part.id = whole.id + 1;
	f = queue_at_nic(&whole);
	cut(f, &fill(1, &part)->skb);
	step_xmit(&pool[1], &nic);
	r = only_event(0, END_SENT);
	assert_int_equal(r->hops, 4);
	/* each segment is a datagram of its own; the line says how many there are */
	assert_int_equal(r->len, 1200);
	assert_int_equal(r->ip_id, part.id);
	assert_int_equal(r->segs, 14);
	assert_int_equal(r->flags, RECORD_PAYLOAD);
	assert_table_free();
}

/* The journey goes on wherever the first segment goes. */
static void test_goes_on(void **state)
{
	struct wire whole = tcp6, part = tcp6;
	struct fake *f = fill(0, &whole);

	(void)state;
	whole.len = 5000;
	part.len = 1428;
	f = fill(0, &whole);
	step_send(f, &pod_sock);
	step_output(f, &pod_eth0);
	step_queue(f, &pod_eth0);
	rest(40 * MS);
	cut(f, &fill(1, &part)->skb);
	f = &pool[1];
	step_xmit(f, &pod_eth0);
	step_netif_rx(f, &vethc);
	receive_local(f, &vethc);
	step_tcp_state(f);
	assert_int_equal(only_event(0, END_DELIVERED)->hops, 9);
	assert_int_equal(host.event[0].len, 5000);
	assert_int_equal(host.event[0].segs, 1);	/* nobody said how many */
	assert_int_equal(all_counts().matched, 1);
}

/* The other datagrams of a train come to the socket's queue too, so the first one's line is of itself only. */
static void test_train_to_a_socket(void **state)
{
	struct wire whole = udp4, part = udp4;
	struct fake *f;

	(void)state;
	whole.len = 1000;
	part.len = 200;
	for (int rested = 0; rested < 2; rested++) {
		f = fill(0, &whole);
		f->shinfo.gso_segs = 5;
		step_send(f, &pod_sock);
		step_output(f, &pod_eth0);
		step_queue(f, &pod_eth0);
		cut(f, &fill(1, &part)->skb);
		f = &pool[1];
		step_xmit(f, &pod_eth0);
		step_netif_rx(f, &vethc);
		step_receive(f, &vethc);
		step_ip_rcv(f, &vethc);
		assert_int_equal(record_of(f)->segs, 5);
		/* whether or not the hop at the queue can be sure of it */
		rest(rested * 10 * MS);
		step_enqueue(f, &vethc);
		rest(40 * MS);
		step_read(f);
		assert_int_equal(only_event(rested, END_READ)->len, 200);
		assert_int_equal(host.event[rested].hops, 9);
		assert_int_equal(host.event[rested].segs, 1);
	}
}

static void test_not_cut(void **state)
{
	struct fake *f = queue_at_nic(&tcp4);

	(void)state;
	cut(f, NULL);
	cut(f, (struct sk_buff *)-12l);
	cut(f, (struct sk_buff *)-4095l);
	assert_int_equal(record_of(f)->flags, 0);
	step_xmit(f, &nic);
	assert_int_equal(only_event(0, END_SENT)->hops, 4);
	/* what nobody tracks */
	cut(f, &fill(1, &tcp4)->skb);
	assert_null(record_of(&pool[1]));
}

/* The first segment's skb was another packet's: that one's journey is lost, a slow one told. */
static void test_reused(void **state)
{
	struct wire whole = tcp4;
	struct fake *f;

	(void)state;
	step_receive(fill(1, &udp4), &nic);
	rest(5 * MS);
	step_ip_rcv(&pool[1], &nic);
	whole.len = 3000;
	f = queue_at_nic(&whole);
	fake_fill(&pool[1], &tcp4);
	cut(f, &pool[1].skb);
	assert_int_equal(only_event(0, END_UNKNOWN)->first.proto, WIRE_UDP);
	step_xmit(&pool[1], &nic);
	assert_int_equal(only_event(1, END_SENT)->hops, 4);
	assert_table_free();
	/* an old refusal of that skb does not stop it */
	cfg.udp = 0;
	step_send(fill(1, &udp4), &host_sock);
	step_output(&pool[1], &nic);
	step_queue(&pool[1], &nic);
	f = queue_at_nic(&whole);
	fake_fill(&pool[1], &tcp4);
	cut(f, &pool[1].skb);
	step_xmit(&pool[1], &nic);
	assert_int_equal(only_event(2, END_SENT)->hops, 4);
}

/* The set is full of slow ones: the packet that is cut is not told as evicted by its own segment. */
static void test_full_set(void **state)
{
	for (int i = 0; i < SET_WAYS; i++) {
		struct wire w = tcp4;
		unsigned int told = 0;

		journey_reset(state);
		find_mates();
		for (int j = 0; j < SET_WAYS; j++) {
			fake_fill(mates[j], &w);
			w.seq += 100000;
			step_send(mates[j], &host_sock);
			step_output(mates[j], &nic);
			step_queue(mates[j], &nic);
		}
		rest(40 * MS + i);	/* which one must go depends on the clock */
		fake_fill(mates[SET_WAYS], &tcp4);
		cut(mates[0], &mates[SET_WAYS]->skb);
		assert_null(record_of(mates[0]));
		step_xmit(mates[SET_WAYS], &nic);
		for (unsigned int n = 0; n < host.n_events; n++)
			told += host.event[n].seq == tcp4.seq;
		assert_int_equal(told, 1);
		assert_int_equal(host.event[host.n_events - 1].end, END_SENT);
		assert_int_equal(host.event[host.n_events - 1].hops, 4);
	}
}

static struct fake *in_the_way;

static void begin_in_the_way(void)
{
	fake_fill(in_the_way, &udp4);
	step_send(in_the_way, &host_sock);
}

/* Two packets with the same way in the same set; there are more packets than ways. */
static void find_housemates(struct fake **a, struct fake **b)
{
	for (size_t i = 0; i < LEN(pool); i++) {
		for (size_t j = 0; j < i; j++) {
			struct entry one = {}, two = {};

			entry_of(&one, &pool[i].skb, 0);
			entry_of(&two, &pool[j].skb, 0);
			if (one.home != two.home)
				continue;
			*a = &pool[i];
			*b = &pool[j];
			return;
		}
	}
	fail();
}

/* Before the record is passed on, another packet begins its journey in it: that one's it is. */
static void test_taken_away(void **state)
{
	struct entry whole = {}, first = {};
	struct fake *f = &pool[0];
	int i = 0;

	(void)state;
	find_housemates(&f, &in_the_way);
	fake_fill(f, &tcp4);
	step_send(f, &host_sock);
	entry_of(&whole, &f->skb, 0);
	do
		entry_of(&first, &pool[++i].skb, 0);
	while (first.set == whole.set);
	host.nested = begin_in_the_way;
	cut(f, &fill(i, &tcp4)->skb);
	assert_null(host.nested);
	assert_null(record_of(f));
	assert_null(record_of(&pool[i]));
	assert_int_equal(record_of(in_the_way)->first.proto, WIRE_UDP);
	assert_int_equal(record_of(in_the_way)->flags, RECORD_PAYLOAD);
}

/* A hop at an outer header's place: skb->data at it or at the MAC header before it. */
static void at_outer(struct fake *f, bool mac)
{
	u8 *l3 = f->skb.head + f->skb.network_header;

	fake_data_at(f, mac ? l3 - WIRE_MAC : l3);
	f->skb.dev = &nic;
	host.now += STEP;
}

/* Sent in a container's netns, wrapped by the tunnel, and in the NIC's qdisc for 40 ms. */
static struct fake *queue_wrapped(const struct wire *w, const struct wire *outer)
{
	struct fake *f = fill(0, w);

	f->shinfo.gso_segs = 14;
	step_send(f, &host_sock);
	step_output(f, &vxlan);
	step_queue(f, &vxlan);
	step_xmit(f, &vxlan);
	fake_wrap(f, outer);
	at_outer(f, false);
	if (outer->v6)
		hook_ip6_finish_output2(NULL, NULL, NULL, &f->skb);
	else
		hook_ip_finish_output2(NULL, NULL, NULL, &f->skb);
	at_outer(f, true);
	hook_net_dev_queue(NULL, &f->skb);
	rest(40 * MS);
	return f;
}

static void check_wrapped(const struct wire *w, const struct wire *outer)
{
	const struct record *r;
	struct fake *f;

	journey_reset(NULL);
	f = queue_wrapped(w, outer);
	at_outer(f, true);
	hook_net_dev_start_xmit(NULL, &f->skb, f->skb.dev);
	r = only_event(0, END_SENT);
	assert_int_equal(r->hops, 7);
	assert_tuple(&r->first, w);
	assert_tuple(&r->last, w);
	assert_int_equal(r->flags & ~RECORD_PAYLOAD, 0);
	assert_int_equal(all_counts().matched, 1);
}

static void test_tunnel(void **state)
{
	(void)state;
	check_wrapped(&tcp4, &outer4);
	check_wrapped(&udp4, &outer4);
	check_wrapped(&tcp6, &outer6);
	check_wrapped(&udp6, &outer6);
}

static void test_tunnel_of_other_family(void **state)
{
	(void)state;
	check_wrapped(&tcp6, &outer4);
	check_wrapped(&udp4, &outer6);
}

/* Up again in another netns of this host, where each hop has to look at it: the same journey. */
static void test_tunnel_comes_up(void **state)
{
	static const struct wire *const inner[] = { &tcp4, &udp6 };
	const struct record *r;
	struct fake *f;

	(void)state;
	for (size_t i = 0; i < LEN(inner); i++) {
		journey_reset(NULL);
		f = queue_wrapped(inner[i], &outer4);
		f->skb.dev = &vethc;
		hook_net_dev_start_xmit(NULL, &f->skb, f->skb.dev);
		host.cpu = 4;
		at_outer(f, false);
		f->skb.dev = &pod_eth0;
		hook_netif_receive_skb(NULL, &f->skb);
		host.cpu = 5;
		hook_ip_rcv_core(NULL, &f->skb);
		r = record_of(f);
		assert_non_null(r);
		assert_int_equal(r->hops, 9);
		assert_tuple(&r->first, inner[i]);
		assert_int_equal(r->flags & RECORD_PARTIAL, 0);
		/* out of the tunnel */
		fake_data_at(f, fake_l3(f));
		f->skb.protocol = bpf_htons(f->wire.v6 ? ETH_P_IPV6 : ETH_P_IP);
		receive_local(f, &pod_eth0);
		r = record_of(f);
		assert_int_equal(r->hops, 12);
		assert_int_equal(host.n_events, 0);
		assert_int_equal(all_counts().matched, 1);
	}
}

/* A filter may ask for what the tunnel puts in front: the journey begins where that is there. */
static void test_tunnel_asked_for(void **state)
{
	static const struct wire *const inner[] = { &tcp4, &udp6 };
	const struct record *r;
	struct fake *f;

	(void)state;
	for (size_t i = 0; i < LEN(inner); i++) {
		journey_reset(NULL);
		cfg.dport.used = 1;
		cfg.dport.bit[outer4.dport / 8] = 1 << outer4.dport % 8;
		f = queue_wrapped(inner[i], &outer4);
		at_outer(f, true);
		hook_net_dev_start_xmit(NULL, &f->skb, f->skb.dev);
		r = only_event(0, END_SENT);
		assert_hops(r, HOP_IP_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT);
		assert_tuple(&r->first, &outer4);
		assert_tuple(&r->last, &outer4);
		assert_int_equal(r->flags & RECORD_PARTIAL, RECORD_PARTIAL);
		/* neither of both */
		journey_reset(NULL);
		cfg.dport.used = 1;
		cfg.dport.bit[7] = 1;
		queue_wrapped(inner[i], &outer4);
		assert_null(record_of(f));
		assert_int_equal(all_counts().matched, 0);
	}
}

/* Dropped at the NIC's qdisc: it is the inner packet that is. */
static void test_tunnel_drop(void **state)
{
	u64 ctx[3] = { 0, 0, 5 };
	struct fake *f;

	(void)state;
	f = queue_wrapped(&tcp4, &outer4);
	at_outer(f, true);
	hook_kfree_skb(ctx, &f->skb);
	assert_int_equal(only_event(0, END_DROPPED)->hops, 7);
	assert_tuple(&host.event[0].last, &tcp4);
}

/* A router between the tunnel's ends: the outer packet is the one, though GRO has left its mark. */
static void test_tunnel_passes_through(void **state)
{
	const struct record *r;
	struct fake *f;

	(void)state;
	cfg.total_udp = 0;
	for (int i = 0; i < 2; i++) {
		f = fill(0, i ? &tcp4 : &udp6);
		fake_wrap(f, &outer4);
		f->wire = outer4;
		at_outer(f, false);
		hook_netif_receive_skb(NULL, &f->skb);
		hook_ip_rcv_core(NULL, &f->skb);
		rest(2 * MS);
		f->skb.dev = &nic2;
		hook_ip_finish_output2(NULL, NULL, NULL, &f->skb);
		rest(2 * MS);
		hook_net_dev_queue(NULL, &f->skb);
		hook_net_dev_start_xmit(NULL, &f->skb, f->skb.dev);
		r = only_event(i, END_SENT);
		assert_int_equal(r->hops, 5);
		assert_tuple(&r->first, &outer4);
		assert_tuple(&r->last, &outer4);
	}
	assert_int_equal(all_counts().matched, 2);
}

/* Cut at the NIC: the range stays the inner packet's. */
static void test_tunnel_cut(void **state)
{
	struct wire whole = tcp4, part = tcp4;
	const struct record *r;
	struct fake *f;

	(void)state;
	whole.len = 20000;
	part.len = 1398;
	f = queue_wrapped(&whole, &outer4);
	fill(1, &part);
	fake_wrap(&pool[1], &outer4);
	cut(f, &pool[1].skb);
	f = &pool[1];
	at_outer(f, true);
	hook_net_dev_start_xmit(NULL, &f->skb, f->skb.dev);
	r = only_event(0, END_SENT);
	assert_int_equal(r->hops, 7);
	assert_tuple(&r->last, &tcp4);
	assert_int_equal(r->seq, whole.seq);
	assert_int_equal(r->len, 20000);
	assert_int_equal(r->segs, 14);
	assert_int_equal(r->ip_id, tcp4.id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_journey(test_tcp), cmocka_journey(test_rest), cmocka_journey(test_in_a_qdisc),
		cmocka_journey(test_behind_the_qdisc), cmocka_journey(test_udp),
		cmocka_journey(test_goes_on), cmocka_journey(test_train_to_a_socket),
		cmocka_journey(test_not_cut), cmocka_journey(test_reused),
		cmocka_journey(test_full_set), cmocka_journey(test_taken_away),
		cmocka_journey(test_tunnel),
		cmocka_journey(test_tunnel_of_other_family), cmocka_journey(test_tunnel_drop),
		cmocka_journey(test_tunnel_comes_up), cmocka_journey(test_tunnel_asked_for),
		cmocka_journey(test_tunnel_passes_through), cmocka_journey(test_tunnel_cut),
	};

	return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
