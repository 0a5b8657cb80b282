// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define SLOWPKT_SHARED_DEFINE
#include "shared.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
