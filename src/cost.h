/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the BPF programs cost, by the kernel's own account. */
#ifndef SLOWPKT_COST_H
#define SLOWPKT_COST_H

#include <stdint.h>
#include <stdio.h>

struct cost {
	uint64_t runs;
	uint64_t ns;
};

/*
 * Has the kernel account for every program's runs and time, until the descriptor that
 * is returned is closed. That itself costs some 50 instructions a run. -errno: it
 * cannot (before 5.8) or may not (without CAP_SYS_ADMIN).
 */
int cost__account(void);

/* What a program's runs have cost since then. Returns 0 or -errno. */
int cost__read(int prog_fd, struct cost *cost);

/* A line for one hop. */
void cost__say_hop(FILE *out, const char *shown, const char *target, const struct cost *cost);

/* The line for all of them: what share of a CPU's time they took in so many ns. */
void cost__say_sum(FILE *out, const struct cost *sum, uint64_t in_ns);

#endif
