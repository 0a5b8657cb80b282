// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>

#include "hop.h"
#include "jobs.h"
#include "stage.h"

#define BIT(id) (1u << HOP_##id)

/* IPv4's; an IPv6 function that is missing costs only IPv6 its stages. */
static const uint32_t udp_hops = BIT(UDP_ENQUEUE) | BIT(UDP_READ);
static const uint32_t tcp_hops = BIT(NETIF_RECEIVE_SKB) | BIT(TCP_RCV_STATE_PROCESS) | BIT(TCP_RCV_ESTABLISHED) |
				 BIT(IP_QUEUE_XMIT) | BIT(DEV_HARD_START_XMIT);

bool jobs__udp(uint32_t attached)
{
	return (attached & udp_hops) == udp_hops;
}

bool jobs__tcp(uint32_t attached)
{
	return (attached & tcp_hops) == tcp_hops;
}

/* Whether some way from one place to another that a threshold is set for has hops at both ends. */
static bool sees_stage(const struct config *c, uint32_t attached)
{
	uint32_t places = 0;

	for (int id = 0; id < HOP_IDS; id++)
		if (attached >> id & 1)
			places |= 1u << hop_place(id);
	for (int from = 0; from < PLACES; from++)
		for (int to = 0; to < PLACES; to++)
			if (c->stage[from][to] != NEVER && places >> from & 1 && places >> to & 1)
				return true;
	return false;
}

/* Whether some journey has an end that is seen, and a hop before it. */
static bool sees_total(const struct config *c, uint32_t attached)
{
	const uint32_t udp_ends = BIT(UDP_READ), sent = BIT(DEV_HARD_START_XMIT), dropped = BIT(KFREE_SKB);
	const uint32_t tcp_ends = BIT(TCP_RCV_STATE_PROCESS) | BIT(TCP_RCV_ESTABLISHED);
	uint32_t ends = sent | (c->udp ? udp_ends : 0) | (c->tcp ? tcp_ends : 0);

	return attached & ends && attached & ~(udp_ends | tcp_ends | sent | dropped | BIT(GSO_SEGMENT));
}

bool jobs__any(const struct options *o, uint32_t attached)
{
	const struct config *c = &o->config;

	/* what is noted before the stack takes a packet is told only there */
	if (!(attached & BIT(NETIF_RECEIVE_SKB)) || (attached & WAYS_IN) != WAYS_IN)
		attached &= ~hop__at(ARRIVAL_PLACES);
	return (!o->only_stages && sees_total(c, attached)) || (c->judge_stages && sees_stage(c, attached));
}

const char *jobs__loss(enum hop_id id, char buf[LOSS_TEXT])
{
	enum place place = hop_place(id);
	char into[STAGE_TEXT], out_of[STAGE_TEXT];

	switch (place) {
	case PLACE_SEND:
		return "what it sends begins partial, behind output";
	case PLACE_GRO:
	case PLACE_RPS:
		return id == HOP_ENQUEUE_TO_BACKLOG ? "rps is told as gro" : "gro and rps are not told";
	case PLACE_ENQUEUE:
	case PLACE_READ:
		return "no wait in a UDP socket is seen";
	case PLACE_TCP_STATE:
		return "a TCP packet's end is not seen";
	case PLACE_BRIDGE:
		return "the stage bridge is seen as a whole only";
	case PLACE_DROP:
		return "a dropped packet is told as waiting or unknown";
	case PLACE_CUT:
		return "a packet that GSO cuts is told up to its qdisc only";
	default:
		snprintf(buf, LOSS_TEXT, "joins %s with %s", stage__list(stage__into(place), '/', into),
			 stage__list(stage__out_of(place), '/', out_of));
		return buf;
	}
}
