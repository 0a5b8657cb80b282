/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A look at the headers of datagrams that went into their socket's queue without one: see late.bpf.h. */
#ifndef SLOWPKT_LOOK_BPF_H
#define SLOWPKT_LOOK_BPF_H

#include "shared.bpf.h"

/*
 * In look.bpf.c; global functions, as those of verdict.bpf.h are. Writes into the record
 * in this way what the headers say. queued: the datagram must be in a queue still. Returns
 * whether that is done: not if the skb is another packet's by now (not_there()), or is
 * not let through.
 */
int look_late(u32 index, u32 way, u32 queued);

/* The same for the one that makes room in a full set now, if it is slow. */
int look_at_victim(u32 index, u64 now);

#endif
