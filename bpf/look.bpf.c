// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Compiled once, for skbs whose address is a mere number: the record's. */
#include "look.bpf.h"
#include "packet.bpf.h"

/* The skb is tracked in two ways: it was queued again, and its read before that was not seen. Home counts. */
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
	return READ(skb, len) == r->skb_len && (u64)READ(skb, head) == r->head && (!queued || is_linked(skb));
}

static __always_inline void write_down(struct record *r, const struct packet *p, u32 gen)
{
	r->first = p->tuple;
	r->last = p->tuple;
	r->len = p->len;
	r->ip_id = p->ip_id;
	r->payload = p->payload;
	r->flags |= (p->has_payload ? RECORD_PAYLOAD : 0) | (p->fragment ? RECORD_FRAGMENT : 0);
	r->seen = gen;
}

static __noinline int look(struct set *set, u32 way, u32 queued)
{
	struct packet p = {};
	struct sk_buff *skb;
	struct record *r;
	u32 gen;

	if (!set)
		return 0;
	way &= SET_WAYS - 1;
	r = &set->way[way];
	gen = r->gen;
	skb = (void *)r->skb;
	if (!skb || is_outdated(set, way) || !is_there(r, skb, queued))
		return 0;
	if (parse(&p, skb, L3_AT_HEADER, 0, ANYBODYS) != PARSED || p.tuple.proto != IPPROTO_UDP) {
		my_counts()->unparsed++;
		return 0;
	}
	/* the socket's port was asked for, and may be another one */
	if (!wanted_ports(p.tuple.sport, p.tuple.dport) || r->gen != gen)
		return 0;
	write_down(r, &p, gen);
	return 1;
}

__noinline int look_late(u32 index, u32 way, u32 queued)
{
	return look(bpf_map_lookup_elem(&table, &index), way, queued);
}

__noinline int look_at_full_set(u32 index, u64 now)
{
	struct set *set = bpf_map_lookup_elem(&table, &index);

	if (!set)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SET_WAYS; i++)
		if (!set->way[i].skb)
			return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SET_WAYS; i++)
		if (!record_is_seen(&set->way[i]) && has_waited(&set->way[i], now))
			look(set, i, true);
	return 0;
}

/* User space runs it, to print one that still waits. Its arguments: the set's index, the way. */
SEC("raw_tp")
int look_at_waiting(const u64 *ctx)
{
	return look_late(ctx[0], ctx[1], true);
}
