/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How each hop is attached: a ladder of ways, of which it takes the best that this
 * kernel offers, and goes a rung down where one does not do.
 */
#ifndef SLOWPKT_LADDER_H
#define SLOWPKT_LADDER_H

#include "cost.h"
#include "options.h"

struct btf;
struct bpf_object;
struct ladder;

/*
 * Chooses a rung for each wanted hop (mask of enum hop_id). late: nothing is asked
 * for that forbids to look at headers late. btf: the running kernel's own, borrowed;
 * NULL: it has none, so there is no tp_btf and no fentry. Returns NULL and errno.
 * Ended by ladder__free().
 */
struct ladder *ladder__new(uint32_t wanted, bool late, enum attach_mode mode, const struct btf *btf);
void ladder__free(struct ladder *l);

/* Of the object's programs those that are needed are to be loaded, and no others. */
void ladder__choose_programs(struct ladder *l, struct bpf_object *obj);

/*
 * Whether headers are looked at late. Then no datagram may miss the hop where it is
 * queued, and a kprobe is skipped in an interrupt that comes upon another one.
 */
bool ladder__looks_late(const struct ladder *l);

/*
 * Attaches what is loaded. A hop for which that fails goes down; where the rung
 * below needs another program it is not attached yet. Returns how many those are:
 * the object has to be loaded again.
 */
int ladder__attach(struct ladder *l);

/* Detaches all, because the object goes. */
void ladder__detach(struct ladder *l);

/*
 * The kernel has refused this program with err (-errno): its hop goes a rung down,
 * which is said on stderr. False: no hop has it.
 */
bool ladder__refuse(struct ladder *l, const char *program, int err);

/* Attaches hops whose module has come, detaches those whose module has gone. */
void ladder__follow_modules(struct ladder *l);

/* The hops (mask of enum hop_id) that have a rung, attached or not yet. */
uint32_t ladder__chosen(const struct ladder *l);

/* The hops (mask of enum hop_id) that are attached. */
uint32_t ladder__attached(const struct ladder *l);

/* "tp_btf", "fentry", "kprobe", "kprobe on NAME.constprop.0", …, or "not attached"; lives as long as l. */
const char *ladder__how(const struct ladder *l, enum hop_id id);

/* Whether a hop is not attached only because its module is not loaded. */
bool ladder__awaits_module(const struct ladder *l, enum hop_id id);

/* Why a hop is not attached; lives as long as l. */
const char *ladder__why_not(const struct ladder *l, enum hop_id id);

/* Runs of the attached programs of these hops (a mask) that the kernel skipped. */
uint64_t ladder__missed(const struct ladder *l, uint32_t hops);

/* What the hop's program has cost since cost__account(); nothing if it is not attached. Returns 0 or -errno. */
int ladder__cost(const struct ladder *l, enum hop_id id, struct cost *cost);

#endif
