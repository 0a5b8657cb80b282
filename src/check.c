// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdlib.h>
#include <sys/utsname.h>
#include <bpf/btf.h>

#include "check.h"
#include "hop.h"
#include "jobs.h"
#include "kernel_btf.h"
#include "stage.h"
#include "surroundings.h"
#include "tracer.h"

/* The longest names of the table of hops fit. */
#define HOP_COLUMNS "%-22s  %-28s  "

static const char *const kinds[] = {
	[HOP_TP] = "tracepoint",
	[HOP_FN] = "function",
	[HOP_SKBFN] = "function",
	[HOP_FEXIT] = "function's exit",
	[HOP_MODFN] = "module function",
};

static const char *stages_of(uint32_t mask, char buf[STAGE_TEXT])
{
	return mask ? stage__list(mask, ',', buf) : "-";
}

int check__list(FILE *out)
{
	char ends[STAGE_TEXT], begins[STAGE_TEXT];

	fprintf(out, HOP_COLUMNS "%-15s  %-28s  %-19s  %s\n", "HOP", "ATTACHED TO", "KIND", "ENDS STAGE",
		"BEGINS STAGE", "ARTICLE'S");
	for (int id = 0; id < HOP_IDS; id++) {
		const struct hop_info *info = &hop_infos[id];

		fprintf(out, HOP_COLUMNS "%-15s  %-28s  %-19s  %s\n", info->shown, info->target, kinds[info->kind],
			stages_of(stage__into(info->place), ends), stages_of(stage__out_of(info->place), begins),
			info->article ?: "-");
	}
	return EXIT_SUCCESS;
}

/* t: NULL if nothing could be attached at all. */
static void print_hops(FILE *out, const struct tracer *t)
{
	char loss[LOSS_TEXT];

	fprintf(out, HOP_COLUMNS "%s\n", "HOP", "ATTACHED TO", "HOW");
	for (int id = 0; id < HOP_IDS; id++) {
		const struct hop_info *info = &hop_infos[id];

		fprintf(out, HOP_COLUMNS, info->shown, info->target);
		if (!t || tracer__attached(t) >> id & 1)
			fprintf(out, "%s\n", t ? tracer__how(t, id) : "not attached");
		else if (tracer__awaits_module(t, id))
			fprintf(out, "joins when the module %s comes\n", hop__module(id));
		else
			fprintf(out, "not attached: %s; %s\n", tracer__why_not(t, id), jobs__loss(id, loss));
	}
}

static void print_verdicts(FILE *out, const struct options *o)
{
	static const char *const words[] = { [GOOD] = "ok", [IMPAIRS] = "poor", [FORBIDS] = "NO" };
	struct verdict verdicts[SURROUNDINGS];
	struct btf *btf = o->btf ? NULL : kernel_btf__load(NULL);

	surroundings__judge(o, btf, verdicts);
	btf__free(btf);
	for (int i = 0; i < SURROUNDINGS; i++)
		fprintf(out, "%-12s  %-4s  %s\n", verdicts[i].name, words[verdicts[i].judgement], verdicts[i].why);
}

static bool print_job(FILE *out, bool possible, const char *name, const char *what)
{
	fprintf(out, "%-12s  %-4s  %s\n", name, possible ? "ok" : "NO", what);
	return possible;
}

int check__run(const struct options *o, FILE *out)
{
	struct tracer *t = tracer__open(o, NULL, NULL);
	uint32_t attached = t ? tracer__attached(t) : 0;
	struct utsname u;
	bool both;

	uname(&u);
	fprintf(out, "slowpkt " SLOWPKT_VERSION " on %s %s\n\n", u.release, u.machine);
	print_hops(out, t);
	tracer__close(t);
	fputc('\n', out);
	print_verdicts(out, o);
	both = print_job(out, jobs__udp(attached), "UDP job", "how long a datagram waits in its socket");
	both &= print_job(out, jobs__tcp(attached), "TCP job", "where a segment is held, from NIC to socket and back");
	return both ? EXIT_SUCCESS : EXIT_FAILURE;
}
