/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Inside the command-line module: what the user wrote, before it is settled.
 * options.c reads it, settle.c makes it consistent, describe.c says it in words.
 */
#ifndef SLOWPKT_CMDLINE_H
#define SLOWPKT_CMDLINE_H

#include "options.h"
#include "stage.h"

struct cmdline {
	struct options *o;
	bool tcp, udp, ipv4, ipv6;	/* -t, -u, -4, -6 */
	bool has_total;			/* -l TIME */
	uint64_t total;			/* ns; with has_total */
	uint32_t stages;		/* mask of the stages in -l STAGE=TIME */
	uint64_t stage[STAGES];		/* ns; of those */
};

/* Prints a message about an option to stderr. Returns -EINVAL. */
int cmdline__error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sets what follows from all options together. 0, or -EINVAL after a message. */
int cmdline__settle(struct cmdline *c);

/* Fills o->what and o->hint of a settled command line. */
void cmdline__describe(const struct cmdline *c);

#endif
