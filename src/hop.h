/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of hops as user space sees it. */
#ifndef SLOWPKT_HOP_H
#define SLOWPKT_HOP_H

#include <stdint.h>

#include "hops.h"

/* The ways into the stack: if one of them is not seen, an old note could pass for a later packet's. */
#define WAYS_IN (1u << HOP_NAPI_GRO_RECEIVE | 1u << HOP_NAPI_GRO_FRAGS | \
		 1u << HOP_NETIF_RECEIVE_SKB_ENTRY | 1u << HOP_NETIF_RECEIVE_SKB_LIST)

enum hop_kind {
	HOP_TP,		/* a tracepoint */
	HOP_FN,		/* a function's entry */
	HOP_SKBFN,	/* the same, and the skb is the first argument */
	HOP_FEXIT,	/* a function's exit */
	HOP_MODFN,	/* a function of a module that may come later */
};

struct hop_info {
	enum hop_kind kind;
	enum place place;
	const char *target;	/* what is attached to */
	const char *shown;	/* its name in every output */
	const char *article;	/* what to attach to instead; NULL: nothing */
};

extern const struct hop_info hop_infos[HOP_IDS];

/* The hops (mask, 1 << enum hop_id) at places (mask, 1 << enum place). */
uint32_t hop__at(uint32_t places);

/* The module in which the function of a HOP_MODFN lives; NULL for any other hop. */
const char *hop__module(enum hop_id id);

#endif
