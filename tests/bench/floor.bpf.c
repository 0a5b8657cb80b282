// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs that do nothing, one for each way of attaching each hook of slowpkt's own
 * table: what they cost nobody who attaches there can save.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "hops.h"

#define NOTHING(section, name) SEC(section) int name(void *ctx) { return 0; }

#define TP(target)	NOTHING("tp_btf/" #target, btf_##target) \
			NOTHING("raw_tp/" #target, probe_##target) \
			NOTHING("kprobe", kprobe_##target)
#define FN(target)	NOTHING("fentry/" #target, btf_##target) \
			NOTHING("kprobe", kprobe_##target)
#define SKBFN(target)	FN(target)
#define FEXIT(target)	NOTHING("fexit/" #target, btf_##target) \
			NOTHING("kprobe", kprobe_##target)
#define MODFN(target)	NOTHING("kprobe", kprobe_##target)

#define HOP(id, kind, target, place, shown, article) kind(target)
HOPS(HOP)

char LICENSE[] SEC("license") = "GPL";
