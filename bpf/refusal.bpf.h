/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets that no filter let through. They are remembered with the hop where they
 * were last, so that the next one need not parse them again.
 */
#ifndef SLOWPKT_REFUSAL_BPF_H
#define SLOWPKT_REFUSAL_BPF_H

#include "entry.bpf.h"

/*
 * Where a refused packet was last, in the low bits of its address in `refused`;
 * skbs are aligned to eight bytes at least, the second one of a fclone pair to no more.
 */
enum refused_at {
	REFUSED_TRANSPORT,	/* also anywhere else that is not named below */
	REFUSED_BEFORE_OUTPUT,	/* sent by a socket, or received by IP */
	REFUSED_OUTPUT,
	REFUSED_QUEUE,
	REFUSED_XMIT,
	REFUSED_NETIF_RX,
	REFUSED_RECEIVE,
	REFUSED_BRIDGE,
};

static __always_inline enum refused_at refused_at(const enum place place)
{
	switch (place) {
	case PLACE_SEND:
	case PLACE_IP_RCV:
		return REFUSED_BEFORE_OUTPUT;
	case PLACE_OUTPUT:
		return REFUSED_OUTPUT;
	case PLACE_QUEUE:
		return REFUSED_QUEUE;
	case PLACE_XMIT:
		return REFUSED_XMIT;
	case PLACE_NETIF_RX:
		return REFUSED_NETIF_RX;
	case PLACE_RECEIVE:
		return REFUSED_RECEIVE;
	case PLACE_BRIDGE:
		return REFUSED_BRIDGE;
	default:
		return REFUSED_TRANSPORT;
	}
}

static __always_inline void refuse(struct entry *e, enum refused_at at)
{
	e->home->refused = e->skb + at;
}

/* The packet is let through after all, or another one has the skb now. */
static __always_inline void forgive(struct entry *e)
{
	if ((e->home->refused & ~7ull) == e->skb)
		e->home->refused = 0;
}

/*
 * Whether the packet was refused at the hop before, and cannot be another one in
 * the same skb: only what a packet that came up from nowhere cannot have behind
 * it is trusted. It is refused here too then, without a look at it.
 */
static __always_inline bool stays_refused(struct entry *e, const enum place place)
{
	u64 was = e->home->refused;
	bool holds;

	switch (place) {
	case PLACE_OUTPUT:
		holds = was == e->skb + REFUSED_BEFORE_OUTPUT;
		break;
	case PLACE_QUEUE:
		holds = was == e->skb + REFUSED_OUTPUT || was == e->skb + REFUSED_BRIDGE;
		break;
	case PLACE_XMIT:
		holds = was == e->skb + REFUSED_QUEUE;
		break;
	case PLACE_NETIF_RX:
		holds = was == e->skb + REFUSED_XMIT;
		break;
	case PLACE_RECEIVE:
		holds = was == e->skb + REFUSED_BRIDGE;
		break;
	case PLACE_BRIDGE:
	case PLACE_IP_RCV:
		holds = was == e->skb + REFUSED_RECEIVE;
		break;
	default:
		holds = false;
	}
	if (holds)
		refuse(e, refused_at(place));
	return holds;
}

/* The same of a packet that is not tracked; whether it is, is found out if need be. */
static __always_inline bool refused_here(struct entry *e, const enum place place)
{
	if (at_home(e))
		return false;
	if (stays_refused(e, place))
		return true;
	elsewhere(e);
	return false;
}

#endif
