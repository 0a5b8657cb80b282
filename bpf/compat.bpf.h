/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Kernel drift: one accessor per drift, asked of the running kernel's BTF, never of its version. */
#ifndef SLOWPKT_COMPAT_BPF_H
#define SLOWPKT_COMPAT_BPF_H

#include "read.bpf.h"

/*
 * CO-RE takes the running kernel's values, and no notice of ___ and what follows. A
 * flavour, because a full dump of an older kernel's types does not have them.
 */
enum skb_drop_reason___ours {
	SKB_DROP_REASON_NOT_SPECIFIED___ours = 2,
	SKB_DROP_REASON_QUEUE_PURGE___ours = 3,
};

/*
 * The drop reason of skb:kfree_skb, 0 where the kernel gives none. The third
 * argument came with enum skb_drop_reason in 5.17 (c504e5c2f964, "net: skb:
 * introduce kfree_skb_reason()").
 */
static __always_inline u32 drop_reason(const u64 *ctx)
{
	if (bpf_core_type_exists(enum skb_drop_reason___ours))
		return ctx[2];
	return 0;
}

/*
 * Whether a datagram freed out of a socket's queue was thrown away with the queue:
 * without a reason up to 6.5, with QUEUE_PURGE since. A kernel without reasons
 * cannot tell this from a full queue.
 */
static __always_inline bool purged(u32 reason)
{
	if (!bpf_core_type_exists(enum skb_drop_reason___ours))
		return false;
	if (reason == bpf_core_enum_value(enum skb_drop_reason___ours, SKB_DROP_REASON_NOT_SPECIFIED___ours))
		return true;
	return bpf_core_enum_value_exists(enum skb_drop_reason___ours, SKB_DROP_REASON_QUEUE_PURGE___ours) &&
	       reason == bpf_core_enum_value(enum skb_drop_reason___ours, SKB_DROP_REASON_QUEUE_PURGE___ours);
}

#endif
