// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The table of hops, and what the hops that are attached are good for. */
#include "command.h"
#include "golden.h"

#include "check.h"
#include "jobs.h"

#define BIT(id) (1u << HOP_##id)

static void test_list_of_hooks(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(check__list(f), 0);
	fclose(f);
	golden__check("hooks.txt", text);
	free(text);
}

static void test_jobs(void **state)
{
	(void)state;
	assert_true(jobs__udp(ALL_HOPS));
	assert_true(jobs__tcp(ALL_HOPS));
	assert_false(jobs__udp(ALL_HOPS & ~BIT(UDP_READ)));
	assert_false(jobs__udp(ALL_HOPS & ~BIT(UDP_ENQUEUE)));
	assert_true(jobs__tcp(ALL_HOPS & ~BIT(UDP_READ)));
	/* on an established connection the other one is never called */
	assert_false(jobs__tcp(ALL_HOPS & ~BIT(TCP_RCV_ESTABLISHED)));
	assert_false(jobs__tcp(ALL_HOPS & ~BIT(DEV_HARD_START_XMIT)));
	/* stages are joined, and that is all */
	assert_true(jobs__tcp(ALL_HOPS & ~(BIT(NETIF_RX) | BIT(IP_FINISH_OUTPUT2) | BIT(BR_HANDLE_FRAME_FINISH))));
}

static void test_anything_to_tell_of_a_total(void **state)
{
	(void)state;
	ACCEPT("-p", "80");
	assert_true(jobs__any(o, ALL_HOPS));
	for (unsigned int id = 0; id < HOP_IDS; id++)
		assert_true(jobs__any(o, ALL_HOPS & ~(1u << id)));
	assert_false(jobs__any(o, 0));
	assert_false(jobs__any(o, BIT(UDP_READ)));
	assert_false(jobs__any(o, BIT(KFREE_SKB) | BIT(UDP_READ)));
	assert_true(jobs__any(o, BIT(UDP_ENQUEUE) | BIT(UDP_READ)));
	assert_true(jobs__any(o, BIT(NETIF_RECEIVE_SKB) | BIT(TCP_RCV_ESTABLISHED)));
	ACCEPT("-t", "-p", "80");
	assert_false(jobs__any(o, BIT(UDP_ENQUEUE) | BIT(UDP_READ)));
	ACCEPT("-u", "-p", "80");
	assert_false(jobs__any(o, BIT(NETIF_RECEIVE_SKB) | BIT(TCP_RCV_ESTABLISHED)));
}

static void test_anything_to_tell_of_a_stage(void **state)
{
	(void)state;
	ACCEPT("-u", "-l", "socket=3ms");
	assert_true(jobs__any(o, BIT(UDP_ENQUEUE) | BIT(UDP_READ)));
	assert_false(jobs__any(o, BIT(UDP_ENQUEUE) | BIT(KFREE_SKB)));
	/* a whole way is seen, but nobody asks for its total */
	assert_false(jobs__any(o, BIT(NETIF_RECEIVE_SKB) | BIT(DEV_HARD_START_XMIT)));
	ACCEPT("-l", "qdisc=3ms");
	assert_true(jobs__any(o, BIT(DEV_QUEUE_XMIT) | BIT(DEV_HARD_START_XMIT)));
	assert_false(jobs__any(o, BIT(IP_RCV) | BIT(TCP_V4_RCV)));
	/* the qdisc's time is in there, with that of others */
	assert_true(jobs__any(o, BIT(IP_FINISH_OUTPUT2) | BIT(DEV_HARD_START_XMIT)));
	/* what comes before the stack is told by the stack's hop only */
	ACCEPT("-l", "gro=3ms", "-l", "rps=3ms");
	assert_true(jobs__any(o, ARRIVAL_HOPS | BIT(NETIF_RECEIVE_SKB)));
	assert_false(jobs__any(o, ARRIVAL_HOPS));
	assert_false(jobs__any(o, BIT(NETIF_RECEIVE_SKB)));
}

static void lose(enum hop_id id, const char *expected)
{
	char buf[LOSS_TEXT];

	assert_string_equal(jobs__loss(id, buf), expected);
}

static void test_losses(void **state)
{
	(void)state;
	lose(HOP_DEV_QUEUE_XMIT, "joins neigh/device/bridge with qdisc");
	lose(HOP_IP_RCV, "joins link with forward/input");
	lose(HOP_UDP_READ, "no wait in a UDP socket is seen");
	lose(HOP_TCP_RCV_ESTABLISHED, "a TCP packet's end is not seen");
	lose(HOP_IP6_XMIT, "what it sends begins partial, behind output");
	lose(HOP_KFREE_SKB, "a dropped packet is told as waiting or unknown");
	lose(HOP_GSO_SEGMENT, "a packet that GSO cuts is told up to its qdisc only");
	lose(HOP_BR_HANDLE_FRAME_FINISH, "the stage bridge is seen as a whole only");
	lose(HOP_NAPI_GRO_FRAGS, "gro and rps are not told");
	lose(HOP_NETIF_RECEIVE_SKB_ENTRY, "gro and rps are not told");
	lose(HOP_ENQUEUE_TO_BACKLOG, "rps is told as gro");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list_of_hooks),
		cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_anything_to_tell_of_a_total),
		cmocka_unit_test(test_anything_to_tell_of_a_stage),
		cmocka_unit_test(test_losses),
	};

	return cmocka_run_group_tests(tests, map_options, unmap_options);
}
