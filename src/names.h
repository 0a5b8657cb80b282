/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of devices, tasks and drop reasons, as the kernel side and its BTF know them. */
#ifndef SLOWPKT_NAMES_H
#define SLOWPKT_NAMES_H

#include "print.h"

struct btf;
struct kernel_names;

/*
 * Names from the maps with these descriptors (borrowed), drop reasons from the
 * kernel's BTF (borrowed). Returns NULL and errno. Ended by names__free().
 */
struct kernel_names *names__new(int dev_map, int task_map, const struct btf *btf);
void names__free(struct kernel_names *names);
/* Has the maps asked anew: devices are renamed, and tids used again. */
void names__forget(struct kernel_names *names);

/* What the printers ask; valid until names__free(). */
const struct names *names__of(const struct kernel_names *names);

#endif
