/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the running kernel allows, found out by doing it once with nothing in it. */
#ifndef SLOWPKT_TRIAL_H
#define SLOWPKT_TRIAL_H

#include <stdbool.h>
#include <stddef.h>

struct btf;

/*
 * Attaches an empty program to the entry of a function by a BTF trampoline, and
 * takes it away again. Returns 0 or -errno; -ENOENT where the kernel's BTF has no
 * such function.
 */
int trial__fentry(const struct btf *btf, const char *function);

/* Sets a kprobe on a function, and takes it away again. Returns 0 or -errno. */
int trial__kprobe(const char *function);

/* Whether the kernel has kprobes at all. */
bool trial__has_kprobes(void);

/* Makes a BPF ring buffer, of the smallest size. Returns 0 or -errno. */
int trial__ringbuf(void);

/* Makes a BPF array of so many bytes. Returns 0 or -errno. */
int trial__array(size_t size);

/* An error of the kernel's (-errno) in words. */
const char *trial__strerror(int err);

#endif
