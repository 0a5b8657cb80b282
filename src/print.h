/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The two printers, and where they get names from. */
#ifndef SLOWPKT_PRINT_H
#define SLOWPKT_PRINT_H

#include <stdio.h>

#include "journey.h"

/* Names that a record holds as numbers only. Each returns 0, or -ENOENT where the name is not known. */
struct names {
	void *context;
	int (*device)(void *context, struct dev_key key, struct dev_name *name);
	int (*task)(void *context, uint32_t tid, struct task_name *name);
	/* a drop reason's name without its SKB_DROP_REASON_ prefix; NULL: not known */
	const char *(*drop_reason)(void *context, uint32_t reason);
	/* the kernel's function that a call comes back to at this address; NULL: not known */
	const char *(*function)(void *context, uint64_t address);
	/* CLOCK_REALTIME of a CLOCK_MONOTONIC time, ns */
	uint64_t (*wall)(void *context, uint64_t mono);
};

/* The header line of text output. */
void text__header(FILE *out);
/* One journey as text: its line, and its path unless oneline. */
void text__journey(FILE *out, const struct journey *j, const struct names *names, bool oneline);
/* One journey as a JSON object and a newline. */
void json__journey(FILE *out, const struct journey *j, const struct names *names);

#endif
