// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* How a journey ends, and whether that is told: drops, stages, a full table, torn records. */
#include "host/journey_host.h"

/* The n-th of the mates; each has a flow of its own. */
static struct fake *mate(int n, const struct wire *w)
{
	struct wire own = *w;

	own.sport = 1000 + n;
	own.seq += n * 100000;
	own.fill = n;
	fake_fill(mates[n], &own);
	return mates[n];
}

static struct net_device *const veth = &vethc;

static void test_drop(void **state)
{
	const struct record *r;
	struct fake *f;

	(void)state;
	for (int i = 0; i < 2; i++) {
		f = fill(0, &tcp4);
		step_receive(f, &nic);
		rest(i ? 29 * MS : 35 * MS);
		step_ip_rcv(f, &nic);
		step_tcp_rcv(f, &nic);
		step_drop(f, 77);
		assert_table_free();
	}
	r = only_event(0, END_DROPPED);
	assert_hops(r, HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_TCP_V4_RCV, HOP_KFREE_SKB);
	assert_hop(r, 3, HOST_NS, 2, false);
	assert_int_equal(r->drop_reason, 77);
	assert_int_equal(r->end_at, r->hop[3].at);
	/* what nobody tracks */
	step_drop(fill(1, &tcp4), 77);
	assert_int_equal(host.n_events, 1);
	/* a reason is not the next one's */
	f = fill(0, &tcp4);
	receive_local(f, &nic);
	rest(35 * MS);
	step_tcp_state(f);
	assert_int_equal(only_event(1, END_DELIVERED)->drop_reason, 0);
}

/* Whether the datagram was thrown away with its socket's queue, or did not fit in. */
static void test_unread(void **state)
{
	static const struct { u64 reason; bool no_reasons, no_purge; enum record_end end; } cases[] = {
		{ HOST_SKB_DROP_REASON_NOT_SPECIFIED___ours, false, false, END_UNREAD },
		{ HOST_SKB_DROP_REASON_NOT_SPECIFIED___ours, false, true, END_UNREAD },
		{ HOST_SKB_DROP_REASON_QUEUE_PURGE___ours, false, false, END_UNREAD },
		{ HOST_SKB_DROP_REASON_QUEUE_PURGE___ours, false, true, END_DROPPED },	/* another reason there */
		{ 6, false, false, END_DROPPED },
		{ SKB_DROP_REASON_NOT_SPECIFIED___ours, false, false, END_DROPPED },	/* that number moved */
		{ 0, false, false, END_DROPPED },
		{ 0, false, true, END_DROPPED },
		{ HOST_SKB_DROP_REASON_NOT_SPECIFIED___ours, true, true, END_DROPPED },
		{ HOST_SKB_DROP_REASON_QUEUE_PURGE___ours, true, true, END_DROPPED },
	};
	const struct record *r;

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct fake *f = fill(0, &udp4);

		host.no_reasons = cases[i].no_reasons;
		host.no_purge = cases[i].no_purge;
		receive_local(f, &nic);
		rest(35 * MS);
		f->skb.dev = (struct net_device *)0x5ead;
		step_drop(f, cases[i].reason);
		r = only_event(i, cases[i].end);
		assert_hop(r, 1, HOST_NS, 2, false);
		assert_hop(r, 3, HOST_NS, 0, false);
		assert_int_equal(r->drop_reason, cases[i].no_reasons ? 0 : cases[i].reason);
	}
	/* before the queue it is a drop, whatever the reason */
	host.no_reasons = host.no_purge = false;
	step_receive(fill(0, &udp4), &nic);
	rest(35 * MS);
	step_drop(&pool[0], HOST_SKB_DROP_REASON_NOT_SPECIFIED___ours);
	only_event(LEN(cases), END_DROPPED);
}

/* A packet that waits so long before the qdisc's end and in a device; then it leaves. */
static void pass_qdisc(u64 qdisc, u64 neigh)
{
	struct fake *f = fill(0, &tcp4);

	step_send(f, &host_sock);
	step_output(f, &nic);
	rest(neigh - STEP);
	step_queue(f, &nic);
	rest(qdisc - STEP);
	step_xmit(f, &nic);
}

static void test_stages(void **state)
{
	(void)state;
	cfg.total_tcp = cfg.total_udp = NEVER;
	cfg.stage[PLACE_QUEUE][PLACE_XMIT] = 20 * MS;
	pass_qdisc(50 * MS, 50 * MS);
	assert_int_equal(host.n_events, 0);	/* judge_stages says that there is nothing in stage[] */
	cfg.judge_stages = 1;
	pass_qdisc(20 * MS - 1, 5000 * MS);
	assert_int_equal(host.n_events, 0);
	pass_qdisc(20 * MS, STEP);
	assert_int_equal(only_event(0, END_SENT)->flags & RECORD_SLOW, RECORD_SLOW);
	cfg.stage[PLACE_OUTPUT][PLACE_QUEUE] = 5 * MS;
	pass_qdisc(STEP, 5 * MS);
	only_event(1, END_SENT);
	/* what was slow stays so, and the next one begins fast */
	cfg.stage[PLACE_SEND][PLACE_OUTPUT] = 0;
	pass_qdisc(STEP, STEP);
	only_event(2, END_SENT);
	cfg.stage[PLACE_SEND][PLACE_OUTPUT] = NEVER;
	pass_qdisc(STEP, STEP);
	assert_int_equal(host.n_events, 3);
	/* the total judges besides */
	cfg.total_tcp = 1 * MS;
	pass_qdisc(1 * MS, STEP);
	assert_int_equal(only_event(3, END_SENT)->flags & RECORD_SLOW, 0);
	/* the first hop ends no stage, whatever the record's last packet did */
	memset(cfg.stage, 0, sizeof(cfg.stage));
	step_receive(fill(0, &tcp4), &nic);
	assert_int_equal(record_of(&pool[0])->flags, 0);
}

static void test_stage_drop(void **state)
{
	struct fake *f = fill(0, &udp4);

	(void)state;
	cfg.total_tcp = cfg.total_udp = NEVER;
	cfg.judge_stages = 1;
	cfg.stage[PLACE_ENQUEUE][PLACE_DROP] = 10 * MS;
	receive_local(f, &nic);
	rest(10 * MS);
	step_drop(f, HOST_SKB_DROP_REASON_QUEUE_PURGE___ours);
	only_event(0, END_UNREAD);
}

static void test_truncated(void **state)
{
	struct fake *f = fill(0, &tcp4);
	const struct record *r;
	u64 end_at;

	(void)state;
	cfg.judge_stages = 1;
	cfg.stage[PLACE_QUEUE][PLACE_XMIT] = 20 * MS;
	step_send(f, &host_sock);
	step_output(f, &docker0);
	for (u32 i = 2; i < RECORD_HOPS; i += 2) {
		step_queue(f, i & 2 ? &docker0 : &vethc);
		step_xmit(f, i & 2 ? &docker0 : &vethc);
	}
	assert_int_equal(record_of(f)->hops, RECORD_HOPS);
	assert_int_equal(record_of(f)->flags, 0);
	step_queue(f, &nic);
	rest(25 * MS);
	step_xmit(f, &nic);	/* a stage beyond the record's room is judged all the same */
	end_at = host.now;
	r = only_event(0, END_SENT);
	assert_int_equal(r->hops, RECORD_HOPS);
	assert_int_equal(r->flags, RECORD_TRUNCATED | RECORD_SLOW);
	assert_int_equal(r->end_at, end_at);
	assert_int_equal(r->last_at, end_at);
	assert_int_equal(WHERE_HOP(r->last_where), HOP_DEV_HARD_START_XMIT);
	assert_int_equal(r->last_ifindex, 2);
	assert_int_equal(host.event_size[0], sizeof(struct record));
	/* the way behind it is whole */
	for (u32 set = 0; set < HOST_SETS; set++)
		for (u32 way = 0; way < SET_WAYS; way++)
			assert_true(host.sets[set].way[way].hops <= RECORD_HOPS);
}

static void test_ring_full(void **state)
{
	(void)state;
	host.ring_full = true;
	pass_qdisc(50 * MS, STEP);
	pass_qdisc(STEP, STEP);
	assert_int_equal(all_counts().lost, 1);
	assert_int_equal(all_counts().slow, 1);
	assert_table_free();
	host.ring_full = false;
	pass_qdisc(50 * MS, STEP);
	assert_int_equal(all_counts().lost, 1);
	only_event(0, END_SENT);
}

static int evict_reset(void **state)
{
	journey_reset(state);
	find_mates();
	return 0;
}

/* Four on their way at a time 1 ms apart; a fifth one comes now. */
static void fill_set(const struct wire *w)
{
	for (int i = 0; i < SET_WAYS; i++) {
		rest(1 * MS);
		step_receive(mate(i, w), veth);
	}
	assert_int_equal(all_counts().evicted, 0);
}

static void test_evict_oldest(void **state)
{
	(void)state;
	/* a free way first */
	fill_set(&tcp4);
	step_receive(mates[2], &nic);
	assert_int_equal(all_counts().evicted, 0);
	rest(200 * MS);	/* not held: nothing says that they were slow */
	step_receive(mate(4, &tcp4), veth);
	assert_null(record_of(mates[0]));
	step_receive(mate(5, &tcp4), veth);
	assert_null(record_of(mates[1]));
	/* 2 was begun anew after 3 */
	step_receive(mate(6, &tcp4), veth);
	assert_null(record_of(mates[3]));
	assert_non_null(record_of(mates[2]));
	for (int i = 4; i < 7; i++)
		assert_non_null(record_of(mates[i]));
	assert_int_equal(all_counts().evicted, 3);
	assert_int_equal(all_counts().slow, 0);
	assert_int_equal(host.n_events, 0);
}

/* A slow one stays, if there is another: slow by its hops, or because it is held. */
static void test_evict_spares_slow(void **state)
{
	(void)state;
	fill_set(&tcp4);
	rest(31 * MS);
	step_ip_rcv(mates[0], veth);
	step_queue(mates[1], veth);
	step_receive(mates[2], &nic);	/* held, but as young as can be */
	step_queue(mates[2], &docker0);
	step_receive(mate(4, &tcp4), veth);
	assert_null(record_of(mates[3]));
	assert_int_equal(host.n_events, 0);
	/* after 30 ms in the qdisc 2 is slow, too; 4 is not known to be */
	rest(30 * MS);
	step_receive(mate(5, &tcp4), veth);
	assert_null(record_of(mates[4]));
	for (int i = 0; i < 3; i++)
		assert_non_null(record_of(mates[i]));
	assert_int_equal(host.n_events, 0);
	assert_int_equal(all_counts().evicted, 2);
	/* the slow ones are told in the end */
	step_drop(mates[0], 5);
	only_event(0, END_DROPPED);
}

/* All are slow: one must go, and is sent. */
static void test_evict_slow(void **state)
{
	const struct record *r;
	u64 now;

	(void)state;
	fill_set(&udp4);
	for (int i = 0; i < SET_WAYS; i++)
		step_enqueue(mates[i], veth);
	rest(50 * MS);
	step_receive(mate(4, &udp4), veth);
	now = host.now;
	r = only_event(0, END_EVICTED);
	assert_hops(r, HOP_NETIF_RECEIVE_SKB, HOP_UDP_ENQUEUE);
	assert_int_equal(r->end_at, now);	/* it was held until now */
	assert_null(record_of(mates[r->first.sport - 1000]));
	assert_non_null(record_of(mates[4]));
	assert_int_equal(all_counts().evicted, 1);
	assert_int_equal(all_counts().slow, 1);
}

/* One that is not held was slow by its hops: the time since then is nobody's. */
static void test_evict_slow_by_hops(void **state)
{
	const struct record *r;

	(void)state;
	fill_set(&tcp4);
	rest(50 * MS);
	for (int i = 0; i < SET_WAYS; i++)
		step_ip_rcv(mates[i], veth);
	rest(50 * MS);
	step_receive(mate(4, &tcp4), veth);
	r = only_event(0, END_EVICTED);
	assert_int_equal(r->end_at, r->hop[1].at);
}

/* What only a named stage's threshold makes slow, by its wait so far, is as dear. */
static void test_evict_spares_slow_stage(void **state)
{
	(void)state;
	cfg.total_tcp = cfg.total_udp = NEVER;
	cfg.judge_stages = 1;
	cfg.stage[PLACE_ENQUEUE][PLACE_READ] = 3 * MS;
	step_enqueue(mate(0, &udp4), veth);
	rest(3 * MS - SET_WAYS * STEP);
	for (int i = 1; i < SET_WAYS; i++)
		step_enqueue(mate(i, &udp4), veth);
	step_enqueue(mate(4, &udp4), veth);
	assert_non_null(record_of(mates[0]));
	assert_null(record_of(mates[1]));
	assert_int_equal(host.n_events, 0);
	rest(10 * MS);
	step_enqueue(mate(5, &udp4), veth);
	only_event(0, END_EVICTED);
}

/* As the sweep marks what it has printed. */
static void report(struct record *r)
{
	r->reported = r->gen;
	r->reported_hops = r->hops;
}

/* What the sweep has printed is not sent again, unless there is news. */
static void test_reported(void **state)
{
	struct record *r;

	(void)state;
	fill_set(&udp4);
	for (int i = 0; i < SET_WAYS; i++) {
		step_enqueue(mates[i], veth);
		r = record_of(mates[i]);
		report(r);
		r->pkt = 40 + i;
	}
	rest(50 * MS);
	step_receive(mate(4, &udp4), veth);	/* evicted */
	assert_int_equal(host.n_events, 0);
	assert_int_equal(all_counts().evicted, 1);
	assert_int_equal(all_counts().slow, 0);
	for (int i = 0; i < SET_WAYS; i++) {
		if (!record_of(mates[i]))
			continue;
		step_read(mates[i]);
		assert_int_equal(host.event[0].end, END_READ);
		assert_int_equal(host.event[0].reported, host.event[0].gen);
		assert_int_equal(host.event[0].pkt, 40 + i);
		host.n_events = 0;
	}
	assert_int_equal(all_counts().slow, 0);	/* the sweep has counted them */
	/* lost: its end is as unknown as the sweep said */
	step_receive(mate(0, &udp4), veth);
	rest(50 * MS);
	step_ip_rcv(mates[0], veth);
	report(record_of(mates[0]));
	step_receive(mates[0], &nic);
	assert_int_equal(host.n_events, 0);
	/* but where it has moved since, that is not what the sweep said */
	step_ip_rcv(mates[0], &nic);
	rest(50 * MS);
	report(record_of(mates[0]));
	step_output(mates[0], &docker0);
	step_receive(mates[0], &nic);
	assert_int_equal(only_event(0, END_UNKNOWN)->hops, 3);
	assert_int_equal(host.event[0].reported, host.event[0].gen);
	assert_int_equal(all_counts().slow, 0);
	host.n_events = 0;
	/* another journey's mark does not count */
	rest(50 * MS);
	step_ip_rcv(mates[0], &nic);
	record_of(mates[0])->reported = 1u << 31 | 5;
	step_receive(mates[0], &nic);
	only_event(0, END_UNKNOWN);
}

/* Two packets wrote one record: the head is of one and the first hop of the other. */
static void test_torn(void **state)
{
	struct record *r, *other;

	(void)state;
	for (int i = 0; i < 4; i++) {
		step_receive(fill(0, &udp4), &nic);
		step_receive(fill(1, &tcp4), &nic2);
		r = record_of(&pool[0]);
		other = record_of(&pool[1]);
		switch (i) {
		case 0:	/* whole */
			break;
		case 1:
			r->hop[0] = other->hop[0];
			break;
		case 2:
			r->hop[0].at = other->hop[0].at;
			break;
		case 3:
			r->gen = other->gen;
			break;
		}
		rest(50 * MS);
		step_drop(&pool[0], 5);
		assert_int_equal(host.n_events, 1);
		assert_int_equal(all_counts().torn, i);
	}
	assert_int_equal(host.event[0].first.proto, WIRE_UDP);
}

static void intruder(void)
{
	step_receive(mate(4, &tcp4), veth);
}

/* In the middle of a hop an interrupt takes the way: the hop shows that it is another packet's. */
static void test_way_taken_away(void **state)
{
	const struct record *r;

	(void)state;
	fill_set(&tcp4);
	host.nested = intruder;
	step_ip_rcv(mates[0], veth);
	assert_int_equal(all_counts().evicted, 1);
	assert_null(record_of(mates[0]));
	assert_non_null(record_of(mates[4]));
	rest(50 * MS);
	step_drop(mates[4], 5);
	assert_int_equal(host.n_events, 1);
	r = &host.event[0];
	assert_int_equal(r->end, END_DROPPED);
	assert_int_equal(r->seq, mates[4]->wire.seq);
	assert_true(record_intact(r));
	for (u32 i = 0; i < r->hops; i++) {
		bool own = WHERE_GEN(r->hop[i].where) == WHERE_GEN(r->hop[0].where);

		assert_int_equal(own, WHERE_HOP(r->hop[i].where) != HOP_IP_RCV);
	}
}

static void begin_too(void)
{
	step_receive(mate(1, &tcp4), veth);
}

/* … or begins its journey while another one's is being begun: each has a way of its own. */
static void test_two_begin(void **state)
{
	(void)state;
	host.nested = begin_too;
	step_receive(mate(0, &tcp4), veth);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(record_of(mates[i])->seq, mates[i]->wire.seq);
		assert_int_equal(record_of(mates[i])->hops, 1);
		assert_true(record_intact(record_of(mates[i])));
	}
}

#define cmocka_evict(test) cmocka_unit_test_setup(test, evict_reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_journey(test_drop), cmocka_journey(test_unread), cmocka_journey(test_stages),
		cmocka_journey(test_stage_drop), cmocka_journey(test_truncated), cmocka_journey(test_ring_full),
		cmocka_evict(test_evict_oldest), cmocka_evict(test_evict_spares_slow),
		cmocka_evict(test_evict_slow), cmocka_evict(test_evict_slow_by_hops),
		cmocka_evict(test_evict_spares_slow_stage),
		cmocka_evict(test_reported), cmocka_journey(test_torn), cmocka_evict(test_way_taken_away),
		cmocka_evict(test_two_begin),
	};

	return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
