/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What this process may do on this kernel, and what to do where it may not. */
#ifndef SLOWPKT_SURROUNDINGS_H
#define SLOWPKT_SURROUNDINGS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Why tracing is impossible here, with the remedy, in one sentence without a
 * final newline. false: nothing is known to be in the way; why is then empty.
 */
bool surroundings__forbid(char *why, size_t size);

#endif
