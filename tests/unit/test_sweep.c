// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The sweep over a table, and with a kernel side that writes it meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "make_record.h"
#include "sweep.h"

/* The same once more, with something to happen wherever the sweep orders its accesses. */
static void (*meanwhile)(int barrier);
static int barriers;

static void pass_barrier(void)
{
	if (meanwhile)
		meanwhile(barriers++);
}

void sweep_meanwhile(const struct sweep *s, struct set *sets, size_t n, uint64_t *number);

#define sweep__table sweep_meanwhile
#define __sync_synchronize() pass_barrier()
#include "../../src/sweep.c"
#undef sweep__table
#undef __sync_synchronize

enum { SETS = 4, MANY = SETS * SET_WAYS };

#define SECOND 1000000000ull

static struct set sets[SETS];
static struct config cfg;
static uint64_t number, sure_since;
static struct record found[MANY];
static uint64_t found_number[MANY];
static unsigned int n_found;
static int the_context;

static void sink(void *context, const struct record *r, uint64_t n)
{
	assert_ptr_equal(context, &the_context);
	assert_in_range(n_found, 0, MANY - 1);
	/* its hops are there, and no more */
	memset(&found[n_found], 0xa5, sizeof(*r));
	memcpy(&found[n_found], r, offsetof(struct record, hop) + r->hops * sizeof(struct hop));
	found_number[n_found++] = n;
}

/* Of the headers, what the kernel side sees; 0: the datagram waits no more. */
static uint16_t port_seen;
static unsigned int looks;

static void look(void *context, size_t set, unsigned int way)
{
	struct record *r = &sets[set].way[way];

	assert_ptr_equal(context, &the_context);
	looks++;
	r->seen = not_there(r->gen);
	if (!port_seen)
		return;
	r->first.dport = r->last.dport = port_seen;
	r->seen = r->gen;
}

static struct sweep sweep_at(uint64_t after)
{
	n_found = looks = 0;
	return (struct sweep){
		.config = &cfg, .now = START + after, .sure_since = sure_since, .look = look, .sink = sink,
		.context = &the_context,
	};
}

/* Sweeps at START + after, and returns how many were handed over. */
static unsigned int sweep(uint64_t after)
{
	struct sweep s = sweep_at(after);

	sweep__table(&s, sets, SETS, &number);
	return n_found;
}

static int reset(void **state)
{
	(void)state;
	memset(sets, 0, sizeof(sets));
	memset(&cfg, 0, sizeof(cfg));
	cfg.sees_cut = 1;
	sure_since = 0;
	memset(cfg.stage, 0xff, sizeof(cfg.stage));
	cfg.total_tcp = 30 * MS;
	cfg.total_udp = 3 * MS;
	number = 100;
	meanwhile = NULL;
	barriers = 0;
	return 0;
}

/* Puts a record into a way as the kernel side does. */
static struct record *put(unsigned int set, unsigned int way, struct record r)
{
	r.end = END_NONE;
	r.end_at = 0;
	r.last_place = hop_place(WHERE_HOP(r.last_where));
	r.skb = 0xffff888000001000 + set * 0x1000 + way * 0x100;
	sets[set].way[way] = r;
	return &sets[set].way[way];
}

/* A TCP packet whose last hop is this one, 1 ms after its first. */
static struct record at_hop(enum hop_id id)
{
	struct record r = make__syn();

	r.hops = 0;
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 0, HOST, ETH0, IDLE);
	make__hop(&r, id, 1 * MS, HOST, ETH0, IDLE);
	return r;
}

static void test_empty(void **state)
{
	struct sweep s = sweep_at(0);

	(void)state;
	assert_int_equal(sweep(100 * SECOND), 0);
	sweep__table(&s, NULL, 0, &number);
	assert_int_equal(number, 100);
}

static void test_waiting(void **state)
{
	const struct record *r;
	struct record *shared;

	(void)state;
	shared = put(2, 3, make__waiting());
	assert_int_equal(sweep(3 * MS - 1), 0);
	assert_int_equal(shared->reported, 0);
	assert_int_equal(sweep(3 * MS), 1);
	r = &found[0];
	assert_int_equal(r->end, END_WAITING);
	assert_int_equal(r->end_at, START + 3 * MS);
	assert_int_equal(r->gen, GEN);
	assert_int_equal(r->hops, 3);
	assert_int_equal(r->ip_id, 4711);
	assert_memory_equal(r->hop, shared->hop, 3 * sizeof(struct hop));
	assert_int_equal(found_number[0], 101);
	assert_int_equal(number, 101);
	/* marked in the table, where else nothing is changed */
	assert_int_equal(shared->reported, GEN);
	assert_int_equal(shared->pkt, 101);
	assert_int_equal(shared->reported_hops, 3);
	assert_int_equal(shared->end, END_NONE);
	assert_int_equal(shared->end_at, 0);
	assert_int_not_equal(sets[2].way[3].skb, 0);
	/* and not again, however long it waits */
	assert_int_equal(sweep(4 * MS), 0);
	assert_int_equal(sweep(400 * SECOND), 0);
	assert_int_equal(number, 101);
	/* until another journey has the record */
	shared->gen ^= 1;
	shared->hop[0].where ^= 1u << WHERE_GEN_SHIFT;
	assert_int_equal(sweep(400 * SECOND), 0);	/* whose head does not belong to its first hop */
	shared->hop[0].at++;
	shared->gen = record_generation(shared->hop[0].at);
	shared->hop[0].where = make__where(shared->gen, HOP_NETIF_RECEIVE_SKB, 5, false);
	assert_int_equal(sweep(400 * SECOND), 1);
	assert_int_equal(found_number[0], 102);
}

/* Where headers are looked at late, a datagram that waits is looked at once it is slow. */
static void test_unseen(void **state)
{
	struct record *shared, unseen = make__waiting();

	(void)state;
	unseen.flags |= RECORD_UNSEEN;
	unseen.first.dport = unseen.last.dport = 1;
	unseen.seen = GEN ^ 1;	/* those of an earlier packet are in it still */
	shared = put(1, 2, unseen);
	port_seen = 0;
	assert_int_equal(sweep(3 * MS - 1), 0);
	assert_int_equal(looks, 0);
	/* read meanwhile, or another one's: nothing is told, and the next sweep looks again */
	assert_int_equal(sweep(3 * MS), 0);
	assert_int_equal(looks, 1);
	assert_int_equal(shared->reported, 0);
	assert_int_equal(number, 100);
	port_seen = 53;
	assert_int_equal(sweep(4 * MS), 1);
	assert_int_equal(looks, 1);
	assert_int_equal(found[0].first.dport, 53);
	assert_int_equal(found[0].end, END_WAITING);
	assert_int_equal(found_number[0], 101);
	assert_int_equal(sweep(5 * MS), 0);
	assert_int_equal(looks, 0);
	/* that it was looked at once does not say that it waits still */
	shared->reported = 0;
	assert_int_equal(sweep(6 * MS), 1);
	assert_int_equal(looks, 1);
	shared->reported = 0;
	port_seen = 0;
	assert_int_equal(sweep(7 * MS), 0);
}

/* What it is held in, and how long, by the protocol's threshold. */
static void test_held(void **state)
{
	static const struct { enum hop_id at; enum record_end end; } cases[] = {
		{ HOP_DEV_QUEUE_XMIT, END_WAITING }, { HOP_UDP_ENQUEUE, END_WAITING },
		{ HOP_NETIF_RX, END_UNKNOWN }, { HOP_IP_RCV, END_UNKNOWN },
		{ HOP_DEV_HARD_START_XMIT, END_UNKNOWN }, { HOP_TCP_V4_RCV, END_UNKNOWN },
		{ HOP_IP_FINISH_OUTPUT2, END_UNKNOWN }, { HOP_BR_HANDLE_FRAME_FINISH, END_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct record *r;

		reset(NULL);
		r = put(0, 0, at_hop(cases[i].at));
		assert_int_equal(sweep(30 * MS - 1), 0);
		assert_int_equal(sweep(30 * MS), cases[i].end == END_WAITING);
		/* one that is not held is slow by what lies between its hops, never by its silence */
		r->reported = 0;
		assert_int_equal(sweep(100 * SECOND), cases[i].end == END_WAITING);
		r->reported = 0;
		r->flags = RECORD_SLOW;
		assert_int_equal(sweep(100 * SECOND), 1);
		assert_int_equal(found[0].end, cases[i].end);
		assert_int_equal(found[0].end_at,
				 cases[i].end == END_WAITING ? START + 100 * SECOND : START + 1 * MS);
	}
	/* what GSO may have cut out of the qdisc unseen is not told as waiting there */
	reset(NULL);
	cfg.sees_cut = 0;
	put(0, 0, at_hop(HOP_DEV_QUEUE_XMIT));
	assert_int_equal(sweep(100 * SECOND), 0);
	/* nor what may have been read by a run that the kernel skipped; what came later is */
	reset(NULL);
	put(0, 0, at_hop(HOP_UDP_ENQUEUE));
	sure_since = START + 1 * MS;
	assert_int_equal(sweep(100 * SECOND), 0);
	sure_since--;
	assert_int_equal(sweep(100 * SECOND), 1);
	/* a datagram's threshold is its own */
	reset(NULL);
	put(0, 0, at_hop(HOP_DEV_QUEUE_XMIT))->first.proto = IPPROTO_UDP;
	assert_int_equal(sweep(3 * MS), 1);
}

/* Slow by its hops, and quiet for a second: its end does not come. */
static void test_unknown(void **state)
{
	struct record r = make__syn();
	struct record *shared;

	(void)state;
	r.hops = 9;	/* as far as the backlog's other end, in the 201st ms */
	r.last_at = r.hop[8].at;
	r.last_where = r.hop[8].where;
	shared = put(1, 1, r);
	assert_int_equal(sweep(210 * MS), 0);
	assert_int_equal(sweep(r.last_at - START + SECOND - 1), 0);
	assert_int_equal(shared->reported, 0);
	assert_int_equal(sweep(r.last_at - START + SECOND), 1);
	assert_int_equal(found[0].end, END_UNKNOWN);
	assert_int_equal(found[0].end_at, r.last_at);
	assert_int_equal(found[0].hops, 9);
	assert_int_equal(shared->reported, GEN);
	assert_int_equal(sweep(100 * SECOND), 0);
	/* one that was fast as far as is known */
	reset(NULL);
	put(1, 1, at_hop(HOP_IP_RCV));
	assert_int_equal(sweep(1000 * SECOND), 0);
	/* by total_limit to the nanosecond */
	cfg.total_tcp = 1 * MS;
	assert_int_equal(sweep(1000 * SECOND), 1);
	reset(NULL);
	put(1, 1, at_hop(HOP_IP_RCV));
	cfg.total_tcp = 1 * MS + 1;
	assert_int_equal(sweep(1000 * SECOND), 0);
}

/* It was told where it waited, has moved on since, and is quiet again: there is news once for each move. */
static void test_moved_since(void **state)
{
	struct record *shared = put(0, 0, at_hop(HOP_DEV_QUEUE_XMIT));
	uint64_t xmit = 600 * MS;

	(void)state;
	put(3, 1, at_hop(HOP_IP_RCV));	/* another one, which is never slow */
	assert_int_equal(sweep(500 * MS), 1);
	assert_int_equal(found[0].end, END_WAITING);
	make__hop(shared, HOP_DEV_HARD_START_XMIT, xmit, HOST, ETH0, IDLE);
	shared->last_place = PLACE_XMIT;
	assert_int_equal(sweep(xmit + SECOND - 1), 0);	/* it may be on its way */
	assert_int_equal(sweep(xmit + SECOND), 1);
	assert_int_equal(found[0].end, END_UNKNOWN);
	assert_int_equal(found[0].end_at, START + xmit);
	assert_int_equal(found[0].hops, 3);
	/* the same packet under the same number, which is marked as printed before */
	assert_int_equal(found_number[0], 101);
	assert_int_equal(found[0].reported, GEN);
	assert_int_equal(number, 101);
	assert_int_equal(sweep(100 * SECOND), 0);
	make__hop(shared, HOP_NETIF_RX, 100 * SECOND, HOST, ETH0, IDLE);
	shared->last_place = PLACE_NETIF_RX;
	assert_int_equal(sweep(102 * SECOND), 1);
	assert_int_equal(found[0].hops, 4);
	assert_int_equal(found_number[0], 101);
	/* what waits once more is told at its end, or where it has gone from there */
	make__hop(shared, HOP_UDP_ENQUEUE, 103 * SECOND, HOST, ETH0, IDLE);
	shared->last_place = PLACE_ENQUEUE;
	assert_int_equal(sweep(200 * SECOND), 0);
	make__hop(shared, HOP_NETIF_RX, 200 * SECOND, HOST, ETH0, IDLE);
	shared->last_place = PLACE_NETIF_RX;
	assert_int_equal(sweep(202 * SECOND), 1);
	assert_int_equal(found[0].hops, 6);
	assert_int_equal(number, 101);
}

/* With only named stages the wait so far counts against the stage that would end it. */
static void test_stage_of_held(void **state)
{
	static const struct { enum hop_id at; enum place from, to; } cases[] = {
		{ HOP_DEV_QUEUE_XMIT, PLACE_QUEUE, PLACE_XMIT },
		{ HOP_UDP_ENQUEUE, PLACE_ENQUEUE, PLACE_READ },
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		reset(NULL);
		put(0, 0, at_hop(cases[i].at));
		cfg.total_tcp = cfg.total_udp = NEVER;
		cfg.stage[cases[i].from][cases[i].to] = 20 * MS;
		assert_int_equal(sweep(100 * SECOND), 0);	/* no stage is judged */
		cfg.judge_stages = 1;
		assert_int_equal(sweep(21 * MS - 1), 0);
		assert_int_equal(sweep(21 * MS), 1);
		assert_int_equal(found[0].end, END_WAITING);
		/* the other one's threshold is not asked, nor is a held one's of one that is not held */
		reset(NULL);
		cfg.total_tcp = cfg.total_udp = NEVER;
		cfg.judge_stages = 1;
		cfg.stage[cases[i].from][cases[i].to] = 20 * MS;
		put(0, 0, at_hop(cases[!i].at));
		put(0, 1, at_hop(HOP_NETIF_RX));
		assert_int_equal(sweep(100 * SECOND), 0);
	}
}

static void test_must_meet(void **state)
{
	struct record *shared;

	(void)state;
	shared = put(0, 0, make__waiting());
	cfg.must_meet = MET_NETNS | MET_PID;
	shared->met = MET_NETNS | MET_IFACE;
	assert_int_equal(sweep(100 * MS), 0);
	assert_int_equal(shared->reported, 0);
	assert_int_equal(number, 100);
	shared->met |= MET_PID;
	assert_int_equal(sweep(100 * MS), 1);
}

/* Which ways are looked at. */
static void test_tags(void **state)
{
	struct sweep s;

	(void)state;
	put(0, 0, make__waiting());
	for (uint64_t tag = 0; tag <= WAY_RESERVED; tag++) {
		sets[0].way[0].skb = tag;	/* free, or being begun */
		assert_int_equal(sweep(100 * MS), 0);
	}
	reset(NULL);
	for (unsigned int set = 0; set < SETS; set++)
		for (unsigned int way = 0; way < SET_WAYS; way++)
			put(set, way, make__waiting())->ip_id = set * SET_WAYS + way;
	assert_int_equal(sweep(100 * MS), MANY);
	for (unsigned int i = 0; i < MANY; i++) {
		assert_int_equal(found[i].ip_id, i);
		assert_int_equal(found_number[i], 101 + i);
	}
	assert_int_equal(sweep(101 * MS), 0);
	/* only so many sets as are given */
	sets[1].way[0].reported = sets[2].way[0].reported = 0;
	s = sweep_at(100 * MS);
	sweep__table(&s, sets, 2, &number);
	assert_int_equal(n_found, 1);
}

/* Two packets in one record, and what no writer has ever written. */
static void test_not_intact(void **state)
{
	struct record *shared;

	(void)state;
	shared = put(0, 0, make__waiting());
	shared->hop[0].at++;
	assert_int_equal(sweep(100 * MS), 0);
	shared->hop[0].at--;
	shared->hop[0].where ^= 1u << WHERE_GEN_SHIFT;
	assert_int_equal(sweep(100 * MS), 0);
	shared->hop[0].where ^= 1u << WHERE_GEN_SHIFT;
	shared->gen ^= 1u << 30;
	assert_int_equal(sweep(100 * MS), 0);
	shared->gen ^= 1u << 30;
	shared->hops = 0;
	assert_int_equal(sweep(100 * MS), 0);
	shared->hops = RECORD_HOPS + 1;
	assert_int_equal(sweep(100 * MS), 0);
	shared->hops = 3;
	/* a clock that ran ahead of this sweep's */
	assert_int_equal(sweep(8999), 0);
	shared->last_at = START - 1;
	assert_int_equal(sweep(100 * MS), 0);
	shared->last_at = START + 9000;
	assert_int_equal(number, 100);
	assert_int_equal(shared->reported, 0);
	assert_int_equal(sweep(100 * MS), 1);
	assert_int_equal(number, 101);
}

enum { COPIED };	/* the barrier of a record: after the copy */

static int change_at;

static void begin_anew(int barrier)
{
	if (barrier == change_at)
		sets[0].way[0].gen = record_generation(START + 77);
}

static void add_a_hop(int barrier)
{
	if (barrier == change_at)
		sets[0].way[0].hops++;
}

static void release_way(int barrier)
{
	if (barrier == change_at)
		sets[0].way[0].skb = 0;
}

static void give_away(int barrier)
{
	if (barrier == change_at)
		sets[0].way[0].skb = 0xffff888000abc000;
}

static unsigned int sweep_while(void (*change)(int), int at)
{
	struct sweep s;

	reset(NULL);
	put(0, 0, make__waiting());
	meanwhile = change;
	change_at = at;
	s = sweep_at(100 * MS);
	sweep_meanwhile(&s, sets, 1, &number);
	return n_found;
}

static void test_changed_meanwhile(void **state)
{
	(void)state;
	assert_int_equal(sweep_while(begin_anew, -1), 1);
	assert_int_equal(barriers, 1);
	/* while it was copied: the copy is not used, and nothing is marked */
	assert_int_equal(sweep_while(begin_anew, COPIED), 0);
	assert_int_equal(sets[0].way[0].reported, 0);
	assert_int_equal(number, 100);
	assert_int_equal(sweep_while(add_a_hop, COPIED), 0);
	assert_int_equal(sets[0].way[0].reported, 0);
	/* the next sweep finds it as it is then */
	meanwhile = NULL;
	sets[0].way[0].hops--;
	assert_int_equal(sweep(100 * MS), 1);
	/* its end came, or another packet has its way: what was copied was true, and nobody else tells it */
	assert_int_equal(sweep_while(release_way, COPIED), 1);
	assert_int_equal(sweep_while(give_away, COPIED), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_empty, reset), cmocka_unit_test_setup(test_waiting, reset),
		cmocka_unit_test_setup(test_unseen, reset),
		cmocka_unit_test_setup(test_held, reset), cmocka_unit_test_setup(test_unknown, reset),
		cmocka_unit_test_setup(test_moved_since, reset),
		cmocka_unit_test_setup(test_stage_of_held, reset), cmocka_unit_test_setup(test_must_meet, reset),
		cmocka_unit_test_setup(test_tags, reset), cmocka_unit_test_setup(test_not_intact, reset),
		cmocka_unit_test_setup(test_changed_meanwhile, reset),
	};

	return cmocka_run_group_tests_name("sweep", tests, NULL, NULL);
}
