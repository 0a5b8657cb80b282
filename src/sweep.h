/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table seen from user space: slow packets that are held, or whose end does not come. */
#ifndef SLOWPKT_SWEEP_H
#define SLOWPKT_SWEEP_H

#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>

#include "record.h"
#include "config.h"

struct sweep {
	const struct config *config;
	uint64_t now;		/* CLOCK_MONOTONIC, ns */
	/*
	 * A packet that went into a queue up to then (ns) may have left it unseen, because the
	 * kernel skipped the program that would have told; it is not told as waiting.
	 */
	uint64_t sure_since;
	/* Has a packet's headers looked at (RECORD_UNSEEN): record_is_seen() then, if it waits still. */
	void (*look)(void *context, size_t set, unsigned int way);
	/* Takes a copy of a record whose end is set to END_WAITING or END_UNKNOWN, and its pkt number. */
	void (*sink)(void *context, const struct record *record, uint64_t number);
	void *context;
};

/*
 * Goes through the table's sets, which the kernel side writes meanwhile, and hands
 * each slow journey to the sink once, and once more under its number where it has
 * moved since and is lost. *number: the last pkt number given out; it is counted on.
 */
void sweep__table(const struct sweep *s, struct set *sets, size_t n, uint64_t *number);

#endif
