// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stage.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define PLACE(p) (1u << PLACE_##p)

/* Every pair that is not `other`, but for the drops. */
static const struct pair {
	enum place from, to;
	const char *stages;
} pairs[] = {
	/* no hop missing: the design's table */
	{ PLACE_SEND, PLACE_OUTPUT, "output" },
	{ PLACE_OUTPUT, PLACE_QUEUE, "neigh" },
	{ PLACE_QUEUE, PLACE_XMIT, "qdisc" },
	{ PLACE_XMIT, PLACE_NETIF_RX, "device" },
	{ PLACE_XMIT, PLACE_QUEUE, "device" },
	{ PLACE_XMIT, PLACE_RECEIVE, "napi" },
	{ PLACE_NETIF_RX, PLACE_RECEIVE, "backlog" },
	{ PLACE_RECEIVE, PLACE_BRIDGE, "bridge" },
	{ PLACE_BRIDGE, PLACE_RECEIVE, "bridge" },
	{ PLACE_BRIDGE, PLACE_QUEUE, "bridge" },
	{ PLACE_RECEIVE, PLACE_IP_RCV, "link" },
	{ PLACE_IP_RCV, PLACE_OUTPUT, "forward" },
	{ PLACE_IP_RCV, PLACE_TCP_RCV, "input" },
	{ PLACE_IP_RCV, PLACE_ENQUEUE, "input" },
	{ PLACE_TCP_RCV, PLACE_TCP_STATE, "tcplock" },
	{ PLACE_ENQUEUE, PLACE_READ, "socket" },
	/* one hop missing */
	{ PLACE_SEND, PLACE_QUEUE, "output+neigh" },
	{ PLACE_OUTPUT, PLACE_XMIT, "neigh+qdisc" },
	{ PLACE_QUEUE, PLACE_NETIF_RX, "qdisc+device" },
	{ PLACE_QUEUE, PLACE_QUEUE, "qdisc+device" },
	{ PLACE_QUEUE, PLACE_RECEIVE, "qdisc+napi" },
	{ PLACE_XMIT, PLACE_XMIT, "qdisc+device" },
	{ PLACE_XMIT, PLACE_BRIDGE, "napi+bridge" },
	{ PLACE_XMIT, PLACE_IP_RCV, "napi+link" },
	{ PLACE_NETIF_RX, PLACE_BRIDGE, "backlog+bridge" },
	{ PLACE_NETIF_RX, PLACE_IP_RCV, "backlog+link" },
	{ PLACE_RECEIVE, PLACE_RECEIVE, "bridge" },
	{ PLACE_RECEIVE, PLACE_QUEUE, "bridge" },
	{ PLACE_BRIDGE, PLACE_BRIDGE, "bridge" },
	{ PLACE_BRIDGE, PLACE_XMIT, "qdisc+bridge" },
	{ PLACE_BRIDGE, PLACE_IP_RCV, "bridge+link" },
	{ PLACE_RECEIVE, PLACE_OUTPUT, "link+forward" },
	{ PLACE_RECEIVE, PLACE_TCP_RCV, "link+input" },
	{ PLACE_RECEIVE, PLACE_ENQUEUE, "link+input" },
	{ PLACE_IP_RCV, PLACE_QUEUE, "neigh+forward" },
	{ PLACE_IP_RCV, PLACE_TCP_STATE, "input+tcplock" },
	{ PLACE_IP_RCV, PLACE_READ, "input+socket" },
	/* two */
	{ PLACE_SEND, PLACE_XMIT, "output+neigh+qdisc" },
	{ PLACE_OUTPUT, PLACE_NETIF_RX, "neigh+qdisc+device" },
	{ PLACE_OUTPUT, PLACE_RECEIVE, "neigh+qdisc+napi" },
	{ PLACE_QUEUE, PLACE_BRIDGE, "qdisc+napi+bridge" },
	{ PLACE_QUEUE, PLACE_IP_RCV, "qdisc+napi+link" },
	{ PLACE_XMIT, PLACE_TCP_RCV, "napi+link+input" },
	{ PLACE_XMIT, PLACE_ENQUEUE, "napi+link+input" },
	{ PLACE_NETIF_RX, PLACE_OUTPUT, "backlog+link+forward" },
	{ PLACE_NETIF_RX, PLACE_QUEUE, "backlog+bridge" },
	{ PLACE_NETIF_RX, PLACE_TCP_RCV, "backlog+link+input" },
	{ PLACE_NETIF_RX, PLACE_ENQUEUE, "backlog+link+input" },
	{ PLACE_RECEIVE, PLACE_XMIT, "qdisc+bridge" },
	{ PLACE_RECEIVE, PLACE_TCP_STATE, "link+input+tcplock" },
	{ PLACE_RECEIVE, PLACE_READ, "link+input+socket" },
	{ PLACE_BRIDGE, PLACE_OUTPUT, "bridge+link+forward" },
	{ PLACE_BRIDGE, PLACE_NETIF_RX, "qdisc+device+bridge" },
	{ PLACE_BRIDGE, PLACE_TCP_RCV, "bridge+link+input" },
	{ PLACE_BRIDGE, PLACE_ENQUEUE, "bridge+link+input" },
	{ PLACE_IP_RCV, PLACE_XMIT, "neigh+qdisc+forward" },
	/* the hops before the stack, whatever is missing */
	{ PLACE_OUTPUT, PLACE_GRO, "neigh+qdisc+napi" },
	{ PLACE_OUTPUT, PLACE_RPS, "neigh+qdisc+napi" },
	{ PLACE_QUEUE, PLACE_GRO, "qdisc+napi" },
	{ PLACE_QUEUE, PLACE_RPS, "qdisc+napi" },
	{ PLACE_XMIT, PLACE_GRO, "napi" },
	{ PLACE_XMIT, PLACE_RPS, "napi" },
	{ PLACE_GRO, PLACE_OUTPUT, "gro+link+forward" },
	{ PLACE_GRO, PLACE_QUEUE, "gro+bridge" },
	{ PLACE_GRO, PLACE_RPS, "gro" },
	{ PLACE_GRO, PLACE_RECEIVE, "gro" },
	{ PLACE_GRO, PLACE_BRIDGE, "gro+bridge" },
	{ PLACE_GRO, PLACE_IP_RCV, "gro+link" },
	{ PLACE_GRO, PLACE_TCP_RCV, "gro+link+input" },
	{ PLACE_GRO, PLACE_ENQUEUE, "gro+link+input" },
	{ PLACE_RPS, PLACE_OUTPUT, "rps+link+forward" },
	{ PLACE_RPS, PLACE_QUEUE, "rps+bridge" },
	{ PLACE_RPS, PLACE_RPS, "rps+bridge" },
	{ PLACE_RPS, PLACE_RECEIVE, "rps" },
	{ PLACE_RPS, PLACE_BRIDGE, "rps+bridge" },
	{ PLACE_RPS, PLACE_IP_RCV, "rps+link" },
	{ PLACE_RPS, PLACE_TCP_RCV, "rps+link+input" },
	{ PLACE_RPS, PLACE_ENQUEUE, "rps+link+input" },
	{ PLACE_NETIF_RX, PLACE_RPS, "backlog+bridge" },
	{ PLACE_RECEIVE, PLACE_RPS, "bridge" },
	{ PLACE_BRIDGE, PLACE_GRO, "qdisc+napi+bridge" },
	{ PLACE_BRIDGE, PLACE_RPS, "bridge" },
};

static const char *expected(enum place from, enum place to)
{
	for (size_t i = 0; i < LEN(pairs); i++)
		if (pairs[i].from == from && pairs[i].to == to)
			return pairs[i].stages;
	return "other";
}

static void test_between(void **state)
{
	char text[STAGE_TEXT];

	(void)state;
	for (int from = 0; from < PLACES; from++) {
		for (int to = 0; to < PLACES; to++) {
			if (to == PLACE_DROP)
				continue;
			assert_string_equal(stage__format(stage__between(from, to), text),
					    expected(from, to));
		}
	}
}

static void test_drop(void **state)
{
	(void)state;
	for (int from = 0; from < PLACES; from++) {
		int ended = from == PLACE_TCP_STATE || from == PLACE_READ || from == PLACE_DROP ||
			    from == PLACE_CUT;

		assert_int_equal(stage__between(from, PLACE_DROP),
				 1u << (ended ? STAGE_OTHER : STAGE_DROP));
	}
}

static void test_no_place(void **state)
{
	(void)state;
	assert_int_equal(stage__between(PLACES, PLACE_READ), 1u << STAGE_OTHER);
	assert_int_equal(stage__between(PLACE_SEND, PLACES), 1u << STAGE_OTHER);
	assert_int_equal(stage__between(PLACE_SEND, PLACE_CUT), 1u << STAGE_OTHER);
}

static void test_places(void **state)
{
	const uint32_t all = ((1u << PLACE_CUT) - 1) & ~(PLACE(GRO) | PLACE(RPS));

	(void)state;
	assert_int_equal(stage__places(STAGE_OUTPUT), PLACE(SEND) | PLACE(OUTPUT));
	assert_int_equal(stage__places(STAGE_NEIGH), PLACE(OUTPUT) | PLACE(QUEUE));
	assert_int_equal(stage__places(STAGE_QDISC), PLACE(QUEUE) | PLACE(XMIT));
	assert_int_equal(stage__places(STAGE_DEVICE),
			 PLACE(XMIT) | PLACE(NETIF_RX) | PLACE(QUEUE) | PLACE(RECEIVE));
	assert_int_equal(stage__places(STAGE_NAPI),
			 PLACE(XMIT) | PLACE(RECEIVE) | PLACE(NETIF_RX));
	assert_int_equal(stage__places(STAGE_GRO), PLACE(GRO) | PLACE(RPS) | PLACE(RECEIVE) | PLACE(NETIF_RX));
	assert_int_equal(stage__places(STAGE_RPS),
			 PLACE(GRO) | PLACE(RPS) | PLACE(RECEIVE) | PLACE(NETIF_RX));
	assert_int_equal(stage__places(STAGE_BACKLOG), PLACE(NETIF_RX) | PLACE(RECEIVE));
	assert_int_equal(stage__places(STAGE_BRIDGE),
			 PLACE(RECEIVE) | PLACE(BRIDGE) | PLACE(QUEUE) | PLACE(IP_RCV));
	assert_int_equal(stage__places(STAGE_LINK), PLACE(RECEIVE) | PLACE(IP_RCV));
	assert_int_equal(stage__places(STAGE_FORWARD), PLACE(IP_RCV) | PLACE(OUTPUT));
	assert_int_equal(stage__places(STAGE_INPUT),
			 PLACE(IP_RCV) | PLACE(TCP_RCV) | PLACE(ENQUEUE));
	assert_int_equal(stage__places(STAGE_TCPLOCK), PLACE(TCP_RCV) | PLACE(TCP_STATE));
	assert_int_equal(stage__places(STAGE_SOCKET), PLACE(ENQUEUE) | PLACE(READ));
	assert_int_equal(stage__places(STAGE_DROP), all);
	assert_int_equal(stage__places(STAGE_OTHER), all);
}

/*
 * With the hops of one stage alone, a longer way between two of them must not
 * pass for that stage. The ways are what hosts really do.
 */
static void test_places_part(void **state)
{
	static const enum place ways[][16] = {
		/* sent, through a veth's backlog, routed to a container, read */
		{ PLACE_SEND, PLACE_OUTPUT, PLACE_QUEUE, PLACE_XMIT, PLACE_NETIF_RX, PLACE_RECEIVE,
		  PLACE_IP_RCV, PLACE_OUTPUT, PLACE_QUEUE, PLACE_XMIT, PLACE_RECEIVE, PLACE_BRIDGE,
		  PLACE_RECEIVE, PLACE_IP_RCV, PLACE_ENQUEUE, PLACE_READ },
		/* received, bridged, through a veth in NAPI mode, to TCP */
		{ PLACE_RECEIVE, PLACE_BRIDGE, PLACE_QUEUE, PLACE_XMIT, PLACE_RECEIVE, PLACE_IP_RCV,
		  PLACE_OUTPUT, PLACE_QUEUE, PLACE_XMIT, PLACE_QUEUE, PLACE_XMIT, PLACE_NETIF_RX,
		  PLACE_RECEIVE, PLACE_IP_RCV, PLACE_TCP_RCV, PLACE_TCP_STATE },
		/* out of GRO to another CPU, bridged up, there again to another one */
		{ PLACE_GRO, PLACE_RPS, PLACE_RECEIVE, PLACE_BRIDGE, PLACE_RPS, PLACE_RECEIVE,
		  PLACE_IP_RCV, PLACE_TCP_RCV, PLACE_TCP_STATE },
	};
	const uint32_t arrival = 1u << STAGE_GRO | 1u << STAGE_RPS;

	(void)state;
	for (int stage = 0; stage < STAGE_DROP; stage++) {
		uint32_t seen = stage__places(stage);

		for (size_t w = 0; w < LEN(ways); w++) {
			const enum place *last = NULL;

			/* where they are not named, the stage around them has their time */
			if (ways[w][0] == PLACE_GRO && !(arrival >> stage & 1))
				continue;
			for (const enum place *at = ways[w]; at < ways[w] + LEN(ways[w]); at++) {
				if (!(seen >> *at & 1))
					continue;
				if (last && at > last + 1)
					assert_false(stage__between(*last, *at) >> stage & 1);
				last = at;
			}
		}
	}
}

static void test_names(void **state)
{
	static const char *const names[] = {
		"output", "neigh", "qdisc", "device", "napi", "gro", "rps", "backlog",
		"bridge", "link", "forward", "input", "tcplock", "socket", "drop", "other",
	};

	(void)state;
	assert_int_equal(LEN(names), STAGES);
	for (int i = 0; i < STAGES; i++) {
		assert_string_equal(stage__name(i), names[i]);
		assert_int_equal(stage__parse(names[i]), i);
	}
	assert_int_equal(stage__parse("sendq"), -EINVAL);
	assert_int_equal(stage__parse(""), -EINVAL);
	assert_int_equal(stage__parse("qdis"), -EINVAL);
	assert_int_equal(stage__parse("qdiscs"), -EINVAL);
	assert_int_equal(stage__parse("qdisc+device"), -EINVAL);
	assert_non_null(stage__name(STAGES));
}

static void test_format(void **state)
{
	char text[STAGE_TEXT];

	(void)state;
	assert_ptr_equal(stage__format(0, text), text);
	assert_string_equal(text, "");
	/* in the order of the way, whatever the numbers' order */
	assert_string_equal(stage__format(1u << STAGE_SOCKET | 1u << STAGE_OUTPUT, text),
			    "output+socket");
	assert_string_equal(stage__format((1u << STAGES) - 1, text),
			    "output+neigh+qdisc+device+napi+gro+rps+backlog+bridge+link+...");
}

/* Every mask there is: it fits, and says whole names. */
static void test_format_fits(void **state)
{
	struct {
		char text[STAGE_TEXT];
		char guard[8];
	} buf;

	(void)state;
	for (uint32_t mask = 0; mask < 1u << STAGES; mask++) {
		char whole[128] = "";

		memset(&buf, 0x55, sizeof(buf));
		stage__format(mask, buf.text);
		for (size_t i = 0; i < sizeof(buf.guard); i++)
			assert_int_equal(buf.guard[i], 0x55);
		assert_non_null(memchr(buf.text, '\0', sizeof(buf.text)));
		for (int i = 0; i < STAGES; i++)
			if (mask >> i & 1)
				sprintf(whole + strlen(whole), "%s%s", *whole ? "+" : "", stage__name(i));
		if (strlen(whole) < STAGE_TEXT) {
			assert_string_equal(buf.text, whole);
		} else {
			size_t len = strlen(buf.text) - strlen("+...");

			assert_string_equal(buf.text + len, "+...");
			assert_memory_equal(buf.text, whole, len);
			assert_int_equal(whole[len], '+');
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_between), cmocka_unit_test(test_drop),
		cmocka_unit_test(test_no_place), cmocka_unit_test(test_places),
		cmocka_unit_test(test_places_part), cmocka_unit_test(test_names),
		cmocka_unit_test(test_format), cmocka_unit_test(test_format_fits),
	};

	return cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}
