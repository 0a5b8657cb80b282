/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A packet on its way from the driver to the stack: GRO may hold it, and RPS sends it
 * to the backlog of another CPU. Nothing is asked of it there: GRO has yet to pull its
 * headers, and may merge it into another one and free it without a word. So it is
 * only noted when it came, and that is told where the stack takes it. Each way into
 * the stack notes anew, so a note that was left behind is not taken for that of a
 * later packet in the same skb.
 */
#ifndef SLOWPKT_ARRIVAL_BPF_H
#define SLOWPKT_ARRIVAL_BPF_H

#include "journey.bpf.h"

static __always_inline struct arrivals *arrivals_of(const void *skb)
{
	u32 index = (ptr_low(skb) * 0x9e3779b1u) >> 20;

	_Static_assert(ARRIVAL_SETS == 1 << 12, "the twelve upper bits of a hash");
	return bpf_map_lookup_elem(&arrivals, &index);
}

static __always_inline struct arrival *find_arrival(struct arrivals *set, const void *skb)
{
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < ARRIVAL_WAYS; i++)
		if (set->way[i].skb == (u64)skb)
			return &set->way[i];
	return NULL;
}

static __always_inline u64 came_at(const struct arrival *a)
{
	return a->gro.at ?: a->rps.at;
}

/* A way for the note of an arrival: a free one, or the oldest. */
static __always_inline struct arrival *make_arrival(struct arrivals *set)
{
	struct arrival *oldest = &set->way[0];

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < ARRIVAL_WAYS; i++) {
		if (!set->way[i].skb)
			return &set->way[i];
		if (came_at(&set->way[i]) < came_at(oldest))
			oldest = &set->way[i];
	}
	return oldest;
}

static __always_inline void note(struct noted *noted, u32 id, u32 cpu)
{
	u64 task = bpf_get_current_pid_tgid();

	note_task(task);
	noted->at = bpf_ktime_get_ns();
	noted->tid = task;
	noted->where = id | cpu << WHERE_CPU_SHIFT;
}

/*
 * One of the hops before the stack takes the packet. All but the last of them,
 * enqueue_to_backlog, are ways into the stack, and begin the note of another packet.
 */
static __noinline int note_arrival(struct sk_buff *skb, u32 id, u32 cpu)
{
	struct arrivals *set = arrivals_of(skb);
	struct net_device *dev = READ(skb, dev);
	struct arrival *a;

	if (!set)
		return 0;
	a = find_arrival(set, skb);
	if (id == HOP_ENQUEUE_TO_BACKLOG && a && a->dev == (u64)dev) {
		note(&a->rps, id, cpu);
		return 0;
	}
	if (!a)
		a = make_arrival(set);
	a->skb = 0;
	a->dev = (u64)dev;
	a->gro.at = a->rps.at = 0;
	note(hop_place(id) == PLACE_GRO ? &a->gro : &a->rps, id, cpu);
	a->skb = (u64)skb;
	return 0;
}

static __always_inline void stamp_noted(struct record *r, const struct noted *noted, enum place place)
{
	if (noted->at)
		stamp(r, place, noted->at, WHERE_CPU(noted->where), noted->tid,
		      noted->where | r->gen << WHERE_GEN_SHIFT);
}

/*
 * The stack takes the packet: adds the hops that were noted of it, if any were since
 * its last hop. A journey that begins here begins with them.
 */
static __noinline int tell_arrival(struct entry *e, struct sk_buff *skb)
{
	struct arrivals *set = arrivals_of(skb);
	struct arrival *a;
	struct record *r;

	if (!set || !e || !e->record || !is_ours(e))
		return 0;
	a = find_arrival(set, skb);
	r = e->record;
	if (!a || a->dev != r->last_dev || came_at(a) < (r->hops ? r->last_at : 1))
		return 0;
	if (!r->hops)
		e->gen = r->gen = record_generation(came_at(a));
	stamp_noted(r, &a->gro, PLACE_GRO);
	stamp_noted(r, &a->rps, PLACE_RPS);
	a->skb = 0;
	return 0;
}

#endif
