/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a record is the packet's. An skb's pointer is soon used again, and many
 * frees pass no tracepoint. So a hop believes a record only if nobody can have
 * freed the packet since the hop before (follows()), or if the packet is the one
 * that the record knows (is_same()). A read, a drop and TCP's state machine always
 * ask the packet.
 */
#ifndef SLOWPKT_IDENTITY_BPF_H
#define SLOWPKT_IDENTITY_BPF_H

#include "entry.bpf.h"
#include "packet.bpf.h"

enum { LOOPBACK_IFINDEX = 1 };	/* in every netns */

enum { SOON = 1 << 20 };	/* ns: longer than from one function to the next one */

/*
 * Whether the packet cannot but be the one that was at the record's last hop: what
 * leads from there to here is one chain of calls on one CPU, or a queue out of
 * which nothing is freed but through kfree_skb. Everything else asks the packet,
 * such as what comes out of a tun device again. dev: NULL where it is as it was.
 */
static __always_inline bool follows(const struct entry *e, const enum place place,
				    struct net_device *dev, u64 now)
{
	const struct record *r = e->record;
	bool chain = WHERE_CPU(r->last_where) == e->cpu && now - r->last_at < SOON;
	bool same_dev = !dev || r->last_dev == (u64)dev;
	/* reassembly frees all fragments but one without a word */
	bool whole = !(r->flags & RECORD_FRAGMENT);
	u8 last = r->last_place;

	switch (place) {
	case PLACE_OUTPUT:
		return chain && whole && (last == PLACE_SEND || last == PLACE_IP_RCV);
	case PLACE_QUEUE:
		return chain && ((same_dev && last == PLACE_OUTPUT) || last == PLACE_BRIDGE ||
				 (!same_dev && last == PLACE_XMIT));
	case PLACE_XMIT:
		return same_dev && last == PLACE_QUEUE;
	case PLACE_NETIF_RX:
		return chain && last == PLACE_XMIT &&
		       (!same_dev || r->last_ifindex == LOOPBACK_IFINDEX);
	case PLACE_RECEIVE:
		return (same_dev && last == PLACE_NETIF_RX) || (chain && last == PLACE_BRIDGE);
	case PLACE_BRIDGE:
	case PLACE_IP_RCV:
		return chain && same_dev && last == PLACE_RECEIVE;
	case PLACE_TCP_RCV:
	case PLACE_ENQUEUE:
		return chain && whole && same_dev && last == PLACE_IP_RCV;
	default:
		return false;
	}
}

static __always_inline bool same_tuple(const struct tuple *a, const struct tuple *b)
{
	return a->src[1] == b->src[1] && a->dst[1] == b->dst[1] && a->sport == b->sport &&
	       a->dport == b->dport && a->src[0] == b->src[0] && a->dst[0] == b->dst[0];
}

/* One end is as it was: NAT of one kind changes only the other. */
static __always_inline bool same_endpoint(const struct tuple *a, const struct tuple *b)
{
	return (a->src[1] == b->src[1] && a->src[0] == b->src[0] && a->sport == b->sport) ||
	       (a->dst[1] == b->dst[1] && a->dst[0] == b->dst[0] && a->dport == b->dport);
}

/*
 * Whether the record is this packet's: pointers are used again soon, and many
 * frees pass no tracepoint. The tuple may have changed: netfilter was passed, or
 * may have been, since the packet was last looked at.
 */
static __always_inline bool is_same(const struct record *r, const struct packet *p)
{
	bool payload = r->flags & RECORD_PAYLOAD && p->has_payload;
	bool id = r->ip_id && p->ip_id;

	if (r->last.proto != p->tuple.proto || r->last.family != p->tuple.family)
		return false;
	if ((id && r->ip_id != p->ip_id) || (payload && r->payload != p->payload))
		return false;
	if (p->tuple.proto == IPPROTO_TCP ? r->seq != p->seq || r->ack != p->ack : r->len != p->len)
		return false;
	if (same_tuple(&r->last, &p->tuple))
		return true;
	/* without a number of its own a datagram must keep one end */
	return p->tuple.proto == IPPROTO_TCP || id || payload || same_endpoint(&r->last, &p->tuple);
}

/* Takes over what this hop knows and earlier ones did not. */
static __always_inline void learn(struct record *r, const struct packet *p)
{
	r->last = p->tuple;
	/* GRO on the way has merged later segments into this one */
	if (p->tuple.proto == IPPROTO_TCP && p->len > r->len)
		r->len = p->len;
	if (!r->ip_id)
		r->ip_id = p->ip_id;
	if (p->has_payload && !(r->flags & RECORD_PAYLOAD)) {
		r->payload = p->payload;
		r->flags |= RECORD_PAYLOAD;
	}
}

#endif
