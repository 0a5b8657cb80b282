// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The same hooks for the others: raw_tp and kprobe. */
#include "hooks.bpf.h"
