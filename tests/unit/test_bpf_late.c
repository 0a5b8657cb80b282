// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Where only the wait in a UDP socket is asked for: headers are looked at when it was long. */
#include "host/journey_host.h"

enum { LIMIT = 50 * MS };

static int late_reset(void **state)
{
	journey_reset(state);
	cfg.begins_at_socket = cfg.looks_late = 1;
	cfg.asks_ports = cfg.asks_more = 0;
	cfg.total_tcp = cfg.total_udp = NEVER;
	cfg.judge_stages = 1;
	cfg.stage[PLACE_ENQUEUE][PLACE_READ] = LIMIT;
	pod_sock.__sk_common.skc_num = 0;
	pod_sock.sk_protocol = IPPROTO_UDP;
	return 0;
}

/* Into the socket's queue, where it is a link of a list. */
static void enqueue(struct fake *f)
{
	step(f, &pod_eth0, l4_of(f) + 8, WIRE_HEADROOM);
	hook_late___udp_enqueue_schedule_skb(NULL, &pod_sock, &f->skb);
	f->skb.next = f->skb.prev = &f->skb;
}

static void unlink_skb(struct fake *f)
{
	f->skb.next = f->skb.prev = NULL;
}

static void read_it(struct fake *f)
{
	unlink_skb(f);
	step(f, (struct net_device *)0x5ead, l4_of(f) + 8, WIRE_HEADROOM);
	hook_late_skb_consume_udp(NULL, &pod_sock, &f->skb);
}

static void drop(struct fake *f)
{
	unlink_skb(f);
	step(f, NULL, l4_of(f) + 8, WIRE_HEADROOM);
	hook_late_kfree_skb(NULL, &f->skb);
}

static int look_at(struct fake *f)
{
	struct record *r = record_of(f);
	struct entry e = {};
	u64 args[2];

	assert_true(entry_of(&e, &f->skb, 0));
	args[0] = e.index, args[1] = way_of(r);
	return look_at_waiting(args);
}

/* A datagram in a socket's queue; another one was in its skb before, and its read was not seen. */
static struct fake *enqueue_second(const struct wire *w)
{
	struct wire first = *w;
	struct fake *f;

	first.id ^= 1, first.fill ^= 1, first.sport ^= 1;
	enqueue(fill(0, &first));
	rest(LIMIT * 3);
	f = fill(0, w);
	enqueue(f);
	return f;
}

/* Of a fast one nothing is read; of a slow one all is told that a look at once would have found. */
static void test_read(void **state)
{
	static const struct wire *const wires[] = { &udp4, &udp6 };

	for (size_t i = 0; i < LEN(wires) * 2; i++) {
		const struct wire *w = wires[i / 2];
		const struct record *r;
		struct fake *f;

		late_reset(state);
		f = i % 2 ? enqueue_second(w) : fill(0, w);
		enqueue(f);
		rest(LIMIT - STEP - 1);
		read_it(f);
		assert_int_equal(host.n_events, 0);
		assert_int_equal(host.reads, 0);
		assert_table_free();

		host.task = TASK(7, 8);
		enqueue(f);
		rest(LIMIT - STEP);
		host.task = TASK(4242, 4243);
		read_it(f);
		r = only_event(0, END_READ);
		assert_hops(r, HOP_UDP_ENQUEUE, HOP_UDP_READ);
		assert_hop(r, 0, POD_NS, 0, false);
		assert_hop(r, 1, POD_NS, 0, true);
		assert_int_equal(r->hop[0].tid, 8);
		assert_int_equal(r->hop[1].tid, 4243);
		assert_int_equal(r->hop[1].at - r->hop[0].at, LIMIT);
		assert_tuple(&r->first, w);
		assert_tuple(&r->last, w);
		assert_int_equal(r->len, w->len);
		assert_int_equal(r->ip_id, w->v6 ? 0 : w->id);
		assert_int_equal(r->seq | r->ack | r->win | r->tcp_flags, 0);
		assert_int_equal(r->flags, RECORD_PARTIAL | RECORD_PAYLOAD | RECORD_SLOW | RECORD_UNSEEN);
		assert_int_equal(r->reader_pid, 4242);
		assert_int_equal(r->segs, 1);
		assert_int_equal(all_counts().matched, i % 2 ? 4 : 2);
		assert_int_equal(all_counts().slow, 1);
		assert_int_equal(all_counts().unparsed, 0);
		assert_table_free();
	}
}

/* One that waits is looked at where user space asks for it: while it is in the queue. */
static void test_waiting(void **state)
{
	struct record *r;
	struct fake *f;

	(void)state;
	f = enqueue_second(&udp4);
	r = record_of(f);
	assert_false(record_is_seen(r));
	assert_true(look_at(f));
	assert_true(record_is_seen(r));
	assert_tuple(&r->first, &udp4);
	/* the next one in that skb is not */
	enqueue(f);
	assert_false(record_is_seen(r));
	/* no such set */
	assert_false(look_late(HOST_SETS, 0, true));
}

/* Taken out, or another packet's by now: it is told neither as waiting nor, later, as evicted. */
static void test_not_there(void **state)
{
	for (int change = 0; change < 4; change++) {
		struct fake *f = fill(0, &udp4);
		struct record *r;

		late_reset(state);
		enqueue(f);
		r = record_of(f);
		assert_true(look_at(f));
		switch (change) {
		case 0: f->skb.next = NULL; break;
		case 1: f->skb.prev = NULL; break;
		case 2: f->skb.len++; break;
		case 3: f->skb.head++; break;
		}
		assert_false(look_at(f));
		assert_false(record_is_seen(r));
		/* it may be on its way to the reader's program, but not for two sweeps */
		assert_ptr_equal(record_of(f), r);
		assert_false(look_at(f));
		assert_null(record_of(f));
	}
}

/* Another protocol's packet, as long and in the same memory; counted once. */
static void test_other_protocol(void **state)
{
	struct fake *f = fill(0, &udp4);
	u32 len;

	(void)state;
	enqueue(f);
	len = f->skb.len;
	fake_fill(f, &tcp4);
	f->skb.len = len;
	f->skb.next = f->skb.prev = &f->skb;
	assert_false(look_at(f));
	assert_false(look_at(f));
	assert_int_equal(all_counts().unparsed, 0);
	rest(LIMIT);
	unlink_skb(f);
	hook_late_skb_consume_udp(NULL, &pod_sock, &f->skb);
	assert_int_equal(all_counts().unparsed, 1);
	assert_int_equal(host.n_events, 0);
	assert_table_free();
}

/* In the queue of a socket again where it was not there for one sweep, such as between two queues. */
static void test_there_again(void **state)
{
	struct fake *f = fill(0, &udp4);

	(void)state;
	enqueue(f);
	unlink_skb(f);
	assert_false(look_at(f));
	f->skb.next = f->skb.prev = &f->skb;
	assert_true(look_at(f));
	unlink_skb(f);
	assert_false(look_at(f));
	assert_non_null(record_of(f));
}

static struct entry entry_for(struct fake *f)
{
	struct entry e = {};

	assert_true(entry_of(&e, &f->skb, 0));
	return e;
}

/* Two records of one skb, in two ways of its set: only the later one is the packet's. */
static void test_outdated(void **state)
{
	struct fake *f = fill(0, &udp4);
	struct entry e = entry_for(f);
	struct record *old;

	(void)state;
	e.home->skb = 0xabc0;	/* somebody else's */
	enqueue(f);
	old = record_of(f);
	assert_ptr_not_equal(old, e.home);
	/* queued again, it takes the same way */
	rest(MS);
	enqueue(f);
	assert_ptr_equal(record_of(f), old);
	assert_int_equal(old->hop[0].at, host.now);
	/* … or goes home, if that is free by now */
	e.home->skb = 0;
	enqueue(f);
	assert_ptr_equal(record_of(f), e.home);
	assert_int_equal(old->skb, &f->skb);
	assert_true(look_late(e.index, way_of(e.home), true));
	assert_false(look_late(e.index, way_of(old), true));
	rest(LIMIT);
	read_it(f);
	only_event(0, END_READ);
	assert_int_equal(host.event[0].hop[1].at - host.event[0].hop[0].at, LIMIT + STEP);
}

/* What is not a datagram of the usual kind, or not that of a wanted port, is not told. */
static void test_not_told(void **state)
{
	struct fake *f = fill(0, &udp4);

	enqueue(f);
	rest(LIMIT);
	f->skb.len++;	/* another one's */
	read_it(f);
	assert_int_equal(host.n_events, 0);
	assert_int_equal(all_counts().unparsed, 0);
	assert_table_free();

	f = fill(0, &udp4);
	enqueue(f);
	rest(LIMIT);
	*fake_l3(f) = 0;
	read_it(f);
	assert_int_equal(host.n_events, 0);
	assert_int_equal(all_counts().unparsed, 1);
	assert_table_free();

	/* UDP-Lite's are nobody's */
	pod_sock.sk_protocol = 136;
	enqueue(fill(0, &udp4));
	assert_table_free();
	assert_int_equal(all_counts().matched, 2);

	/* the socket of a wanted port has got it from another one */
	late_reset(state);
	cfg.asks_ports = cfg.dport.used = 1;
	cfg.dport.bit[8000 / 8] |= 1 << 8000 % 8;
	pod_sock.__sk_common.skc_num = 8000;
	f = fill(0, &udp4);
	enqueue(f);
	rest(LIMIT);
	read_it(f);
	assert_int_equal(host.n_events, 0);
	assert_table_free();
	/* and that of another port is not asked for */
	pod_sock.__sk_common.skc_num = 53;
	enqueue(f);
	assert_null(record_of(f));
	assert_int_equal(all_counts().matched, 1);
}

/* Somebody else holds it too: it was only peeked at. */
static void test_peek(void **state)
{
	struct fake *f = fill(0, &udp4);

	(void)state;
	enqueue(f);
	rest(LIMIT);
	f->skb.users.refs.counter = 2;
	step(f, NULL, l4_of(f) + 8, WIRE_HEADROOM);
	hook_late_skb_consume_udp(NULL, &pod_sock, &f->skb);
	assert_int_equal(host.n_events, 0);
	f->skb.users.refs.counter = 1;
	read_it(f);
	only_event(0, END_READ);
}

/* Freed in the queue: it is not read, and what comes in that skb next is another one. */
static void test_drop(void **state)
{
	struct fake *f = fill(0, &udp4);

	(void)state;
	drop(f);
	enqueue(f);
	rest(LIMIT);
	drop(f);
	assert_int_equal(host.n_events, 0);
	assert_table_free();
	read_it(f);
	assert_int_equal(host.n_events, 0);
}

static void fill_set(void)
{
	find_mates();
	for (int i = 0; i < SET_WAYS; i++) {
		struct wire w = udp4;

		w.sport = 1000 + i;
		fake_fill(mates[i], &w);
		enqueue(mates[i]);
	}
}

/* A full set: one must go. It is told if all are slow, with what its headers say; a fast one is not. */
static void test_evicted(void **state)
{
	for (int slow = 0; slow < 2; slow++) {
		const struct record *r;

		late_reset(state);
		fill_set();
		rest(slow ? LIMIT : LIMIT / 2);
		fake_fill(mates[4], &udp4);
		enqueue(mates[4]);
		assert_int_equal(all_counts().evicted, 1);
		assert_non_null(record_of(mates[4]));
		if (!slow) {
			assert_null(record_of(mates[0]));
			assert_int_equal(host.n_events, 0);
			assert_int_equal(host.reads, 0);
			continue;
		}
		r = only_event(0, END_EVICTED);
		assert_in_range(r->first.sport, 1000, 1003);
		assert_null(record_of(mates[r->first.sport - 1000]));
	}
}

/* Nothing is looked at while a way is free, and nothing is told of what is not there any more. */
static void test_not_evicted(void **state)
{
	(void)state;
	fill_set();
	rest(LIMIT);
	for (int i = 0; i < SET_WAYS; i++)
		assert_true(look_at(mates[i]));
	for (int i = 0; i < SET_WAYS; i++)
		unlink_skb(mates[i]);
	fake_fill(mates[4], &udp4);
	enqueue(mates[4]);
	assert_int_equal(all_counts().evicted, 1);
	assert_int_equal(host.n_events, 0);

	late_reset(state);
	fill_set();
	drop(mates[3]);
	rest(LIMIT);
	for (int i = 4; i < 8; i++) {
		fake_fill(mates[i], &udp4);
		enqueue(mates[i]);
		drop(mates[i]);
	}
	assert_int_equal(host.reads, 0);
	assert_int_equal(all_counts().evicted, 0);
}

/* A journey that must pass a netns, a device or a process. */
static void test_must_meet(void **state)
{
	static const u8 cases[] = {
		MET_NETNS, MET_IFACE, MET_PID, MET_NETNS | MET_PID,
	};

	for (size_t i = 0; i < LEN(cases) * 2; i++) {
		bool other = i % 2;
		struct fake *f;

		late_reset(state);
		cfg.must_meet = cases[i / 2];
		cfg.n_netns = !!(cfg.must_meet & MET_NETNS);
		cfg.netns[0] = other ? HOST_NS : POD_NS;
		cfg.n_ifaces = !!(cfg.must_meet & MET_IFACE);
		strcpy((char *)cfg.iface[0].name, other ? "eth1" : "eth0");
		cfg.pid = cfg.must_meet & MET_PID ? 4242 : 0;
		f = fill(0, &udp4);
		enqueue(f);
		rest(LIMIT);
		host.task = TASK(other ? 4241 : 4242, 4243);
		read_it(f);
		assert_int_equal(host.n_events, other ? 0 : 1);
		assert_table_free();
	}
}

#define cmocka_late(test) cmocka_unit_test_setup(test, late_reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_late(test_read), cmocka_late(test_waiting), cmocka_late(test_outdated),
		cmocka_late(test_not_told), cmocka_late(test_peek), cmocka_late(test_drop),
		cmocka_late(test_not_there), cmocka_late(test_other_protocol), cmocka_late(test_there_again),
		cmocka_late(test_evicted),
		cmocka_late(test_not_evicted), cmocka_late(test_must_meet),
	};

	return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
