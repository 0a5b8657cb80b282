/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The functions of the running kernel, by /proc/kallsyms. */
#ifndef SLOWPKT_SYMBOLS_H
#define SLOWPKT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SYMBOL_TEXT = 128 };

/* A function that is asked for, and what the kernel has of it. */
struct symbol {
	const char *function;
	bool exact;		/* the function itself */
	char copy[SYMBOL_TEXT];	/* one that the compiler made of it, with fewer arguments perhaps:
				 * NAME.constprop.N or NAME.isra.N; "": none */
};

/* Where the running kernel lists its own. */
#define KALLSYMS "/proc/kallsyms"

/*
 * Looks n functions up in a file such as KALLSYMS, in one pass. Never NAME.part.N,
 * which sees only some of the calls. Returns 0 or -errno.
 */
int symbols__find(const char *path, struct symbol *symbols, size_t n);

/*
 * The function that a call comes back to at this address, by a file such as KALLSYMS,
 * without what the compiler has added to its name. Returns 0 or -errno; -ENOENT: none
 * is known, or the file does not tell addresses.
 */
int symbols__name(const char *path, uint64_t address, char name[SYMBOL_TEXT]);

/*
 * Counts in *found how many of *n names a file such as KALLSYMS has. Sorts them and
 * leaves those that are there twice out. Returns 0 or -errno.
 */
int symbols__count(const char *path, const char **names, size_t *n, size_t *found);

#endif
