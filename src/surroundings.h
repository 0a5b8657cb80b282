/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What this machine must offer, and what it does. */
#ifndef SLOWPKT_SURROUNDINGS_H
#define SLOWPKT_SURROUNDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

struct btf;

/* What one thing of the machine's means for tracing. */
enum judgement {
	GOOD,
	IMPAIRS,	/* something is lost, or costs more */
	FORBIDS,	/* nothing can be traced */
};

struct verdict {
	const char *name;	/* what was looked at */
	enum judgement judgement;
	char why[512];		/* what was found; where it is not good, the remedy too */
};

/*
 * Looks at the one after the other and stops at the first that forbids to trace
 * with these options. Returns whether there is one; its cause and remedy in why.
 */
bool surroundings__forbid(const struct options *o, char *why, size_t size);

enum { SURROUNDINGS = 8 };

/* Looks at everything. btf: the kernel's own, or NULL. */
void surroundings__judge(const struct options *o, const struct btf *btf, struct verdict verdicts[SURROUNDINGS]);

/*
 * After all has failed: the cause and its remedy in why, if anything of all that is
 * to blame. btf: the kernel's own, or NULL.
 */
bool surroundings__blame(const struct options *o, const struct btf *btf, char *why, size_t size);

#endif
