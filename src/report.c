// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "cost.h"
#include "hop.h"
#include "report.h"

void report__ready(FILE *out, const struct options *o)
{
	if (!o->quiet)
		fprintf(out, "slowpkt: tracing %s\n", o->what);
}

static void say_hits(FILE *out, const struct options *o, const struct tracer *t, const struct counts *c)
{
	for (int id = 0; id < HOP_IDS; id++)
		if (o->hops >> id & 1)
			fprintf(out, "slowpkt: hits at %s (%s, %s): %" PRIu64 "\n", hop_infos[id].shown,
				hop_infos[id].target, tracer__how(t, id), (uint64_t)c->hits[id]);
}

static void say_cost(FILE *out, const struct options *o, const struct tracer *t)
{
	struct cost cost, sum = { 0 };
	int err;

	for (int id = 0; id < HOP_IDS; id++) {
		if (!(o->hops >> id & 1))
			continue;
		err = tracer__cost(t, id, &cost);
		if (err) {
			fprintf(out, "slowpkt: cost: not known, the kernel does not account for it: %s\n",
				strerror(-err));
			return;
		}
		cost__say_hop(out, hop_infos[id].shown, hop_infos[id].target, &cost);
		sum.runs += cost.runs;
		sum.ns += cost.ns;
	}
	cost__say_sum(out, &sum, clock__mono() - tracer__since(t));
}

void report__counts(FILE *out, const struct options *o, const struct tracer *t, uint64_t printed,
		    uint64_t torn)
{
	uint64_t hits = 0, missed;
	struct counts c;

	if (o->quiet)
		return;
	tracer__counts(t, &c, &missed);
	for (int id = 0; id < HOP_IDS; id++)
		hits += c.hits[id];
	fprintf(out, "slowpkt: hits=%" PRIu64 " matched=%" PRIu64 " slow=%" PRIu64 " printed=%" PRIu64
		     " lost=%" PRIu64 " evicted=%" PRIu64 " unparsed=%" PRIu64 " missed=%" PRIu64 " torn=%" PRIu64 "\n",
		hits, (uint64_t)c.matched, (uint64_t)c.slow, printed, (uint64_t)c.lost,
		(uint64_t)c.evicted, (uint64_t)c.unparsed, missed, (uint64_t)c.torn + torn);
	if (o->verbose) {
		say_hits(out, o, t, &c);
		say_cost(out, o, t);
	}
	tracer__say_unattached(t, out);
	if (!c.matched)
		fprintf(out, "slowpkt: nothing matched: %s\n", o->hint);
}
