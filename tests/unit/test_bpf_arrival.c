// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What happens to a packet between the driver and the stack: it is noted, and told later. */
#include "host/journey_host.h"

static int arrival_reset(void **state)
{
	journey_reset(state);
	cfg.notes_arrivals = 1;
	cfg.judge_stages = 1;
	cfg.total_tcp = cfg.total_udp = NEVER;
	cfg.stage[PLACE_GRO][PLACE_RECEIVE] = cfg.stage[PLACE_GRO][PLACE_RPS] = 20 * MS;
	cfg.stage[PLACE_RPS][PLACE_RECEIVE] = 20 * MS;
	return 0;
}

#define cmocka_arrival(test) cmocka_unit_test_setup(test, arrival_reset)

static void step_arrival(struct fake *f, struct net_device *dev, enum hop_id id)
{
	step(f, dev, fake_l3(f), NOWHERE);
	switch (id) {
	case HOP_NAPI_GRO_RECEIVE:	hook_napi_gro_receive_entry(NULL, &f->skb); break;
	case HOP_NAPI_GRO_FRAGS:	hook_napi_gro_frags_entry(NULL, &f->skb); break;
	case HOP_NETIF_RECEIVE_SKB_ENTRY: hook_netif_receive_skb_entry(NULL, &f->skb); break;
	case HOP_NETIF_RECEIVE_SKB_LIST: hook_netif_receive_skb_list_entry(NULL, &f->skb); break;
	case HOP_ENQUEUE_TO_BACKLOG:	hook_enqueue_to_backlog(NULL, &f->skb); break;
	default:			fail();
	}
}

static void deliver(struct fake *f, struct net_device *dev)
{
	receive_local(f, dev);
	if (f->wire.proto == WIRE_TCP)
		step_tcp_state(f);
	else
		step_read(f);
}

static void test_gro(void **state)
{
	static const struct wire *const wires[] = { &tcp4, &udp4, &tcp6, &udp6 };
	const u64 start = host.now + STEP;

	for (size_t i = 0; i < LEN(wires); i++) {
		const struct record *r;
		struct fake *f = fill(0, wires[i]);

		arrival_reset(state);
		step_arrival(f, &nic, HOP_NAPI_GRO_RECEIVE);
		host.task = TASK(0, 0);
		rest(30 * MS - STEP);
		deliver(f, &nic);
		r = only_event(0, wires[i]->proto == WIRE_TCP ? END_DELIVERED : END_READ);
		assert_int_equal(r->hops, 5);
		assert_int_equal(WHERE_HOP(r->hop[0].where), HOP_NAPI_GRO_RECEIVE);
		assert_int_equal(WHERE_HOP(r->hop[1].where), HOP_NETIF_RECEIVE_SKB);
		assert_hop(r, 0, HOST_NS, 2, false);
		assert_hop(r, 1, HOST_NS, 2, false);
		assert_int_equal(r->hop[0].at, start);
		assert_int_equal(r->hop[0].tid, 401);
		assert_int_equal(r->hop[1].tid, 0);
		assert_int_equal(r->hop[1].at - r->hop[0].at, 30 * MS);
		assert_int_equal(r->flags & ~RECORD_PAYLOAD, RECORD_SLOW);
		assert_table_free();
	}
}

static void test_threshold(void **state)
{
	struct fake *f = fill(0, &tcp4);

	(void)state;
	step_arrival(f, &nic, HOP_NAPI_GRO_RECEIVE);
	rest(20 * MS - STEP - 1);
	deliver(f, &nic);
	assert_int_equal(host.n_events, 0);
	assert_int_equal(all_counts().matched, 1);
	step_arrival(f, &nic, HOP_NAPI_GRO_RECEIVE);
	rest(20 * MS - STEP);
	deliver(f, &nic);
	only_event(0, END_DELIVERED);
}

/* Without their stage named the hooks are not attached; were they, they would change nothing. */
static void test_not_asked_for(void **state)
{
	struct fake *f = fill(0, &tcp4);

	(void)state;
	cfg.notes_arrivals = 0;
	step_arrival(f, &nic, HOP_NAPI_GRO_RECEIVE);
	rest(40 * MS);
	deliver(f, &nic);
	assert_int_equal(host.n_events, 0);
}

/* Out of GRO to another CPU: each wait has its own stage. */
static void test_rps(void **state)
{
	static const enum hop_id ways_in[] = {
		HOP_NAPI_GRO_RECEIVE, HOP_NAPI_GRO_FRAGS, HOP_NETIF_RECEIVE_SKB_ENTRY, HOP_NETIF_RECEIVE_SKB_LIST,
	};

	for (size_t i = 0; i < LEN(ways_in); i++) {
		bool gro = hop_place(ways_in[i]) == PLACE_GRO;
		struct fake *f = fill(0, &tcp4);
		const struct record *r;

		arrival_reset(state);
		step_arrival(f, &nic, ways_in[i]);
		step_arrival(f, &nic, HOP_ENQUEUE_TO_BACKLOG);
		host.cpu = 6;
		rest(30 * MS);
		deliver(f, &nic);
		r = only_event(0, END_DELIVERED);
		assert_int_equal(r->hops, gro + 5);
		assert_int_equal(WHERE_HOP(r->hop[gro].where), HOP_ENQUEUE_TO_BACKLOG);
		assert_int_equal(WHERE_CPU(r->hop[gro].where), 5);
		assert_int_equal(WHERE_CPU(r->hop[gro + 1].where), 6);
		assert_int_equal(r->hop[gro + 1].at - r->hop[gro].at, 30 * MS + STEP);
		if (gro)
			assert_int_equal(WHERE_HOP(r->hop[0].where), ways_in[i]);
	}
}

/* Not sent to another CPU, and no time passes. */
static void test_no_rps(void **state)
{
	const struct record *r;
	struct fake *f = fill(0, &tcp4);

	(void)state;
	cfg.total_tcp = 0;
	step_arrival(f, &nic, HOP_NETIF_RECEIVE_SKB_ENTRY);
	deliver(f, &nic);
	r = only_event(0, END_DELIVERED);
	assert_hops(r, HOP_NETIF_RECEIVE_SKB_ENTRY, HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_TCP_V4_RCV,
		    HOP_TCP_RCV_ESTABLISHED);
	assert_int_equal(r->hop[1].at - r->hop[0].at, STEP);
}

/* GRO has merged the first packet away; the next one in its skb has its own times. */
static void test_skb_used_again(void **state)
{
	const struct record *r;
	struct fake *f = fill(0, &tcp4);
	u64 again;

	(void)state;
	cfg.total_tcp = 0;
	step_arrival(f, &nic, HOP_NAPI_GRO_RECEIVE);
	step_arrival(f, &nic, HOP_ENQUEUE_TO_BACKLOG);
	rest(1000 * MS);
	again = host.now + STEP;
	step_arrival(f, &nic, HOP_NAPI_GRO_RECEIVE);
	deliver(f, &nic);
	r = only_event(0, END_DELIVERED);
	assert_hops(r, HOP_NAPI_GRO_RECEIVE, HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_TCP_V4_RCV,
		    HOP_TCP_RCV_ESTABLISHED);
	assert_int_equal(r->hop[0].at, again);
	assert_int_equal(r->flags & RECORD_SLOW, 0);

	/* what was told once is not told again, nor of another device */
	deliver(f, &nic);
	assert_hops(only_event(1, END_DELIVERED), HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_TCP_V4_RCV,
		    HOP_TCP_RCV_ESTABLISHED);
	step_arrival(f, &nic, HOP_NAPI_GRO_RECEIVE);
	deliver(f, &nic2);
	assert_hops(only_event(2, END_DELIVERED), HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_TCP_V4_RCV,
		    HOP_TCP_RCV_ESTABLISHED);
}

/* A packet of this host in a veth with NAPI: its journey goes on. */
static void test_goes_on(void **state)
{
	const struct record *r;
	struct fake *f = fill(0, &udp4);

	(void)state;
	/* left behind by another packet, a while ago */
	step_arrival(f, &pod_eth0, HOP_NAPI_GRO_RECEIVE);
	step_send(f, &host_sock);
	step_output(f, &vethc);
	step_queue(f, &vethc);
	step_xmit(f, &vethc);
	step_arrival(f, &pod_eth0, HOP_NAPI_GRO_RECEIVE);
	rest(30 * MS);
	deliver(f, &pod_eth0);
	r = only_event(0, END_READ);
	assert_hops(r, HOP_IP_SEND_SKB, HOP_IP_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT,
		    HOP_NAPI_GRO_RECEIVE, HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_UDP_ENQUEUE, HOP_UDP_READ);
	assert_hop(r, 4, POD_NS, 2, false);
	assert_int_equal(r->hop[4].at - r->hop[3].at, STEP);
	assert_int_equal(r->hop[5].at - r->hop[4].at, 30 * MS + STEP);

	/* … and what was left behind is not told of one that comes by the backlog */
	step_arrival(f, &pod_eth0, HOP_NAPI_GRO_RECEIVE);
	step_send(f, &host_sock);
	step_output(f, &vethc);
	step_queue(f, &vethc);
	step_xmit(f, &vethc);
	host.cpu = 4;	/* so that it must be looked at */
	rest(30 * MS);
	receive_local(f, &pod_eth0);
	for (u32 i = 0; i < record_of(f)->hops; i++)
		assert_int_not_equal(hop_place(WHERE_HOP(record_of(f)->hop[i].where)), PLACE_GRO);
}

/* A full set of notes: the oldest one makes room. */
static void test_full(void **state)
{
	static struct fake many[16 * ARRIVAL_SETS];
	struct fake *mate[ARRIVAL_WAYS + 1];
	u32 n = 0;

	(void)state;
	cfg.total_tcp = 0;
	for (size_t i = 0; i < LEN(many) && n < LEN(mate); i++)
		if (!n || arrivals_of(&many[i].skb) == arrivals_of(&mate[0]->skb))
			mate[n++] = &many[i];
	assert_int_equal(n, LEN(mate));
	for (u32 i = 0; i < n; i++) {
		fake_fill(mate[i], &tcp4);
		step_arrival(mate[i], &nic, HOP_NAPI_GRO_RECEIVE);
	}
	for (u32 i = 0; i < n; i++) {
		deliver(mate[i], &nic);
		assert_int_equal(WHERE_HOP(only_event(i, END_DELIVERED)->hop[0].where),
				 i ? HOP_NAPI_GRO_RECEIVE : HOP_NETIF_RECEIVE_SKB);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_arrival(test_gro), cmocka_arrival(test_threshold), cmocka_arrival(test_not_asked_for),
		cmocka_arrival(test_rps), cmocka_arrival(test_no_rps), cmocka_arrival(test_skb_used_again),
		cmocka_arrival(test_goes_on), cmocka_arrival(test_full),
	};

	return cmocka_run_group_tests_name("bpf_arrival", tests, NULL, NULL);
}
