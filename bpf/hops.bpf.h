/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is done at each kind of hop: the bodies of the programs in hooks.bpf.h. */
#ifndef SLOWPKT_HOPS_BPF_H
#define SLOWPKT_HOPS_BPF_H

#include "arrival.bpf.h"
#include "compat.bpf.h"
#include "journey.bpf.h"
#include "recognize.bpf.h"

/* Counts a run of a hook. Returns the CPU, which every hop needs. */
static __always_inline u32 count_hit(const enum hop_id id)
{
	u32 cpu = bpf_get_smp_processor_id();

	counts_of(cpu)->hits[id]++;
	return cpu;
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

/* A tunnel, a bridge, a VLAN or a bond: what it transmits comes to the queue of a device beneath it. */
static __always_inline bool is_stacked(struct net_device *dev)
{
	return (u64)READ(dev, adj_list.lower.next) != (u64)&dev->adj_list.lower;
}

/*
 * A datagram comes to its socket's queue, and so do the others of a train that was
 * cut on the way: from here on it stands for itself only.
 */
static __always_inline void arrive_in_queue(struct record *r)
{
	arrive_at_socket(r, 0);
	r->segs = 0;
}

/*
 * A hop that cannot take the packet for the one that was at the hop before, or
 * knows of none. Returns whether the packet is tracked.
 */
static __noinline int hop_unsure(struct sk_buff *skb, u64 now, u32 how)
{
	u32 id = WHERE_HOP(how >> HOP_SHIFT), place = hop_place(id);
	struct entry e;

	if (place >= PLACES || !entry_of(&e, skb, bpf_get_smp_processor_id()))
		return 0;
	tracked(&e);
	if (!recognize(&e, skb, now, how))
		return 0;
	/* for a datagram in its socket's queue skb->dev is good here for the last time */
	arrive(e.record, READ(skb, dev));
	if (id == HOP_UDP_ENQUEUE)
		arrive_in_queue(e.record);
	if (cfg.notes_arrivals && place == PLACE_RECEIVE)
		tell_arrival(&e, skb);
	stamp_ours(&e, id, place, now, false);
	publish(&e);
	return 1;
}

/* A hop of the packet that was at the hop before, where it has arrived. */
static __always_inline void hop_sure(struct entry *e, const enum hop_id id, u64 now, enum link link)
{
	if (link == CHAINED)
		stamp_chained(e->record, id, now, e->cpu);
	else
		stamp_anew(e->record, id, hop_place(id), now, e->cpu, false);
}

/* Between the driver and the stack. */
static __always_inline int hop_arrival(struct sk_buff *skb, const enum hop_id id)
{
	return note_arrival(skb, id, count_hit(id));
}

/* A hop at a device. */
static __always_inline int hop_at_device(struct sk_buff *skb, struct entry *e, const enum hop_id id,
					 const u32 how)
{
	const enum place place = hop_place(id);
	u64 now = bpf_ktime_get_ns();
	struct net_device *dev;
	enum link link;

	if (e->record) {
		dev = READ(skb, dev);
		link = link_of(e, place, dev, now);
		if (link != UNSURE) {
			arrive(e->record, dev);
			hop_sure(e, id, now, link);
			return 0;
		}
	}
	hop_unsure(skb, now, how | AS_HOP(id) | refused_at(place));
	return 0;
}

static __always_inline int hop_between(struct sk_buff *skb, const enum hop_id id, const u32 how)
{
	u32 cpu = count_hit(id);
	struct entry e;

	if (!entry_of(&e, skb, cpu) || refused_here(&e, hop_place(id)))
		return 0;
	return hop_at_device(skb, &e, id, how);
}

/*
 * Routed, past netfilter: the first hop that sees what it has made of the packet, or
 * what a tunnel has put in front. Of one that is not tracked the inner packet was
 * asked where it was sent or received, so the outer one is asked here.
 */
static __always_inline int hop_output(struct sk_buff *skb, const enum hop_id id, const u32 protocol)
{
	u32 cpu = count_hit(id);
	struct entry e;

	if (!entry_of(&e, skb, cpu) ||
	    (refused_here(&e, PLACE_OUTPUT) && !may_be_natted(skb)))
		return 0;
	return hop_at_device(skb, &e, id, protocol | (e.record ? MAY_BE_INNER : 0));
}

/* The bridge: at the device where the packet was received, so none of it is read. */
static __always_inline int hop_bridge(struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_BR_HANDLE_FRAME_FINISH);
	struct entry e;
	enum link link;
	u64 now;

	if (!entry_of(&e, skb, cpu) || refused_here(&e, PLACE_BRIDGE))
		return 0;
	now = bpf_ktime_get_ns();
	link = e.record ? link_of(&e, PLACE_BRIDGE, NULL, now) : UNSURE;
	if (link != UNSURE)
		hop_sure(&e, HOP_BR_HANDLE_FRAME_FINISH, now, link);
	else
		hop_unsure(skb, now, AS_HOP(HOP_BR_HANDLE_FRAME_FINISH) | REFUSED_BRIDGE);
	return 0;
}

/* The packet was refused when netif_rx took it. */
static __always_inline bool came_from_backlog(const struct entry *e)
{
	return e->home->refused == e->skb + REFUSED_NETIF_RX;
}

/*
 * The link of a tracked packet to a hop where it is received. From a NIC it has
 * just come to this host, unless an old driver's netif_rx began its journey.
 */
static __always_inline enum link link_received(const struct entry *e, const enum place place,
					       struct net_device *dev, u64 now)
{
	enum link link = link_of(e, place, dev, now);

	return link == CHAINED && is_nic(dev) ? UNSURE : link;
}

/* The stack takes a packet from a device. */
static __always_inline int hop_receive(struct sk_buff *skb, const enum hop_id id)
{
	const enum place place = hop_place(id);
	u32 cpu = count_hit(id);
	struct net_device *dev;
	struct entry e;
	enum link link;
	u64 now;

	if (!entry_of(&e, skb, cpu))
		return 0;
	/* out of the backlog comes nothing that did not go in: no need to ask the device */
	if (!at_home(&e)) {
		if (place == PLACE_RECEIVE && came_from_backlog(&e)) {
			refuse(&e, REFUSED_RECEIVE);
			return 0;
		}
		if (!stays_refused(&e, place))
			elsewhere(&e);
		else if (!is_nic(READ(skb, dev)))
			return 0;
	}
	dev = READ(skb, dev);
	now = bpf_ktime_get_ns();
	link = e.record ? link_received(&e, place, dev, now) : UNSURE;
	if (link != UNSURE) {
		if (link == CHAINED)	/* out of the backlog it comes where it was put in */
			arrive(e.record, dev);
		hop_sure(&e, id, now, link);
		return 0;
	}
	hop_unsure(skb, now, AT_DATA | MAY_HAVE_BEEN_INNER | (is_nic(dev) ? ANEW : 0) | AS_HOP(id) |
			     refused_at(place));
	return 0;
}

/* A NIC's driver has the packet: it is off this host. Its hop is there already. */
static __noinline int leave_host(struct sk_buff *skb, u64 now)
{
	struct entry e;

	if (!entry_of(&e, skb, bpf_get_smp_processor_id()) || !tracked(&e))
		return 0;
	if (is_slow(e.record, now))
		learn_late(&e, skb, MAY_BE_INNER);
	end_journey(&e, skb, END_SENT, now);
	return 0;
}

/* After the qdisc, into the driver. */
static __always_inline int hop_xmit(struct sk_buff *skb, struct net_device *dev)
{
	u32 cpu = count_hit(HOP_DEV_HARD_START_XMIT);
	struct entry e;
	enum link link;
	bool nic;
	u64 now;

	if (!entry_of(&e, skb, cpu))
		return 0;
	if (refused_here(&e, PLACE_XMIT)) {
		if (is_stacked(dev))
			refuse(&e, REFUSED_OUTPUT);
		return 0;
	}
	now = bpf_ktime_get_ns();
	nic = is_nic(dev);
	link = e.record ? link_of(&e, PLACE_XMIT, dev, now) : UNSURE;
	if (link == UNSURE) {
		if (!hop_unsure(skb, now, MAY_BE_INNER | AS_HOP(HOP_DEV_HARD_START_XMIT) | REFUSED_XMIT))
			return 0;
	} else if (nic && !is_slow_at(e.record, PLACE_XMIT, now)) {
		release(&e);
		return 0;
	} else {
		hop_sure(&e, HOP_DEV_HARD_START_XMIT, now, link);
	}
	if (nic)
		leave_host(skb, now);
	return 0;
}

/*
 * Whether the ports that lie at the transport header let the packet through; it
 * is at hand where a socket is. True where that is not known yet.
 */
static __always_inline bool may_be_wanted(struct sk_buff *skb)
{
	u32 paged = READ(skb, data_len);
	__be16 ports[2];

	/* the header may lie in a page too */
	if (!cfg.asks_ports ||
	    (paged && READ(skb, len) - paged < sizeof(ports)) ||
	    bpf_probe_read_kernel(ports, sizeof(ports), READ(skb, head) + READ(skb, transport_header)))
		return true;
	return wanted_ports(bpf_ntohs(ports[0]), bpf_ntohs(ports[1]));
}

/*
 * Where the wait in the socket is all that is asked for, a journey begins with it.
 * Returns whether that was all; it is not if the packet has an unusual form, or
 * looks known. A function of its own, so that its stack is not beneath hop_unsure()'s.
 */
static __noinline int begin_at_socket(struct sk_buff *skb, u32 cpu)
{
	struct wire_ip4 ip;
	struct packet p;
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu) || tracked(&e))
		return 0;
	if (!may_be_wanted(skb)) {
		refuse(&e, REFUSED_TRANSPORT);
		return 1;
	}
	if (!cfg.ipv4 || !read_datagram4(skb, &ip) ||
	    !wanted_ports(bpf_ntohs(ip.l4.udp.source), bpf_ntohs(ip.l4.udp.dest)))
		return 0;
	now = bpf_ktime_get_ns();
	tell_datagram4(&p, &ip);
	if (!admit(&e, &p, now, REFUSED_TRANSPORT, PARSED))
		return 1;
	arrive(e.record, READ(skb, dev));
	arrive_in_queue(e.record);
	stamp_anew(e.record, HOP_UDP_ENQUEUE, PLACE_ENQUEUE, now, cpu, false);
	publish(&e);
	return 1;
}

/* The port of a datagram's socket is at hand; the header's is not. */
static __always_inline bool has_wanted_port(struct sock *sk)
{
	return !cfg.dport.used || has_port(&cfg.dport, READ(sk, __sk_common.skc_num));
}

/* Whether a datagram of this socket may be wanted, where only the wait in the socket is asked for. */
static __always_inline bool is_wanted_socket(struct sock *sk)
{
	return !cfg.begins_at_socket || has_wanted_port(sk);
}

/*
 * The transport layer has the packet, past all netfilter, and is asked again
 * whether a filter lets it through. For a datagram its wait in the socket begins.
 */
static __always_inline int hop_transport(struct sock *sk, struct sk_buff *skb, const enum hop_id id,
					 const u32 protocol)
{
	u32 cpu = count_hit(id);
	struct entry e;
	enum link link;
	u64 now;

	if (id == HOP_UDP_ENQUEUE && cfg.begins_at_socket &&
	    (!is_wanted_socket(sk) || begin_at_socket(skb, cpu)))
		return 0;
	if (!entry_of(&e, skb, cpu))
		return 0;
	if (!tracked(&e) && !may_be_wanted(skb)) {
		refuse(&e, REFUSED_TRANSPORT);
		return 0;
	}
	now = bpf_ktime_get_ns();
	link = e.record ? link_of(&e, hop_place(id), NULL, now) : UNSURE;
	if (link == UNSURE) {
		hop_unsure(skb, now, REFUSED_TRANSPORT | AS_HOP(id) | protocol);
		return 0;
	}
	if (id == HOP_UDP_ENQUEUE)
		arrive_in_queue(e.record);
	hop_sure(&e, id, now, link);
	return 0;
}

static __always_inline void note_reader(struct record *r)
{
	u64 id = bpf_get_current_pid_tgid();

	r->reader_pid = id >> 32;
	r->reader_tid = id;
	bpf_get_current_comm(r->reader_comm, sizeof(r->reader_comm));
}

/* The datagram that waited is read. */
static __always_inline void read_here(struct entry *e, struct sk_buff *skb, u64 now)
{
	arrive_at_socket(e->record, 0);
	stamp_ours(e, HOP_UDP_READ, PLACE_READ, now, true);
	note_reader(e->record);
	end_journey(e, skb, END_READ, now);
}

/* The end of a datagram's wait that is slow, if it is the datagram that waited. */
static __noinline int read_slow(struct sk_buff *skb, u64 now)
{
	struct entry e;

	if (entry_of(&e, skb, bpf_get_smp_processor_id()) && tracked(&e) && is_still(&e, skb, now, 0))
		read_here(&e, skb, now);
	return 0;
}

/* The application takes the datagram. Somebody else holds it too: it was only peeked at. */
static __always_inline int hop_read(struct sock *sk, struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_UDP_READ);
	struct entry e;
	u64 now;

	if (!is_wanted_socket(sk) || !entry_of(&e, skb, cpu) || !tracked(&e) || READ(skb, users.refs.counter) > 1)
		return 0;
	now = bpf_ktime_get_ns();
	if (is_slow_at(e.record, PLACE_READ, now))
		read_slow(skb, now);
	else
		release(&e);
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

/* The end of a segment's way that was slow, if it is the segment that went it. */
static __noinline int deliver_slow(struct sk_buff *skb, u64 now, u32 id)
{
	struct entry e;

	if (!entry_of(&e, skb, bpf_get_smp_processor_id()) || !tracked(&e))
		return 0;
	if (!is_same_segment(e.record, skb)) {
		lose(&e);
		return 0;
	}
	arrive_at_socket(e.record, 0);
	stamp_ours(&e, id, PLACE_TCP_STATE, now, false);
	learn_late(&e, skb, 0);
	end_journey(&e, skb, END_DELIVERED, now);
	return 0;
}

static __always_inline int hop_tcp_state(struct sk_buff *skb, const enum hop_id id)
{
	u32 cpu = count_hit(id);
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu) || !tracked(&e))
		return 0;
	now = bpf_ktime_get_ns();
	if (is_slow_at(e.record, PLACE_TCP_STATE, now))
		deliver_slow(skb, now, id);
	else
		release(&e);
	return 0;
}

static __always_inline void note_drop(struct record *r, const u64 *ctx)
{
	r->drop_reason = drop_reason(ctx);
	r->drop_at = ctx[1];
}

/* Refused at a hop behind which netfilter may have translated the packet. */
static __always_inline bool refused_before_nat(const struct entry *e)
{
	u64 was = e->home->refused;

	return was == e->skb + REFUSED_BEFORE_OUTPUT || was == e->skb + REFUSED_BRIDGE ||
	       was == e->skb + REFUSED_RECEIVE;
}

/*
 * A packet that no filter let through was translated and then dropped, both by
 * netfilter: its tuple behind NAT shows here only. How long that took is not known.
 */
static __noinline int drop_translated(const u64 *ctx, struct sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns();
	struct net_device *dev;
	struct packet p;
	struct entry e;

	if (!entry_of(&e, skb, bpf_get_smp_processor_id()))
		return 0;
	forgive(&e);
	if (parse_as(&p, skb, MAY_BE_INNER | IF_WANTED) != PARSED || !wanted(&p))
		return 0;
	begin(&e, &p, now, true);
	dev = READ(skb, dev);
	if (dev)
		arrive(e.record, dev);
	if (!cfg.stage[PLACE_IP_RCV][PLACE_DROP])
		e.record->flags |= RECORD_SLOW;
	stamp_anew(e.record, HOP_KFREE_SKB, PLACE_DROP, now, e.cpu, false);
	note_drop(e.record, ctx);
	end_journey(&e, skb, END_DROPPED, now);
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
		if (refused_before_nat(&e) && may_be_natted(skb))
			return drop_translated(ctx, skb);
		/* what comes up in this skb next must not be taken for it */
		forgive(&e);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (!is_still(&e, skb, now, MAY_BE_INNER))
		return 0;
	if (e.record->last_place == PLACE_ENQUEUE && purged(drop_reason(ctx)))
		end = END_UNREAD;
	stamp_ours(&e, HOP_KFREE_SKB, PLACE_DROP, now, false);
	note_drop(e.record, ctx);
	end_journey(&e, skb, end, now);
	return 0;
}

#endif
