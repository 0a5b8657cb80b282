/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names of devices and tasks. A hop holds numbers; a name is stored when it is
 * first seen, because an ifindex means nothing outside its netns and a tid is soon
 * used again: user space could not ask for them later. User space forgets once a
 * second what was seen, so that a device that was renamed, or a task, shows its
 * new name.
 */
#ifndef SLOWPKT_NAMES_BPF_H
#define SLOWPKT_NAMES_BPF_H

#include "shared.bpf.h"
#include "compat.bpf.h"

/* Whether the key was stored already; if not, it is from now on. */
static __always_inline bool seen_before(u64 *seen, u64 key)
{
	if (*seen == key)
		return true;
	*seen = key;
	return false;
}

static __noinline int store_device(u32 netns, u32 ifindex, struct net_device *dev)
{
	struct dev_key key = { .netns = netns, .ifindex = ifindex };
	struct dev_name name;

	bpf_core_read(name.name, sizeof(name.name), &dev->name);
	bpf_map_update_elem(&dev_names, &key, &name, BPF_ANY);
	return 0;
}

static __always_inline void note_device(u32 netns, u32 ifindex, struct net_device *dev)
{
	u64 *seen = &devs_seen[(netns + ifindex) & (SEEN - 1)];

	if (!seen_before(seen, (u64)netns << 32 | ifindex))
		store_device(netns, ifindex, dev);
}

static __noinline int store_task(u64 id)
{
	struct task_name name = { .pid = id >> 32 };
	u32 tid = id;

	bpf_get_current_comm(name.comm, sizeof(name.comm));
	bpf_map_update_elem(&task_names, &tid, &name, BPF_ANY);
	return 0;
}

/* id: of the current task, as bpf_get_current_pid_tgid() returns it. */
static __always_inline void note_task(u64 id)
{
	/* the idle tasks all have number 0 and are known by their CPU */
	if ((u32)id && !seen_before(&tasks_seen[id & (SEEN - 1)], id))
		store_task(id);
}

#endif
