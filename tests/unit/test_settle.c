// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What follows from all options together, and the words for it. */
#include "command.h"

#include <sys/stat.h>

#include "parse.h"
#include "stage.h"

static void assert_words(const char *what, const char *const *args)
{
	accepted(args);
	assert_string_equal(o->what, what);
}

#define WORDS(what, ...) assert_words(what, ARGS(__VA_ARGS__))
#define HINT(text, ...) do { ACCEPT(__VA_ARGS__); assert_non_null(strstr(o->hint, text)); } while (0)

static uint32_t hop_mask(const enum hop_id *ids, size_t n)
{
	uint32_t mask = 0;

	while (n--)
		mask |= 1u << ids[n];
	return mask;
}

#define HOP_MASK(...) hop_mask((const enum hop_id[]){ __VA_ARGS__ }, \
			       LEN(((const enum hop_id[]){ __VA_ARGS__ })))

static void test_defaults(void **state)
{
	const struct config *c = &o->config;

	(void)state;
	ACCEPT_QUIETLY();
	assert_true(c->tcp && c->udp && c->ipv4 && c->ipv6);
	assert_int_equal(c->total_tcp, 30 * NS_PER_MS);
	assert_int_equal(c->total_udp, 3 * NS_PER_MS);
	assert_int_equal(c->judge_stages, 0);
	for (int from = 0; from < PLACES; from++)
		for (int to = 0; to < PLACES; to++)
			assert_int_equal(c->stage[from][to], NEVER);
	assert_int_equal(c->sets, 8192);
	assert_int_equal(c->has_seq | c->pid | c->must_meet | c->n_netns | c->n_ifaces, 0);
	assert_int_equal(c->host.n | c->src.n | c->dst.n, 0);
	assert_int_equal(c->dport.used | c->sport.used | c->port.used, 0);
	assert_int_equal(o->hops, ALL_HOPS);
	assert_false(o->only_stages || o->oneline || o->json || o->quiet || o->verbose);
	assert_int_equal(o->count | o->duration, 0);
}

/* What only the other protocol's packets pass is not attached. */
static void test_hops_of_a_protocol(void **state)
{
	(void)state;
	ACCEPT_QUIETLY("-t");
	assert_int_equal(o->hops, ALL_HOPS & ~(1u << HOP_UDP_ENQUEUE | 1u << HOP_UDP_READ | 1u << HOP_IP6_SEND_SKB));
	ACCEPT_QUIETLY("-u");
	assert_int_equal(o->hops & (1u << HOP_TCP_V4_RCV | 1u << HOP_TCP_V6_RCV | 1u << HOP_IP_QUEUE_XMIT |
				    1u << HOP_TCP_RCV_STATE_PROCESS | 1u << HOP_TCP_RCV_ESTABLISHED |
				    1u << HOP_IP6_XMIT | 1u << HOP_IP_BUILD_AND_SEND_PKT), 0);
	assert_int_equal(__builtin_popcount(o->hops), __builtin_popcount(ALL_HOPS) - 7);
	ACCEPT_QUIETLY("-u", "-t");
	assert_int_equal(o->hops, ALL_HOPS);
}

/* … and where nothing of its headers is asked for, they are looked at late. */
static void test_looks_late(void **state)
{
	(void)state;
	ACCEPT_QUIETLY("-u", "-l", "socket=3ms");
	assert_true(o->config.looks_late);
	/* a socket has its port, its netns and its reader at hand */
	ACCEPT_QUIETLY("-u", "-d", "53", "-l", "socket=3ms", "--pid", "1");
	assert_true(o->config.looks_late);
	ACCEPT_QUIETLY("-u", "-s", "53", "-l", "socket=3ms");
	assert_false(o->config.looks_late);
	ACCEPT_QUIETLY("-u", "-p", "53", "-l", "socket=3ms");
	assert_false(o->config.looks_late);
	ACCEPT_QUIETLY("-u", "-H", "10.0.0.1", "-l", "socket=3ms");
	assert_false(o->config.looks_late);
	ACCEPT_QUIETLY("-u", "-4", "-l", "socket=3ms");
	assert_false(o->config.looks_late);
	ACCEPT_QUIETLY("-u", "-l", "3ms");
	assert_false(o->config.looks_late);
}

/* Out of which places a packet's time is judged. */
static void test_waits(void **state)
{
	(void)state;
	ACCEPT_QUIETLY();
	assert_int_equal(o->config.waits, ~0u);
	ACCEPT_QUIETLY("-l", "qdisc=20ms", "-l", "30ms");
	assert_int_equal(o->config.waits, ~0u);
	ACCEPT_QUIETLY("-u", "-l", "socket=3ms");
	assert_true(o->config.waits >> PLACE_ENQUEUE & 1);
	assert_false(o->config.waits >> PLACE_READ & 1);
	ACCEPT_QUIETLY("-l", "rps=10ms");
	assert_true(o->config.waits >> PLACE_RPS & 1);
	assert_false(o->config.waits >> PLACE_RECEIVE & 1);
	ACCEPT_QUIETLY("-l", "qdisc=20ms");
	assert_true(o->config.waits >> PLACE_QUEUE & 1);
	assert_false(o->config.waits >> PLACE_XMIT & 1);
	/* these begin anywhere */
	ACCEPT_QUIETLY("-l", "drop=0");
	assert_int_equal(o->config.waits, ~0u);
	ACCEPT_QUIETLY("-l", "other=1ms");
	assert_int_equal(o->config.waits, ~0u);
}

/* Only then may the datagram's queue be the first that is seen of it. */
static void test_begins_at_socket(void **state)
{
	(void)state;
	ACCEPT_QUIETLY("-u", "-l", "socket=3ms");
	assert_true(o->config.begins_at_socket);
	ACCEPT_QUIETLY("-u", "-l", "socket=3ms", "-l", "qdisc=3ms");
	assert_false(o->config.begins_at_socket);
	ACCEPT_QUIETLY("-u", "-l", "socket=3ms", "-l", "3ms");
	assert_false(o->config.begins_at_socket);
	ACCEPT_QUIETLY("-u");
	assert_false(o->config.begins_at_socket);
}

static void assert_lets_through(int tcp, int udp, int ipv4, int ipv6)
{
	assert_int_equal(o->config.tcp, tcp);
	assert_int_equal(o->config.udp, udp);
	assert_int_equal(o->config.ipv4, ipv4);
	assert_int_equal(o->config.ipv6, ipv6);
}

static void test_protocols(void **state)
{
	(void)state;
	ACCEPT_QUIETLY("-t");
	assert_lets_through(1, 0, 1, 1);
	ACCEPT_QUIETLY("--udp");
	assert_lets_through(0, 1, 1, 1);
	ACCEPT_QUIETLY("-u", "--tcp");
	assert_lets_through(1, 1, 1, 1);
	ACCEPT_QUIETLY("--ipv4");
	assert_lets_through(1, 1, 1, 0);
	ACCEPT_QUIETLY("-6");
	assert_lets_through(1, 1, 0, 1);
	ACCEPT_QUIETLY("-46tu");
	assert_lets_through(1, 1, 1, 1);
	ACCEPT_QUIETLY("--seq=5");
	assert_lets_through(1, 0, 1, 1);
	REFUSE("--seq: only TCP", "-u", "--seq=5");
}

static void test_versions(void **state)
{
	(void)state;
	/* addresses say the version, too: ::/0 must not let IPv4 through */
	ACCEPT_QUIETLY("-H", "10.0.0.1");
	assert_lets_through(1, 1, 1, 0);
	ACCEPT_QUIETLY("-H", "::/0");
	assert_lets_through(1, 1, 0, 1);
	ACCEPT_QUIETLY("-H", "::1", "-H", "127.0.0.1");
	assert_lets_through(1, 1, 1, 1);
	ACCEPT_QUIETLY("-4", "-H", "::1", "-H", "127.0.0.1");
	assert_lets_through(1, 1, 1, 0);
	REFUSE("-H: no packet can match: it lets only IPv6 through, -4 only IPv4", "-4", "-H", "::1");
	REFUSE("--dst: no packet can match: it lets only IPv4 through, -6 only IPv6",
	       "--dst=1.2.3.4", "-6");
	REFUSE("--dst: no packet can match: it lets only IPv6 through, --src only IPv4",
	       "--src=1.2.3.4", "--dst=::1");
	REFUSE("--src: no packet can match: it lets only IPv6 through, -H only IPv4",
	       "-H", "1.2.3.4", "--src=::1", "--dst=::1");
	REFUSE("-H: ::/0 and an IPv4 address", "-H", "::/0", "-H", "1.2.3.4");
}

static void assert_totals(uint64_t tcp, uint64_t udp)
{
	assert_true(o->config.total_tcp == tcp);
	assert_true(o->config.total_udp == udp);
}

/* Every pair's threshold, from the stages alone. */
static void assert_stages(uint32_t named, const uint64_t thresholds[STAGES])
{
	for (int from = 0; from < PLACES; from++) {
		for (int to = 0; to < PLACES; to++) {
			uint64_t want = NEVER;

			for (int i = 0; i < STAGES; i++)
				if (named & stage__between(from, to) & 1u << i && thresholds[i] < want)
					want = thresholds[i];
			assert_true(o->config.stage[from][to] == want);
		}
	}
	assert_int_equal(o->config.judge_stages, 1);
}

static void test_stages(void **state)
{
	const uint64_t thresholds[STAGES] = {
		[STAGE_QDISC] = 20 * NS_PER_MS, [STAGE_DEVICE] = 5 * NS_PER_MS,
	};

	(void)state;
	ACCEPT_QUIETLY("-l", "qdisc=20ms");
	assert_totals(NEVER, NEVER);
	assert_true(o->only_stages);
	assert_lets_through(1, 1, 1, 1);
	assert_stages(1u << STAGE_QDISC, thresholds);
	assert_int_equal(o->config.stage[PLACE_QUEUE][PLACE_XMIT], 20 * NS_PER_MS);
	assert_int_equal(o->config.stage[PLACE_QUEUE][PLACE_QUEUE], 20 * NS_PER_MS);
	assert_true(o->config.stage[PLACE_XMIT][PLACE_QUEUE] == NEVER);
	assert_int_equal(o->hops, HOP_MASK(HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT,
					   HOP_GSO_SEGMENT, HOP_KFREE_SKB));

	/* the smaller one of two that a pair joins; with a total, every hop */
	ACCEPT_QUIETLY("-l", "qdisc=1s", "-l", "device=5ms", "-l", "qdisc=20ms", "-l", "50ms");
	assert_totals(50 * NS_PER_MS, 50 * NS_PER_MS);
	assert_false(o->only_stages);
	assert_stages(1u << STAGE_QDISC | 1u << STAGE_DEVICE, thresholds);
	assert_int_equal(o->config.stage[PLACE_QUEUE][PLACE_QUEUE], 5 * NS_PER_MS);
	assert_int_equal(o->hops, ALL_HOPS);

	ACCEPT_QUIETLY("-l", "qdisc=5ms", "-l", "device=20ms");
	assert_int_equal(o->config.stage[PLACE_QUEUE][PLACE_QUEUE], 5 * NS_PER_MS);
	assert_int_equal(o->config.stage[PLACE_XMIT][PLACE_QUEUE], 20 * NS_PER_MS);

	ACCEPT_QUIETLY("-l", "link=0");
	assert_int_equal(o->config.stage[PLACE_RECEIVE][PLACE_IP_RCV], 0);
	assert_int_equal(o->hops, HOP_MASK(HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_IPV6_RCV));
	ACCEPT_QUIETLY("-l", "drop=1s");
	assert_int_equal(o->hops, ALL_HOPS);
	assert_true(o->only_stages);
	assert_int_equal(o->config.stage[PLACE_ENQUEUE][PLACE_DROP], NS_PER_S);
}

/* They cost too much to be attached for another stage. */
static void test_arrivals(void **state)
{
	(void)state;
	ACCEPT_QUIETLY("-l", "gro=2ms");
	assert_int_equal(o->hops, ARRIVAL_HOPS | HOP_MASK(HOP_NETIF_RECEIVE_SKB, HOP_NETIF_RX));
	assert_true(o->config.notes_arrivals);
	assert_int_equal(o->config.stage[PLACE_GRO][PLACE_RECEIVE], 2 * NS_PER_MS);
	assert_int_equal(o->config.stage[PLACE_GRO][PLACE_RPS], 2 * NS_PER_MS);
	assert_true(o->config.stage[PLACE_RPS][PLACE_RECEIVE] == NEVER);
	ACCEPT_QUIETLY("-l", "rps=15ms");
	assert_int_equal(o->hops, ARRIVAL_HOPS | HOP_MASK(HOP_NETIF_RECEIVE_SKB, HOP_NETIF_RX));
	assert_true(o->config.notes_arrivals);
	assert_int_equal(o->config.stage[PLACE_RPS][PLACE_RECEIVE], 15 * NS_PER_MS);
	assert_true(o->config.stage[PLACE_GRO][PLACE_RPS] == NEVER);
	ACCEPT_QUIETLY("-l", "rps=15ms", "-l", "30ms");
	assert_int_equal(o->hops, ALL_HOPS | ARRIVAL_HOPS);
	assert_true(o->config.notes_arrivals);
	ACCEPT_QUIETLY("-l", "napi=15ms");
	assert_int_equal(o->hops & ARRIVAL_HOPS, 0);
	assert_false(o->config.notes_arrivals);
	ACCEPT_QUIETLY("-l", "drop=15ms", "-l", "30ms");
	assert_int_equal(o->hops, ALL_HOPS);
	assert_false(o->config.notes_arrivals);
}

static void test_stage_protocols(void **state)
{
	const uint32_t socket_hops = HOP_MASK(HOP_UDP_ENQUEUE, HOP_UDP_READ, HOP_KFREE_SKB);
	const uint32_t tcplock_hops = HOP_MASK(HOP_TCP_V4_RCV, HOP_TCP_V6_RCV,
					       HOP_TCP_RCV_STATE_PROCESS, HOP_TCP_RCV_ESTABLISHED);

	(void)state;
	ACCEPT_QUIETLY("-u", "-l", "socket=3ms");
	assert_lets_through(0, 1, 1, 1);
	assert_int_equal(o->hops, socket_hops);
	ACCEPT_QUIETLY("-l", "socket=3ms");
	assert_lets_through(0, 1, 1, 1);
	ACCEPT_QUIETLY("-l", "tcplock=3ms");
	assert_lets_through(1, 0, 1, 1);
	assert_int_equal(o->hops, tcplock_hops);
	ACCEPT_QUIETLY("-l", "socket=3ms", "-l", "tcplock=3ms");
	assert_lets_through(1, 1, 1, 1);
	assert_int_equal(o->hops, socket_hops | tcplock_hops);
	ACCEPT_QUIETLY("-l", "socket=3ms", "-l", "30ms");
	assert_lets_through(1, 1, 1, 1);
	assert_int_equal(o->hops, ALL_HOPS);
}

static void test_what(void **state)
{
	(void)state;
	WORDS("tcp and udp, total ≥ 30ms (tcp), ≥ 3ms (udp)");
	WORDS("tcp, total ≥ 30ms", "-t");
	WORDS("udp over IPv6, total ≥ 3ms", "-u6");
	WORDS("tcp and udp to port 80 (only this direction; -p 80 for both), total ≥ 30ms",
	      "-d", "80", "-l", "30ms");
	WORDS("tcp from or to port 6379, total ≥ 30ms", "-t", "-p", "6379", "-l", "30ms");
	WORDS("udp to port 53, total ≥ 3ms", "-u", "-d", "53", "-l", "3ms");
	WORDS("tcp from 10.0.0.0/8 or ::1 ports 1,5-7 to ::1, total ≥ 1.5s",
	      "-t", "--src=10.0.0.0/8", "--src=::1", "-s", "5-7,1", "--dst=::1", "-l", "1.5s");
}

static void test_what_more(void **state)
{
	(void)state;
	WORDS("tcp from 10.0.0.1 port 7 to 10.0.0.0/8 ports 80,443 and from or to port 9 "
	      "with seq 5 in its range, total ≥ 100us",
	      "--src=10.0.0.1", "-s", "7", "--dst=10.0.0.0/8", "-d", "443,80", "-p", "9", "--seq=5",
	      "-l", "100000");
	WORDS("udp from or to ::1 and from or to port 9, every packet",
	      "-u", "-H", "::1", "-p", "9", "-l", "0");
	WORDS("udp, socket ≥ 3ms (only the hops of this stage are attached: partial journeys, "
	      "tuples as seen there)", "-l", "socket=3ms");
	WORDS("tcp and udp, neigh ≥ 1.000001ms or qdisc ≥ 20ms (only the hops of these stages are "
	      "attached: partial journeys, tuples as seen there)",
	      "-l", "qdisc=20ms", "-l", "neigh=1.000001ms");
	WORDS("tcp, total ≥ 30ms or qdisc ≥ 200us", "-t", "-l", "30ms", "-l", "qdisc=200us");
	WORDS("tcp through eth0 or lo read or sent by pid 7, total ≥ 1ns",
	      "-t", "-i", "eth0", "-i", "lo", "--pid=7", "-l", "1ns");
}

static void test_what_netns(void **state)
{
	char want[256];
	struct stat st;
	unsigned int inum;

	(void)state;
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	inum = (unsigned int)st.st_ino;
	snprintf(want, sizeof(want), "udp through netns %u and through lo of netns %u, total ≥ 3ms",
		 inum, inum);
	WORDS(want, "-u", "-N", "/proc/self/ns/net", "-i", "lo@/proc/self/ns/net");
}

/* Long lists end with dots, and never in the middle of an item. */
static void test_what_long(void **state)
{
	char ports[4096] = "1";

	(void)state;
	for (int port = 3; port < 1000; port += 2)
		sprintf(ports + strlen(ports), ",%d", port);
	accepted(repeat("--src", "2001:db8:1111:2222:3333:4444:5555:6666", MAX_PREFIXES));
	assert_string_equal(o->what, "tcp and udp from 2001:db8:1111:2222:3333:4444:5555:6666 ..., "
			    "total ≥ 30ms (tcp), ≥ 3ms (udp)");
	ACCEPT("-u", "--src=2001:db8:1111:2222:3333:4444:5555:6666",
	       "--src=2001:db8:1111:2222:3333:4444:5555:7777", "--src=::1");
	assert_string_equal(o->what, "udp from 2001:db8:1111:2222:3333:4444:5555:6666 ..., "
			    "total ≥ 3ms");
	ACCEPT("-t", "-d", ports, "-s", ports, "-p", ports, "-l", "1ms");
	assert_string_equal(o->what,
		"tcp from ports 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41 ... "
		"to ports 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41 ... "
		"and from or to ports 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41 ..., "
		"total ≥ 1ms");
}

static void test_hint(void **state)
{
	(void)state;
	HINT("-d 80 is one direction only: try -p 80", "-d", "80");
	HINT("-s 80 is one direction only: try -p 80", "-s", "80", "-N", "/proc/self/ns/net");
	HINT("this netns: try without -N,", "-N", "/proc/self/ns/net");
	HINT("this device: try without -i,", "-i", "eth0", "-p", "80");
	HINT("--pid", "--pid=7");
	HINT("--seq", "--seq=7", "-p", "80");
	HINT("try -l TIME without a stage", "-l", "socket=3ms");
	HINT("is this the host", "-t");
	HINT("no packet passed the filter: check port and address, or run without a filter "
	     "and -l 0 -c 10", "-p", "80");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_hops_of_a_protocol),
		cmocka_unit_test(test_begins_at_socket), cmocka_unit_test(test_waits), cmocka_unit_test(test_looks_late),
		cmocka_unit_test(test_protocols),
		cmocka_unit_test(test_versions), cmocka_unit_test(test_stages),
		cmocka_unit_test(test_arrivals), cmocka_unit_test(test_stage_protocols), cmocka_unit_test(test_what),
		cmocka_unit_test(test_what_more), cmocka_unit_test(test_what_netns),
		cmocka_unit_test(test_what_long), cmocka_unit_test(test_hint),
	};

	return cmocka_run_group_tests_name("settle", tests, map_options, unmap_options);
}
