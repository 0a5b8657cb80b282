/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names of devices and tasks. A hop holds numbers; a name is stored when it is
 * first seen, or seen changed. An ifindex means nothing outside its netns and a
 * tid is soon used again, so user space could not ask for them later.
 */
#ifndef SLOWPKT_NAMES_BPF_H
#define SLOWPKT_NAMES_BPF_H

#include "shared.bpf.h"
#include "compat.bpf.h"

static __always_inline bool seen_before(struct seen *seen, u64 key, const u64 *name)
{
	if (seen->key == key && seen->name[0] == name[0] && seen->name[1] == name[1])
		return true;
	seen->key = key;
	seen->name[0] = name[0];
	seen->name[1] = name[1];
	return false;
}

/* name: DEV_NAME_LEN bytes as two words */
static __always_inline void note_device(u32 netns, u32 ifindex, const u64 *name)
{
	struct seen *seen = &devs_seen[(ifindex ^ netns * 31) & (SEEN - 1)];
	struct dev_key key = { .netns = netns, .ifindex = ifindex };

	if (!seen_before(seen, (u64)netns << 32 | ifindex, name))
		bpf_map_update_elem(&dev_names, &key, name, BPF_ANY);
}

static __always_inline void note_task(const struct current *task)
{
	struct seen *seen = &tasks_seen[task->tid & (SEEN - 1)];
	u32 tid = task->tid;
	struct task_name name = { .pid = task->pid };

	/* the idle tasks all have number 0 and are known by their CPU */
	if (!tid || seen_before(seen, (u64)task->pid << 32 | tid, task->comm))
		return;
	__builtin_memcpy(name.comm, task->comm, sizeof(name.comm));
	bpf_map_update_elem(&task_names, &tid, &name, BPF_ANY);
}

#endif
