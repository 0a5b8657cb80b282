/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What both compilations share: the configuration, the table, the counters. */
#ifndef SLOWPKT_SHARED_BPF_H
#define SLOWPKT_SHARED_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "record.h"
#include "config.h"

#ifdef SLOWPKT_SHARED_DEFINE
#define SHARED
#else
#define SHARED extern
#endif

SHARED struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct set);
} table SEC(".maps");

SHARED struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct arrivals);
} arrivals SEC(".maps");

SHARED struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} events SEC(".maps");

SHARED struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct dev_key);
	__type(value, struct dev_name);
} dev_names SEC(".maps");

SHARED struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct task_name);
} task_names SEC(".maps");

#ifdef SLOWPKT_SHARED_DEFINE
const volatile struct config cfg = {};
struct counts counts[COUNT_CPUS] = {};
__u64 devs_seen[SEEN] = {};
__u64 tasks_seen[SEEN] = {};
#else
extern const volatile struct config cfg;
extern struct counts counts[COUNT_CPUS];
extern __u64 devs_seen[SEEN];
extern __u64 tasks_seen[SEEN];
#endif

static __always_inline struct counts *counts_of(u32 cpu)
{
	return &counts[cpu & (COUNT_CPUS - 1)];
}

static __always_inline struct counts *my_counts(void)
{
	return counts_of(bpf_get_smp_processor_id());
}

#endif
