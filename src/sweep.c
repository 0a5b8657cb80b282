// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "sweep.h"

/* A journey that has passed no hop for so long is not on its way between two of them. */
static const uint64_t QUIET = 1000000000;

/* In a socket's or a qdisc's queue, out of which nothing goes unseen. */
static bool is_held(const struct record *r, const struct config *cfg, uint64_t sure_since)
{
	if (r->last_at <= sure_since)
		return false;
	return r->last_place == PLACE_ENQUEUE || (r->last_place == PLACE_QUEUE && cfg->sees_cut);
}

static uint64_t wait_limit(const struct record *r, const struct config *cfg)
{
	if (!cfg->judge_stages)
		return NEVER;
	return r->last_place == PLACE_ENQUEUE ? cfg->stage[PLACE_ENQUEUE][PLACE_READ] :
						cfg->stage[PLACE_QUEUE][PLACE_XMIT];
}

/*
 * Sets end and end_at of a record that is slow by what is certain: a held one has
 * waited until now, of any other one only the time between its hops is known.
 */
static bool judge(struct record *r, const struct config *cfg, uint64_t now, uint64_t sure_since)
{
	uint64_t limit = r->first.proto == 6 /* TCP */ ? cfg->total_tcp : cfg->total_udp;
	uint64_t start = r->hop[0].at;
	bool held = is_held(r, cfg, sure_since);

	if (r->last_at < start || now < r->last_at || (!held && now - r->last_at < QUIET))
		return false;
	r->end = held ? END_WAITING : END_UNKNOWN;
	r->end_at = held ? now : r->last_at;
	return r->flags & RECORD_SLOW || r->end_at - start >= limit ||
	       (held && now - r->last_at >= wait_limit(r, cfg));
}

/*
 * Copies a record out from under its writer. A copy whose generation and number of
 * hops stood still meanwhile is whole: nothing else of a record changes once written.
 */
static bool copy(struct record *to, const volatile struct record *from)
{
	uint32_t gen = from->gen;
	uint8_t hops = from->hops;

	if (hops > RECORD_HOPS)
		return false;
	memcpy(to, (const void *)from, offsetof(struct record, hop) + hops * sizeof(struct hop));
	__sync_synchronize();
	return hops && from->gen == gen && from->hops == hops && to->gen == gen && to->hops == hops;
}

/* Copies a record that is slow by now, of which something is to be told. Returns whether it is one. */
static bool take(struct record *to, const struct record *shared, const struct sweep *s)
{
	/* free, or being begun */
	if (shared->skb <= WAY_RESERVED || record_is_told(shared))
		return false;
	return copy(to, shared) && record_intact(to) && judge(to, s->config, s->now, s->sure_since) &&
	       (to->met & s->config->must_meet) == s->config->must_meet;
}

static void sweep_way(const struct sweep *s, struct set *sets, size_t set, unsigned int way, uint64_t *number)
{
	struct record *shared = &sets[set].way[way];
	struct record r;
	bool again;

	if (!take(&r, shared, s))
		return;
	/* also where that was done before: whether it waits still shows in this way only */
	if (r.flags & RECORD_UNSEEN) {
		s->look(s->context, set, way);
		if (!take(&r, shared, s) || !record_is_seen(&r))
			return;
	}
	again = r.reported == r.gen;
	/* it was told waiting and waits elsewhere now: its end will be told */
	if (again && r.end == END_WAITING)
		return;
	/* marked first: if the end comes now, its event carries the same number */
	shared->reported_hops = r.hops;
	if (!again) {
		r.pkt = shared->pkt = ++*number;
		shared->reported = r.gen;
	}
	s->sink(s->context, &r, r.pkt);
}

void sweep__table(const struct sweep *s, struct set *sets, size_t n, uint64_t *number)
{
	for (size_t set = 0; set < n; set++)
		for (unsigned int way = 0; way < SET_WAYS; way++)
			sweep_way(s, sets, set, way, number);
}
