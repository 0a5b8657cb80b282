/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's symbols, for functions that the compiler renamed. */
#ifndef SLOWPKT_SYMBOLS_H
#define SLOWPKT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Finds the symbol to set a kprobe on for a function: its own name, or else, with
 * renamed, NAME.constprop.N or NAME.isra.N, which the compiler made of it and
 * whose arguments may be fewer; never NAME.part.N, which sees only some of the
 * calls. Returns 0, or -ENOENT, or another -errno if /proc/kallsyms cannot be read.
 */
int symbols__find(const char *function, bool renamed, char *symbol, size_t size);

#endif
