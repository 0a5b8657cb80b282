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

static __always_inline void count_hit(enum hop_id id)
{
	my_counts()->hits[id]++;
}

static __always_inline u32 netns_of_sock(struct sock *sk)
{
	struct net *net = READ(sk, __sk_common.skc_net.net);

	return READ(net, ns.inum);
}

static __always_inline void spot_of_dev(struct spot *spot, struct net_device *dev)
{
	struct net *net = READ(dev, nd_net.net);

	spot->netns = READ(net, ns.inum);
	spot->ifindex = READ(dev, ifindex);
#ifdef DIRECT
	spot->dev_name[0] = *(u64 *)&dev->name[0];
	spot->dev_name[1] = *(u64 *)&dev->name[8];
#else
	bpf_core_read(spot->dev_name, sizeof(spot->dev_name), &dev->name);
#endif
	spot->owner = false;
}

static __always_inline void spot_of_sock(struct spot *spot, struct sock *sk, bool owner)
{
	spot->netns = netns_of_sock(sk);
	spot->ifindex = 0;
	spot->dev_name[0] = spot->dev_name[1] = 0;
	spot->owner = owner;
}

/* Hardware lies behind it: a packet enters or leaves the host here. */
static __always_inline bool is_nic(struct net_device *dev)
{
	return READ(dev, dev.parent);
}

/*
 * A packet is met on its way. Its record is continued if it is this packet's,
 * else one begins here, anew or in its middle. natted: netfilter may have changed
 * the tuple since the hop before. On return e->record is NULL where the packet is
 * not tracked.
 */
static __always_inline void meet(struct entry *e, struct sk_buff *skb, const struct spot *spot,
				 const enum hop_id id, enum parsed parsed, const struct packet *p,
				 bool anew, const bool natted, u64 now)
{
	if (tracked(e, skb)) {
		if (!anew && parsed == PARSED && is_same(e->record, p, natted)) {
			learn(e->record, p, natted);
			add_hop(e->record, id, spot, now);
			return;
		}
		lose(e);
	}
	if (parsed == UNPARSED)
		my_counts()->unparsed++;
	if (parsed != PARSED || !wanted(p)) {
		refuse(e, skb);
		return;
	}
	begin(e, skb, p, now, !anew);
	add_hop(e->record, id, spot, now);
	publish(e, skb);
}

enum {
	NATTED = 1 << 0,	/* netfilter may have changed the tuple since the hop before */
	ASK_AGAIN = 1 << 1,	/* so a packet that was refused may be let through now */
};

/* A hop at a device or in the IP layer, neither a journey's beginning nor its end. */
static __always_inline int hop_between(struct sk_buff *skb, const enum hop_id id, const int how)
{
	struct packet p = {};
	struct entry e;
	struct spot spot;

	count_hit(id);
	if (!entry_of(&e, skb) || (!(how & ASK_AGAIN) && refused(&e, skb)))
		return 0;
	spot_of_dev(&spot, READ(skb, dev));
	meet(&e, skb, &spot, id, parse(&p, skb, L3_AT_HEADER, 0), &p, false, how & NATTED, bpf_ktime_get_ns());
	return 0;
}

/* The stack takes a packet from a device: from a NIC it has just come to this host. */
static __always_inline int hop_receive(struct sk_buff *skb, const enum hop_id id)
{
	struct net_device *dev = READ(skb, dev);
	bool nic = is_nic(dev);
	struct packet p = {};
	struct entry e;
	struct spot spot;

	count_hit(id);
	if (!entry_of(&e, skb) || (!nic && refused(&e, skb)))
		return 0;
	/* an old driver's netif_rx has begun the journey a moment ago */
	if (nic && id == HOP_NETIF_RECEIVE_SKB && tracked(&e, skb) && e.record->last_place == PLACE_NETIF_RX)
		nic = false;
	spot_of_dev(&spot, dev);
	/* natted: a bridge that calls netfilter hands the packet up through here */
	meet(&e, skb, &spot, id, parse(&p, skb, L3_AT_DATA, 0), &p, nic, id == HOP_NETIF_RECEIVE_SKB,
	     bpf_ktime_get_ns());
	return 0;
}

/* After the qdisc, into the driver; a NIC's driver takes the packet off this host. */
static __always_inline int hop_xmit(struct sk_buff *skb)
{
	struct net_device *dev = READ(skb, dev);
	struct packet p = {};
	struct entry e;
	struct spot spot;
	u64 now;

	count_hit(HOP_DEV_HARD_START_XMIT);
	if (!entry_of(&e, skb) || refused(&e, skb))
		return 0;
	spot_of_dev(&spot, dev);
	now = bpf_ktime_get_ns();
	meet(&e, skb, &spot, HOP_DEV_HARD_START_XMIT, parse(&p, skb, L3_AT_HEADER, 0), &p, false, false, now);
	if (e.record && is_nic(dev))
		end_journey(&e, skb, END_SENT, now);
	return 0;
}

/* A journey's beginning at a socket of this host. */
static __always_inline int hop_send(struct sk_buff *skb, const enum hop_id id, struct spot *spot,
				    enum parsed parsed, const struct packet *p)
{
	struct entry e;

	if (entry_of(&e, skb))
		meet(&e, skb, spot, id, parsed, p, true, false, bpf_ktime_get_ns());
	return 0;
}

/*
 * TCP hands a segment to IP. The addresses are the caller's: no IP header yet.
 * The task owns the packet only where it holds the socket's lock; else an ACK or
 * a timer sends it in whatever task was interrupted.
 */
static __always_inline int hop_send_tcp(struct sock *sk, struct sk_buff *skb, const enum hop_id id,
					struct packet *p)
{
	struct spot spot;

	count_hit(id);
	spot_of_sock(&spot, sk, READ(sk, sk_lock.owned));
	return hop_send(skb, id, &spot,
			READ(sk, sk_protocol) == IPPROTO_TCP ? parse_unsent_tcp(p, skb) : NOT_OURS, p);
}

static __always_inline int hop_send_tcp4(struct sock *sk, struct sk_buff *skb, const enum hop_id id,
					 __be32 saddr, __be32 daddr)
{
	struct packet p = {};

	set_v4(&p.tuple, saddr, daddr);
	return hop_send_tcp(sk, skb, id, &p);
}

static __always_inline int hop_send_tcp6(struct sock *sk, struct sk_buff *skb, struct flowi6 *fl6)
{
	struct in6_addr src, dst;
	struct packet p = {};

	/* the flow, not the socket: a SYN-ACK is sent for a socket that listens */
	bpf_core_read(&src, sizeof(src), &fl6->saddr);
	bpf_core_read(&dst, sizeof(dst), &fl6->daddr);
	set_v6(&p.tuple, src.in6_u.u6_addr32, dst.in6_u.u6_addr32);
	return hop_send_tcp(sk, skb, HOP_IP6_XMIT, &p);
}

/* A datagram, or a TCP segment without a socket of its own (RST, TIME_WAIT), with its IP header. */
static __always_inline int hop_send_headed(struct sk_buff *skb, struct net *net, const enum hop_id id,
					   __be16 protocol)
{
	struct spot spot = { .netns = READ(net, ns.inum) };
	struct packet p = {};
	enum parsed parsed;

	count_hit(id);
	parsed = parse(&p, skb, L3_AT_HEADER, protocol);
	spot.owner = p.tuple.proto == IPPROTO_UDP;
	return hop_send(skb, id, &spot, parsed, &p);
}

static __always_inline int hop_send_headed6(struct sk_buff *skb)
{
	struct sock *sk = READ(skb, sk);

	return hop_send_headed(skb, READ(sk, __sk_common.skc_net.net), HOP_IP6_SEND_SKB,
			       bpf_htons(ETH_P_IPV6));
}

/* The datagram goes into the socket's receive queue: its wait begins. */
static __always_inline int hop_enqueue(struct sock *sk, struct sk_buff *skb)
{
	struct packet p = {};
	struct entry e;
	struct spot spot;

	count_hit(HOP_UDP_ENQUEUE);
	if (!entry_of(&e, skb))
		return 0;
	/* skb->dev is good here for the last time */
	spot_of_dev(&spot, READ(skb, dev));
	spot.netns = netns_of_sock(sk);
	meet(&e, skb, &spot, HOP_UDP_ENQUEUE, parse(&p, skb, L3_AT_HEADER, 0), &p, false, true,
	     bpf_ktime_get_ns());
	return 0;
}

static __always_inline void note_reader(struct record *r)
{
	struct current task;

	read_current(&task);
	r->reader_pid = task.pid;
	r->reader_tid = task.tid;
	__builtin_memcpy(r->reader_comm, task.comm, sizeof(r->reader_comm));
}

/* A known packet's last hop, if it is still the packet that the record knows. */
static __always_inline bool meet_last(struct entry *e, struct sk_buff *skb, const struct spot *spot,
				      const enum hop_id id, u64 now)
{
	struct packet p = {};

	if (parse(&p, skb, L3_AT_HEADER, 0) != PARSED || !is_same(e->record, &p, true)) {
		lose(e);
		return false;
	}
	learn(e->record, &p, true);
	add_hop(e->record, id, spot, now);
	return true;
}

/* The application takes the datagram. Somebody else holds it too: it was only peeked at. */
static __always_inline int hop_read(struct sock *sk, struct sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns();
	struct entry e;
	struct spot spot;

	count_hit(HOP_UDP_READ);
	if (!entry_of(&e, skb) || !tracked(&e, skb) || READ(skb, users.refs.counter) > 1)
		return 0;
	spot_of_sock(&spot, sk, true);
	if (meet_last(&e, skb, &spot, HOP_UDP_READ, now)) {
		note_reader(e.record);
		end_journey(&e, skb, END_READ, now);
	}
	return 0;
}

/*
 * The segment reaches the state machine. Its headers' numbers lie in skb->cb;
 * the backlog of a busy socket may have merged later segments into it
 * (tcp_add_backlog), which moves its ACK on.
 */
static __always_inline bool is_same_segment(const struct record *r, struct sock *sk, struct sk_buff *skb)
{
	u32 seq = read_cb_u32(skb, bpf_core_field_offset(struct tcp_skb_cb, seq));
	u32 ack = read_cb_u32(skb, bpf_core_field_offset(struct tcp_skb_cb, ack_seq));

	return r->last.proto == IPPROTO_TCP && r->seq == seq && (s32)(ack - r->ack) >= 0 &&
	       r->last.dport == READ(sk, __sk_common.skc_num);
}

static __always_inline int hop_tcp_state(struct sock *sk, struct sk_buff *skb, const enum hop_id id)
{
	struct entry e;
	struct spot spot;
	u64 now;

	count_hit(id);
	if (!entry_of(&e, skb) || !tracked(&e, skb))
		return 0;
	if (!is_same_segment(e.record, sk, skb)) {
		lose(&e);
		return 0;
	}
	now = bpf_ktime_get_ns();
	spot_of_sock(&spot, sk, false);
	add_hop(e.record, id, &spot, now);
	end_journey(&e, skb, END_DELIVERED, now);
	return 0;
}

/* Freed before its time. Which device it was at is what the hop before knew. */
static __always_inline int hop_drop(const u64 *ctx, struct sk_buff *skb)
{
	struct spot spot = {};
	enum record_end end = END_DROPPED;
	struct entry e;
	u64 now;
	u32 n;

	count_hit(HOP_KFREE_SKB);
	if (!entry_of(&e, skb) || !tracked(&e, skb))
		return 0;
	n = e.record->hops - 1;
	if (n < RECORD_HOPS)
		spot.netns = e.record->hop[n].netns;
	if (e.record->last_place == PLACE_ENQUEUE && purged(drop_reason(ctx)))
		end = END_UNREAD;
	now = bpf_ktime_get_ns();
	if (meet_last(&e, skb, &spot, HOP_KFREE_SKB, now)) {
		e.record->drop_reason = drop_reason(ctx);
		end_journey(&e, skb, end, now);
	}
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

/* The programs. An address of a function's own module, or of its exit, is for one compilation only. */
TP(netif_receive_skb, struct sk_buff *skb) { return hop_receive(skb, HOP_NETIF_RECEIVE_SKB); }
TP(netif_rx, struct sk_buff *skb) { return hop_receive(skb, HOP_NETIF_RX); }
TP(net_dev_queue, struct sk_buff *skb) { return hop_between(skb, HOP_DEV_QUEUE_XMIT, NATTED); }
TP(net_dev_start_xmit, struct sk_buff *skb) { return hop_xmit(skb); }
TP(kfree_skb, struct sk_buff *skb) { return hop_drop((const u64 *)ctx, skb); }

FN(ip_rcv_core, struct sk_buff *skb) { return hop_between(skb, HOP_IP_RCV, 0); }
FN(ip6_rcv_core, struct sk_buff *skb) { return hop_between(skb, HOP_IPV6_RCV, 0); }
FN(tcp_v4_rcv, struct sk_buff *skb) { return hop_between(skb, HOP_TCP_V4_RCV, NATTED | ASK_AGAIN); }
FN(tcp_v6_rcv, struct sk_buff *skb) { return hop_between(skb, HOP_TCP_V6_RCV, NATTED | ASK_AGAIN); }
FN(tcp_rcv_state_process, struct sock *sk, struct sk_buff *skb)
{ return hop_tcp_state(sk, skb, HOP_TCP_RCV_STATE_PROCESS); }
FN(tcp_rcv_established, struct sock *sk, struct sk_buff *skb)
{ return hop_tcp_state(sk, skb, HOP_TCP_RCV_ESTABLISHED); }
FN(__udp_enqueue_schedule_skb, struct sock *sk, struct sk_buff *skb) { return hop_enqueue(sk, skb); }
FN(skb_consume_udp, struct sock *sk, struct sk_buff *skb) { return hop_read(sk, skb); }

FN(__ip_queue_xmit, struct sock *sk, struct sk_buff *skb)
{ return hop_send_tcp4(sk, skb, HOP_IP_QUEUE_XMIT, READ(sk, __sk_common.skc_rcv_saddr), READ(sk, __sk_common.skc_daddr)); }
FN(ip_build_and_send_pkt, struct sk_buff *skb, struct sock *sk, u32 saddr, u32 daddr)
{ return hop_send_tcp4((struct sock *)sk, skb, HOP_IP_BUILD_AND_SEND_PKT, saddr, daddr); }
FN(ip_send_skb, struct net *net, struct sk_buff *skb)
{ return hop_send_headed(skb, net, HOP_IP_SEND_SKB, bpf_htons(ETH_P_IP)); }
FN(ip6_send_skb, struct sk_buff *skb)
{ return hop_send_headed6(skb); }
FN(ip_finish_output2, struct net *net, struct sock *sk, struct sk_buff *skb)
{ return hop_between(skb, HOP_IP_FINISH_OUTPUT2, NATTED | ASK_AGAIN); }
FN(ip6_finish_output2, struct net *net, struct sock *sk, struct sk_buff *skb)
{ return hop_between(skb, HOP_IP6_FINISH_OUTPUT2, NATTED | ASK_AGAIN); }
FN(ip6_xmit, struct sock *sk, struct sk_buff *skb, struct flowi6 *fl6) { return hop_send_tcp6(sk, skb, fl6); }

#ifdef DIRECT
SEC("fexit/__skb_gso_segment")
int BPF_PROG(btf___skb_gso_segment, struct sk_buff *skb, u64 features, bool tx_path, struct sk_buff *segs)
{ return hop_cut(skb, segs); }
#else
FN(br_handle_frame_finish, struct net *net, struct sock *sk, struct sk_buff *skb)
{ return hop_between(skb, HOP_BR_HANDLE_FRAME_FINISH, NATTED | ASK_AGAIN); }
#endif
