// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Compiled once, for skbs whose address is a mere number: the record's. */
#include "look.bpf.h"
#include "packet.bpf.h"
#include "verdict.bpf.h"

/* The skb is tracked in two ways: it was queued again, and that it was taken out before was not seen. */
static __always_inline bool is_outdated(const struct set *set, u32 way)
{
	const struct record *r = &set->way[way];

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SET_WAYS; i++)
		if (i != way && set->way[i].skb == r->skb && set->way[i].last_at > r->last_at)
			return true;
	return false;
}

/* In a list of skbs with two ends, such as a socket's queue; who has taken it out has unlinked it. */
static __always_inline bool is_linked(struct sk_buff *skb)
{
	return READ(skb, next) && READ(skb, prev);
}

/* It is the one that went into the socket's queue, so far as can be told from outside. */
static __always_inline bool is_there(const struct record *r, struct sk_buff *skb, u32 queued)
{
	return r->skb == (u64)skb && READ(skb, len) == r->skb_len && (u64)READ(skb, head) == r->head &&
	       (!queued || is_linked(skb));
}

static __always_inline void write_down(struct record *r, const struct packet *p, u32 gen)
{
	r->first = p->tuple;
	r->last = p->tuple;
	r->len = p->len;
	r->ip_id = p->ip_id;
	r->payload = p->payload;
	r->segs = 0;
	r->flags |= (p->has_payload ? RECORD_PAYLOAD : 0) | (p->fragment ? RECORD_FRAGMENT : 0);
	r->seen = gen;
}

static __noinline int look(struct set *set, u32 way, u32 queued)
{
	struct packet p = {};
	enum parsed parsed;
	struct sk_buff *skb;
	struct record *r;
	u32 gen;

	if (!set)
		return 0;
	r = &set->way[way & (SET_WAYS - 1)];
	gen = r->gen;
	skb = (void *)r->skb;
	if (r->skb <= WAY_RESERVED)
		return 0;
	parsed = parse(&p, skb, L3_AT_HEADER, 0, ANYBODYS);
	/* asked behind the headers: they are its, if it is there still */
	if (r->gen != gen || is_outdated(set, way & (SET_WAYS - 1)) || !is_there(r, skb, queued)) {
		r->seen = not_there(gen);
		return 0;
	}
	r->seen = 0;
	if (parsed != PARSED || p.tuple.proto != IPPROTO_UDP) {
		/* once a packet */
		if (!queued)
			my_counts()->unparsed++;
		return 0;
	}
	/* the socket's port was asked for, and may be another one */
	if (!wanted_ports(p.tuple.sport, p.tuple.dport))
		return 0;
	write_down(r, &p, gen);
	return 1;
}

__noinline int look_late(u32 index, u32 way, u32 queued)
{
	return look(bpf_map_lookup_elem(&table, &index), way, queued);
}

__noinline int look_at_victim(u32 index, u64 now)
{
	struct set *set = bpf_map_lookup_elem(&table, &index);
	u32 way;

	if (!set)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SET_WAYS; i++)
		if (!set->way[i].skb)
			return 0;
	way = victim(set, now);
	if (is_slow_by(&set->way[way], now))
		look(set, way, true);
	return 0;
}

/*
 * User space runs it once a second for each that is slow and waits. Its arguments: the
 * set's index, the way. One that was not there the last time has been taken out by who
 * tells nobody, for the program at the read would have run by now: its way is free.
 */
SEC("raw_tp")
int look_at_waiting(const u64 *ctx)
{
	u32 index = ctx[0], way = ctx[1] & (SET_WAYS - 1);
	struct set *set = bpf_map_lookup_elem(&table, &index);
	struct record *r;
	bool was_there;
	u64 skb;
	u32 gen;

	if (!set)
		return 0;
	r = &set->way[way];
	skb = r->skb;
	gen = r->gen;
	was_there = r->seen != not_there(gen);
	if (look(set, way, true))
		return 1;
	if (!was_there && r->seen == not_there(gen) && r->skb == skb)
		r->skb = 0;
	return 0;
}
