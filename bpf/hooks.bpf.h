/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks: where a packet is met, and what is done there. Included by
 * btf.bpf.c and probe.bpf.c, which differ only in how they read.
 */
#include "read.bpf.h"
#include "shared.bpf.h"
#include "compat.bpf.h"
#include "packet.bpf.h"
#include "filter.bpf.h"
#include "journey.bpf.h"

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
 * No hop went before, or none that this packet is known to follow: asks the packet
 * itself. Its record is kept if it is this packet's, else a journey begins, anew or
 * in its middle. False: it is not tracked.
 */
static __always_inline bool recognize(struct entry *e, struct sk_buff *skb, enum parsed parsed,
				      const struct packet *p, bool anew, const bool natted, u64 now)
{
	if (e->record) {
		if (!anew && parsed == PARSED && is_same(e->record, p, natted)) {
			learn(e->record, p, natted);
			return true;
		}
		lose(e);
	}
	if (parsed == UNPARSED)
		my_counts()->unparsed++;
	if (parsed != PARSED || !wanted(p)) {
		refuse(e, skb);
		return false;
	}
	begin(e, skb, p, now, !anew);
	return true;
}

/*
 * A packet that no filter let through before netfilter may pass after it. Without
 * a conntrack entry nothing but stateless NAT changes it, which the socket's hop sees.
 */
static __always_inline bool may_be_natted(struct sk_buff *skb)
{
	return READ(skb, _nfct);
}

/* A hop at a device. natted: netfilter may have changed the tuple since the hop before. */
static __always_inline int hop_at_device(struct sk_buff *skb, const enum hop_id id, const enum l3_at at,
					 const __be16 protocol, const bool natted)
{
	u32 cpu = count_hit(id);
	struct net_device *dev;
	struct packet p;
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb) || refused(&e, skb))
		return 0;
	now = bpf_ktime_get_ns();
	dev = READ(skb, dev);
	tracked(&e, skb);
	if ((!e.record || !follows(e.record, hop_place(id), dev, now, cpu)) &&
	    !recognize(&e, skb, parse(&p, skb, at, protocol), &p, false, natted, now))
		return 0;
	arrive(e.record, dev);
	add_hop(e.record, id, now, cpu, false);
	publish(&e, skb);
	return 0;
}

/* Routed, past netfilter: the first hop that sees what it has made of the packet. */
static __always_inline int hop_output(struct sk_buff *skb, const enum hop_id id, const __be16 protocol)
{
	struct entry e;

	if (entry_of(&e, skb) && refused(&e, skb) && may_be_natted(skb))
		e.set->refused[e.slot] = 0;
	return hop_at_device(skb, id, L3_MAY_BE_INNER, protocol, true);
}

/* The bridge: at the device where the packet was received, so none of it is read. */
static __always_inline int hop_bridge(struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_BR_HANDLE_FRAME_FINISH);
	struct packet p;
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb) || refused(&e, skb))
		return 0;
	now = bpf_ktime_get_ns();
	if (!tracked(&e, skb) || !follows(e.record, PLACE_BRIDGE, NULL, now, cpu)) {
		if (!recognize(&e, skb, parse(&p, skb, L3_AT_HEADER, 0), &p, false, true, now))
			return 0;
		arrive(e.record, READ(skb, dev));
	}
	add_hop(e.record, HOP_BR_HANDLE_FRAME_FINISH, now, cpu, false);
	publish(&e, skb);
	return 0;
}

/* The stack takes a packet from a device: from a NIC it has just come to this host. */
static __always_inline int hop_receive(struct sk_buff *skb, const enum hop_id id)
{
	u32 cpu = count_hit(id);
	struct net_device *dev = READ(skb, dev);
	bool anew = is_nic(dev);
	struct packet p;
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb) || (!anew && refused(&e, skb)))
		return 0;
	now = bpf_ktime_get_ns();
	/* an old driver's netif_rx has begun the journey a moment ago */
	if (tracked(&e, skb) && anew && id == HOP_NETIF_RECEIVE_SKB &&
	    e.record->last_place == PLACE_NETIF_RX && e.record->last_dev == (u64)dev)
		anew = false;
	/* natted: a bridge that calls netfilter hands the packet up through here */
	if ((anew || !e.record || !follows(e.record, hop_place(id), dev, now, cpu)) &&
	    !recognize(&e, skb, parse(&p, skb, L3_AT_DATA, 0), &p, anew, id == HOP_NETIF_RECEIVE_SKB, now))
		return 0;
	arrive(e.record, dev);
	add_hop(e.record, id, now, cpu, false);
	publish(&e, skb);
	return 0;
}

/* After the qdisc, into the driver; a NIC's driver takes the packet off this host. */
static __always_inline int hop_xmit(struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_DEV_HARD_START_XMIT);
	struct net_device *dev;
	struct packet p;
	struct entry e;
	bool nic;
	u64 now;

	if (!entry_of(&e, skb) || refused(&e, skb))
		return 0;
	now = bpf_ktime_get_ns();
	dev = READ(skb, dev);
	nic = is_nic(dev);
	tracked(&e, skb);
	if ((nic || !e.record || !follows(e.record, PLACE_XMIT, dev, now, cpu)) &&
	    !recognize(&e, skb, parse(&p, skb, L3_MAY_BE_INNER, 0), &p, false, false, now))
		return 0;
	arrive(e.record, dev);
	add_hop(e.record, HOP_DEV_HARD_START_XMIT, now, cpu, false);
	if (nic)
		end_journey(&e, skb, END_SENT, now);
	else
		publish(&e, skb);
	return 0;
}

/*
 * A journey's beginning at a socket of this host. owner: the current task sends,
 * rather than being interrupted by an ACK or a timer that does.
 */
static __always_inline int hop_send(struct sk_buff *skb, struct entry *e, const enum hop_id id,
				    enum parsed parsed, const struct packet *p, u32 netns, u32 cpu, bool owner)
{
	u64 now = bpf_ktime_get_ns();

	tracked(e, skb);
	if (!recognize(e, skb, parsed, p, true, false, now))
		return 0;
	arrive_at_socket(e->record, netns);
	add_hop(e->record, id, now, cpu, owner);
	publish(e, skb);
	return 0;
}

/* TCP hands a segment to IP. The addresses are the caller's: there is no IP header yet. */
static __always_inline int hop_send_tcp(struct sock *sk, struct sk_buff *skb, const enum hop_id id,
					struct packet *p, u32 cpu)
{
	struct entry e;

	if (!entry_of(&e, skb))
		return 0;
	return hop_send(skb, &e, id, READ(sk, sk_protocol) == IPPROTO_TCP ? parse_unsent_tcp(p, skb) : NOT_OURS,
			p, netns_of_sock(sk), cpu, READ(sk, sk_lock.owned));
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
					   const __be16 protocol)
{
	u32 cpu = count_hit(id);
	enum parsed parsed;
	struct packet p;
	struct entry e;

	if (!entry_of(&e, skb))
		return 0;
	parsed = parse(&p, skb, L3_AT_HEADER, protocol);
	return hop_send(skb, &e, id, parsed, &p, READ(net, ns.inum), cpu,
			parsed == PARSED && p.tuple.proto == IPPROTO_UDP);
}

static __always_inline int hop_send_headed6(struct sk_buff *skb)
{
	struct sock *sk = READ(skb, sk);

	return hop_send_headed(skb, READ(sk, __sk_common.skc_net.net), HOP_IP6_SEND_SKB,
			       bpf_htons(ETH_P_IPV6));
}

/*
 * The transport layer has the packet, past all netfilter, and is asked again
 * whether a filter lets it through. For a datagram its wait in the socket begins.
 */
static __always_inline int hop_transport(struct sk_buff *skb, const enum hop_id id, const __be16 protocol)
{
	u32 cpu = count_hit(id);
	struct packet p;
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb))
		return 0;
	now = bpf_ktime_get_ns();
	if (!tracked(&e, skb) || !follows(e.record, hop_place(id), NULL, now, cpu)) {
		if (!recognize(&e, skb, parse(&p, skb, L3_AT_HEADER, protocol), &p, false, true, now))
			return 0;
		/* for a datagram skb->dev is good here for the last time */
		arrive(e.record, READ(skb, dev));
	}
	add_hop(e.record, id, now, cpu, false);
	publish(&e, skb);
	return 0;
}

static __always_inline void note_reader(struct record *r)
{
	u64 id = bpf_get_current_pid_tgid();

	r->reader_pid = id >> 32;
	r->reader_tid = id;
	bpf_get_current_comm(r->reader_comm, sizeof(r->reader_comm));
}

/* A tracked packet's last hop: whether it still is the packet that the record knows. */
static __always_inline bool is_still(struct entry *e, struct sk_buff *skb)
{
	struct packet p;

	if (parse(&p, skb, L3_AT_HEADER, 0) != PARSED || !is_same(e->record, &p, true)) {
		lose(e);
		return false;
	}
	learn(e->record, &p, true);
	return true;
}

/* The application takes the datagram. Somebody else holds it too: it was only peeked at. */
static __always_inline int hop_read(struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_UDP_READ);
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb) || !tracked(&e, skb) || READ(skb, users.refs.counter) > 1)
		return 0;
	now = bpf_ktime_get_ns();
	if (!is_still(&e, skb))
		return 0;
	arrive_at_socket(e.record, 0);
	add_hop(e.record, HOP_UDP_READ, now, cpu, true);
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
	struct packet p;
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb) || !tracked(&e, skb))
		return 0;
	if (!is_same_segment(e.record, skb)) {
		lose(&e);
		return 0;
	}
	now = bpf_ktime_get_ns();
	arrive_at_socket(e.record, 0);
	add_hop(e.record, id, now, cpu, false);
	/* netfilter was passed since the headers were last looked at */
	if (is_slow(e.record, now) && parse(&p, skb, L3_AT_HEADER, 0) == PARSED)
		learn(e.record, &p, true);
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

	if (!entry_of(&e, skb) || !tracked(&e, skb))
		return 0;
	now = bpf_ktime_get_ns();
	if (!is_still(&e, skb))
		return 0;
	if (e.record->last_place == PLACE_ENQUEUE && purged(drop_reason(ctx)))
		end = END_UNREAD;
	add_hop(e.record, HOP_KFREE_SKB, now, cpu, false);
	e.record->drop_reason = drop_reason(ctx);
	end_journey(&e, skb, end, now);
	return 0;
}

/*
 * GSO has cut a packet into new skbs: its journey goes on with the first of them,
 * whose range covers the rest. Only an exit program sees both.
 */
static __always_inline int hop_cut(struct sk_buff *skb, struct sk_buff *segs)
{
	struct entry whole, first;
	struct packet p = {};
	u64 now;

	count_hit(HOP_GSO_SEGMENT);
	/* NULL: it need not be cut; else the top of the address range is an errno */
	if (!segs || (u64)segs >= (u64)-4095)
		return 0;
	if (!entry_of(&whole, skb) || !tracked(&whole, skb) || !entry_of(&first, segs))
		return 0;
	if (parse(&p, segs, L3_AT_HEADER, 0) != PARSED)
		return 0;
	now = bpf_ktime_get_ns();
	if (tracked(&first, segs))
		lose(&first);
	claim(&first, now);
	/* the whole one's own way may have been the one to go */
	if (first.record != whole.record) {
		bpf_probe_read_kernel(first.record, sizeof(*first.record), whole.record);
		release(&whole);
	}
	first.record->flags |= RECORD_CUT;
	first.record->segs = segments(skb);
	if (p.tuple.proto == IPPROTO_UDP) {
		/* each segment is a datagram with a number of its own */
		first.record->len = p.len;
		first.record->ip_id = p.ip_id;
		first.record->segs = 1;
	}
	if (refused(&first, segs))
		first.set->refused[first.slot] = 0;
	publish(&first, segs);
	return 0;
}

/* The programs. A module's function has no BTF on 5.10, and an exit program no arguments without BTF. */
TP(netif_receive_skb, struct sk_buff *skb) { return hop_receive(skb, HOP_NETIF_RECEIVE_SKB); }
TP(netif_rx, struct sk_buff *skb) { return hop_receive(skb, HOP_NETIF_RX); }
TP(net_dev_queue, struct sk_buff *skb)
{ return hop_at_device(skb, HOP_DEV_QUEUE_XMIT, L3_MAY_BE_INNER, 0, true); }
TP(net_dev_start_xmit, struct sk_buff *skb) { return hop_xmit(skb); }
TP(kfree_skb, struct sk_buff *skb) { return hop_drop((const u64 *)ctx, skb); }

FN(ip_rcv_core, struct sk_buff *skb)
{ return hop_at_device(skb, HOP_IP_RCV, L3_AT_HEADER, bpf_htons(ETH_P_IP), false); }
FN(ip6_rcv_core, struct sk_buff *skb)
{ return hop_at_device(skb, HOP_IPV6_RCV, L3_AT_HEADER, bpf_htons(ETH_P_IPV6), false); }
FN(tcp_v4_rcv, struct sk_buff *skb) { return hop_transport(skb, HOP_TCP_V4_RCV, bpf_htons(ETH_P_IP)); }
FN(tcp_v6_rcv, struct sk_buff *skb) { return hop_transport(skb, HOP_TCP_V6_RCV, bpf_htons(ETH_P_IPV6)); }
FN(tcp_rcv_state_process, struct sock *sk, struct sk_buff *skb)
{ return hop_tcp_state(skb, HOP_TCP_RCV_STATE_PROCESS); }
FN(tcp_rcv_established, struct sock *sk, struct sk_buff *skb)
{ return hop_tcp_state(skb, HOP_TCP_RCV_ESTABLISHED); }
FN(__udp_enqueue_schedule_skb, struct sock *sk, struct sk_buff *skb) { return hop_transport(skb, HOP_UDP_ENQUEUE, 0); }
FN(skb_consume_udp, struct sock *sk, struct sk_buff *skb) { return hop_read(skb); }

FN(__ip_queue_xmit, struct sock *sk, struct sk_buff *skb)
{ return hop_send_tcp4(sk, skb, HOP_IP_QUEUE_XMIT, READ(sk, __sk_common.skc_rcv_saddr), READ(sk, __sk_common.skc_daddr)); }
FN(ip_build_and_send_pkt, struct sk_buff *skb, struct sock *sk, u32 saddr, u32 daddr)
{ return hop_send_tcp4(sk, skb, HOP_IP_BUILD_AND_SEND_PKT, saddr, daddr); }
FN(ip6_xmit, struct sock *sk, struct sk_buff *skb, struct flowi6 *fl6) { return hop_send_tcp6(sk, skb, fl6); }
FN(ip_send_skb, struct net *net, struct sk_buff *skb)
{ return hop_send_headed(skb, net, HOP_IP_SEND_SKB, bpf_htons(ETH_P_IP)); }
FN(ip6_send_skb, struct sk_buff *skb) { return hop_send_headed6(skb); }
FN(ip_finish_output2, struct net *net, struct sock *sk, struct sk_buff *skb)
{ return hop_output(skb, HOP_IP_FINISH_OUTPUT2, bpf_htons(ETH_P_IP)); }
FN(ip6_finish_output2, struct net *net, struct sock *sk, struct sk_buff *skb)
{ return hop_output(skb, HOP_IP6_FINISH_OUTPUT2, bpf_htons(ETH_P_IPV6)); }

#ifdef DIRECT
SEC("fexit/__skb_gso_segment")
int BPF_PROG(btf___skb_gso_segment, struct sk_buff *skb, u64 features, bool tx_path, struct sk_buff *segs)
{ return hop_cut(skb, segs); }
#else
FN(br_handle_frame_finish, struct net *net, struct sock *sk, struct sk_buff *skb) { return hop_bridge(skb); }
#endif
