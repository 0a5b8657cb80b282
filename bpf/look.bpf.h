/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A look at the headers of datagrams that went into their socket's queue without one: see late.bpf.h. */
#ifndef SLOWPKT_LOOK_BPF_H
#define SLOWPKT_LOOK_BPF_H

#include "shared.bpf.h"

/* Held for as long as is slow. */
static __always_inline bool has_waited(const struct record *r, u64 now)
{
	return now >= r->last_at && now - r->last_at >= cfg.stage[PLACE_ENQUEUE][PLACE_READ];
}

/*
 * In look.bpf.c; global functions, as those of verdict.bpf.h are. Writes into the record
 * in this way what the headers say. queued: the datagram must be in a queue still. Returns
 * whether that is done: not if the skb is another packet's by now, or is not let through.
 */
int look_late(u32 index, u32 way, u32 queued);

/* The same for those in a full set that are slow by now: one of them is to make room. */
int look_at_full_set(u32 index, u64 now);

#endif
