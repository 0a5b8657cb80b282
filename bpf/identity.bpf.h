/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a record is the packet's. An skb's pointer is soon used again, and many
 * frees pass no tracepoint. So a hop believes a record only if nobody can have
 * freed the packet since the hop before (link_of()), or if the packet is the one
 * that the record knows (is_same()). A read and TCP's state machine ask the packet
 * only where it is slow: a journey that is not slow ends in any case. A drop always
 * asks.
 */
#ifndef SLOWPKT_IDENTITY_BPF_H
#define SLOWPKT_IDENTITY_BPF_H

#include "entry.bpf.h"
#include "packet.bpf.h"

enum { LOOPBACK_IFINDEX = 1 };	/* in every netns */

enum { SOON = 1 << 20 };	/* ns: longer than from one function to the next one */

/* How a packet has come from the record's last hop to this one. */
enum link {
	UNSURE,		/* it may be another packet: it must be looked at */
	CHAINED,	/* down one chain of calls, in one task on one CPU */
	QUEUED,		/* through a queue out of which nothing is freed but by kfree_skb */
};

/* Reassembly frees all fragments but one without a word. */
static __always_inline bool is_whole(const struct entry *e)
{
	return !(e->record->flags & RECORD_FRAGMENT);
}

static __always_inline bool is_where_it_was(const struct entry *e, const struct net_device *dev)
{
	return e->record->last_dev == (u64)dev;
}

/*
 * Whether the packet cannot but be the one that was at the record's last hop.
 * Everything that is not named here is unsure, such as what comes out of a tun
 * device again. dev: where the packet is; not asked at the bridge and above IP,
 * where it is as it was.
 */
static __always_inline enum link link_of(const struct entry *e, const enum place place,
					 struct net_device *dev, u64 now)
{
	const struct record *r = e->record;
	/* its last place, if it was on this CPU; else nothing that is asked for */
	u32 last = r->last_link ^ last_link(0, e->cpu);
	u8 place_before = last;

	switch (place) {
	case PLACE_XMIT:
		/* where GSO's cutting is not seen, this may be a segment of another packet */
		return cfg.sees_cut && place_before == PLACE_QUEUE && is_where_it_was(e, dev) ? QUEUED : UNSURE;
	case PLACE_RECEIVE:
		if (place_before == PLACE_NETIF_RX && is_where_it_was(e, dev))
			return QUEUED;
		if (last != PLACE_BRIDGE)
			return UNSURE;
		break;
	case PLACE_OUTPUT:
		if ((last != PLACE_SEND && last != PLACE_IP_RCV) || !is_whole(e))
			return UNSURE;
		break;
	case PLACE_QUEUE:
		if (last != PLACE_BRIDGE && last != (is_where_it_was(e, dev) ? PLACE_OUTPUT : PLACE_XMIT))
			return UNSURE;
		break;
	case PLACE_NETIF_RX:
		if (last != PLACE_XMIT ||
		    (is_where_it_was(e, dev) && r->last_ifindex != LOOPBACK_IFINDEX))
			return UNSURE;
		break;
	case PLACE_IP_RCV:
		if (last != PLACE_RECEIVE || !is_where_it_was(e, dev))
			return UNSURE;
		break;
	case PLACE_BRIDGE:
		if (last != PLACE_RECEIVE)
			return UNSURE;
		break;
	case PLACE_TCP_RCV:
	case PLACE_ENQUEUE:
		if (last != PLACE_IP_RCV || !is_whole(e))
			return UNSURE;
		break;
	default:
		return UNSURE;
	}
	return now - r->last_at < SOON ? CHAINED : UNSURE;
}

/* What differs between the ends of two tuples; 0: nothing. */
static __always_inline u64 other_source(const struct tuple *a, const struct tuple *b)
{
	return (a->src[1] ^ b->src[1]) | (a->src[0] ^ b->src[0]) | (a->sport ^ b->sport);
}

static __always_inline u64 other_destination(const struct tuple *a, const struct tuple *b)
{
	return (a->dst[1] ^ b->dst[1]) | (a->dst[0] ^ b->dst[0]) | (a->dport ^ b->dport);
}

static __always_inline bool same_tuple(const struct tuple *a, const struct tuple *b)
{
	return !(other_source(a, b) | other_destination(a, b));
}

/*
 * Whether the record may have outlived its packet, as 1 or 0. Where only some stages
 * are judged, the hops that end a journey are not attached: it stays behind the last
 * hop that is, until the skb comes up again.
 */
static __always_inline u64 may_be_over(const struct record *r, u64 now)
{
	return ~(cfg.waits >> (r->last_place & 31)) & at_least(now - r->last_at, SOON);
}

/*
 * Whether the record is this packet's: pointers are used again soon, and many
 * frees pass no tracepoint. The tuple may have changed: netfilter was passed, or
 * may have been, since the packet was last looked at. Masks in place of branches,
 * as in nonzero(). doubtful: as may_be_over() says.
 */
static __always_inline bool is_same(const struct record *r, const struct packet *p, u64 doubtful)
{
	u64 source = nonzero(other_source(&r->last, &p->tuple));
	u64 destination = nonzero(other_destination(&r->last, &p->tuple));
	u64 payload = nonzero(r->flags & RECORD_PAYLOAD) & nonzero(p->has_payload);
	u64 id = nonzero(r->ip_id) & nonzero(p->ip_id);
	u64 udp = nonzero(p->tuple.proto ^ IPPROTO_TCP);
	u64 differs = (r->last.proto ^ p->tuple.proto) | (r->last.family ^ p->tuple.family);

	differs |= ((r->seq ^ p->seq) | (r->ack ^ p->ack)) & (udp - 1);
	differs |= (r->len ^ p->len) & -udp;
	differs |= (r->ip_id ^ p->ip_id) & -id;
	differs |= (r->payload ^ p->payload) & -payload;
	/* without a number of its own a datagram must keep one end: NAT of one kind changes only the other */
	differs |= udp & ~(id | payload) & source & destination;
	/* many datagrams begin alike (VXLAN's, WireGuard's, NTP's): their number and the tuple are the rest of the identity */
	differs |= doubtful & udp & (~id | source | destination);
	return !differs;
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
