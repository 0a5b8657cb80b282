/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of journeys. Nobody locks: a tracing program may not on 5.10, and two
 * programs write one record only where two packets claim the same way of a set at
 * the same time. Each hop and each head carry the generation of their writer, so
 * that such a record is found out.
 */
#ifndef SLOWPKT_JOURNEY_BPF_H
#define SLOWPKT_JOURNEY_BPF_H

#include "entry.bpf.h"
#include "filter.bpf.h"
#include "identity.bpf.h"
#include "names.bpf.h"
#include "packet.bpf.h"
#include "refusal.bpf.h"
#include "shared.bpf.h"
#include "verdict.bpf.h"

static __always_inline void verdict(const struct entry *e, enum record_end end, u64 end_at)
{
	if (is_slow(e->record, end_at))
		send_up(e->index, way_of(e->record), end, end_at);
}

/* The journey of this pointer is over, though its end was not seen: another packet has the pointer now. */
static __always_inline void lose(struct entry *e)
{
	lose_way(e->index, way_of(e->record), e->gen);
	e->record = NULL;
}

/* Points the entry at a way for a new journey: at home if it can be. */
static __always_inline void claim(struct entry *e, u64 now)
{
	if (!e->home->skb)
		set_record(e, e->home);
	else
		move_away(e, away_from_home(e->index, way_of(e->home), now) & (SET_WAYS - 1));
	e->record->skb = WAY_RESERVED;
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
	r->state = 0;
	r->flags = (partial ? RECORD_PARTIAL : 0) | (p->has_payload ? RECORD_PAYLOAD : 0) |
		   (p->fragment ? RECORD_FRAGMENT : 0);
	r->last_dev = 0;
	r->last_spot = 0;
	r->last_tid = 0;
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
	forgive(e);
	counts_of(e->cpu)->matched++;
}

/* From now on other hops find the record; a hop that found it must not, it may be another's by now. */
static __always_inline void publish(struct entry *e)
{
	if (e->begun && is_ours(e))
		e->record->skb = e->skb;
}

/* Whether the stage that ends at this place, now, is one that is judged and slow. */
static __always_inline bool is_slow_stage(const struct record *r, enum place place, u64 now)
{
	u32 from = r->last_place;

	/* the verifier forgets the bound if the compiler checks a copy */
	asm volatile("" : "+r"(from));
	if (!cfg.judge_stages || !r->hops || from >= PLACES || now < r->last_at)
		return false;
	return now - r->last_at >= cfg.stage[from][place];
}

/* Whether the journey would be slow if it ended at this place, now. */
static __always_inline bool is_slow_at(const struct record *r, enum place place, u64 now)
{
	return is_slow(r, now) || is_slow_stage(r, place, now);
}

/* What the packet meets where it is now; dev: NULL at a socket. */
static __always_inline void meet(struct record *r, u32 netns, struct net_device *dev)
{
	if (cfg.must_meet && (r->met & cfg.must_meet) != cfg.must_meet)
		r->met |= meets(netns, dev);
}

/* The packet is at a device now: what a hop there will say. */
static __always_inline void arrive(struct record *r, struct net_device *dev)
{
	u32 netns, ifindex;
	struct net *net;

	if (r->last_dev == (u64)dev)
		return;
	net = READ(dev, nd_net.net);
	netns = READ(net, ns.inum);
	ifindex = READ(dev, ifindex);
	r->last_dev = (u64)dev;
	r->last_netns = netns;
	r->last_ifindex = ifindex;
	note_device(netns, ifindex, dev);
	meet(r, netns, dev);
}

/* The packet is at a socket of the netns, or in the netns it was in (0). */
static __always_inline void arrive_at_socket(struct record *r, u32 netns)
{
	r->last_dev = 0;
	r->last_ifindex = 0;
	if (!netns)
		return;
	r->last_netns = netns;
	meet(r, netns, NULL);
}

/* Adds a hop where the packet has arrived. tid: of the current task; where: as in struct hop. */
static __always_inline void stamp(struct record *r, enum place place, u64 now, u32 cpu, u32 tid, u32 where)
{
	u32 n = r->hops;
	struct hop *hop;

	if (is_slow_stage(r, place, now))
		r->flags |= RECORD_SLOW;
	r->last_at = now;
	r->last_where = where;
	r->last_link = last_link(place, cpu);
	/* as in is_slow_stage() */
	asm volatile("" : "+r"(n));
	if (n >= RECORD_HOPS) {
		r->flags |= RECORD_TRUNCATED;
		return;
	}
	hop = &r->hop[n];
	hop->at = now;
	hop->spot = r->last_spot;
	hop->tid = tid;
	hop->where = where;
	r->hops = n + 1;
}

/* A hop on the same CPU and in the same task as the one before. */
static __always_inline void stamp_chained(struct record *r, const enum hop_id id, u64 now, u32 cpu)
{
	u32 where = (r->last_where & ~((u32)WHERE_OWNER | ((1 << WHERE_HOP_BITS) - 1))) | id;

	stamp(r, hop_place(id), now, cpu, r->last_tid, where);
}

/* A hop anywhere, in any task. owner: it sends or reads the packet. */
static __always_inline void stamp_anew(struct record *r, enum hop_id id, enum place place, u64 now, u32 cpu,
				       bool owner)
{
	u32 where = id | (owner ? WHERE_OWNER : 0) | cpu << WHERE_CPU_SHIFT | r->gen << WHERE_GEN_SHIFT;
	u64 task = bpf_get_current_pid_tgid();

	if ((u32)task != r->last_tid) {
		note_task(task);
		r->last_tid = task;
	}
	if (owner && cfg.pid && cfg.pid == task >> 32)
		r->met |= MET_PID;
	stamp(r, place, now, cpu, task, where);
}

/* The same where the record was found, or begun, long ago: another packet may have taken it meanwhile. */
static __always_inline void stamp_ours(struct entry *e, enum hop_id id, enum place place, u64 now, bool owner)
{
	if (is_ours(e))
		stamp_anew(e->record, id, place, now, e->cpu, owner);
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
	verdict(e, end, now);
	release(e);
}

#endif
