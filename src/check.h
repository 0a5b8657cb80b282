/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What can be attached: in principle, and on this machine. */
#ifndef SLOWPKT_CHECK_H
#define SLOWPKT_CHECK_H

#include "options.h"

/* Prints the table of hops. Returns an exit status. */
int check__list(FILE *out);

/*
 * Attaches all hops as the options say, prints how, what is lost with those that
 * cannot be, and a verdict on each thing of the machine's that matters; then
 * detaches them. Returns the exit status: 0 if both jobs can be done.
 */
int check__run(const struct options *o, FILE *out);

#endif
