// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "make_record.h"
#include "stage.h"

#define STAGE(name) (1u << STAGE_##name)

static struct journey read_ok(const struct record *r, uint64_t after)
{
	struct journey j;

	assert_int_equal(journey__read(&j, r, 7, START + after), 0);
	return j;
}

static int read_error(const struct record *r, uint64_t after)
{
	struct journey j;

	return journey__read(&j, r, 7, START + after);
}

static void assert_slowest(const struct journey *j, unsigned int index, uint64_t ns, uint32_t stages)
{
	assert_int_equal(j->slowest, index);
	assert_int_equal(j->slowest_ns, ns);
	assert_int_equal(j->slowest_stages, stages);
}

static void reads_a_whole_journey(void **state)
{
	struct record r = make__syn();
	struct journey j = read_ok(&r, 0);

	(void)state;
	assert_ptr_equal(j.record, &r);
	assert_int_equal(j.number, 7);
	assert_int_equal(j.start, START);
	assert_int_equal(j.total, 200516000);
	assert_int_equal(j.end, END_DELIVERED);
	assert_int_equal(j.hops, 12);
	assert_false(j.has_rest);
	assert_slowest(&j, 6, 200292400, STAGE(QDISC));
	assert_ptr_equal(journey__slowest_from(&j), &j.hop[5]);
	assert_ptr_equal(journey__held_at(&j), &j.hop[5]);
	assert_false(journey__translated(&j));
}

static void reads_a_hop(void **state)
{
	struct record r = make__read();
	struct journey j = read_ok(&r, 0);
	const struct journey_hop *first = &j.hop[0], *last = &j.hop[3];

	(void)state;
	assert_int_equal(first->in_stage, 0);
	assert_int_equal(first->stages, 0);
	assert_false(first->owner);
	assert_ptr_equal(last->hop, &r.hop[3]);
	assert_int_equal(last->id, HOP_UDP_READ);
	assert_int_equal(last->cpu, 5);
	assert_true(last->owner);
	assert_int_equal(last->since_start, 42009000);
	assert_int_equal(last->in_stage, 42000000);
	assert_int_equal(last->stages, STAGE(SOCKET));
}

static void joins_stages_over_a_missing_hop(void **state)
{
	struct record r = make__synack();
	struct journey j = read_ok(&r, 0);

	(void)state;
	assert_slowest(&j, 3, 100194000, STAGE(QDISC) | STAGE(DEVICE));
	assert_int_equal(journey__held_at(&j)->hop->netns, POD);
}

static void skips_torn_hops(void **state)
{
	struct record r = make__syn();
	struct journey j;

	(void)state;
	/* Another packet's hop, its time anything. */
	r.hop[6].where = make__where(GEN + 1, HOP_TCP_V4_RCV, 1, false);
	r.hop[6].at = 1;
	/* Our generation, but no hop of ours. */
	r.hop[8].where = make__where(GEN, HOP_IDS, 1, false);
	j = read_ok(&r, 0);
	assert_int_equal(j.hops, 10);
	assert_int_equal(j.hop[6].id, HOP_NETIF_RX);
	assert_slowest(&j, 6, 200300000, STAGE(QDISC) | STAGE(DEVICE));
}

static void counts_what_follows_a_torn_end_as_other(void **state)
{
	struct record r = make__read();
	struct journey j;

	(void)state;
	r.hop[3].where = make__where(GEN + 1, HOP_UDP_READ, 5, true);
	j = read_ok(&r, 0);
	assert_int_equal(j.hops, 3);
	assert_int_equal(j.total, 42009000);
	assert_slowest(&j, 3, 42000000, STAGE(OTHER));
}

static void refuses_a_torn_start(void **state)
{
	struct record r = make__syn();

	(void)state;
	r.hop[0].where = make__where(GEN + 1, HOP_NETIF_RECEIVE_SKB, 5, false);
	assert_int_equal(read_error(&r, 0), -EBADMSG);
}

static void refuses_time_that_runs_backwards(void **state)
{
	struct record between = make__syn(), end = make__syn(), no_end = make__syn();
	struct record waiting = make__waiting();

	(void)state;
	between.hop[4].at = between.hop[3].at - 1;
	assert_int_equal(read_error(&between, 0), -EBADMSG);
	end.end_at = end.hop[11].at - 1;
	assert_int_equal(read_error(&end, 0), -EBADMSG);
	no_end.end_at = 0;
	assert_int_equal(read_error(&no_end, 0), -EBADMSG);
	assert_int_equal(read_error(&waiting, 8999), -EBADMSG);
	assert_int_equal(read_error(&waiting, 9000), 0);
}

static void refuses_impossible_numbers(void **state)
{
	struct record empty = make__syn(), full = make__syn(), end = make__syn();

	(void)state;
	empty.hops = 0;
	assert_int_equal(read_error(&empty, 0), -EBADMSG);
	full.hops = RECORD_HOPS + 1;
	assert_int_equal(read_error(&full, 0), -EBADMSG);
	end.end = END_WAITING + 1;
	assert_int_equal(read_error(&end, 0), -EBADMSG);
}

static void counts_a_wait_up_to_now(void **state)
{
	struct record r = make__waiting();
	struct journey j = read_ok(&r, 512 * MS);

	(void)state;
	assert_int_equal(j.total, 512 * MS);
	assert_true(j.has_rest);
	assert_int_equal(j.rest, 512 * MS - 9000);
	assert_slowest(&j, 3, 512 * MS - 9000, STAGE(SOCKET));
	assert_ptr_equal(journey__slowest_from(&j), &j.hop[2]);
	assert_int_equal(j.direction, DIR_RCV);

	r.hops = 0;
	make__hop(&r, HOP_IP_RCV, 0, HOST, ETH0, IDLE);
	make__hop(&r, HOP_DEV_QUEUE_XMIT, 100 * MS, HOST, VETHC, IDLE);
	j = read_ok(&r, 190 * MS);
	assert_slowest(&j, 1, 100 * MS, stage__between(PLACE_IP_RCV, PLACE_QUEUE));
	assert_int_equal(j.rest_stages, STAGE(QDISC));
	assert_int_equal(j.direction, DIR_UNKNOWN);

	make__hop(&r, HOP_DEV_HARD_START_XMIT, 101 * MS, HOST, VETHC, IDLE);
	j = read_ok(&r, 500 * MS);
	assert_slowest(&j, 3, 399 * MS, STAGE(OTHER));
}

static void waits_from_the_first_moment_on(void **state)
{
	struct record r = make__waiting();
	struct journey j = read_ok(&r, 9000);

	(void)state;
	assert_true(j.has_rest);
	assert_int_equal(j.rest, 0);
	assert_int_equal(j.rest_stages, STAGE(SOCKET));
}

static void takes_the_first_of_two_equal_stages(void **state)
{
	struct record r = make__udp(1);
	struct journey j;

	(void)state;
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 0, POD, ETH0, IDLE);
	make__hop(&r, HOP_IP_RCV, MS, POD, ETH0, IDLE);
	make__hop(&r, HOP_UDP_ENQUEUE, 2 * MS, POD, NO_DEV, IDLE);
	r.end = END_WAITING;
	j = read_ok(&r, 3 * MS);
	assert_slowest(&j, 1, MS, STAGE(LINK));
}

static void knows_a_lost_journey_up_to_its_last_hop(void **state)
{
	struct record r = make__waiting();
	struct journey j;

	(void)state;
	r.end = END_UNKNOWN;
	j = read_ok(&r, 0);
	assert_int_equal(j.total, 9000);
	assert_false(j.has_rest);
	r.end = END_NONE;
	j = read_ok(&r, 0);
	assert_int_equal(j.end, END_UNKNOWN);
	r.end = END_EVICTED;
	r.end_at = START + 40 * MS;
	j = read_ok(&r, 0);
	assert_slowest(&j, 3, 40 * MS - 9000, STAGE(SOCKET));
	assert_int_equal(j.direction, DIR_RCV);
}

static void counts_what_found_no_room_as_other(void **state)
{
	struct record r = make__truncated();
	struct journey j = read_ok(&r, 0);

	(void)state;
	assert_int_equal(j.hops, RECORD_HOPS);
	assert_int_equal(j.total, 65 * MS);
	assert_slowest(&j, RECORD_HOPS, 50 * MS - 1000, STAGE(OTHER));

	/* Also where it waits in a known place: the way there is not known. */
	r = make__truncated();
	r.end = END_WAITING;
	r.last_where = make__where(GEN, HOP_UDP_ENQUEUE, 5, false);
	j = read_ok(&r, 90 * MS);
	assert_slowest(&j, RECORD_HOPS, 75 * MS - 1000, STAGE(OTHER));
	assert_int_equal(j.direction, DIR_RCV);
}

static void has_no_slowest_stage_in_one_hop(void **state)
{
	struct record r = make__udp(1);
	struct journey j;

	(void)state;
	make__hop(&r, HOP_UDP_ENQUEUE, 0, POD, NO_DEV, IDLE);
	make__end(&r, END_UNREAD);
	j = read_ok(&r, 0);
	assert_int_equal(j.total, 0);
	assert_slowest(&j, 0, 0, 0);
	assert_null(journey__slowest_from(&j));
	assert_null(journey__held_at(&j));
}

static void holds_a_packet_at_the_first_device_of_a_stage(void **state)
{
	struct record r = make__udp(1);
	struct journey j;

	(void)state;
	make__hop(&r, HOP_IP_SEND_SKB, 0, POD, NO_DEV, RESOLVER);
	make__hop(&r, HOP_IP_FINISH_OUTPUT2, MS, POD, ETH0, RESOLVER);
	make__end(&r, END_UNKNOWN);
	j = read_ok(&r, 0);
	assert_ptr_equal(journey__held_at(&j), &j.hop[1]);

	make__hop(&r, HOP_DEV_HARD_START_XMIT, 2 * MS, POD, ETH0, RESOLVER);
	make__hop(&r, HOP_NETIF_RX, 9 * MS, HOST, VETHC, RESOLVER);
	make__end(&r, END_UNKNOWN);
	j = read_ok(&r, 0);
	assert_slowest(&j, 3, 7 * MS, STAGE(DEVICE));
	assert_ptr_equal(journey__held_at(&j), &j.hop[2]);
}

/* The direction of a journey from a hop to a hop. */
static enum direction direction(enum hop_id first, uint8_t flags, enum hop_id last, enum record_end end)
{
	struct record r = make__udp(1);
	struct journey j;

	r.flags = flags;
	make__hop(&r, first, 0, HOST, ETH0, IDLE);
	make__hop(&r, last, 1000, HOST, ETH0, IDLE);
	if (end == END_DROPPED)
		make__hop(&r, HOP_KFREE_SKB, 1000, HOST, NO_DEV, IDLE);
	make__end(&r, end);
	j = read_ok(&r, 2000);
	return j.direction;
}

static void finds_the_direction(void **state)
{
	enum hop_id in = HOP_NETIF_RECEIVE_SKB, rx = HOP_NETIF_RX, out = HOP_IP_SEND_SKB;
	enum hop_id state_hop = HOP_TCP_RCV_STATE_PROCESS, xmit = HOP_DEV_HARD_START_XMIT;

	(void)state;
	assert_int_equal(direction(in, 0, state_hop, END_DELIVERED), DIR_RCV);
	assert_int_equal(direction(rx, 0, HOP_UDP_READ, END_READ), DIR_RCV);
	assert_int_equal(direction(in, RECORD_PARTIAL, HOP_UDP_READ, END_READ), DIR_RCV);
	assert_int_equal(direction(out, RECORD_PARTIAL, HOP_UDP_READ, END_READ), DIR_RCV);
	assert_int_equal(direction(out, 0, state_hop, END_DELIVERED), DIR_LOC);
	assert_int_equal(direction(out, 0, HOP_UDP_ENQUEUE, END_UNREAD), DIR_LOC);
	assert_int_equal(direction(out, 0, HOP_UDP_ENQUEUE, END_WAITING), DIR_LOC);
	assert_int_equal(direction(in, 0, HOP_DEV_QUEUE_XMIT, END_WAITING), DIR_UNKNOWN);
	assert_int_equal(direction(in, 0, HOP_TCP_V4_RCV, END_DROPPED), DIR_RCV);
	assert_int_equal(direction(in, 0, HOP_UDP_ENQUEUE, END_DROPPED), DIR_RCV);
	assert_int_equal(direction(out, 0, state_hop, END_DROPPED), DIR_LOC);
	assert_int_equal(direction(in, 0, HOP_IP_RCV, END_DROPPED), DIR_UNKNOWN);
	assert_int_equal(direction(out, 0, xmit, END_SENT), DIR_SND);
	assert_int_equal(direction(in, 0, xmit, END_SENT), DIR_FWD);
	assert_int_equal(direction(rx, 0, xmit, END_SENT), DIR_FWD);
	assert_int_equal(direction(HOP_NAPI_GRO_RECEIVE, 0, xmit, END_SENT), DIR_FWD);
	assert_int_equal(direction(HOP_ENQUEUE_TO_BACKLOG, 0, xmit, END_SENT), DIR_FWD);
	assert_int_equal(direction(in, RECORD_PARTIAL, xmit, END_SENT), DIR_UNKNOWN);
	assert_int_equal(direction(out, RECORD_PARTIAL, xmit, END_SENT), DIR_UNKNOWN);
	assert_int_equal(direction(out, 0, xmit, END_UNKNOWN), DIR_UNKNOWN);
}

static void does_not_guess_where_a_torn_or_truncated_packet_was_dropped(void **state)
{
	struct record torn = make__dropped(), truncated = make__truncated();
	struct journey j;

	(void)state;
	torn.hop[3].where = make__where(GEN + 1, HOP_KFREE_SKB, 5, false);
	j = read_ok(&torn, 0);
	assert_int_equal(j.direction, DIR_UNKNOWN);
	make__hop(&truncated, HOP_KFREE_SKB, 66 * MS, POD, NO_DEV, IDLE);
	make__end(&truncated, END_DROPPED);
	j = read_ok(&truncated, 0);
	assert_int_equal(j.direction, DIR_UNKNOWN);
}

static void sees_translation(void **state)
{
	struct record r = make__nat_gso();
	struct journey j = read_ok(&r, 0);

	(void)state;
	assert_true(journey__translated(&j));
	r.last = r.first;
	r.last.sport++;
	assert_true(journey__translated(&j));
	r.last = r.first;
	r.last.src[1]++;
	assert_true(journey__translated(&j));
	r.last = (struct tuple){ 0 };	/* not known */
	assert_false(journey__translated(&j));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_whole_journey),
		cmocka_unit_test(reads_a_hop),
		cmocka_unit_test(joins_stages_over_a_missing_hop),
		cmocka_unit_test(skips_torn_hops),
		cmocka_unit_test(counts_what_follows_a_torn_end_as_other),
		cmocka_unit_test(refuses_a_torn_start),
		cmocka_unit_test(refuses_time_that_runs_backwards),
		cmocka_unit_test(refuses_impossible_numbers),
		cmocka_unit_test(counts_a_wait_up_to_now),
		cmocka_unit_test(waits_from_the_first_moment_on),
		cmocka_unit_test(takes_the_first_of_two_equal_stages),
		cmocka_unit_test(knows_a_lost_journey_up_to_its_last_hop),
		cmocka_unit_test(counts_what_found_no_room_as_other),
		cmocka_unit_test(has_no_slowest_stage_in_one_hop),
		cmocka_unit_test(holds_a_packet_at_the_first_device_of_a_stage),
		cmocka_unit_test(finds_the_direction),
		cmocka_unit_test(does_not_guess_where_a_torn_or_truncated_packet_was_dropped),
		cmocka_unit_test(sees_translation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
