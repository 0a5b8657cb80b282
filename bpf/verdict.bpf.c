// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "verdict.bpf.h"

static __always_inline struct set *set_of(u32 index)
{
	return bpf_map_lookup_elem(&table, &index);
}

__noinline int send_up(u32 index, u32 way, u32 end, u64 end_at)
{
	struct set *set = set_of(index);
	struct record *r;
	u32 hops;

	if (!set)
		return 0;
	r = &set->way[way & (SET_WAYS - 1)];
	if ((r->met & cfg.must_meet) != cfg.must_meet || !record_is_seen(r))
		return 0;
	/* the sweep has printed it already, and there is nothing new to say */
	if ((end == END_UNKNOWN || end == END_EVICTED) && record_is_told(r))
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
	/* the verifier forgets the bound if the compiler checks a copy */
	asm volatile("" : "+r"(hops));
	if (hops > RECORD_HOPS)
		return 0;
	if (bpf_ringbuf_output(&events, r, offsetof(struct record, hop) + hops * sizeof(struct hop), 0))
		my_counts()->lost++;
	return 0;
}

__noinline int lose_way(u32 index, u32 way, u32 gen)
{
	struct set *set = set_of(index);
	struct record *r;

	if (!set)
		return 0;
	way &= SET_WAYS - 1;
	r = &set->way[way];
	if (r->gen != gen)
		return 0;
	if (is_slow(r, r->last_at))
		send_up(index, way, END_UNKNOWN, r->last_at);
	r->skb = 0;
	return 0;
}

/* Makes room. Returns the way that is free now. */
static __always_inline u32 evict(struct set *set, u32 index, u64 now)
{
	u32 way = victim(set, now);
	struct record *r = &set->way[way];

	my_counts()->evicted++;
	if (is_slow_by(r, now))
		send_up(index, way, END_EVICTED, is_held(r) ? now : r->last_at);
	return way;
}

__noinline int away_from_home(u32 index, u32 home, u64 now)
{
	struct set *set = set_of(index);

	if (!set)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 i = 1; i < SET_WAYS; i++) {
		u32 way = (home + i) & (SET_WAYS - 1);

		if (!set->way[way].skb)
			return way;
	}
	return evict(set, index, now);
}
