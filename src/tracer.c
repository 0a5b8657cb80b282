// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "clock.h"
#include "hop.h"
#include "jobs.h"
#include "kernel_btf.h"
#include "ladder.h"
#include "names.h"
#include "surroundings.h"
#include "sweep.h"
#include "tracer.h"

#include "slowpkt.skel.h"

struct tracer {
	const struct options *options;
	struct config config;	/* the options', and what this kernel can see */
	struct btf *btf;	/* the types of the running kernel */
	struct ladder *ladder;
	struct slowpkt_bpf *skel;
	struct ring_buffer *ring;
	struct kernel_names *names;
	struct set *sets;
	size_t n_sets;
	uint64_t number;	/* the last pkt=N */
	uint64_t swept;		/* journeys that the sweep found slow */
	bool blind;		/* at what waits in a socket: it has been said */
	uint64_t missed, sure_since; /* see struct sweep */
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
		/* the last one that it warns of is the one for which the load failed */
		sscanf(last_warning, "libbpf: prog '%63[^']'", refused);
	}
	va_end(again);
	return verbose ? vfprintf(stderr, format, args) : 0;
}

static void unload(struct tracer *t)
{
	ladder__detach(t->ladder);
	slowpkt_bpf__destroy(t->skel);
	t->skel = NULL;
}

/* Loads the chosen programs, and no others. Returns 0 or -errno. */
static int load(struct tracer *t)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .btf_custom_path = t->options->btf);

	t->skel = slowpkt_bpf__open_opts(&opts);
	if (!t->skel)
		return -errno;
	ladder__choose_programs(t->ladder, t->skel->obj);
	t->config.looks_late = ladder__looks_late(t->ladder);
	if ((ladder__chosen(t->ladder) & WAYS_IN) != WAYS_IN)
		t->config.notes_arrivals = 0;
	if (t->config.notes_arrivals)
		bpf_map__set_max_entries(t->skel->maps.arrivals, ARRIVAL_SETS);
	t->config.sees_cut = ladder__chosen(t->ladder) >> HOP_GSO_SEGMENT & 1;
	memcpy((void *)&t->skel->rodata->cfg, &t->config, sizeof(t->config));
	t->n_sets = t->config.sets;
	bpf_map__set_max_entries(t->skel->maps.table, t->n_sets);
	*refused = '\0';
	return slowpkt_bpf__load(t->skel);
}

/* Loads and attaches, again and again until each hop has found its rung. Returns 0 or -errno. */
static int load_and_attach(struct tracer *t)
{
	int err;

	for (;;) {
		err = load(t);
		t->since = clock__mono();
		if (!err && !ladder__attach(t->ladder))
			return 0;
		unload(t);
		if (err && (err == -EPERM || !ladder__refuse(t->ladder, refused, err)))
			return err;
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

enum { WHY_TEXT = 1024 };

static void say_cannot(const char *why)
{
	fprintf(stderr, "slowpkt: cannot trace: %s\n", why);
}

static void say_refused(const struct tracer *t, int err)
{
	char why[WHY_TEXT];

	if (surroundings__blame(t->options, t->options->btf ? NULL : t->btf, why, sizeof(why))) {
		say_cannot(why);
		return;
	}
	last_warning[strcspn(last_warning, "\n")] = '\0';
	fprintf(stderr, "slowpkt: cannot trace: the kernel refused the BPF programs: %s%s%s; slowpkt -v shows its log\n",
		strerror(-err), *last_warning ? ": " : "", last_warning);
}

/* A line for each wanted hop that is not attached; with awaited also for those whose module may come. */
static void say_missing(const struct tracer *t, FILE *out, bool awaited)
{
	uint32_t missing = t->options->hops & ~ladder__attached(t->ladder);

	for (int id = 0; id < HOP_IDS; id++)
		if (missing >> id & 1 && (awaited || !ladder__awaits_module(t->ladder, id)))
			fprintf(out, "slowpkt: not attached: %s (%s): %s\n", hop_infos[id].shown,
				hop_infos[id].target, ladder__why_not(t->ladder, id));
}

/* A hop that is missing is no reason to give up, as long as the others can tell anything of what is asked for. */
static bool is_of_use(const struct tracer *t)
{
	bool any = jobs__any(t->options, ladder__attached(t->ladder));

	if (t->options->check)	/* it says all that itself */
		return true;
	if (!t->options->quiet || !any)
		say_missing(t, stderr, false);
	if (any)
		return true;
	say_cannot("too few hops can be attached for what is asked; slowpkt --check tells what this kernel lacks");
	return false;
}

/* BPF memory may count as locked memory: as much as may be had without asking. */
static void raise_memory_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &limit);
}

/* Up to where packets are seen. Returns whether that was reached; else a message has said why not. */
static bool start(struct tracer *t)
{
	const struct options *o = t->options;
	char why[WHY_TEXT];
	int err;

	raise_memory_limit();
	/* libbpf's large buffers are used in part, and for a moment */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	if (surroundings__forbid(o, why, sizeof(why))) {
		say_cannot(why);
		return false;
	}
	if (o->verbose)
		t->account = cost__account();
	t->btf = kernel_btf__load(o->btf);
	t->ladder = t->btf ? ladder__new(o->hops, o->config.looks_late, o->attach, o->btf ? NULL : t->btf) : NULL;
	err = t->ladder ? load_and_attach(t) : -errno;
	if (!err)
		err = open_readers(t);
	/* what libbpf needed to load stays ours else, for as long as we run */
	malloc_trim(0);
	if (err)
		say_refused(t, err);
	return !err && is_of_use(t);
}

struct tracer *tracer__open(const struct options *o, tracer_sink sink, void *context)
{
	struct tracer *t = calloc(1, sizeof(*t));

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
	if (start(t))
		return t;
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
	if (t->ladder)
		unload(t);
	ladder__free(t->ladder);
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

/* Has the kernel side look at the headers of a datagram that waits; what it finds is in its record then. */
static void look_at_waiting(void *context, size_t set, unsigned int way)
{
	struct tracer *t = context;
	uint64_t args[] = { set, way };
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = args, .ctx_size_in = sizeof(args));

	if (!bpf_prog_test_run_opts(bpf_program__fd(t->skel->progs.look_at_waiting), &run) || t->blind)
		return;
	t->blind = true;
	fprintf(stderr, "slowpkt: warning: what still waits in a socket cannot be told: "
		"the kernel does not run the program that looks at it: %s\n", strerror(errno));
}

static void on_swept(void *context, const struct record *r, uint64_t number)
{
	const struct tracer *t = context;

	t->sink(t->context, r, number);
}

/* The programs that tell that a packet has left a queue. */
static const uint32_t leaving = 1u << HOP_UDP_READ | 1u << HOP_KFREE_SKB | 1u << HOP_DEV_HARD_START_XMIT |
				1u << HOP_GSO_SEGMENT;

void tracer__sweep(struct tracer *t)
{
	uint64_t missed = ladder__missed(t->ladder, leaving);
	struct sweep sweep = {
		.config = &t->config,
		.now = clock__mono(),
		.look = look_at_waiting,
		.sink = on_swept,
		.context = t,
	};
	uint64_t before = t->number;

	libbpf_set_print(NULL);	/* that a module is still not there is no news */
	ladder__follow_modules(t->ladder);
	libbpf_set_print(on_libbpf_message);
	/* so that a name that has changed is stored again at the next hop */
	memset(t->skel->bss->devs_seen, 0, sizeof(t->skel->bss->devs_seen));
	memset(t->skel->bss->tasks_seen, 0, sizeof(t->skel->bss->tasks_seen));
	names__forget(t->names);
	if (missed != t->missed) {
		t->missed = missed;
		t->sure_since = sweep.now;
	}
	sweep.sure_since = t->sure_since;
	sweep__table(&sweep, t->sets, t->n_sets, &t->number);
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
	*missed = ladder__missed(t->ladder, t->options->hops);
}

uint32_t tracer__attached(const struct tracer *t)
{
	return ladder__attached(t->ladder);
}

const char *tracer__how(const struct tracer *t, enum hop_id id)
{
	return ladder__how(t->ladder, id);
}

bool tracer__awaits_module(const struct tracer *t, enum hop_id id)
{
	return ladder__awaits_module(t->ladder, id);
}

const char *tracer__why_not(const struct tracer *t, enum hop_id id)
{
	return ladder__why_not(t->ladder, id);
}

int tracer__cost(const struct tracer *t, enum hop_id id, struct cost *cost)
{
	*cost = (struct cost){ 0 };
	if (t->account < 0)
		return t->account;
	return ladder__cost(t->ladder, id, cost);
}

uint64_t tracer__since(const struct tracer *t)
{
	return t->since;
}

void tracer__say_unattached(const struct tracer *t, FILE *out)
{
	say_missing(t, out, true);
}

const struct names *tracer__names(const struct tracer *t)
{
	return names__of(t->names);
}
