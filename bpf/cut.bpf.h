/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where GSO cuts one skb into many: no hop, but a journey must go on with the right ones. */
#ifndef SLOWPKT_CUT_BPF_H
#define SLOWPKT_CUT_BPF_H

#include "hops.bpf.h"

enum {
	MAX_SEGMENTS = 64,	/* more than 64 kB hold at the usual MTU */
	GSO_SHIFT = 16,		/* NETIF_F_GSO_SHIFT: SKB_GSO_* as features of a device */
};

/*
 * Behind the qdisc a packet is cut for what its device cannot do (validate_xmit_skb()
 * asks for segments with the device's features). A qdisc cuts what it takes in, though
 * the device could do all of it (tbf, cake, taprio, netem: skb_gso_segment() without
 * any feature of GSO, 5.10 to 7.3). The segments wait there, each for itself.
 */
static __always_inline bool is_cut_in_qdisc(const struct record *r, struct sk_buff *skb, u64 features)
{
	struct skb_shared_info *shinfo = (void *)READ(skb, head) + READ(skb, end);
	struct net_device *dev = READ(skb, dev);
	u32 type = 0;
	u64 needed;

	if (r->last_place != PLACE_QUEUE)
		return false;
	bpf_core_read(&type, sizeof(type), &shinfo->gso_type);
	needed = (u64)type << GSO_SHIFT;
	return needed && !(features & needed) && (READ(dev, features) & needed) == needed;
}

/*
 * The other segments are in the first one's range: no journeys of their own, down to
 * the next socket. alone: they are not, and each will be met where it leaves the qdisc.
 */
static __always_inline void refuse_rest(struct sk_buff *first, u32 cpu, bool alone)
{
	struct sk_buff *skb = READ(first, next);
	struct entry e;

#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_SEGMENTS && skb; i++) {
		if (!entry_of(&e, skb, cpu))
			return;
		if (tracked(&e))
			lose(&e);
		if (alone)
			forgive(&e);
		else
			refuse(&e, REFUSED_QUEUE);
		skb = READ(skb, next);
	}
}

/* Moves the record to the first segment. False: another CPU has taken it meanwhile. */
static __always_inline bool hand_over(struct entry *whole, struct entry *first, u64 now)
{
	struct record *record = whole->record;

	/* given back first, or a full set would evict it for its own segment */
	release(whole);
	if (tracked(first))
		lose(first);
	claim(first, now);
	if (first->record != record)
		bpf_probe_read_kernel(&first->record->gen, sizeof(*record) - offsetof(struct record, gen),
				      &record->gen);
	first->begun = true;
	first->gen = whole->gen;
	if (is_ours(first))
		return true;
	release(first);
	return false;
}

/*
 * GSO has cut a packet into new skbs: its journey goes on with the first of them,
 * whose range covers the rest. Only an exit program sees both. sending: else a
 * socket takes a train apart, and each datagram is met at its queue.
 */
static __always_inline int hop_cut(struct sk_buff *skb, struct sk_buff *segs, u64 features, bool sending)
{
	u32 cpu = count_hit(HOP_GSO_SEGMENT);
	struct entry whole, first;
	struct packet p;
	bool alone;

	/* NULL: it need not be cut; else the top of the address range is an errno */
	if (!segs || (u64)segs >= (u64)-4095)
		return 0;
	if (!entry_of(&whole, skb, cpu) || !tracked(&whole) || !entry_of(&first, segs, cpu))
		return 0;
	if (!hand_over(&whole, &first, bpf_ktime_get_ns()))
		return 0;
	first.record->segs = segments(skb);
	alone = sending && is_cut_in_qdisc(first.record, skb, features);
	/* each segment of a train is a datagram with a length and a number of its own */
	if ((alone || first.record->last.proto == IPPROTO_UDP) && parse_as(&p, segs, MAY_BE_INNER) == PARSED &&
	    same_tuple(&first.record->last, &p.tuple)) {
		first.record->len = p.len;
		first.record->ip_id = p.ip_id;
		if (!sending || alone)
			first.record->segs = 1;
	}
	forgive(&first);
	publish(&first);
	refuse_rest(segs, cpu, alone);
	return 0;
}

#endif
