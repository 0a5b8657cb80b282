/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is said beside the packets: the ready line, the counts at the end, the hint. */
#ifndef SLOWPKT_REPORT_H
#define SLOWPKT_REPORT_H

#include <stdio.h>

#include "options.h"
#include "tracer.h"

void report__ready(FILE *out, const struct options *o);

/*
 * The counts in one line, and a line for each hop that is not attached; if verbose,
 * also each hop's hits and what they cost. torn: journeys
 * that the kernel side sent, but user space found to be no packet's.
 */
void report__counts(FILE *out, const struct options *o, const struct tracer *t, uint64_t printed,
		    uint64_t torn);

#endif
