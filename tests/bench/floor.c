// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * floor - empty programs on slowpkt's hooks
 *
 *	floor OBJECT same|kprobes PROGRAM...
 *
 * PROGRAM is the name of one that slowpkt has loaded. "same" attaches an empty one in
 * the same way; "kprobes" a kprobe at the same function, and where the hook is a
 * tracepoint, at the function that has it. Says "floor: attached ..." on stderr, then
 * waits for SIGINT.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/libbpf.h>

#include "hop.h"
#include "symbols.h"

/* The functions that have the tracepoints, newer kernels' name first. */
static const struct {
	const char *tracepoint, *function[2];
} havers[] = {
	{ "netif_receive_skb", { "__netif_receive_skb_core" } },
	{ "netif_rx", { "netif_rx_internal" } },
	{ "net_dev_queue", { "__dev_queue_xmit" } },
	{ "net_dev_start_xmit", { "dev_hard_start_xmit" } },
	{ "kfree_skb", { "kfree_skb_reason", "kfree_skb" } },
};

struct empty {
	char name[64];		/* of the program; "": not wanted */
	char symbol[128];	/* what a kprobe is set on; "": it is not one */
	struct bpf_program *prog;
};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "floor: %s: %s\n", what, why);
	exit(1);
}

/* The function itself, or a copy of it that has its skb where it was. */
static int find_function(const char *function, char *symbol, size_t size)
{
	struct symbol s = { .function = function };
	int err = symbols__find(KALLSYMS, &s, 1);

	if (!err && !s.exact && !*s.copy)
		err = -ENOENT;
	snprintf(symbol, size, "%s", s.exact ? function : s.copy);
	return err;
}

static int find_haver(const char *tracepoint, char *symbol, size_t size)
{
	for (size_t i = 0; i < sizeof(havers) / sizeof(havers[0]); i++)
		for (int j = 0; j < 2 && havers[i].function[j]; j++)
			if (!strcmp(havers[i].tracepoint, tracepoint) &&
			    !find_function(havers[i].function[j], symbol, size))
				return 0;
	return -ENOENT;
}

static int find_symbol(const struct hop_info *info, char *symbol, size_t size)
{
	if (info->kind == HOP_TP)
		return find_haver(info->target, symbol, size);
	return find_function(info->target, symbol, size);
}

static void want(struct empty *empty, const char *program, bool kprobes)
{
	const char *target = strchr(program, '_');

	for (int id = 0; target && id < HOP_IDS; id++) {
		const struct hop_info *info = &hop_infos[id];
		struct empty *e = &empty[id];

		if (strcmp(info->target, target + 1))
			continue;
		kprobes |= !strncmp(program, "probe_", 6) && info->kind != HOP_TP;
		if (kprobes)
			snprintf(e->name, sizeof(e->name), "kprobe%s", target);
		else
			snprintf(e->name, sizeof(e->name), "%s", program);
		if (kprobes && find_symbol(info, e->symbol, sizeof(e->symbol)))
			die(program, "no function to set a kprobe on");
		return;
	}
	die(program, "it is not in the table of hops");
}

static void load(struct bpf_object *object, struct empty *empty)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, object)
		bpf_program__set_autoload(prog, false);
	for (int id = 0; id < HOP_IDS; id++) {
		struct empty *e = &empty[id];

		if (!*e->name)
			continue;
		e->prog = bpf_object__find_program_by_name(object, e->name);
		if (!e->prog)
			die(e->name, "no such program");
		bpf_program__set_autoload(e->prog, true);
	}
	if (bpf_object__load(object))
		die("the empty programs", "the kernel refused them");
}

static void attach(struct empty *empty)
{
	fprintf(stderr, "floor: attached");
	for (int id = 0; id < HOP_IDS; id++) {
		struct empty *e = &empty[id];

		if (!e->prog)
			continue;
		if (!(*e->symbol ? bpf_program__attach_kprobe(e->prog, false, e->symbol) :
				   bpf_program__attach(e->prog)))
			die(e->name, strerror(errno));
		fprintf(stderr, " %s", *e->symbol ? e->symbol : e->name);
	}
	fprintf(stderr, "\n");
}

int main(int argc, char **argv)
{
	static struct empty empty[HOP_IDS];
	struct bpf_object *object;
	sigset_t end;
	int signal;

	if (argc < 4) {
		fprintf(stderr, "usage: floor OBJECT same|kprobes PROGRAM...\n");
		return 2;
	}
	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	for (int i = 3; i < argc; i++)
		want(empty, argv[i], !strcmp(argv[2], "kprobes"));
	object = bpf_object__open_file(argv[1], NULL);
	if (!object)
		die(argv[1], strerror(errno));
	load(object, empty);
	attach(empty);
	return sigwait(&end, &signal);
}
