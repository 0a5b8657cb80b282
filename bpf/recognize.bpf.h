/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a hop does with a packet that it cannot take for the one that was at the hop before. */
#ifndef SLOWPKT_RECOGNIZE_BPF_H
#define SLOWPKT_RECOGNIZE_BPF_H

#include "journey.bpf.h"

/* How a hop looks at a packet that it cannot take for the one that was at the hop before. */
enum {
	REFUSED_AT = 7,		/* enum refused_at, if no filter lets it through */
	ANEW = 1 << 3,		/* a journey begins here in any case */
	AT_DATA = 1 << 4,	/* where the network header lies: enum l3_at */
	MAY_BE_INNER = 1 << 5,
	UNSENT = 1 << 6,
	IF_WANTED = 1 << 7,	/* parsed only if ports.bpf.h lets it through */
	HOP_SHIFT = 8,		/* enum hop_id, six bits */
	MAY_HAVE_BEEN_INNER = 1 << 14, /* a tunnel of this host may have put headers in front */
	PROTOCOL_SHIFT = 16,	/* ETH_P_* in network order, where the hop knows it */
};

#define PROTOCOL(p) ((u32)bpf_htons(p) << PROTOCOL_SHIFT)
#define AS_HOP(id) ((u32)(id) << HOP_SHIFT)

/* A packet that is not ours, or of which nothing is known. */
static __always_inline void leave_alone(struct entry *e, u32 how, enum parsed parsed)
{
	/* once a packet, not at each hop */
	if (parsed == UNPARSED && (how & ANEW || e->home->refused != e->skb + REFUSED_TRANSPORT))
		my_counts()->unparsed++;
	/* it may end unseen, or be readable at the next hop: not to be trusted */
	refuse(e, REFUSED_TRANSPORT);
}

/* Begins a journey if the filters let the packet through. Returns whether they do. */
static __always_inline bool admit(struct entry *e, const struct packet *p, u64 now, u32 how, enum parsed parsed)
{
	if (parsed == UNPARSED || parsed == NOT_OURS) {
		leave_alone(e, how, parsed);
		return false;
	}
	if (parsed == UNWANTED || !wanted(p)) {
		refuse(e, how & REFUSED_AT);
		return false;
	}
	begin(e, p, now, !(how & ANEW));
	return true;
}

/* Not inlined, so that what it needs of the stack is free again behind it; one, because it is long. */
static __noinline u32 parse_as(struct packet *p, struct sk_buff *skb, u32 how)
{
	enum l3_at at = how & AT_DATA ? L3_AT_DATA : how & UNSENT ? L3_UNSENT :
			how & MAY_BE_INNER ? L3_MAY_BE_INNER : L3_AT_HEADER;

	return p ? parse(p, skb, at, how >> PROTOCOL_SHIFT, how & IF_WANTED ? WANTED : ANYBODYS) : UNPARSED;
}

/*
 * Whether the packet, or the one within it, is the one that the record knows. If
 * not, the record's journey is over, and its end was not seen.
 */
static __always_inline bool is_known(struct entry *e, struct sk_buff *skb, u64 now, u32 how)
{
	u64 doubtful = may_be_over(e->record, now);
	struct packet p;

	if (parse_as(&p, skb, how & ~MAY_BE_INNER) == PARSED && is_same(e->record, &p, doubtful))
		goto known;
	if (how & (MAY_BE_INNER | MAY_HAVE_BEEN_INNER) && is_encapsulated(skb) &&
	    parse_as(&p, skb, (how & ~AT_DATA) | MAY_BE_INNER) == PARSED && is_same(e->record, &p, doubtful))
		goto known;
	lose(e);
	return false;
known:
	learn(e->record, &p);
	return true;
}

/*
 * Keeps the record if it is this packet's, else begins a journey, anew or in its
 * middle, if the filters let the packet through. Returns whether it is tracked.
 */
static __noinline int recognize(struct entry *e, struct sk_buff *skb, u64 now, u32 how)
{
	struct packet p;

	if (!e)
		return 0;
	if (e->record && how & ANEW)
		lose(e);
	if (e->record && is_known(e, skb, now, how))
		return 1;
	return admit(e, &p, now, how, parse_as(&p, skb, how | IF_WANTED));
}

/* A tracked packet's last hop: whether it still is the packet that the record knows. */
static __noinline int is_still(struct entry *e, struct sk_buff *skb, u64 now, u32 how)
{
	return e && e->record && is_known(e, skb, now, how);
}

/* Netfilter was passed since the headers were last looked at. Only what is printed needs to know. */
static __noinline int learn_late(struct entry *e, struct sk_buff *skb, u32 how)
{
	struct packet p;

	if (!e || !e->record)
		return 0;
	if (parse_as(&p, skb, how) == PARSED && is_same(e->record, &p, 0))
		learn(e->record, &p);
	return 0;
}

#endif
