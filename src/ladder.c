// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "hop.h"
#include "ladder.h"
#include "preempt.h"
#include "symbols.h"
#include "trial.h"

/* The ways to attach a hop, best first. */
enum rung {
	RUNG_BTF,	/* tp_btf, fentry, fexit */
	RUNG_PROBE,	/* raw_tp, kprobe on the function itself */
	RUNG_COPY,	/* kprobe on a copy that the compiler has made of it */
	RUNG_ARTICLE,	/* kprobe on the article's function */
	RUNG_NONE,
};

struct hook {
	enum rung rung;
	struct bpf_program *prog;
	struct bpf_link *link;
	ino_t module;		/* its module's identity when it was attached; 0: not a loaded module */
	bool awaits_module;
	char program[64];
	char how[192], why_not[192];
};

struct ladder {
	uint32_t wanted;
	bool late;		/* headers may be looked at late: see bpf/late.bpf.h */
	enum attach_mode mode;
	const struct btf *btf;
	bool reads_by_kprobe;	/* for an fentry program would be skipped */
	bool has_symbols;	/* they are read when the first hop needs them */
	struct symbol target[HOP_IDS], article[HOP_IDS];
	struct hook hook[HOP_IDS];
};

/* The program by which user space has headers looked at late. */
#define LOOK "look_at_waiting"

/* A trampoline passes at most six arguments on before 6.6 (473e3150e30a); of more the kernel is asked. */
enum { ALWAYS_PASSED = 6 };

static bool has_function(const struct btf *btf, const char *function)
{
	return btf && btf__find_by_name_kind(btf, function, BTF_KIND_FUNC) > 0;
}

static bool has_fentry(const struct btf *btf, const char *function)
{
	int id = btf__find_by_name_kind(btf, function, BTF_KIND_FUNC);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, id) : NULL;
	const struct btf_type *proto = type ? btf__type_by_id(btf, type->type) : NULL;

	return proto && (btf_vlen(proto) <= ALWAYS_PASSED || !trial__fentry(btf, function));
}

static bool has_tp_btf(const struct btf *btf, const char *tracepoint)
{
	char name[128];

	snprintf(name, sizeof(name), "btf_trace_%s", tracepoint);
	return btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF) > 0;
}

static bool offers_btf(const struct btf *btf, const struct hop_info *info)
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

static void read_symbols(struct ladder *l)
{
	struct symbol all[2 * HOP_IDS];

	if (l->has_symbols)
		return;
	l->has_symbols = true;
	for (int id = 0; id < HOP_IDS; id++) {
		all[id].function = hop_infos[id].target;
		/* one that has no other function asks twice for the same */
		all[HOP_IDS + id].function = hop_infos[id].article ?: hop_infos[id].target;
	}
	/* if the names cannot be read, the exact ones are worth a try */
	if (symbols__find(KALLSYMS, all, 2 * HOP_IDS))
		for (int i = 0; i < 2 * HOP_IDS; i++)
			all[i] = (struct symbol){ .function = all[i].function, .exact = true };
	memcpy(l->target, all, sizeof(l->target));
	memcpy(l->article, all + HOP_IDS, sizeof(l->article));
}

/* What the kprobe of a rung is set on; NULL: there is no such function. */
static const char *symbol_of(struct ladder *l, int id, enum rung rung)
{
	const struct hop_info *info = &hop_infos[id];

	if (info->kind == HOP_MODFN)
		return rung == RUNG_PROBE ? info->target : NULL;
	/* a function with BTF is mostly there under its own name; else the next rung is tried. The list is long */
	if (rung == RUNG_PROBE && has_function(l->btf, info->target))
		return info->target;
	read_symbols(l);
	switch (rung) {
	case RUNG_PROBE:
		return l->target[id].exact ? info->target : NULL;
	case RUNG_COPY:
		/* the first argument is there in each copy, a later one may not be */
		return info->kind == HOP_SKBFN && *l->target[id].copy ? l->target[id].copy : NULL;
	case RUNG_ARTICLE:
		return info->article && l->article[id].exact ? info->article : NULL;
	default:
		return NULL;
	}
}

/* Whether the user lets a hop have a rung. */
static bool is_allowed(const struct ladder *l, const struct hop_info *info, enum rung rung)
{
	switch (l->mode) {
	case ATTACH_BTF:
		return rung == RUNG_BTF;
	case ATTACH_KPROBE:
		return rung != RUNG_BTF;
	case ATTACH_ARTICLE:
		return info->article ? rung == RUNG_ARTICLE : rung != RUNG_BTF;
	case ATTACH_BEST:
		break;
	}
	return true;
}

static bool is_offered(struct ladder *l, int id, enum rung rung)
{
	const struct hop_info *info = &hop_infos[id];

	if (rung == RUNG_BTF)
		return l->btf && offers_btf(l->btf, info) && !(id == HOP_UDP_READ && l->reads_by_kprobe);
	if (info->kind == HOP_FEXIT)	/* without BTF an exit program has no arguments */
		return false;
	if (info->kind == HOP_TP)
		return rung == RUNG_PROBE;
	return symbol_of(l, id, rung);
}

static const char *way_of(const struct hop_info *info, enum rung rung)
{
	if (rung == RUNG_BTF)
		return info->kind == HOP_TP ? "tp_btf" : info->kind == HOP_FEXIT ? "fexit" : "fentry";
	return info->kind == HOP_TP ? "raw_tp" : "kprobe";
}

/* The best rung that there is, from this one down. */
static void take_rung(struct ladder *l, int id, enum rung rung)
{
	const struct hop_info *info = &hop_infos[id];
	struct hook *hook = &l->hook[id];

	while (rung != RUNG_NONE && !(is_allowed(l, info, rung) && is_offered(l, id, rung)))
		rung++;
	hook->rung = rung;
	if (rung == RUNG_NONE)
		return;
	if (rung == RUNG_COPY || rung == RUNG_ARTICLE)
		snprintf(hook->how, sizeof(hook->how), "kprobe on %s", symbol_of(l, id, rung));
	else
		snprintf(hook->how, sizeof(hook->how), "%s", way_of(info, rung));
}

/* A rung did not do; err (-errno) says why. */
static void step_down(struct ladder *l, int id, int err)
{
	struct hook *hook = &l->hook[id];
	char why[sizeof(hook->why_not)];

	snprintf(why, sizeof(why), "%.100s: %.80s", hook->how, trial__strerror(err));
	strcpy(hook->why_not, why);
	take_rung(l, id, hook->rung + 1);
}

/* A module's identity: another one each time that it is loaded. 0: it is not, or is built in. */
static ino_t module_of(enum hop_id id)
{
	char path[96];
	struct stat st;

	if (!hop__module(id))
		return 0;
	snprintf(path, sizeof(path), "/sys/module/%s", hop__module(id));
	return stat(path, &st) ? 0 : st.st_ino;
}

static struct bpf_link *attach(struct ladder *l, int id)
{
	struct hook *hook = &l->hook[id];

	if (hook->rung == RUNG_BTF || hop_infos[id].kind == HOP_TP)
		return bpf_program__attach(hook->prog);
	return bpf_program__attach_kprobe(hook->prog, false, symbol_of(l, id, hook->rung));
}

/* A module's function keeps its rung: it is tried again when the module comes. */
static void attach_module(struct ladder *l, int id)
{
	struct hook *hook = &l->hook[id];
	int err;

	hook->module = module_of(id);
	hook->link = attach(l, id);
	err = hook->link ? 0 : -errno;
	/* without the module the function is not there; nor is it ever where there are no kprobes */
	hook->awaits_module = err == -ENOENT && !hook->module && trial__has_kprobes();
	if (hook->awaits_module)
		snprintf(hook->why_not, sizeof(hook->why_not), "its module %s is not loaded", hop__module(id));
	else if (err)
		snprintf(hook->why_not, sizeof(hook->why_not), "kprobe: %s", trial__strerror(err));
}

/* Why a hop has no rung before any was tried. */
static const char *why_no_rung(struct ladder *l, int id)
{
	if (!l->btf && hop_infos[id].kind == HOP_FEXIT)
		return "it needs the kernel's own BTF";
	for (enum rung rung = RUNG_BTF; rung != RUNG_NONE; rung++)
		if (!is_allowed(l, &hop_infos[id], rung) && is_offered(l, id, rung))
			return "--attach leaves it no way";
	return "the kernel has no such function, or does not let it be traced";
}

/*
 * A read that is missed leaves the datagram waiting for ever. It is made by a task, so
 * a program that may be preempted is skipped for all the CPU's other readers meanwhile:
 * worth the price of a kprobe, unless the user wants it otherwise or cannot have it.
 */
static bool wants_reads_by_kprobe(const struct ladder *l)
{
	return l->mode == ATTACH_BEST && l->wanted >> HOP_UDP_READ & 1 && preempt__in_programs_now() &&
	       !trial__kprobe(hop_infos[HOP_UDP_READ].target);
}

struct ladder *ladder__new(uint32_t wanted, bool late, enum attach_mode mode, const struct btf *btf)
{
	struct ladder *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->wanted = wanted;
	l->late = late;
	l->mode = mode;
	l->btf = btf;
	l->reads_by_kprobe = wants_reads_by_kprobe(l);
	for (int id = 0; id < HOP_IDS; id++) {
		struct hook *hook = &l->hook[id];

		hook->rung = RUNG_NONE;
		if (!(wanted >> id & 1))
			continue;
		take_rung(l, id, RUNG_BTF);
		if (hook->rung == RUNG_NONE)
			snprintf(hook->why_not, sizeof(hook->why_not), "%s", why_no_rung(l, id));
	}
	return l;
}

void ladder__free(struct ladder *l)
{
	if (!l)
		return;
	ladder__detach(l);
	free(l);
}

bool ladder__looks_late(const struct ladder *l)
{
	return l->late && l->hook[HOP_UDP_ENQUEUE].rung == RUNG_BTF;
}

void ladder__choose_programs(struct ladder *l, struct bpf_object *obj)
{
	const char *late = ladder__looks_late(l) ? "late_" : "";
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, obj)
		bpf_program__set_autoload(prog, false);
	for (int id = 0; id < HOP_IDS; id++) {
		struct hook *hook = &l->hook[id];

		if (hook->rung == RUNG_NONE)
			continue;
		snprintf(hook->program, sizeof(hook->program), "%s_%s%s", hook->rung == RUNG_BTF ? "btf" : "probe",
			 late, hop_infos[id].target);
		hook->prog = bpf_object__find_program_by_name(obj, hook->program);
		bpf_program__set_autoload(hook->prog, true);
	}
	if (ladder__looks_late(l))
		bpf_program__set_autoload(bpf_object__find_program_by_name(obj, LOOK), true);
}

int ladder__attach(struct ladder *l)
{
	int down = 0;

	for (int id = 0; id < HOP_IDS; id++) {
		struct hook *hook = &l->hook[id];

		if (hook->rung != RUNG_NONE && hop__module(id))
			attach_module(l, id);
		while (hook->rung != RUNG_NONE && !hop__module(id)) {
			bool other = hook->rung == RUNG_BTF;

			hook->link = attach(l, id);
			if (hook->link)
				break;
			step_down(l, id, -errno);
			if (other && hook->rung != RUNG_NONE) {
				down++;
				break;
			}
		}
	}
	return down;
}

void ladder__detach(struct ladder *l)
{
	for (int id = 0; id < HOP_IDS; id++) {
		bpf_link__destroy(l->hook[id].link);
		l->hook[id].link = NULL;
		l->hook[id].prog = NULL;
	}
}

bool ladder__refuse(struct ladder *l, const char *program, int err)
{
	if (l->late && !strcmp(program, LOOK)) {
		l->late = false;
		fprintf(stderr, "slowpkt: warning: this kernel refused %s (%s); headers are read of all packets, "
			"which costs more\n", program, trial__strerror(err));
		return true;
	}
	for (int id = 0; id < HOP_IDS; id++) {
		struct hook *hook = &l->hook[id];

		if (hook->rung == RUNG_NONE || strcmp(hook->program, program))
			continue;
		fprintf(stderr, "slowpkt: warning: this kernel refused %s (%s); ", program, trial__strerror(err));
		/* the rungs below a kprobe have the same program */
		if (hook->rung == RUNG_BTF) {
			step_down(l, id, err);
		} else {
			snprintf(hook->why_not, sizeof(hook->why_not), "refused: %s", trial__strerror(err));
			hook->rung = RUNG_NONE;
		}
		fprintf(stderr, "%s\n", hook->rung == RUNG_NONE ? "the hop is left out" :
			"a probe without BTF costs more, and is skipped when nested");
		return true;
	}
	return false;
}

void ladder__follow_modules(struct ladder *l)
{
	for (int id = 0; id < HOP_IDS; id++) {
		struct hook *hook = &l->hook[id];
		ino_t now;

		if (hook->rung == RUNG_NONE || !hop__module(id))
			continue;
		now = module_of(id);
		if (now == hook->module && (hook->link || !now))
			continue;
		/* its kprobe has died with the module, and does not come back with it */
		bpf_link__destroy(hook->link);
		attach_module(l, id);
	}
}

uint32_t ladder__chosen(const struct ladder *l)
{
	uint32_t hops = 0;

	for (int id = 0; id < HOP_IDS; id++)
		hops |= (uint32_t)(l->hook[id].rung != RUNG_NONE) << id;
	return hops;
}

uint32_t ladder__attached(const struct ladder *l)
{
	uint32_t hops = 0;

	for (int id = 0; id < HOP_IDS; id++)
		hops |= (uint32_t)(l->hook[id].link != NULL) << id;
	return hops;
}

const char *ladder__how(const struct ladder *l, enum hop_id id)
{
	return l->hook[id].link ? l->hook[id].how : "not attached";
}

bool ladder__awaits_module(const struct ladder *l, enum hop_id id)
{
	return l->hook[id].awaits_module;
}

const char *ladder__why_not(const struct ladder *l, enum hop_id id)
{
	return l->hook[id].why_not;
}

static uint64_t missed_runs(const struct bpf_program *prog)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &size))
		return 0;
	return info.recursion_misses;
}

uint64_t ladder__missed(const struct ladder *l, uint32_t hops)
{
	uint64_t missed = 0;

	for (int id = 0; id < HOP_IDS; id++)
		if (hops >> id & 1 && l->hook[id].link)
			missed += missed_runs(l->hook[id].prog);
	return missed;
}

int ladder__cost(const struct ladder *l, enum hop_id id, struct cost *cost)
{
	return l->hook[id].link ? cost__read(bpf_program__fd(l->hook[id].prog), cost) : 0;
}
