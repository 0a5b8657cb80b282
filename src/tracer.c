// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "clock.h"
#include "hop.h"
#include "names.h"
#include "surroundings.h"
#include "sweep.h"
#include "symbols.h"
#include "tracer.h"

#include "slowpkt.skel.h"

/* How a hop is attached, best first. */
enum rung {
	RUNG_BTF,	/* tp_btf, fentry, fexit */
	RUNG_PROBE,	/* raw_tp, kprobe */
	RUNG_NONE,
};

struct attached {
	enum rung rung;
	char symbol[128];	/* what a kprobe is set on */
	char name[64];		/* the program's */
	struct bpf_program *prog;
	struct bpf_link *link;
};

struct tracer {
	const struct options *options;
	struct config config;	/* the options', and what this kernel can see */
	struct btf *btf;
	struct slowpkt_bpf *skel;
	struct ring_buffer *ring;
	struct kernel_names *names;
	struct set *sets;
	size_t n_sets;
	struct attached hop[HOP_IDS];
	uint64_t number;	/* the last pkt=N */
	uint64_t swept;		/* journeys that the sweep found slow */
	uint64_t missed, sure_since; /* see sweep__table() */
	int account;		/* of the programs' cost, a descriptor; -errno: none is kept */
	uint64_t since;		/* when the first program was attached */
	tracer_sink sink;
	void *context;
};

static bool verbose;
static char last_warning[256];	/* libbpf's, to name the cause of a failed load */
static char refused[64];	/* the program that the kernel refused; libbpf says it nowhere else */

static int on_libbpf_message(enum libbpf_print_level level, const char *format, va_list args)
{
	va_list again;

	if (level == LIBBPF_DEBUG)
		return 0;
	va_copy(again, args);
	if (level == LIBBPF_WARN) {
		vsnprintf(last_warning, sizeof(last_warning), format, again);
		if (strstr(last_warning, "failed to load:"))
			sscanf(last_warning, "libbpf: prog '%63[^']'", refused);
	}
	va_end(again);
	return verbose ? vfprintf(stderr, format, args) : 0;
}

/* An fentry program may look at six arguments at the most on the kernels before 6.6. */
enum { FENTRY_ARGS = 6 };

static bool has_fentry(const struct btf *btf, const char *function)
{
	int id = btf__find_by_name_kind(btf, function, BTF_KIND_FUNC);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, id) : NULL;
	const struct btf_type *proto = type ? btf__type_by_id(btf, type->type) : NULL;

	return proto && btf_vlen(proto) <= FENTRY_ARGS;
}

static bool has_tp_btf(const struct btf *btf, const char *tracepoint)
{
	char name[128];

	snprintf(name, sizeof(name), "btf_trace_%s", tracepoint);
	return btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF) > 0;
}

static bool offers(const struct btf *btf, const struct hop_info *info)
{
	switch (info->kind) {
	case HOP_TP:
		return has_tp_btf(btf, info->target);
	case HOP_FN:
	case HOP_SKBFN:
	case HOP_FEXIT:
		return has_fentry(btf, info->target);
	case HOP_MODFN:
		break;
	}
	return false;
}

/* The rung after the one that did not do. */
static void step_down(struct attached *a, const struct hop_info *info)
{
	bool skb_first = info->kind == HOP_SKBFN;

	a->rung = a->rung == RUNG_BTF && info->kind != HOP_FEXIT ? RUNG_PROBE : RUNG_NONE;
	if (a->rung != RUNG_PROBE || (info->kind != HOP_FN && !skb_first))
		return;
	if (symbols__find(info->target, skb_first, a->symbol, sizeof(a->symbol)) &&
	    (!info->article || symbols__find(info->article, skb_first, a->symbol, sizeof(a->symbol))))
		a->rung = RUNG_NONE;
}

static void choose_rungs(struct tracer *t)
{
	for (int id = 0; id < HOP_IDS; id++) {
		struct attached *a = &t->hop[id];

		if (!(t->options->hops >> id & 1)) {
			a->rung = RUNG_NONE;
			continue;
		}
		a->rung = RUNG_BTF;
		if (!offers(t->btf, &hop_infos[id]))
			step_down(a, &hop_infos[id]);
		if (hop_infos[id].kind == HOP_MODFN)
			snprintf(a->symbol, sizeof(a->symbol), "%s", hop_infos[id].target);
	}
}

static void choose_program(struct tracer *t, int id)
{
	struct attached *a = &t->hop[id];

	snprintf(a->name, sizeof(a->name), "%s_%s", a->rung == RUNG_BTF ? "btf" : "probe", hop_infos[id].target);
	a->prog = bpf_object__find_program_by_name(t->skel->obj, a->name);
	bpf_program__set_autoload(a->prog, true);
}

static void unload(struct tracer *t)
{
	for (int id = 0; id < HOP_IDS; id++) {
		bpf_link__destroy(t->hop[id].link);
		t->hop[id].link = NULL;
		t->hop[id].prog = NULL;
	}
	slowpkt_bpf__destroy(t->skel);
	t->skel = NULL;
}

/* Loads the chosen programs, and no others. Returns 0 or -errno. */
static int load(struct tracer *t)
{
	struct bpf_program *prog;

	t->skel = slowpkt_bpf__open();
	if (!t->skel)
		return -errno;
	bpf_object__for_each_program(prog, t->skel->obj)
		bpf_program__set_autoload(prog, false);
	for (int id = 0; id < HOP_IDS; id++) {
		if (t->hop[id].rung == RUNG_NONE)
			continue;
		choose_program(t, id);
	}
	t->config.sees_cut = t->hop[HOP_GSO_SEGMENT].rung != RUNG_NONE;
	memcpy((void *)&t->skel->rodata->cfg, &t->config, sizeof(t->config));
	t->n_sets = t->config.sets;
	bpf_map__set_max_entries(t->skel->maps.table, t->n_sets);
	return slowpkt_bpf__load(t->skel);
}

static struct bpf_link *attach(const struct attached *a, const struct hop_info *info)
{
	if (a->rung == RUNG_PROBE && info->kind != HOP_TP)
		return bpf_program__attach_kprobe(a->prog, false, a->symbol);
	return bpf_program__attach(a->prog);
}

/* Attaches what is loaded. Returns how many hops had to step down: to be loaded again. */
static int attach_all(struct tracer *t)
{
	int down = 0;

	for (int id = 0; id < HOP_IDS; id++) {
		struct attached *a = &t->hop[id];

		if (a->rung == RUNG_NONE || a->link)
			continue;
		a->link = attach(a, &hop_infos[id]);
		/* a module's function is tried again by the sweep */
		if (a->link || hop_infos[id].kind == HOP_MODFN)
			continue;
		step_down(a, &hop_infos[id]);
		down++;
	}
	return down;
}

/* The hop whose program was refused goes a rung down. False: none was named. */
static bool step_refused_down(struct tracer *t, int err)
{
	for (int id = 0; id < HOP_IDS; id++) {
		struct attached *a = &t->hop[id];

		if (a->rung == RUNG_NONE || strcmp(a->name, refused))
			continue;
		fprintf(stderr, "slowpkt: warning: this kernel refused %s (%s); %s\n", a->name, strerror(-err),
			a->rung == RUNG_BTF ? "a kprobe costs more, and is skipped when nested" :
			"the hop is left out");
		step_down(a, &hop_infos[id]);
		return true;
	}
	return false;
}

static bool anything_attached(const struct tracer *t)
{
	for (int id = 0; id < HOP_IDS; id++)
		if (t->hop[id].link)
			return true;
	return false;
}

static int load_and_attach(struct tracer *t)
{
	int err;

	choose_rungs(t);
	for (;;) {
		err = load(t);
		if (err) {
			unload(t);
			if (err == -EPERM || !step_refused_down(t, err))
				return err;
			continue;
		}
		t->since = clock__mono();
		if (!attach_all(t))
			return anything_attached(t) ? 0 : -ENOENT;
		unload(t);
	}
}

static int map_table(struct tracer *t)
{
	void *mem = mmap(NULL, t->n_sets * sizeof(struct set), PROT_READ | PROT_WRITE, MAP_SHARED,
			 bpf_map__fd(t->skel->maps.table), 0);

	if (mem == MAP_FAILED)
		return -errno;
	t->sets = mem;
	return 0;
}

static int on_event(void *context, void *data, size_t size)
{
	const size_t head = offsetof(struct record, hop);
	struct tracer *t = context;
	struct record r;

	memcpy(&r, data, size < sizeof(r) ? size : sizeof(r));
	/* another packet's hop may have counted it up while it was sent */
	if (r.hops > (size - head) / sizeof(struct hop))
		r.hops = (size - head) / sizeof(struct hop);
	t->sink(t->context, &r, r.reported == r.gen ? r.pkt : ++t->number);
	return 0;
}

/* Where the events and the names come from. Returns 0 or -errno. */
static int open_readers(struct tracer *t)
{
	int err = map_table(t);

	if (err)
		return err;
	t->ring = ring_buffer__new(bpf_map__fd(t->skel->maps.events), on_event, t, NULL);
	if (!t->ring)
		return -errno;
	t->names = names__new(bpf_map__fd(t->skel->maps.dev_names), bpf_map__fd(t->skel->maps.task_names),
			      t->btf);
	return t->names ? 0 : -errno;
}

static void say_failure(int err)
{
	char why[512];

	if (surroundings__forbid(why, sizeof(why))) {
		fprintf(stderr, "slowpkt: cannot trace: %s\n", why);
		return;
	}
	last_warning[strcspn(last_warning, "\n")] = '\0';
	fprintf(stderr, "slowpkt: cannot trace: the kernel refused the BPF programs: %s%s%s; slowpkt -v shows its log\n",
		strerror(-err), *last_warning ? ": " : "", last_warning);
}

struct tracer *tracer__open(const struct options *o, tracer_sink sink, void *context)
{
	struct tracer *t = calloc(1, sizeof(*t));
	char why[512];
	int err;

	if (!t) {
		fprintf(stderr, "slowpkt: out of memory\n");
		return NULL;
	}
	t->account = -ENODATA;
	verbose = o->verbose;
	libbpf_set_print(on_libbpf_message);
	t->options = o;
	t->config = o->config;
	t->sink = sink;
	t->context = context;
	if (surroundings__forbid(why, sizeof(why))) {
		fprintf(stderr, "slowpkt: cannot trace: %s\n", why);
		goto fail;
	}
	if (o->verbose)
		t->account = cost__account();
	t->btf = btf__load_vmlinux_btf();
	err = t->btf ? load_and_attach(t) : -errno;
	if (!err)
		err = open_readers(t);
	if (!err)
		return t;
	say_failure(err);
fail:
	tracer__close(t);
	return NULL;
}

void tracer__close(struct tracer *t)
{
	if (!t)
		return;
	if (t->sets)
		munmap(t->sets, t->n_sets * sizeof(struct set));
	names__free(t->names);
	ring_buffer__free(t->ring);
	unload(t);
	btf__free(t->btf);
	if (t->account >= 0)
		close(t->account);
	free(t);
}

int tracer__poll(struct tracer *t, int timeout_ms)
{
	int n = ring_buffer__poll(t->ring, timeout_ms);

	return n < 0 ? n : 0;
}

void tracer__drain(struct tracer *t)
{
	ring_buffer__consume(t->ring);
}

static uint64_t missed_runs(const struct bpf_program *prog)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &size))
		return 0;
	return info.recursion_misses;
}

/* Runs that the kernel skipped of the programs that tell that a packet has left a queue. */
static uint64_t missed_leaving(const struct tracer *t)
{
	static const enum hop_id leaving[] = {
		HOP_UDP_READ, HOP_KFREE_SKB, HOP_DEV_HARD_START_XMIT, HOP_GSO_SEGMENT,
	};
	uint64_t missed = 0;

	for (size_t i = 0; i < sizeof(leaving) / sizeof(leaving[0]); i++)
		if (t->hop[leaving[i]].link)
			missed += missed_runs(t->hop[leaving[i]].prog);
	return missed;
}

void tracer__sweep(struct tracer *t)
{
	uint64_t now = clock__mono(), missed = missed_leaving(t);
	uint64_t before;

	libbpf_set_print(NULL);	/* that a module is still not there is no news */
	attach_all(t);
	libbpf_set_print(on_libbpf_message);
	/* so that a name that has changed is stored again at the next hop */
	memset(t->skel->bss->devs_seen, 0, sizeof(t->skel->bss->devs_seen));
	memset(t->skel->bss->tasks_seen, 0, sizeof(t->skel->bss->tasks_seen));
	if (missed != t->missed) {
		t->missed = missed;
		t->sure_since = now;
	}
	before = t->number;
	sweep__table(t->sets, t->n_sets, &t->config, now, t->sure_since, &t->number, t->sink, t->context);
	t->swept += t->number - before;
}

void tracer__counts(const struct tracer *t, struct counts *sum, uint64_t *missed)
{
	const struct counts *cpu = t->skel->bss->counts;

	memset(sum, 0, sizeof(*sum));
	for (int i = 0; i < COUNT_CPUS; i++) {
		for (int id = 0; id < HOP_IDS; id++)
			sum->hits[id] += cpu[i].hits[id];
		sum->matched += cpu[i].matched;
		sum->slow += cpu[i].slow;
		sum->lost += cpu[i].lost;
		sum->evicted += cpu[i].evicted;
		sum->unparsed += cpu[i].unparsed;
		sum->torn += cpu[i].torn;
	}
	sum->slow += t->swept;
	*missed = 0;
	for (int id = 0; id < HOP_IDS; id++)
		if (t->hop[id].link)
			*missed += missed_runs(t->hop[id].prog);
}

const char *tracer__how(const struct tracer *t, enum hop_id id)
{
	static const char *const btf[] = { [HOP_TP] = "tp_btf", [HOP_FN] = "fentry", [HOP_SKBFN] = "fentry",
					    [HOP_FEXIT] = "fexit" };

	if (!t->hop[id].link)
		return "not attached";
	if (t->hop[id].rung == RUNG_BTF)
		return btf[hop_infos[id].kind];
	return hop_infos[id].kind == HOP_TP ? "raw_tp" : "kprobe";
}

int tracer__cost(const struct tracer *t, enum hop_id id, struct cost *cost)
{
	*cost = (struct cost){ 0 };
	if (t->account < 0)
		return t->account;
	return t->hop[id].link ? cost__read(bpf_program__fd(t->hop[id].prog), cost) : 0;
}

uint64_t tracer__since(const struct tracer *t)
{
	return t->since;
}

void tracer__say_unattached(const struct tracer *t, FILE *out)
{
	for (int id = 0; id < HOP_IDS; id++) {
		const struct hop_info *info = &hop_infos[id];

		if (!(t->options->hops >> id & 1) || t->hop[id].link)
			continue;
		fprintf(out, "slowpkt: not attached: %s (%s): %s\n", info->shown, info->target,
			info->kind == HOP_MODFN ? "its module is not loaded" :
			"this kernel has no such function, or does not let it be traced");
	}
}

const struct names *tracer__names(const struct tracer *t)
{
	return names__of(t->names);
}
