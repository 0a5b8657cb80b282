/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a journey is slow, and what is done where its record must go. */
#ifndef SLOWPKT_VERDICT_BPF_H
#define SLOWPKT_VERDICT_BPF_H

#include "shared.bpf.h"

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

/* Who makes room in a full set: the oldest journey that is not slow; if all are, any one. Returns its way. */
static __always_inline u32 victim(struct set *set, u64 now)
{
	u32 way = now & (SET_WAYS - 1);
	u64 oldest = NEVER;
	struct record *r;

#pragma clang loop unroll(disable)
	for (u32 i = 0; i < SET_WAYS; i++) {
		r = &set->way[i];
		if (r->skb == WAY_RESERVED) {
			if (way == i)
				way = (i + 1) & (SET_WAYS - 1);
			continue;
		}
		if (r->hop[0].at < oldest && !is_slow_by(r, now)) {
			oldest = r->hop[0].at;
			way = i;
		}
	}
	return way & (SET_WAYS - 1);
}

/*
 * In verdict.bpf.c. Global functions, which the verifier walks through once and not
 * once more for every way that leads to them; so they take numbers only, which is
 * all that 5.10 allows (pointers came with e5069b9c23b3, "bpf: Support pointers in
 * global func args"). index: of the set; they do nothing where there is none such.
 */

/* Sends the slow journey in this way up if it met all that is asked of the whole of it. */
int send_up(u32 index, u32 way, u32 end, u64 end_at);

/* Ends the journey of this generation in this way, if it is still there: its end was not seen. */
int lose_way(u32 index, u32 way, u32 gen);

/*
 * A way for a journey that is not at home, which is taken. In a full set it is that
 * of the oldest journey that is not slow: it is counted, a slow one sent.
 */
int away_from_home(u32 index, u32 home, u64 now);

#endif
