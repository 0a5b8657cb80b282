// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a record says: total, stages, the slowest one, the direction. */
#include <errno.h>
#include <string.h>
#include <netinet/in.h>

#include "journey.h"
#include "stage.h"

/* Whether this journey wrote the hop; another packet's is no part of it. */
static bool is_own(const struct record *r, uint32_t where)
{
	uint32_t gen = r->gen & ((1u << WHERE_GEN_BITS) - 1);

	return WHERE_GEN(where) == gen && WHERE_HOP(where) < HOP_IDS;
}

static int keep_hop(struct journey *j, const struct hop *hop)
{
	struct journey_hop *kept = &j->hop[j->hops];
	const struct journey_hop *before = j->hops ? kept - 1 : NULL;

	kept->hop = hop;
	kept->id = WHERE_HOP(hop->where);
	kept->owner = hop->where & WHERE_OWNER;
	kept->cpu = WHERE_CPU(hop->where);
	if (before) {
		if (hop->at < before->hop->at)
			return -EBADMSG;
		kept->since_start = hop->at - j->start;
		kept->in_stage = hop->at - before->hop->at;
		kept->stages = stage__between(hop_place(before->id), hop_place(kept->id));
	}
	j->hops++;
	return 0;
}

static int keep_hops(struct journey *j)
{
	const struct record *r = j->record;
	unsigned int i;
	int error;

	if (r->hops < 1 || r->hops > RECORD_HOPS || !is_own(r, r->hop[0].where))
		return -EBADMSG;
	j->start = r->hop[0].at;
	for (i = 0; i < r->hops; i++) {
		if (!is_own(r, r->hop[i].where))
			continue;
		error = keep_hop(j, &r->hop[i]);
		if (error)
			return error;
	}
	return 0;
}

/* False where the packet went on after the hops that are known: torn or truncated. */
static bool kept_last_hop(const struct journey *j)
{
	const struct record *r = j->record;
	const struct hop *last = j->hop[j->hops - 1].hop;

	if (last != &r->hop[r->hops - 1])
		return false;
	if (!(r->flags & RECORD_TRUNCATED))
		return true;
	return last->at == r->last_at && last->where == r->last_where;
}

/* What holds a packet that was last seen at this place. */
static uint32_t stage_after(enum place place)
{
	switch (place) {
	case PLACE_ENQUEUE:
		return 1u << STAGE_SOCKET;
	case PLACE_QUEUE:
		return 1u << STAGE_QDISC;
	default:
		return 1u << STAGE_OTHER;
	}
}

/* A record without an end time (lost, evicted) is known up to its last hop only. */
static uint64_t end_time(const struct journey *j, uint64_t now)
{
	const struct record *r = j->record;
	uint64_t last = j->hop[j->hops - 1].hop->at;

	if (j->end == END_WAITING)
		return now;
	if (!r->end_at && (j->end == END_UNKNOWN || j->end == END_EVICTED))
		return r->last_at > last ? r->last_at : last;
	return r->end_at;
}

static int find_end(struct journey *j, uint64_t now)
{
	const struct journey_hop *last = &j->hop[j->hops - 1];
	uint64_t end = end_time(j, now);

	if (end < last->hop->at)
		return -EBADMSG;
	j->total = end - j->start;
	j->rest = end - last->hop->at;
	j->has_rest = j->rest || j->end == END_WAITING;
	if (!j->has_rest)
		return 0;
	if (kept_last_hop(j))
		j->rest_stages = stage_after(hop_place(last->id));
	else
		j->rest_stages = 1u << STAGE_OTHER;
	return 0;
}

static void find_slowest(struct journey *j)
{
	unsigned int i;

	for (i = 1; i < j->hops; i++) {
		if (j->slowest_stages && j->hop[i].in_stage <= j->slowest_ns)
			continue;
		j->slowest = i;
		j->slowest_ns = j->hop[i].in_stage;
		j->slowest_stages = j->hop[i].stages;
	}
	if (!j->has_rest || (j->slowest_stages && j->rest <= j->slowest_ns))
		return;
	j->slowest = j->hops;
	j->slowest_ns = j->rest;
	j->slowest_stages = j->rest_stages;
}

/* Where the packet was last, or was dropped; PLACES where that is not known. */
static enum place last_place(const struct journey *j)
{
	const struct record *r = j->record;
	unsigned int i;

	if (!kept_last_hop(j)) {
		if (!(r->flags & RECORD_TRUNCATED) || !is_own(r, r->last_where))
			return PLACES;
		return hop_place(WHERE_HOP(r->last_where));
	}
	for (i = j->hops; i-- > 0;) {
		if (hop_place(j->hop[i].id) != PLACE_DROP)
			return hop_place(j->hop[i].id);
	}
	return PLACES;
}

static bool ends_in_socket(const struct journey *j)
{
	enum place place = last_place(j);

	switch (j->end) {
	case END_DELIVERED:
	case END_READ:
	case END_UNREAD:
		return true;
	case END_WAITING:
	case END_EVICTED:
		return place == PLACE_ENQUEUE;
	case END_DROPPED:
		return place == PLACE_TCP_RCV || place == PLACE_TCP_STATE || place == PLACE_ENQUEUE;
	default:
		return false;
	}
}

static enum direction find_direction(const struct journey *j)
{
	enum place first = hop_place(j->hop[0].id);
	bool whole = !(j->record->flags & RECORD_PARTIAL);
	bool from_here = whole && first == PLACE_SEND;
	bool from_outside = whole && (first == PLACE_RECEIVE || first == PLACE_NETIF_RX ||
				      1u << first & ARRIVAL_PLACES);

	if (ends_in_socket(j))
		return from_here ? DIR_LOC : DIR_RCV;
	if (j->end != END_SENT)
		return DIR_UNKNOWN;
	if (from_here)
		return DIR_SND;
	return from_outside ? DIR_FWD : DIR_UNKNOWN;
}

int journey__read(struct journey *j, const struct record *r, uint64_t number, uint64_t now)
{
	int error;

	if (r->end > END_WAITING)
		return -EBADMSG;
	*j = (struct journey){
		.record = r,
		.number = number,
		.end = r->end == END_NONE ? END_UNKNOWN : r->end,
	};
	error = keep_hops(j);
	if (!error)
		error = find_end(j, now);
	if (error)
		return error;
	find_slowest(j);
	j->direction = find_direction(j);
	return 0;
}

const struct journey_hop *journey__slowest_from(const struct journey *j)
{
	return j->slowest_stages ? &j->hop[j->slowest - 1] : NULL;
}

const struct journey_hop *journey__held_at(const struct journey *j)
{
	const struct journey_hop *from = journey__slowest_from(j);

	/* a socket held it, not the device where it came in */
	if (j->slowest_stages == 1u << STAGE_TCPLOCK && j->slowest < j->hops)
		return &from[1];
	if (!from || from->hop->ifindex || j->slowest == j->hops)
		return from;
	return from[1].hop->ifindex ? &from[1] : from;
}

bool journey__translated(const struct journey *j)
{
	const struct tuple *first = &j->record->first;
	const struct tuple *last = &j->record->last;

	return last->family && (memcmp(first->src, last->src, sizeof(first->src)) ||
				memcmp(first->dst, last->dst, sizeof(first->dst)) ||
				first->sport != last->sport || first->dport != last->dport);
}

static bool is_slow_stage(const struct journey *j, const struct config *cfg, unsigned int i)
{
	enum place from = hop_place(j->hop[i - 1].id);

	if (i < j->hops)
		return j->hop[i].in_stage >= cfg->stage[from][hop_place(j->hop[i].id)];
	/* still held: what would end the stage has not come */
	if (from == PLACE_ENQUEUE)
		return j->rest >= cfg->stage[from][PLACE_READ];
	return from == PLACE_QUEUE && j->rest >= cfg->stage[from][PLACE_XMIT];
}

bool journey__is_slow(const struct journey *j, const struct config *cfg)
{
	unsigned int i;

	if (j->total >= (j->record->first.proto == IPPROTO_TCP ? cfg->total_tcp : cfg->total_udp))
		return true;
	/* the slow stage may be one that found no room in the record */
	if (j->record->flags & RECORD_TRUNCATED)
		return true;
	if (!cfg->judge_stages)
		return false;
	for (i = 1; i <= j->hops; i++)
		if (is_slow_stage(j, cfg, i))
			return true;
	return false;
}
