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
	PROTOCOL_SHIFT = 16,	/* ETH_P_* in network order, where the hop knows it */
};

#define PROTOCOL(p) ((u32)bpf_htons(p) << PROTOCOL_SHIFT)

/* Begins a journey if the filters let the packet through. Returns whether they do. */
static __noinline int admit(struct entry *e, const struct packet *p, u64 now, u32 how, u32 parsed)
{
	if (!e || !p)
		return 0;
	/* once a packet, not at each hop */
	if (parsed == UNPARSED && (how & ANEW || *e->refused != e->skb + REFUSED_TRANSPORT))
		my_counts()->unparsed++;
	if (parsed != PARSED) {
		/* it may end unseen, or be readable at the next hop: not to be trusted */
		refuse(e, REFUSED_TRANSPORT);
		return 0;
	}
	if (!wanted(p)) {
		refuse(e, how & REFUSED_AT);
		return 0;
	}
	begin(e, p, now, !(how & ANEW));
	return 1;
}

/* Not inlined, so that what it needs of the stack is free again behind it. */
static __noinline u32 parse_as(struct packet *p, struct sk_buff *skb, u32 how)
{
	enum l3_at at = how & AT_DATA ? L3_AT_DATA : how & UNSENT ? L3_UNSENT :
			how & MAY_BE_INNER ? L3_MAY_BE_INNER : L3_AT_HEADER;

	return p ? parse(p, skb, at, how >> PROTOCOL_SHIFT) : UNPARSED;
}

/*
 * Whether the packet, or the one within it, is the one that the record knows. If
 * not, the record's journey is over, and its end was not seen. *p and *parsed: the
 * packet as it was last looked at.
 */
static __always_inline bool is_known(struct entry *e, struct sk_buff *skb, u32 how, struct packet *p,
				     u32 *parsed)
{
	*parsed = parse_as(p, skb, how & ~MAY_BE_INNER);
	if (*parsed == PARSED && is_same(e->record, p))
		goto known;
	if (how & MAY_BE_INNER && is_encapsulated(skb)) {
		*parsed = parse_as(p, skb, how);
		if (*parsed == PARSED && is_same(e->record, p))
			goto known;
	}
	lose(e);
	return false;
known:
	learn(e->record, p);
	return true;
}

/*
 * Keeps the record if it is this packet's, else begins a journey, anew or in its
 * middle, if the filters let the packet through. Returns whether it is tracked.
 */
static __noinline int recognize(struct entry *e, struct sk_buff *skb, u64 now, u32 how)
{
	struct packet p;
	u32 parsed;

	if (!e)
		return 0;
	if (e->record && how & ANEW)
		lose(e);
	if (!e->record)
		parsed = parse_as(&p, skb, how);
	else if (is_known(e, skb, how, &p, &parsed))
		return 1;
	return admit(e, &p, now, how, parsed);
}

/* A tracked packet's last hop: whether it still is the packet that the record knows. */
static __noinline int is_still(struct entry *e, struct sk_buff *skb, u32 how)
{
	struct packet p;
	u32 parsed;

	return e && e->record && is_known(e, skb, how, &p, &parsed);
}

/* Netfilter was passed since the headers were last looked at. Only what is printed needs to know. */
static __noinline int learn_late(struct entry *e, struct sk_buff *skb, u32 how)
{
	struct packet p;

	if (!e || !e->record)
		return 0;
	if (parse_as(&p, skb, how) == PARSED && is_same(e->record, &p))
		learn(e->record, &p);
	return 0;
}

#endif
