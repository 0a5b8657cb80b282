/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A host for the kernel side: what bpf/read.bpf.h, bpf/shared.bpf.h and libbpf's
 * headers supply there, with the kernel's helpers played by plain functions on
 * `host` below. To be included first, before any header of bpf/ or of libc.
 */
#ifndef SLOWPKT_BPF_HOST_H
#define SLOWPKT_BPF_HOST_H

#define BPF_NO_PRESERVE_ACCESS_INDEX
#include "../../../vmlinux/vmlinux.h"
#undef NULL
#undef offsetof

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "record.h"
#include "config.h"

/* bpf/ names clang's loops, and its hooks take arguments that they do not look at. */
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#pragma GCC diagnostic ignored "-Wunused-parameter"
/* gcc cannot see that only a packet that was parsed is used; the verifier can */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

enum {
	HOST_SETS = 4,
	HOST_EVENTS = 64,
	HOST_NAMES = 64,
};

/* What happened to the kernel side and what it did; all to be set and seen by a test. */
static struct host {
	u64 now;		/* bpf_ktime_get_ns() */
	u32 cpu;
	u64 task;		/* tgid << 32 | tid */
	char comm[COMM_LEN];
	const void *unreadable;	/* a probe read that covers this byte fails */
	unsigned int reads;	/* probe reads so far */
	bool no_reasons;	/* a kernel before enum skb_drop_reason */
	bool no_purge;		/* … and before SKB_DROP_REASON_QUEUE_PURGE */
	bool no_nfct;		/* a kernel without CONFIG_NF_CONNTRACK */
	struct tcp_sock tcp;	/* what each socket has beyond struct sock */
	u32 sent_before;	/* so many numbers from a segment's own on TCP has sent already */
	bool ring_full;
	void (*nested)(void);	/* an interrupt: runs once, when a hook asks for the task or copies a record */
	unsigned int n_events;
	size_t event_size[HOST_EVENTS];
	struct record event[HOST_EVENTS];
	unsigned int n_devs, n_tasks;
	struct dev_key dev_key[HOST_NAMES];
	struct dev_name dev_name[HOST_NAMES];
	u32 tid[HOST_NAMES];
	struct task_name task_name[HOST_NAMES];
	struct set sets[HOST_SETS] __attribute__((aligned(4096)));
	struct arrivals arrivals[ARRIVAL_SETS];
} host;

/* Numbers of drop reasons on the host, which are not those of vmlinux.h. */
enum {
	HOST_SKB_DROP_REASON_NOT_SPECIFIED___ours = 102,
	HOST_SKB_DROP_REASON_QUEUE_PURGE___ours = 177,
};

/* bpf/read.bpf.h and libbpf's headers */

#define SLOWPKT_READ_BPF_H
#define DIRECT

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#undef __noinline
#define __noinline __attribute__((noinline, unused))
#define SEC(name) __attribute__((unused))

#define READ(p, field) ((p)->field)
#define READ_BITFIELD(p, field) ((p)->field)
#define BOUND(x, mask) ((x) &= (mask))
/* a hook's program is called hook_<target>(ctx, its arguments) */
#define TP_AS(name, target, args...) static __attribute__((unused)) int hook_##name(const u64 *ctx, args)
#define FN_AS(name, target, args...) TP_AS(name, target, args)
#define TP(target, args...) TP_AS(target, target, args)
#define FN(target, args...) TP(target, args)
#define BPF_PROG(name, args...) name(const u64 *ctx, args)

static inline void *at_offset(void *base, u64 offset)
{
	return (char *)base + offset;
}

static inline u64 nonzero(u64 x)
{
	return x != 0;
}

static inline u64 at_least(s64 a, s64 b)
{
	return a >= b;
}

static inline u32 ptr_low(const void *p)
{
	return (u32)(u64)p;
}

static inline struct tcp_sock *bpf_skc_to_tcp_sock(struct sock *sk)
{
	return &host.tcp;
}

static inline u64 bpf_ktime_get_ns(void)
{
	return host.now;
}

static inline u32 bpf_get_smp_processor_id(void)
{
	return host.cpu;
}

static inline void host_interrupt(void)
{
	void (*nested)(void) = host.nested;

	host.nested = NULL;
	if (nested)
		nested();
}

static inline u64 bpf_get_current_pid_tgid(void)
{
	host_interrupt();
	return host.task;
}

static inline int bpf_get_current_comm(char *buf, u32 size)
{
	memcpy(buf, host.comm, size < COMM_LEN ? size : COMM_LEN);
	return 0;
}

static inline bool host_has(const char *value)
{
	return !host.no_reasons && !(host.no_purge && !strcmp(value, "SKB_DROP_REASON_QUEUE_PURGE___ours"));
}

static inline bool host_has_field(const char *field)
{
	return !(host.no_nfct && !strcmp(field, "skb->_nfct"));
}

static inline int bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	const char *bad = host.unreadable, *at = from;

	if (size == sizeof(struct record) - offsetof(struct record, gen))
		host_interrupt();
	host.reads++;
	if (!from || (bad && bad >= at && bad < at + size)) {
		memset(to, 0, size);
		return -EFAULT;
	}
	memcpy(to, from, size);
	return 0;
}

static inline long host_read_str(void *to, u32 size, const void *from)
{
	char *text = to;
	long length;

	if (bpf_probe_read_kernel(to, size, from))
		return -EFAULT;
	/* what lies behind the end is left as it was; here it was zeroed by the caller */
	length = strnlen(text, size - 1);
	memset(text + length, 0, size - length);
	return length + 1;
}

#define bpf_core_read(to, size, from) bpf_probe_read_kernel(to, size, from)
#define bpf_core_read_str(to, size, from) host_read_str(to, size, from)
#define bpf_core_field_offset(type, field) offsetof(type, field)
#define bpf_core_field_exists(field) host_has_field(#field)
#define bpf_core_type_exists(type) (!host.no_reasons)
/* of an enumerator that the kernel lacks libbpf makes 0, and no load may come there */
#define bpf_core_enum_value(type, value) (host_has(#value) ? (u32)HOST_##value : 0)
#define bpf_core_enum_value_exists(type, value) host_has(#value)

/* The table has as many sets as cfg says. */
#define bpf_map_lookup_elem(map, key) host_lookup(#map, key)
#define bpf_map_update_elem(map, key, value, flags) host_update(#map, key, value)
#define bpf_ringbuf_output(map, data, size, flags) host_output(#map, data, size)

/* bpf/shared.bpf.h: the maps are named by what &map spells */

#define SLOWPKT_SHARED_BPF_H

static struct config cfg;
static struct counts counts[COUNT_CPUS];
static __u64 devs_seen[SEEN];
static __u64 tasks_seen[SEEN];

static inline struct counts *counts_of(u32 cpu)
{
	return &counts[cpu & (COUNT_CPUS - 1)];
}

static inline struct counts *my_counts(void)
{
	return counts_of(host.cpu);
}

static inline void *host_lookup(const char *map, const u32 *index)
{
	if (!strcmp(map, "&arrivals"))
		return *index < ARRIVAL_SETS ? &host.arrivals[*index] : NULL;
	assert_string_equal(map, "&table");
	return *index < cfg.sets && *index < HOST_SETS ? &host.sets[*index] : NULL;
}

static inline int host_update(const char *map, const void *key, const void *value)
{
	if (!strcmp(map, "&dev_names")) {
		assert_in_range(host.n_devs, 0, HOST_NAMES - 1);
		memcpy(&host.dev_key[host.n_devs], key, sizeof(struct dev_key));
		memcpy(&host.dev_name[host.n_devs++], value, sizeof(struct dev_name));
	} else {
		assert_string_equal(map, "&task_names");
		assert_in_range(host.n_tasks, 0, HOST_NAMES - 1);
		memcpy(&host.tid[host.n_tasks], key, sizeof(u32));
		memcpy(&host.task_name[host.n_tasks++], value, sizeof(struct task_name));
	}
	return 0;
}

static inline int host_output(const char *map, const void *data, u64 size)
{
	assert_string_equal(map, "&events");
	if (host.ring_full)
		return -EAGAIN;
	assert_in_range(host.n_events, 0, HOST_EVENTS - 1);
	assert_in_range(size, offsetof(struct record, hop), sizeof(struct record));
	memset(&host.event[host.n_events], 0xa5, sizeof(struct record));
	memcpy(&host.event[host.n_events], data, size);
	host.event_size[host.n_events++] = size;
	return 0;
}

/* As after loading: everything is let through and judged by the articles' thresholds. */
static inline void host_reset(void)
{
	memset(&host, 0, sizeof(host));
	memset(&cfg, 0, sizeof(cfg));
	memset(counts, 0, sizeof(counts));
	memset(devs_seen, 0, sizeof(devs_seen));
	memset(tasks_seen, 0, sizeof(tasks_seen));
	host.now = 1000000000123ull;
	cfg.tcp = cfg.udp = cfg.ipv4 = cfg.ipv6 = 1;
	cfg.asks_ports = cfg.asks_more = 1;
	cfg.waits = ~0u;
	cfg.total_tcp = 30000000;
	cfg.total_udp = 3000000;
	memset(cfg.stage, 0xff, sizeof(cfg.stage));
	cfg.sets = HOST_SETS;
}

#endif
