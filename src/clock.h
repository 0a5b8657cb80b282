/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The two clocks: the one that stamps hops, and the one on the wall. */
#ifndef SLOWPKT_CLOCK_H
#define SLOWPKT_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC now, ns: what bpf_ktime_get_ns() reads. */
uint64_t clock__mono(void);

/*
 * CLOCK_REALTIME of a CLOCK_MONOTONIC time, ns. The distance of the two is
 * measured at each call, because the wall clock is set and slewed while we run.
 */
uint64_t clock__wall(uint64_t mono);

#endif
