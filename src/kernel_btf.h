/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's types: its own, or from a file for a kernel that has none. */
#ifndef SLOWPKT_KERNEL_BTF_H
#define SLOWPKT_KERNEL_BTF_H

#include <stddef.h>

struct btf;

#define KERNEL_BTF "/sys/kernel/btf/vmlinux"

/* Where a file comes from, for messages. */
#define KERNEL_BTF_REMEDY \
	"from BTFHub, or made of the vmlinux with debug information of exactly this kernel (pahole --btf_encode_detached=FILE vmlinux)"

/*
 * Whether a file holds the BTF of the running kernel. Returns 0 or -errno: -EMEDIUMTYPE
 * where it is another kernel's. In either case why says it.
 */
int kernel_btf__check(const char *file, char *why, size_t size);

/* The types of the running kernel, from file, or its own (NULL). Returns NULL and errno. */
struct btf *kernel_btf__load(const char *file);

#endif
