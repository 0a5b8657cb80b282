// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The hooks for kernels and functions that offer BTF pointers: tp_btf, fentry, fexit. */
#define DIRECT
#include "hooks.bpf.h"
