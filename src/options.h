/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command line. */
#ifndef SLOWPKT_OPTIONS_H
#define SLOWPKT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <linux/types.h>

#include "hops.h"
#include "record.h"
#include "config.h"

enum { EXIT_BAD_USAGE = 64 };

/* By which ways hops are attached: --attach. */
enum attach_mode {
	ATTACH_BEST,	/* the best that the kernel offers, hop by hop */
	ATTACH_BTF,	/* tp_btf, fentry and fexit only */
	ATTACH_KPROBE,	/* raw_tp and kprobe only */
	ATTACH_ARTICLE,	/* the same, and on the article's function where it is another one */
};

struct options {
	struct config config;	/* for the kernel side; the table's size included */
	uint32_t hops;		/* mask of enum hop_id that the judged stages need */
	bool only_stages;	/* no total is judged */
	bool oneline, json, quiet, verbose;
	uint64_t count;		/* stop after so many packets; 0: never */
	uint64_t duration;	/* ns; 0: no end */
	enum attach_mode attach;
	const char *btf;	/* file with the kernel's types; NULL: it has them itself */
	bool check;		/* only say what can be attached */
	bool list_hooks;	/* only print the table of hops */
	char what[1024];	/* in words what is judged and let through, for the ready line */
	char hint[256];		/* what to try where nothing matched */
};

/*
 * Parses the command line into *o. Ends the process for --help, --usage and
 * --version (0) and for a bad option or value (64, after a message on stderr);
 * with 1 where only a privileged process may look at the netns that is named.
 */
void options__parse(struct options *o, int argc, char **argv);

#endif
