// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Packets that a filter holds back, and conditions that are met late. */
#include "host/journey_host.h"

static void want_dport(u16 port)
{
	memset(&cfg.dport, 0, sizeof(cfg.dport));
	cfg.dport.used = 1;
	cfg.dport.bit[port / 8] = 1 << port % 8;
}

static struct wire with_dport(const struct wire *w, u16 port)
{
	struct wire other = *w;

	other.dport = port;
	return other;
}

/* What no filter lets through is looked at once on a way through the host, and leaves nothing behind. */
static void test_looked_at_once(void **state)
{
	unsigned int reads;
	struct fake *f;

	(void)state;
	want_dport(1);
	f = fill(0, &tcp4);
	step_receive(f, &nic);
	reads = host.reads;
	assert_int_equal(reads, 1);
	step_ip_rcv(f, &nic);
	step_output(f, &docker0);
	step_queue(f, &docker0);
	step_xmit(f, &docker0);
	assert_int_equal(host.reads, reads);
	step_queue(f, &vethc);	/* a device on top of another may have been passed by a new packet */
	reads = host.reads;
	step_xmit(f, &vethc);
	step_netif_rx(f, &pod_eth0);
	step_receive(f, &pod_eth0);
	step_bridge(f, &pod_eth0);
	step_queue(f, &pod_eth0);
	assert_int_equal(host.reads, reads);
	assert_int_equal(all_counts().matched, 0);
	assert_int_equal(all_counts().unparsed, 0);
	assert_int_equal(host.n_devs | host.n_tasks, 0);
	assert_int_equal(host.n_events, 0);
	assert_table_free();

	f = fill(0, &udp4);
	step_send(f, &host_sock);
	reads = host.reads;
	step_output(f, &nic);
	step_queue(f, &nic);
	step_xmit(f, &nic);
	assert_int_equal(host.reads, reads);
	assert_table_free();
}

/* The transport layer asks again, past all netfilter. */
static void test_asked_again_at_transport(void **state)
{
	const struct wire inside = with_dport(&tcp4, 8080), udp_inside = with_dport(&udp6, 8080);
	struct fake *f;

	(void)state;
	want_dport(8080);
	f = fill(0, &tcp4);
	step_receive(f, &nic);
	step_ip_rcv(f, &nic);
	fake_write(f, &inside);
	step_tcp_rcv(f, &nic);
	assert_int_equal(record_of(f)->flags, RECORD_PARTIAL);
	assert_tuple(&record_of(f)->first, &inside);
	assert_hop(record_of(f), 0, HOST_NS, 2, false);
	f = fill(0, &udp6);
	step_receive(f, &nic);
	step_ip_rcv(f, &nic);
	fake_write(f, &udp_inside);
	step_enqueue(f, &nic);
	assert_int_equal(record_of(f)->flags, RECORD_PARTIAL | RECORD_PAYLOAD);
	assert_hop(record_of(f), 0, HOST_NS, 0, false);
	rest(5 * MS);
	step_read(f);
	assert_hops(only_event(0, END_READ), HOP_UDP_ENQUEUE, HOP_UDP_READ);
}

/* Refused before NAT, let through after it: only conntrack can have changed it. */
static void test_late_match(void **state)
{
	const struct wire inside = with_dport(&tcp4, 8080);
	const struct record *r;
	struct fake *f;

	(void)state;
	want_dport(8080);
	for (int tracked_by_conntrack = 0; tracked_by_conntrack < 2; tracked_by_conntrack++) {
		f = fill(0, &tcp4);
		step_receive(f, &nic);
		step_ip_rcv(f, &nic);
		fake_write(f, &inside);
		f->skb._nfct = tracked_by_conntrack ? 0xffff888012345602 : 0;
		rest(2 * MS);
		step_output(f, &docker0);
		assert_int_equal(!!record_of(f), tracked_by_conntrack);
	}
	step_queue(f, &docker0);
	rest(30 * MS);
	step_xmit(f, &docker0);
	step_queue(f, &vethc);
	step_xmit(f, &vethc);
	step_netif_rx(f, &pod_eth0);
	receive_local(f, &pod_eth0);
	step_tcp_state(f);
	r = only_event(0, END_DELIVERED);
	assert_int_equal(r->flags, RECORD_PARTIAL);
	assert_int_equal(WHERE_HOP(r->hop[0].where), HOP_IP_FINISH_OUTPUT2);
	assert_tuple(&r->first, &inside);
	/* and in conntrack's hands, but still not let through */
	want_dport(9);
	fake_fill(f, &tcp4);
	f->skb._nfct = 2;
	step_receive(f, &nic);
	step_ip_rcv(f, &nic);
	step_output(f, &docker0);
	assert_table_free();
}

/* A port of the first tuple and an address of the second are not one tuple's. */
static void test_one_tuple(void **state)
{
	struct wire inside = with_dport(&tcp4, 8080);
	struct fake *f;

	(void)state;
	inside.dst ^= 0xff;
	want_dport(80);
	cfg.dst.n = 1;
	memset(cfg.dst.p[0].mask, 0xff, 16);
	wire_address((u8 *)cfg.dst.p[0].addr, false, inside.dst);
	f = fill(0, &tcp4);
	f->skb._nfct = 2;
	step_receive(f, &nic);
	step_ip_rcv(f, &nic);
	fake_write(f, &inside);
	bridge_in(f);
	receive_local(f, &pod_eth0);
	assert_int_equal(all_counts().matched, 0);
	/* any one tuple that it had will do, the first as the last */
	for (int first = 0; first < 2; first++) {
		want_dport(first ? 80 : 8080);
		wire_address((u8 *)cfg.dst.p[0].addr, false, first ? tcp4.dst : inside.dst);
		fake_fill(f, &tcp4);
		f->skb._nfct = 2;
		step_receive(f, &nic);
		step_ip_rcv(f, &nic);
		fake_write(f, &inside);
		bridge_in(f);
		receive_local(f, &pod_eth0);
		assert_int_equal(record_of(f)->flags, first ? 0 : RECORD_PARTIAL);
	}
}

typedef void (*step_fn)(struct fake *f, struct net_device *dev);

static void send_step(struct fake *f, struct net_device *dev)
{
	(void)dev;
	step_send(f, &host_sock);
}

/*
 * A refused packet was last seen at any hop, was freed without a word, and one
 * that a filter lets through has its skb. Whatever hop it is met at first, it is
 * met, but where the hop before was the one that refused: there the other one is
 * still alive.
 */
static void test_stale_refusal(void **state)
{
	static const struct { step_fn step; struct net_device *dev; } at[] = {
		{ send_step, NULL }, { step_receive, &nic }, { step_netif_rx, &nic },
		{ step_receive, &vethc }, { step_netif_rx, &vethc }, { step_bridge, &vethc },
		{ step_ip_rcv, &vethc }, { step_output, &docker0 }, { step_queue, &docker0 },
		{ step_xmit, &docker0 }, { step_tcp_rcv, &vethc }, { step_enqueue, &vethc },
	};
	/* rows: refused there, columns: met here, as above; 'x': the refusal holds */
	static const char *const holds[] = {
		".......x....",	/* sent */
		".....xx.....", ".x.x........", ".....xx.....", ".x.x........",
		"...x....x...",	/* at the bridge, whence nothing comes to a NIC */
		".......x....", "........x...", ".........x..", "....x.......",
		"............", "............",
	};
	const struct wire a = with_dport(&tcp4, 1);

	(void)state;
	for (size_t from = 0; from < LEN(at); from++) {
		for (size_t to = 0; to < LEN(at); to++) {
			struct fake *f = fill(0, &a);

			journey_reset(NULL);
			want_dport(80);
			at[from].step(f, at[from].dev);
			assert_null(record_of(f));
			fake_fill(f, &tcp4);
			at[to].step(f, at[to].dev);
			if (holds[from][to] == 'x') {
				assert_null(record_of(f));
				continue;
			}
			assert_non_null(record_of(f));
			/* and once begun, no old refusal stops it */
			step_output(f, &docker0);
			assert_non_null(record_of(f));
			assert_int_equal(record_of(f)->last_place, PLACE_OUTPUT);
			step_queue(f, &docker0);
			step_xmit(f, &nic);
			assert_table_free();
		}
	}
}

/* It was dropped, and what comes up next in its skb is another one. */
static void test_refused_and_dropped(void **state)
{
	const struct wire a = with_dport(&tcp4, 1);
	struct fake *f = fill(0, &a);

	(void)state;
	want_dport(80);
	step_receive(f, &vethc);
	step_drop(f, 5);
	assert_int_equal(host.n_events, 0);
	fake_fill(f, &tcp4);
	step_ip_rcv(f, &vethc);
	assert_int_equal(record_of(f)->flags, RECORD_PARTIAL);
}

/* Another packet's refusal in the same slot: this one is looked at again, no more. */
static void test_shared_slot(void **state)
{
	const struct wire a = with_dport(&tcp4, 1);

	(void)state;
	want_dport(80);
	for (size_t i = 0; i < LEN(pool); i++)
		step_receive(fill(i, i % 2 ? &tcp4 : &a), &vethc);
	for (size_t i = 0; i < LEN(pool); i++) {
		step_ip_rcv(&pool[i], &vethc);
		assert_int_equal(!!record_of(&pool[i]), i % 2);
	}
}

static void test_unparsed(void **state)
{
	struct fake *f;

	(void)state;
	f = fill(0, &udp4);
	wire_be16(fake_l3(f) + 6, 0x0010);	/* a later fragment */
	step_receive(f, &nic);
	assert_int_equal(all_counts().unparsed, 1);
	step_ip_rcv(f, &nic);
	assert_int_equal(all_counts().unparsed, 1);
	f = fill(0, &tcp4);
	f->skb.protocol = bpf_htons(0x0806);
	step_receive(f, &nic);
	assert_int_equal(all_counts().unparsed, 1);
	assert_int_equal(all_counts().matched, 0);
	assert_table_free();
	/* a tracked one's skb: its journey is lost */
	f = fill(0, &udp4);
	step_receive(f, &vethc);
	wire_be16(fake_l3(f) + 6, 0x0010);
	step_queue(f, &docker0);
	assert_table_free();
	assert_int_equal(all_counts().unparsed, 2);
}

/* A TCP journey from the host into the container, 40 ms before it comes there. */
static void go_into_container(void)
{
	struct fake *f = fill(0, &tcp4);

	step_send(f, &host_sock);
	rest(40 * MS);
	bridge_in(f);
	receive_local(f, &pod_eth0);
	step_tcp_state(f);
}

/* The hops before the condition came true are kept. */
static void test_netns(void **state)
{
	(void)state;
	cfg.must_meet = MET_NETNS;
	cfg.n_netns = 1;
	cfg.netns[0] = POD_NS;
	go_into_container();
	assert_int_equal(only_event(0, END_DELIVERED)->hops, 11);
	assert_int_equal(host.event[0].met, MET_NETNS);
	cfg.netns[0] = HOST_NS;
	go_into_container();
	assert_int_equal(only_event(1, END_DELIVERED)->hops, 11);
	cfg.netns[0] = HOST_NS + 1;
	go_into_container();
	assert_int_equal(host.n_events, 2);
	assert_int_equal(all_counts().slow, 2);
	assert_int_equal(all_counts().matched, 3);
	/* a socket's netns alone will do: it never comes to a device */
	cfg.netns[0] = POD_NS;
	step_send(fill(0, &tcp4), &pod_sock);
	assert_int_equal(record_of(&pool[0])->met, MET_NETNS);
}

static void test_iface(void **state)
{
	(void)state;
	cfg.must_meet = MET_IFACE;
	cfg.n_ifaces = 1;
	strcpy(cfg.iface[0].name, "vethc");
	go_into_container();
	assert_int_equal(only_event(0, END_DELIVERED)->hops, 11);
	strcpy(cfg.iface[0].name, "eth0");
	cfg.iface[0].netns = POD_NS;
	go_into_container();
	only_event(1, END_DELIVERED);
	cfg.iface[0].netns = HOST_NS;
	go_into_container();
	assert_int_equal(host.n_events, 2);
	/* what one journey met is not the next one's */
	cfg.iface[0].netns = POD_NS;
	step_send(fill(0, &tcp4), &pod_sock);
	step_output(&pool[0], &pod_eth0);
	assert_int_equal(record_of(&pool[0])->met, MET_IFACE);
	step_send(&pool[0], &pod_sock);
	assert_int_equal(record_of(&pool[0])->met, 0);
	/* all that is asked for */
	cfg.n_netns = 1;
	cfg.netns[0] = 7;
	cfg.must_meet = MET_IFACE | MET_NETNS;
	go_into_container();
	assert_int_equal(host.n_events, 2);
	cfg.netns[0] = HOST_NS;
	go_into_container();
	assert_int_equal(only_event(2, END_DELIVERED)->met, MET_IFACE | MET_NETNS);
}

/* The reader, or the task in sendmsg; not whom a softirq interrupted. */
static void test_pid(void **state)
{
	struct fake *f;

	(void)state;
	cfg.must_meet = MET_PID;
	cfg.pid = 77;
	go_into_container();
	assert_int_equal(host.n_events, 0);
	host.task = TASK(77, 78);
	go_into_container();
	only_event(0, END_DELIVERED);
	host_sock.sk_lock.owned = 0;	/* a timer sends */
	go_into_container();
	assert_int_equal(host.n_events, 1);
	/* the thread's number is not the process's */
	host_sock.sk_lock.owned = 1;
	host.task = TASK(78, 77);
	go_into_container();
	assert_int_equal(host.n_events, 1);

	for (int reads = 0; reads < 2; reads++) {
		f = fill(0, &udp4);
		host.task = TASK(reads ? 5 : 77, 78);
		receive_local(f, &nic);
		rest(5 * MS);
		host.task = TASK(reads ? 77 : 5, 78);
		step_read(f);
		assert_int_equal(host.n_events, 1 + reads);
	}
	assert_int_equal(host.event[1].reader_pid, 77);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_journey(test_looked_at_once), cmocka_journey(test_asked_again_at_transport),
		cmocka_journey(test_late_match), cmocka_journey(test_one_tuple),
		cmocka_journey(test_stale_refusal), cmocka_journey(test_refused_and_dropped),
		cmocka_journey(test_shared_slot),
		cmocka_journey(test_unparsed), cmocka_journey(test_netns), cmocka_journey(test_iface),
		cmocka_journey(test_pid),
	};

	return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
