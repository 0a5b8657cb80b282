/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table seen from user space: slow packets that are held, or whose end does not come. */
#ifndef SLOWPKT_SWEEP_H
#define SLOWPKT_SWEEP_H

#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>

#include "record.h"
#include "config.h"

/* Takes a copy of a record whose end is set to END_WAITING or END_UNKNOWN. */
typedef void (*sweep_sink)(void *context, const struct record *record, uint64_t number);

/*
 * Goes through the table's sets, which the kernel side writes meanwhile, and hands
 * each slow journey to the sink once, and once more under its number where it has
 * moved since and is lost. now: CLOCK_MONOTONIC, ns. sure_since: a packet
 * that went into a queue up to then may have left it unseen, because the kernel
 * skipped the program that would have told; it is not told as waiting. *number: the
 * last pkt number given out; it is counted on.
 */
void sweep__table(struct set *sets, size_t n, const struct config *cfg, uint64_t now, uint64_t sure_since,
		  uint64_t *number, sweep_sink sink, void *context);

#endif
