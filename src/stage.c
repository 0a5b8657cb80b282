// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stage.h"

/*
 * The stages: EDGE(from, to, stage), between places that follow each other where
 * no hop is missing. All else follows from it: where hops are missing, the stages
 * on the shortest way from one place to the other are joined. So the bridge with
 * its own hop missing (RECEIVE to RECEIVE or QUEUE) needs no row.
 */
#define EDGES(EDGE)			\
	EDGE(SEND, OUTPUT, OUTPUT)	\
	EDGE(OUTPUT, QUEUE, NEIGH)	\
	EDGE(QUEUE, XMIT, QDISC)	\
	EDGE(XMIT, QUEUE, DEVICE)	\
	EDGE(XMIT, RECEIVE, NAPI)	\
	EDGE(XMIT, GRO, NAPI)		\
	EDGE(XMIT, RPS, NAPI)		\
	EDGE(GRO, RECEIVE, GRO)		\
	EDGE(GRO, RPS, GRO)		\
	EDGE(RPS, RECEIVE, RPS)		\
	EDGE(XMIT, NETIF_RX, DEVICE)	\
	EDGE(NETIF_RX, RECEIVE, BACKLOG) \
	EDGE(RECEIVE, BRIDGE, BRIDGE)	\
	EDGE(BRIDGE, QUEUE, BRIDGE)	\
	EDGE(BRIDGE, RECEIVE, BRIDGE)	\
	EDGE(BRIDGE, RPS, BRIDGE)	\
	EDGE(RECEIVE, IP_RCV, LINK)	\
	EDGE(IP_RCV, OUTPUT, FORWARD)	\
	EDGE(IP_RCV, TCP_RCV, INPUT)	\
	EDGE(IP_RCV, ENQUEUE, INPUT)	\
	EDGE(TCP_RCV, TCP_STATE, TCPLOCK) \
	EDGE(ENQUEUE, READ, SOCKET)

#define EDGE_ROW(from, to, stage) { PLACE_##from, PLACE_##to, STAGE_##stage },
static const struct edge {
	enum place from, to;
	enum stage stage;
} edges[] = { EDGES(EDGE_ROW) };

/* The same by both ends, for nearly all that is asked: the stage's bit, or 0. */
#define EDGE_CELL(from, to, stage) [PLACE_##from][PLACE_##to] = 1u << STAGE_##stage,
static const uint32_t direct[PLACES][PLACES] = { EDGES(EDGE_CELL) };

enum {
	EDGE_COUNT = sizeof(edges) / sizeof(edges[0]),
	JOINED_MAX = 3,		/* stages joined, so two hops missing; more is a guess */
	ALL_PLACES = ((1 << PLACES) - 1) & ~(1 << PLACE_CUT) & ~ARRIVAL_PLACES,
};

static const char *const names[STAGES] = {
	[STAGE_OUTPUT] = "output",	[STAGE_NEIGH] = "neigh",
	[STAGE_QDISC] = "qdisc",	[STAGE_DEVICE] = "device",
	[STAGE_NAPI] = "napi",		[STAGE_GRO] = "gro",
	[STAGE_RPS] = "rps",		[STAGE_BACKLOG] = "backlog",
	[STAGE_BRIDGE] = "bridge",	[STAGE_LINK] = "link",
	[STAGE_FORWARD] = "forward",	[STAGE_INPUT] = "input",
	[STAGE_TCPLOCK] = "tcplock",	[STAGE_SOCKET] = "socket",
	[STAGE_DROP] = "drop",		[STAGE_OTHER] = "other",
};

/* The stages on the first way of so many steps (at most JOINED_MAX); 0: none. */
static uint32_t find_way(enum place from, enum place to, unsigned int steps)
{
	if (steps == 1)
		return direct[from][to];
	for (unsigned int i = 0; i < EDGE_COUNT; i++) {
		const struct edge *e = &edges[i];
		uint32_t rest = e->from == from ? find_way(e->to, to, steps - 1) : 0;

		if (rest)
			return rest | 1u << e->stage;
	}
	return 0;
}

static bool ends_journey(enum place place)
{
	return place == PLACE_TCP_STATE || place == PLACE_READ || place == PLACE_DROP;
}

uint32_t stage__between(enum place from, enum place to)
{
	if (from >= PLACE_CUT || to >= PLACE_CUT || ends_journey(from))
		return 1u << STAGE_OTHER;
	if (to == PLACE_DROP)
		return 1u << STAGE_DROP;
	/*
	 * A tunnel device routes the packet that it has wrapped. No hop is missing
	 * then, and the way through a receiving device would be a false one.
	 */
	if (from == PLACE_XMIT && to == PLACE_OUTPUT)
		return 1u << STAGE_OTHER;
	for (unsigned int steps = 1; steps <= JOINED_MAX; steps++) {
		uint32_t way = find_way(from, to, steps);

		if (way)
			return way;
	}
	return 1u << STAGE_OTHER;
}

uint32_t stage__places(enum stage stage)
{
	uint32_t places = 0;

	for (unsigned int i = 0; i < EDGE_COUNT; i++)
		if (edges[i].stage == stage)
			places |= 1u << edges[i].from | 1u << edges[i].to;

	/* they cost more than they are worth to another stage */
	if (stage == STAGE_GRO || stage == STAGE_RPS)
		places |= ARRIVAL_PLACES;
	else
		places &= ~ARRIVAL_PLACES;

	/* Some need a third place, which tells them from a longer way between the same two. */
	switch (stage) {
	case STAGE_GRO:		/* … from netif_rx's way through the same queue */
	case STAGE_RPS:
	case STAGE_NAPI:	/* … from a veth's way through the backlog */
		return places | 1u << PLACE_NETIF_RX;
	case STAGE_DEVICE:	/* … from being received and forwarded to the next device */
		return places | 1u << PLACE_RECEIVE;
	case STAGE_BRIDGE:	/* … from being routed */
		return places | 1u << PLACE_IP_RCV;
	case STAGE_DROP:
	case STAGE_OTHER:	/* they can begin everywhere */
		return ALL_PLACES;
	default:
		return places;
	}
}

uint32_t stage__into(enum place place)
{
	uint32_t stages = 0;

	for (unsigned int i = 0; i < EDGE_COUNT; i++)
		if (edges[i].to == place)
			stages |= 1u << edges[i].stage;
	return place == PLACE_DROP ? 1u << STAGE_DROP : stages;
}

uint32_t stage__out_of(enum place place)
{
	uint32_t stages = 0;

	for (unsigned int i = 0; i < EDGE_COUNT; i++)
		if (edges[i].from == place)
			stages |= 1u << edges[i].stage;
	return stages;
}

const char *stage__name(enum stage stage)
{
	return stage < STAGES ? names[stage] : "?";
}

int stage__parse(const char *name)
{
	for (int i = 0; i < STAGES; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -EINVAL;
}

char *stage__format(uint32_t mask, char buf[STAGE_TEXT])
{
	static const char more[] = "+...";
	size_t used = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < STAGES; i++) {
		bool last = !(mask >> i >> 1);
		size_t room = STAGE_TEXT - used - (last ? 0 : sizeof(more) - 1);
		int n;

		if (!(mask >> i & 1))
			continue;
		if (strlen(names[i]) + 1 >= room) {
			snprintf(buf + used, STAGE_TEXT - used, "%s", more);
			break;
		}
		n = snprintf(buf + used, STAGE_TEXT - used, "%s%s", used ? "+" : "", names[i]);
		used += (size_t)n;
	}
	return buf;
}

char *stage__list(uint32_t mask, char between, char buf[STAGE_TEXT])
{
	for (char *p = strchr(stage__format(mask, buf), '+'); p; p = strchr(p, '+'))
		*p = between;
	return buf;
}
