/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The BPF side: loaded, attached, read, swept. */
#ifndef SLOWPKT_TRACER_H
#define SLOWPKT_TRACER_H

#include <stdio.h>

#include "cost.h"
#include "options.h"
#include "print.h"

struct tracer;

/*
 * Takes a slow journey's record, borrowed for the call. number: its pkt=N, the
 * same for one that was waiting first and then ended.
 */
typedef void (*tracer_sink)(void *context, const struct record *record, uint64_t number);

/*
 * Loads the programs and attaches every hop that the options want, each in the
 * best way that this kernel offers, or as --attach asks. A hop that cannot be
 * attached is left out, and the rest must still be of use (not with --check).
 * Returns NULL after a message on stderr. Ended by tracer__close().
 */
struct tracer *tracer__open(const struct options *o, tracer_sink sink, void *context);
void tracer__close(struct tracer *t);

/*
 * Waits up to timeout_ms for slow journeys and hands them to the sink. Returns 0,
 * or -EINTR after a signal, or another -errno.
 */
int tracer__poll(struct tracer *t, int timeout_ms);

/* Hands what the kernel side has sent until now to the sink, without waiting. */
void tracer__drain(struct tracer *t);

/*
 * To be called once a second: hands journeys to the sink that are slow and still
 * held, or whose end does not come, and attaches hops whose module has come.
 */
void tracer__sweep(struct tracer *t);

/* Everything counted so far, all CPUs together. *missed: program runs that the kernel skipped. */
void tracer__counts(const struct tracer *t, struct counts *sum, uint64_t *missed);

/* The hops (mask of enum hop_id) that are attached. */
uint32_t tracer__attached(const struct tracer *t);

/* How a hop is attached: "tp_btf", "fentry", "kprobe", "kprobe on NAME", …, or "not attached". */
const char *tracer__how(const struct tracer *t, enum hop_id id);

/*
 * What the hop's program has cost since tracer__since(); nothing if it is not attached.
 * Returns 0, or -errno where the kernel keeps no account; it is asked to with -v only.
 */
int tracer__cost(const struct tracer *t, enum hop_id id, struct cost *cost);

/* When the first program was attached: CLOCK_MONOTONIC, ns. */
uint64_t tracer__since(const struct tracer *t);

/* Whether a hop is not attached only because its module is not loaded. */
bool tracer__awaits_module(const struct tracer *t, enum hop_id id);

/* Why a hop is not attached, with neither capital nor full stop. */
const char *tracer__why_not(const struct tracer *t, enum hop_id id);

/* A line for each wanted hop that is not attached. */
void tracer__say_unattached(const struct tracer *t, FILE *out);

/* Names of the devices and tasks in the records; valid until tracer__close(). */
const struct names *tracer__names(const struct tracer *t);

#endif
