// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The two clocks: the one that stamps hops, and the one on the wall. */
#include <time.h>

#include "clock.h"

enum { TRIES = 3 };

static uint64_t read_clock(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

uint64_t clock__mono(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock__wall(uint64_t mono)
{
	uint64_t narrowest = UINT64_MAX, offset = 0;
	int i;

	/*
	 * The wall clock was read somewhere between two reads of the other one.
	 * An interrupt in between makes the middle a bad guess, so the try with
	 * the narrowest bracket counts.
	 */
	for (i = 0; i < TRIES; i++) {
		uint64_t before = read_clock(CLOCK_MONOTONIC);
		uint64_t wall = read_clock(CLOCK_REALTIME);
		uint64_t bracket = read_clock(CLOCK_MONOTONIC) - before;

		if (bracket >= narrowest)
			continue;
		narrowest = bracket;
		offset = wall - (before + bracket / 2);
	}
	return mono + offset;
}
