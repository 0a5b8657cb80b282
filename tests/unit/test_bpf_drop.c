// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What is said of a packet that is dropped: why, where, and whether it was ours at all. */
#include "host/journey_host.h"

#define WHERE_ 0xffffffff81234567	/* as step_drop() says */

enum { REASON = 123 };

static void test_where_and_why(void **state)
{
	struct fake *f = fill(0, &tcp4);
	const struct record *r;

	(void)state;
	cfg.judge_stages = 1;
	cfg.total_tcp = NEVER;
	for (u32 from = 0; from < PLACES; from++)
		cfg.stage[from][PLACE_DROP] = 0;
	receive_local(f, &nic);
	step_drop(f, REASON);
	r = only_event(0, END_DROPPED);
	assert_hops(r, HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_TCP_V4_RCV, HOP_KFREE_SKB);
	assert_int_equal(r->drop_reason, REASON);
	assert_int_equal(r->drop_at, WHERE_);
	assert_table_free();
	/* what is not dropped is not told */
	receive_local(f, &nic);
	step_tcp_state(f);
	assert_int_equal(host.n_events, 1);
}

/* To another port before NAT than the filter lets through behind it; and dropped there. */
static struct fake *translated(u16 behind)
{
	struct wire w = tcp4;
	struct fake *f;

	w.dport = 8080;
	f = fill(0, &w);
	step_receive(f, &nic);
	step_ip_rcv(f, &nic);
	assert_null(record_of(f));
	w.dport = behind;
	w.dst++;
	fake_write(f, &w);
	return f;
}

static void let_through_port_80(u64 total, u64 drop)
{
	cfg.dport.used = 1;
	cfg.dport.bit[80 / 8] = 1 << 80 % 8;
	cfg.judge_stages = 1;
	cfg.total_tcp = total;
	for (u32 from = 0; from < PLACES; from++)
		cfg.stage[from][PLACE_DROP] = drop;
}

static void test_dropped_behind_nat(void **state)
{
	const struct record *r;
	struct fake *f;

	(void)state;
	let_through_port_80(NEVER, 0);
	f = translated(80);
	f->skb._nfct = 1;
	step_drop(f, REASON);
	r = only_event(0, END_DROPPED);
	assert_hops(r, HOP_KFREE_SKB);
	assert_hop(r, 0, HOST_NS, nic.ifindex, false);
	assert_tuple(&r->first, &f->wire);
	assert_int_equal(r->flags & RECORD_PARTIAL, RECORD_PARTIAL);
	assert_int_equal(r->drop_reason, REASON);
	assert_int_equal(r->drop_at, WHERE_);
	assert_table_free();
	/* the same with -l 0 */
	let_through_port_80(0, NEVER);
	f = translated(80);
	f->skb._nfct = 1;
	step_drop(f, REASON);
	only_event(1, END_DROPPED);
}

static void test_not_ours_behind_nat(void **state)
{
	struct fake *f;

	(void)state;
	let_through_port_80(NEVER, 0);
	/* nobody has translated it: it is as it was when it was refused */
	step_drop(translated(80), REASON);
	f = translated(81);
	f->skb._nfct = 1;
	step_drop(f, REASON);
	/* slow it is not said to be */
	let_through_port_80(NEVER, 1);
	f = translated(80);
	f->skb._nfct = 1;
	step_drop(f, REASON);
	let_through_port_80(1, NEVER);
	f = translated(80);
	f->skb._nfct = 1;
	step_drop(f, REASON);
	assert_int_equal(host.n_events, 0);
	assert_table_free();
}

/* One that was sent and refused, and nothing has come of it. */
static void test_not_behind_the_driver(void **state)
{
	struct fake *f = fill(0, &tcp4);

	(void)state;
	let_through_port_80(0, 0);
	cfg.dport.bit[80 / 8] = 0;
	step_send(f, &host_sock);
	step_output(f, &vethc);
	step_queue(f, &vethc);
	cfg.dport.bit[80 / 8] = 1 << 80 % 8;
	f->skb._nfct = 1;
	step_drop(f, REASON);
	assert_int_equal(host.n_events, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_journey(test_where_and_why),
		cmocka_journey(test_dropped_behind_nat),
		cmocka_journey(test_not_ours_behind_nat),
		cmocka_journey(test_not_behind_the_driver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
