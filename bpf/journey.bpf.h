/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of journeys. Nobody locks: a tracing program may not on 5.10, and two
 * programs write one record only where two packets claim the same way of a set at
 * the same time. Each hop and each head carry the generation of their writer, so
 * that such a record is found out.
 *
 * An skb's pointer is soon used again, and many frees pass no tracepoint. So a hop
 * believes a record only if nobody can have freed the packet since the hop before
 * (follows()), or if the packet is the one that the record knows (is_same()). A
 * read, a drop and TCP's state machine always ask the packet.
 */
#ifndef SLOWPKT_JOURNEY_BPF_H
#define SLOWPKT_JOURNEY_BPF_H

#include "shared.bpf.h"
#include "packet.bpf.h"
#include "filter.bpf.h"
#include "names.bpf.h"

enum {
	WAY_RESERVED = 1,	/* claimed, but its record is not whole yet */
	LOOPBACK_IFINDEX = 1,	/* in every netns */
};

/* A packet's place in the table. record is NULL where it is not tracked. */
struct entry {
	struct set *set;
	struct record *record;
	u64 *tag;	/* of set->skb[]: the record's */
	u64 *refused;	/* of set->refused[]: where a refusal of this packet is remembered */
	u64 skb;	/* its address */
	u64 cpu;	/* this one */
	u32 gen;	/* the record's when it was found, or begun */
	bool begun;	/* at this hop */
};

/* False: no such set, which cannot happen but must be asked. */
static __always_inline bool entry_of(struct entry *e, const void *skb, u32 cpu)
{
	u32 hash = ptr_low(skb) * 0x9e3779b1u;
	u32 index = hash >> (32 - cfg.set_bits);

	e->set = bpf_map_lookup_elem(&table, &index);
	if (!e->set)
		return false;
	e->skb = (u64)skb;
	e->cpu = cpu;
	e->record = NULL;
	e->begun = false;
	e->refused = &e->set->refused[hash >> 6 & (SET_WAYS - 1)];
	return true;
}

/*
 * Where a refused packet was last, in the low bits of its address in refused[];
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
	*e->refused = e->skb + at;
}

/* The packet is let through after all, or another one has the skb now. */
static __always_inline void forgive(struct entry *e)
{
	if ((*e->refused & ~7ull) == e->skb)
		*e->refused = 0;
}

/*
 * Whether the packet was refused at the hop before, and cannot be another one in
 * the same skb: only what a packet that came up from nowhere cannot have behind
 * it is trusted. It is refused here too then, without a look at it.
 */
static __always_inline bool stays_refused(struct entry *e, const enum place place)
{
	u64 was = *e->refused;
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

/*
 * Sets the entry's way. What is added is 0, but the verifier cannot know: with a
 * number that it knows it would walk through all that follows once for each way.
 */
static __always_inline void set_way(struct entry *e, u32 way)
{
	u64 unknown = (way + (e->cpu >> 16)) & (SET_WAYS - 1);

	e->tag = &e->set->skb[unknown];
	e->record = &e->set->way[unknown];
	e->gen = e->record->gen;
}

static __always_inline bool tracked(struct entry *e)
{
	for (u32 way = 0; way < SET_WAYS; way++) {
		if (e->set->skb[way] == e->skb) {
			set_way(e, way);
			return true;
		}
	}
	return false;
}

/* The record is still the one that was found or begun: no other packet has taken it meanwhile. */
static __always_inline bool is_ours(const struct entry *e)
{
	return e->record->gen == e->gen;
}

static __always_inline void release(struct entry *e)
{
	if (e->begun || *e->tag == e->skb)
		*e->tag = 0;
	e->record = NULL;
}

static __always_inline u64 total_limit(const struct record *r)
{
	return r->first.proto == IPPROTO_TCP ? cfg.total_tcp : cfg.total_udp;
}

static __always_inline bool is_slow(const struct record *r, u64 end_at)
{
	u64 start = r->hop[0].at;

	return r->flags & RECORD_SLOW || (end_at >= start && end_at - start >= total_limit(r));
}

/* Held where nothing but time passes: it may well be there still. */
static __always_inline bool is_held(const struct record *r)
{
	return r->last_place == PLACE_ENQUEUE || (r->last_place == PLACE_QUEUE && cfg.sees_cut);
}

/* Whether a journey whose end is not seen is slow by now: of a held one all the time counts. */
static __always_inline bool is_slow_by(const struct record *r, u64 now)
{
	if (!is_held(r))
		return is_slow(r, r->last_at);
	if (cfg.judge_stages && now >= r->last_at) {
		u64 limit = r->last_place == PLACE_ENQUEUE ? cfg.stage[PLACE_ENQUEUE][PLACE_READ] :
							     cfg.stage[PLACE_QUEUE][PLACE_XMIT];

		if (now - r->last_at >= limit)
			return true;
	}
	return is_slow(r, now);
}

/* Sends a slow journey up if it met all that is asked of the whole of it. Rare, so not inlined. */
static __noinline int send_up(struct record *r, u32 end, u64 end_at)
{
	u32 hops;

	if (!r || (r->met & cfg.must_meet) != cfg.must_meet)
		return 0;
	/* the sweep has printed it already, and there is nothing new to say */
	if ((end == END_UNKNOWN || end == END_EVICTED) && r->reported == r->gen)
		return 0;
	/* what the sweep has printed it has counted */
	if (r->reported != r->gen)
		my_counts()->slow++;
	if (!record_intact(r)) {
		my_counts()->torn++;
		return 0;
	}
	r->end = end;
	r->end_at = end_at;
	hops = r->hops;
	asm volatile("" : "+r"(hops));	/* as in add_hop() */
	if (hops > RECORD_HOPS)
		return 0;
	if (bpf_ringbuf_output(&events, r, offsetof(struct record, hop) + hops * sizeof(struct hop), 0))
		my_counts()->lost++;
	return 0;
}

static __always_inline void verdict(struct record *r, enum record_end end, u64 end_at)
{
	if (is_slow(r, end_at))
		send_up(r, end, end_at);
}

/* The journey of this pointer is over, though its end was not seen: another packet has the pointer now. */
static __always_inline void lose(struct entry *e)
{
	if (is_ours(e))
		verdict(e->record, END_UNKNOWN, e->record->last_at);
	release(e);
}

/* A full set: the way of its oldest journey that is not slow; the journey is counted, a slow one sent. */
static __noinline u32 evict(struct set *set, u64 now)
{
	u32 way = now & (SET_WAYS - 1);
	u64 oldest = NEVER;
	struct record *r;

	if (!set)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SET_WAYS; i++) {
		r = &set->way[i];
		if (r->hop[0].at < oldest && !is_slow_by(r, now)) {
			oldest = r->hop[0].at;
			way = i;
		}
	}
	r = &set->way[way & (SET_WAYS - 1)];
	my_counts()->evicted++;
	if (is_slow_by(r, now))
		send_up(r, END_EVICTED, is_held(r) ? now : r->last_at);
	return way & (SET_WAYS - 1);
}

/* Points the entry at a way for a new journey. */
static __always_inline void claim(struct entry *e, u64 now)
{
	u32 way;

	for (way = 0; way < SET_WAYS; way++)
		if (!e->set->skb[way])
			break;
	if (way == SET_WAYS)
		way = evict(e->set, now);
	set_way(e, way);
	*e->tag = WAY_RESERVED;
}

/*
 * Begins a journey for the packet; its first hop must be added and publish()
 * called next. partial: its beginning was not seen.
 */
static __always_inline void begin(struct entry *e, const struct packet *p, u64 now, bool partial)
{
	struct record *r;

	claim(e, now);
	r = e->record;
	e->begun = true;
	e->gen = record_generation(now);
	r->gen = e->gen;
	r->hops = 0;
	r->flags = (partial ? RECORD_PARTIAL : 0) | (p->has_payload ? RECORD_PAYLOAD : 0) |
		   (p->fragment ? RECORD_FRAGMENT : 0);
	r->met = 0;
	r->last_dev = 0;
	r->last_netns = r->last_ifindex = 0;
	r->last_tid = 0;
	r->end = END_NONE;
	r->end_at = 0;
	r->drop_reason = 0;
	r->first = p->tuple;
	r->last = p->tuple;
	r->seq = p->seq;
	r->ack = p->ack;
	r->len = p->len;
	r->win = p->win;
	r->ip_id = p->ip_id;
	r->payload = p->payload;
	r->segs = 0;
	r->tcp_flags = p->tcp_flags;
	r->reported = 0;
	forgive(e);
	my_counts()->matched++;
}

/* From now on other hops find the record; a hop that found it must not, it may be another's by now. */
static __always_inline void publish(struct entry *e)
{
	if (e->begun)
		*e->tag = e->skb;
}

static __always_inline void judge_stage(struct record *r, enum place place, u64 now)
{
	u32 from = r->last_place;

	if (!cfg.judge_stages || !r->hops || from >= PLACES || now < r->last_at)
		return;
	if (now - r->last_at >= cfg.stage[from][place])
		r->flags |= RECORD_SLOW;
}

static __noinline int arrive_anew(struct record *r, struct net_device *dev)
{
	struct net *net;

	if (!r)
		return 0;
	net = READ(dev, nd_net.net);
	r->last_dev = (u64)dev;
	r->last_netns = READ(net, ns.inum);
	r->last_ifindex = READ(dev, ifindex);
	note_device(r->last_netns, r->last_ifindex, dev);
	if (cfg.n_netns || cfg.n_ifaces)
		r->met |= meets(r->last_netns, dev);
	return 0;
}

/* The packet is at a device now: what a hop there will say. */
static __always_inline void arrive(struct record *r, struct net_device *dev)
{
	if (r->last_dev != (u64)dev)
		arrive_anew(r, dev);
}

/* The packet is at a socket of the netns, or in the netns it was in (0). */
static __always_inline void arrive_at_socket(struct record *r, u32 netns)
{
	r->last_dev = 0;
	r->last_ifindex = 0;
	if (!netns)
		return;
	r->last_netns = netns;
	if (cfg.n_netns)
		r->met |= meets(netns, NULL);
}

/* Adds a hop where the packet has arrived. owner: the current task sends or reads it. */
static __always_inline void add_hop(struct entry *e, const enum hop_id id, u64 now, bool owner)
{
	struct record *r = e->record;
	u64 task = bpf_get_current_pid_tgid();
	u32 n = r->hops, where;
	struct hop *hop;

	if (!is_ours(e))
		return;
	if ((u32)task != r->last_tid)
		note_task(task);
	if (cfg.pid && owner && cfg.pid == task >> 32)
		r->met |= MET_PID;
	judge_stage(r, hop_place(id), now);

	where = id | (owner ? WHERE_OWNER : 0) | (e->cpu & ((1 << WHERE_CPU_BITS) - 1)) << WHERE_CPU_SHIFT | e->gen << WHERE_GEN_SHIFT;
	r->last_tid = task;
	r->last_at = now;
	r->last_where = where;
	r->last_place = hop_place(id);
	/* the verifier forgets the bound if the compiler checks a copy */
	asm volatile("" : "+r"(n));
	if (n >= RECORD_HOPS) {
		r->flags |= RECORD_TRUNCATED;
		return;
	}
	hop = &r->hop[n];
	hop->at = now;
	hop->netns = r->last_netns;
	hop->ifindex = r->last_ifindex;
	hop->tid = task;
	hop->where = where;
	r->hops = n + 1;
}

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

/* The last hop of a journey: its verdict, and its way is free again. */
static __always_inline void end_journey(struct entry *e, struct sk_buff *skb, enum record_end end, u64 now)
{
	struct record *r = e->record;

	if (!is_ours(e)) {
		release(e);
		return;
	}
	if (is_slow(r, now)) {
		u16 segs = segments(skb);

		if (segs > r->segs)
			r->segs = segs;
		else if (!r->segs)
			r->segs = 1;
	}
	verdict(r, end, now);
	release(e);
}

#endif
