// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "clock.h"
#include "names.h"
#include "symbols.h"

enum { PLACES_KEPT = 64 };

/* A map is asked by a system call, and the hops of a packet ask for few names again and again. */
enum { CACHED = 256 };

struct kernel_names {
	int dev_map, task_map;
	struct {
		struct dev_key key;
		struct dev_name name;
		bool known;
	} dev[CACHED];
	struct {
		uint32_t tid;
		struct task_name name;
		bool known;
	} task[CACHED];
	const struct btf *btf;
	const struct btf_type *reasons;	/* enum skb_drop_reason; NULL: the kernel has none */
	struct drop_place {
		uint64_t address;
		char name[SYMBOL_TEXT];	/* "": not known */
	} places[PLACES_KEPT];
	unsigned int n_places;
	struct names names;
};

static int device_name(void *context, struct dev_key key, struct dev_name *name)
{
	struct kernel_names *n = context;
	unsigned int at = (key.netns + key.ifindex) % CACHED;

	if (!n->dev[at].known || n->dev[at].key.netns != key.netns || n->dev[at].key.ifindex != key.ifindex) {
		n->dev[at].key = key;
		n->dev[at].known = !bpf_map_lookup_elem(n->dev_map, &key, &n->dev[at].name);
	}
	*name = n->dev[at].name;
	return n->dev[at].known ? 0 : -ENOENT;
}

static int task_name(void *context, uint32_t tid, struct task_name *name)
{
	struct kernel_names *n = context;
	unsigned int at = tid % CACHED;

	if (!n->task[at].known || n->task[at].tid != tid) {
		n->task[at].tid = tid;
		n->task[at].known = !bpf_map_lookup_elem(n->task_map, &tid, &n->task[at].name);
	}
	*name = n->task[at].name;
	return n->task[at].known ? 0 : -ENOENT;
}

void names__forget(struct kernel_names *n)
{
	memset(n->dev, 0, sizeof(n->dev));
	memset(n->task, 0, sizeof(n->task));
}

/* Their numbers move from kernel to kernel, so only the running one's BTF can tell. */
static const char *drop_reason(void *context, uint32_t reason)
{
	static const char prefix[] = "SKB_DROP_REASON_";
	const struct kernel_names *n = context;
	const struct btf_enum *e;
	const char *name;

	if (!n->reasons)
		return NULL;
	e = btf_enum(n->reasons);
	for (int i = 0; i < btf_vlen(n->reasons); i++) {
		if ((uint32_t)e[i].val != reason)
			continue;
		name = btf__name_by_offset(n->btf, e[i].name_off);
		return strncmp(name, prefix, strlen(prefix)) ? name : name + strlen(prefix);
	}
	return NULL;
}

/* What drops packets are few places, and a look through the kernel's symbols takes a while. */
static const char *function(void *context, uint64_t address)
{
	struct kernel_names *n = context;
	struct drop_place *p;

	for (unsigned int i = 0; i < n->n_places; i++)
		if (n->places[i].address == address)
			return *n->places[i].name ? n->places[i].name : NULL;
	p = &n->places[n->n_places < PLACES_KEPT ? n->n_places++ : address % PLACES_KEPT];
	p->address = address;
	if (symbols__name(KALLSYMS, address, p->name))
		*p->name = '\0';
	return *p->name ? p->name : NULL;
}

static uint64_t wall(void *context, uint64_t mono)
{
	(void)context;
	return clock__wall(mono);
}

struct kernel_names *names__new(int dev_map, int task_map, const struct btf *btf)
{
	struct kernel_names *n = calloc(1, sizeof(*n));
	int id;

	if (!n)
		return NULL;
	n->dev_map = dev_map;
	n->task_map = task_map;
	n->btf = btf;
	id = btf__find_by_name_kind(btf, "skb_drop_reason", BTF_KIND_ENUM);
	n->reasons = id > 0 ? btf__type_by_id(btf, id) : NULL;
	n->names = (struct names){ n, device_name, task_name, drop_reason, function, wall };
	return n;
}

void names__free(struct kernel_names *names)
{
	free(names);
}

const struct names *names__of(const struct kernel_names *names)
{
	return &names->names;
}
