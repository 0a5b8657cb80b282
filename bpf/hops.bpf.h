/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is done at each kind of hop: the bodies of the programs in hooks.bpf.h. */
#ifndef SLOWPKT_HOPS_BPF_H
#define SLOWPKT_HOPS_BPF_H

#include "compat.bpf.h"
#include "journey.bpf.h"
#include "recognize.bpf.h"

/* Counts a run of a hook. Returns the CPU, which every hop needs. */
static __always_inline u32 count_hit(const enum hop_id id)
{
	u32 cpu = bpf_get_smp_processor_id();

	counts[cpu & (COUNT_CPUS - 1)].hits[id]++;
	return cpu;
}

static __always_inline u32 netns_of_sock(struct sock *sk)
{
	struct net *net = READ(sk, __sk_common.skc_net.net);

	return READ(net, ns.inum);
}

/* Hardware lies behind it: a packet enters or leaves the host here. */
static __always_inline bool is_nic(struct net_device *dev)
{
	return READ(dev, dev.parent);
}

/*
 * A packet that no filter let through before netfilter may pass after it. Without
 * a conntrack entry nothing but stateless NAT changes it, which the socket's hop sees.
 */
static __always_inline bool may_be_natted(struct sk_buff *skb)
{
	/* not there without CONFIG_NF_CONNTRACK */
	return bpf_core_field_exists(skb->_nfct) && READ(skb, _nfct);
}

/* A hop at a device. */
static __always_inline int hop_at_device(struct sk_buff *skb, struct entry *e, const enum hop_id id,
					 const u32 how)
{
	const enum place place = hop_place(id);
	u64 now = bpf_ktime_get_ns();
	struct net_device *dev = READ(skb, dev);

	if ((!tracked(e) || !follows(e, place, dev, now)) && !recognize(e, skb, now, how | refused_at(place)))
		return 0;
	arrive(e->record, dev);
	add_hop(e, id, now, false);
	publish(e);
	return 0;
}

static __always_inline int hop_between(struct sk_buff *skb, const enum hop_id id, const u32 how)
{
	u32 cpu = count_hit(id);
	struct entry e;

	if (!entry_of(&e, skb, cpu) || stays_refused(&e, hop_place(id)))
		return 0;
	return hop_at_device(skb, &e, id, how);
}

/* Routed, past netfilter: the first hop that sees what it has made of the packet. */
static __always_inline int hop_output(struct sk_buff *skb, const enum hop_id id, const u32 protocol)
{
	u32 cpu = count_hit(id);
	struct entry e;

	if (!entry_of(&e, skb, cpu) || (stays_refused(&e, PLACE_OUTPUT) && !may_be_natted(skb)))
		return 0;
	return hop_at_device(skb, &e, id, protocol | MAY_BE_INNER);
}

/* The bridge: at the device where the packet was received, so none of it is read. */
static __always_inline int hop_bridge(struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_BR_HANDLE_FRAME_FINISH);
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu) || stays_refused(&e, PLACE_BRIDGE))
		return 0;
	now = bpf_ktime_get_ns();
	if (!tracked(&e) || !follows(&e, PLACE_BRIDGE, NULL, now)) {
		if (!recognize(&e, skb, now, REFUSED_BRIDGE))
			return 0;
		arrive(e.record, READ(skb, dev));
	}
	add_hop(&e, HOP_BR_HANDLE_FRAME_FINISH, now, false);
	publish(&e);
	return 0;
}

/* From a NIC the packet has just come to this host, unless an old driver's netif_rx began its journey. */
static __always_inline bool comes_anew(const struct entry *e, struct net_device *dev, const enum place place)
{
	if (!is_nic(dev))
		return false;
	return place == PLACE_NETIF_RX || !e->record || e->record->last_place != PLACE_NETIF_RX ||
	       e->record->last_dev != (u64)dev;
}

/* The packet was refused when netif_rx took it. */
static __always_inline bool came_from_backlog(const struct entry *e)
{
	return *e->refused == e->skb + REFUSED_NETIF_RX;
}

/* The stack takes a packet from a device. */
static __always_inline int hop_receive(struct sk_buff *skb, const enum hop_id id)
{
	const enum place place = hop_place(id);
	u32 cpu = count_hit(id);
	struct net_device *dev;
	struct entry e;
	bool anew;
	u64 now;

	if (!entry_of(&e, skb, cpu))
		return 0;
	/* out of the backlog comes nothing that did not go in: no need to ask the device */
	if (place == PLACE_RECEIVE && came_from_backlog(&e)) {
		refuse(&e, REFUSED_RECEIVE);
		return 0;
	}
	dev = READ(skb, dev);
	if (!is_nic(dev) && stays_refused(&e, place))
		return 0;
	now = bpf_ktime_get_ns();
	tracked(&e);
	anew = comes_anew(&e, dev, place);
	if ((anew || !e.record || !follows(&e, place, dev, now)) &&
	    !recognize(&e, skb, now, AT_DATA | (anew ? ANEW : 0) | refused_at(place)))
		return 0;
	arrive(e.record, dev);
	add_hop(&e, id, now, false);
	publish(&e);
	return 0;
}

/* After the qdisc, into the driver; a NIC's driver takes the packet off this host. */
static __always_inline int hop_xmit(struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_DEV_HARD_START_XMIT);
	struct net_device *dev;
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu) || stays_refused(&e, PLACE_XMIT))
		return 0;
	now = bpf_ktime_get_ns();
	dev = READ(skb, dev);
	if ((!tracked(&e) || !follows(&e, PLACE_XMIT, dev, now)) &&
	    !recognize(&e, skb, now, MAY_BE_INNER | REFUSED_XMIT))
		return 0;
	arrive(e.record, dev);
	add_hop(&e, HOP_DEV_HARD_START_XMIT, now, false);
	if (!is_nic(dev)) {
		publish(&e);
		return 0;
	}
	if (is_slow(e.record, now))
		learn_late(&e, skb, MAY_BE_INNER);
	end_journey(&e, skb, END_SENT, now);
	return 0;
}

/* A journey has begun at a socket of this host. */
static __always_inline void leave_socket(struct entry *e, const enum hop_id id, u64 now, u32 netns, bool owner)
{
	arrive_at_socket(e->record, netns);
	add_hop(e, id, now, owner);
	publish(e);
}

/*
 * The task that holds the socket's lock sends; else an ACK or a timer does, in
 * whatever task was interrupted. A listener answers without its lock, whoever
 * holds it.
 */
static __always_inline bool owns(struct sock *sk)
{
	u8 state = READ(sk, __sk_common.skc_state);

	return state != TCP_LISTEN && state != TCP_NEW_SYN_RECV && READ(sk, sk_lock.owned);
}

/* TCP hands a segment to IP. The addresses are the caller's: there is no IP header yet. */
static __always_inline int hop_send_tcp(struct sock *sk, struct sk_buff *skb, const enum hop_id id,
					struct packet *p, u32 cpu)
{
	struct entry e;
	u32 parsed;
	u64 now;

	if (!entry_of(&e, skb, cpu))
		return 0;
	now = bpf_ktime_get_ns();
	if (tracked(&e))
		lose(&e);
	parsed = READ(sk, sk_protocol) == IPPROTO_TCP ? parse_unsent_tcp(p, skb) : NOT_OURS;
	if (admit(&e, p, now, ANEW | REFUSED_BEFORE_OUTPUT, parsed))
		leave_socket(&e, id, now, netns_of_sock(sk), owns(sk));
	return 0;
}

static __always_inline int hop_send_tcp4(struct sock *sk, struct sk_buff *skb, const enum hop_id id,
					 __be32 saddr, __be32 daddr)
{
	u32 cpu = count_hit(id);
	struct packet p = {};

	set_v4(&p.tuple, saddr, daddr);
	return hop_send_tcp(sk, skb, id, &p, cpu);
}

static __always_inline int hop_send_tcp6(struct sock *sk, struct sk_buff *skb, struct flowi6 *fl6)
{
	u32 cpu = count_hit(HOP_IP6_XMIT);
	struct in6_addr src, dst;
	struct packet p = {};

	/* the flow, not the socket: a SYN-ACK is sent for a socket that listens */
	bpf_core_read(&src, sizeof(src), &fl6->saddr);
	bpf_core_read(&dst, sizeof(dst), &fl6->daddr);
	set_v6(&p.tuple, src.in6_u.u6_addr32, dst.in6_u.u6_addr32);
	return hop_send_tcp(sk, skb, HOP_IP6_XMIT, &p, cpu);
}

/* A datagram, or a TCP segment without a socket of its own (RST, TIME_WAIT), with its IP header. */
static __always_inline int hop_send_headed(struct sk_buff *skb, struct net *net, const enum hop_id id,
					   const u32 protocol)
{
	u32 cpu = count_hit(id);
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu))
		return 0;
	now = bpf_ktime_get_ns();
	tracked(&e);
	if (recognize(&e, skb, now, ANEW | UNSENT | REFUSED_BEFORE_OUTPUT | protocol))
		leave_socket(&e, id, now, READ(net, ns.inum), e.record->first.proto == IPPROTO_UDP);
	return 0;
}

static __always_inline int hop_send_headed6(struct sk_buff *skb)
{
	struct sock *sk = READ(skb, sk);

	return hop_send_headed(skb, READ(sk, __sk_common.skc_net.net), HOP_IP6_SEND_SKB,
			       PROTOCOL(ETH_P_IPV6));
}

/*
 * The transport layer has the packet, past all netfilter, and is asked again
 * whether a filter lets it through. For a datagram its wait in the socket begins.
 */
static __always_inline int hop_transport(struct sk_buff *skb, const enum hop_id id, const u32 protocol)
{
	u32 cpu = count_hit(id);
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu))
		return 0;
	now = bpf_ktime_get_ns();
	if (!tracked(&e) || !follows(&e, hop_place(id), NULL, now)) {
		if (!recognize(&e, skb, now, REFUSED_TRANSPORT | protocol))
			return 0;
		/* for a datagram skb->dev is good here for the last time */
		arrive(e.record, READ(skb, dev));
	}
	if (id == HOP_UDP_ENQUEUE)
		arrive_at_socket(e.record, 0);
	add_hop(&e, id, now, false);
	publish(&e);
	return 0;
}

static __always_inline void note_reader(struct record *r)
{
	u64 id = bpf_get_current_pid_tgid();

	r->reader_pid = id >> 32;
	r->reader_tid = id;
	bpf_get_current_comm(r->reader_comm, sizeof(r->reader_comm));
}

/* The application takes the datagram. Somebody else holds it too: it was only peeked at. */
static __always_inline int hop_read(struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_UDP_READ);
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu) || !tracked(&e) || READ(skb, users.refs.counter) > 1)
		return 0;
	now = bpf_ktime_get_ns();
	if (!is_still(&e, skb, 0))
		return 0;
	arrive_at_socket(e.record, 0);
	add_hop(&e, HOP_UDP_READ, now, true);
	if (is_slow(e.record, now))
		note_reader(e.record);
	end_journey(&e, skb, END_READ, now);
	return 0;
}

/*
 * The segment reaches the state machine. Its headers' numbers lie in skb->cb;
 * the backlog of a busy socket may have merged later segments into it
 * (tcp_add_backlog), which moves its ACK on.
 */
static __always_inline bool is_same_segment(const struct record *r, struct sk_buff *skb)
{
	u32 seq = read_cb_u32(skb, bpf_core_field_offset(struct tcp_skb_cb, seq));
	u32 ack = read_cb_u32(skb, bpf_core_field_offset(struct tcp_skb_cb, ack_seq));

	return r->last.proto == IPPROTO_TCP && r->seq == seq && (s32)(ack - r->ack) >= 0;
}

static __always_inline int hop_tcp_state(struct sk_buff *skb, const enum hop_id id)
{
	u32 cpu = count_hit(id);
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu) || !tracked(&e))
		return 0;
	if (!is_same_segment(e.record, skb)) {
		lose(&e);
		return 0;
	}
	now = bpf_ktime_get_ns();
	arrive_at_socket(e.record, 0);
	add_hop(&e, id, now, false);
	if (is_slow(e.record, now))
		learn_late(&e, skb, 0);
	end_journey(&e, skb, END_DELIVERED, now);
	return 0;
}

/* Freed before its time, in the netns and at the device where the hop before was. */
static __always_inline int hop_drop(const u64 *ctx, struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_KFREE_SKB);
	enum record_end end = END_DROPPED;
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu))
		return 0;
	if (!tracked(&e)) {
		/* what comes up in this skb next must not be taken for it */
		forgive(&e);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (!is_still(&e, skb, MAY_BE_INNER))
		return 0;
	if (e.record->last_place == PLACE_ENQUEUE && purged(drop_reason(ctx)))
		end = END_UNREAD;
	add_hop(&e, HOP_KFREE_SKB, now, false);
	e.record->drop_reason = drop_reason(ctx);
	end_journey(&e, skb, end, now);
	return 0;
}

enum { MAX_SEGMENTS = 64 };	/* more than 64 kB hold at the usual MTU */

/* The other segments are in the first one's range: no journeys of their own, down to the next socket. */
static __always_inline void refuse_rest(struct sk_buff *first, u32 cpu)
{
	struct sk_buff *skb = READ(first, next);
	struct entry e;

#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_SEGMENTS && skb; i++) {
		if (!entry_of(&e, skb, cpu))
			return;
		if (tracked(&e))
			lose(&e);
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
		bpf_probe_read_kernel(first->record, sizeof(*record), record);
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
static __always_inline int hop_cut(struct sk_buff *skb, struct sk_buff *segs, bool sending)
{
	u32 cpu = count_hit(HOP_GSO_SEGMENT);
	struct entry whole, first;
	struct packet p;

	/* NULL: it need not be cut; else the top of the address range is an errno */
	if (!segs || (u64)segs >= (u64)-4095)
		return 0;
	if (!entry_of(&whole, skb, cpu) || !tracked(&whole) || !entry_of(&first, segs, cpu))
		return 0;
	if (!hand_over(&whole, &first, bpf_ktime_get_ns()))
		return 0;
	first.record->segs = segments(skb);
	/* each segment of a train is a datagram with a length and a number of its own */
	if (first.record->last.proto == IPPROTO_UDP && parse(&p, segs, L3_MAY_BE_INNER, 0) == PARSED &&
	    same_tuple(&first.record->last, &p.tuple)) {
		first.record->len = p.len;
		first.record->ip_id = p.ip_id;
		if (!sending)
			first.record->segs = 1;
	}
	forgive(&first);
	publish(&first);
	refuse_rest(segs, cpu);
	return 0;
}

#endif
