/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet's place in the table, found by its skb's address. */
#ifndef SLOWPKT_ENTRY_BPF_H
#define SLOWPKT_ENTRY_BPF_H

#include "read.bpf.h"
#include "shared.bpf.h"

/* A packet's place in the table. record is NULL where it is not tracked. */
struct entry {
	struct set *set;
	struct record *home;	/* where it is, if nobody was there first; a refusal of this packet is remembered there */
	struct record *record;
	u64 skb;	/* its address */
	u32 index;	/* of the set */
	u32 cpu;	/* this one */
	u32 gen;	/* the record's when it was found, or begun */
	bool begun;	/* at this hop */
};

/* False: no such set, which cannot happen but must be asked. */
static __always_inline bool entry_of(struct entry *e, const void *skb, u32 cpu)
{
	u32 hash = ptr_low(skb) * 0x9e3779b1u;
	/* no shift by a variable: up to 6.1 the JIT makes six instructions of one */
	u32 index = (u64)hash * cfg.sets >> 32;

	e->set = bpf_map_lookup_elem(&table, &index);
	if (!e->set)
		return false;
	e->skb = (u64)skb;
	e->index = index;
	e->cpu = cpu;
	e->record = NULL;
	e->begun = false;
	e->home = at_offset(e->set, hash << 4 & (SET_WAYS - 1) * sizeof(struct record));
	return true;
}

/* A record's way in its set: sets are pages. */
static __always_inline u32 way_of(const struct record *r)
{
	return ptr_low(r) / sizeof(struct record) & (SET_WAYS - 1);
}

static __always_inline void set_record(struct entry *e, struct record *record)
{
	e->record = record;
	e->gen = record->gen;
}

static __always_inline void set_way(struct entry *e, u32 way)
{
	struct record *record = &e->set->way[way];

	asm volatile("" : "+r"(record));
	set_record(e, record);
}

/* Whether the packet is tracked in the way that was free for it nearly always. */
static __always_inline bool at_home(struct entry *e)
{
	if (e->home->skb != e->skb)
		return false;
	set_record(e, e->home);
	return true;
}

/* The packet begins a journey in this way, away from home: the first one to be asked from now on. */
static __always_inline void move_away(struct entry *e, u32 way)
{
	e->home->guest = ptr_low((void *)e->skb) | way;
	set_way(e, way);
}

/*
 * … or in another one. Which one that is the verifier must not know: it would walk
 * through all that follows once for each way.
 */
static __always_inline bool elsewhere(struct entry *e)
{
	u32 way = e->home->guest ^ ptr_low((void *)e->skb);
	u32 home = ptr_low(e->home) & (SET_WAYS - 1) * sizeof(struct record);

	/* a hint: whether the way is the packet's is asked, for who was a guest once may be gone */
	if (way < SET_WAYS) {
		u64 offset = (u64)way * sizeof(struct record);
		struct record *r;

		BOUND(offset, (SET_WAYS - 1) * sizeof(struct record));
		r = at_offset(e->set, offset);
		if (r->skb == e->skb) {
			set_record(e, r);
			return true;
		}
	}
	/* counted from home, in an offset that is a variable */
	for (u32 i = 1; i < SET_WAYS; i++) {
		struct record *r = at_offset(e->set, home ^ i * sizeof(struct record));

		if (r->skb == e->skb) {
			set_record(e, r);
			return true;
		}
	}
	return false;
}

static __always_inline bool tracked(struct entry *e)
{
	return at_home(e) || elsewhere(e);
}

/* The record is still the one that was found or begun: no other packet has taken it meanwhile. */
static __always_inline bool is_ours(const struct entry *e)
{
	return e->record->gen == e->gen;
}

static __always_inline void release(struct entry *e)
{
	u64 skb = e->record->skb;

	/* reserved: claimed at this hop, and perhaps by another packet at the same time */
	if (skb == e->skb || (e->begun && skb == WAY_RESERVED))
		e->record->skb = 0;
	e->record = NULL;
}

#endif
