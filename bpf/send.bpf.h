/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The hops where a socket of this host hands a packet to IP: its journey begins. */
#ifndef SLOWPKT_SEND_BPF_H
#define SLOWPKT_SEND_BPF_H

#include "hops.bpf.h"

enum {
	TCP_FIN = 1,
	TCP_SYN = 2,
	TCP_SYN_ACK = 2 | 16,
	NS_PER_US = 1000,
};

/* A direct load may not go beyond a struct sock. */
static __always_inline struct tcp_sock *tcp_sock_of(struct sock *sk)
{
#ifdef DIRECT
	return bpf_skc_to_tcp_sock(sk);
#else
	return (struct tcp_sock *)sk;
#endif
}

/*
 * A SYN-ACK. For most there is only a request yet, skb->sk: tcp_make_synack() notes the
 * time of the first one there, which is that of its skb (5.10 to 7.3; the request's
 * counters are moved on behind the first retransmission only). A SYN cookie has none,
 * and Fast Open's first one is not told from one of two sockets that connect to each other.
 */
static __noinline u32 synack_sent_before(struct sock *listener, struct sk_buff *skb)
{
	struct tcp_sock *tp = tcp_sock_of(listener);
	struct sock *sk = READ(skb, sk);
	u64 first = 0, delay;

	if (!sk || READ(sk, __sk_common.skc_state) != TCP_NEW_SYN_RECV)
		return RECORD_RETRANS_UNKNOWN;
	if (bpf_core_read(&first, sizeof(first), &((struct tcp_request_sock *)sk)->snt_synack))
		return RECORD_RETRANS_UNKNOWN;
	/* a listener may delay what it sends on purpose (TCP_TX_DELAY) */
	delay = tp ? READ(tp, tcp_tx_delay) : 0;
	return READ(skb, skb_mstamp_ns) / NS_PER_US == first + delay ? 0 : RECORD_RETRANS;
}

/*
 * Whether TCP has sent the segment before: enum record_flag. It moves snd_nxt on only
 * behind the first transmission (tcp_event_new_data_sent(), tcp_connect(), 5.10 to
 * 7.3), and what it sends for a timeout, a loss probe or a fast retransmission lies
 * below. An ACK, a window or a keepalive probe and a reset carry nothing that could
 * be sent again; for a reset sk may be no TCP socket.
 */
static __always_inline u8 sent_before(struct sock *sk, struct sk_buff *skb, const struct packet *p)
{
	struct tcp_sock *tp;

	if (!p->len && !(p->tcp_flags & (TCP_SYN | TCP_FIN)))
		return 0;
	if ((p->tcp_flags & TCP_SYN_ACK) == TCP_SYN_ACK)
		return synack_sent_before(sk, skb);
	tp = tcp_sock_of(sk);
	return tp && (s32)(p->seq - READ(tp, snd_nxt)) < 0 ? RECORD_RETRANS : 0;
}

/*
 * A journey begins at a socket of this host, if the filters let the packet through.
 * sk: the segment's; of a datagram NULL.
 */
static __always_inline void leave_socket(struct entry *e, const struct packet *p, enum parsed parsed,
					 enum hop_id id, u64 now, struct net *net, bool owner,
					 struct sock *sk, struct sk_buff *skb)
{
	if (!admit(e, p, now, ANEW | REFUSED_BEFORE_OUTPUT, parsed))
		return;
	if (sk)
		e->record->flags |= sent_before(sk, skb, p);
	arrive_at_socket(e->record, READ(net, ns.inum));
	stamp_anew(e->record, id, PLACE_SEND, now, e->cpu, owner);
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

/*
 * What the filter asks of a segment before it is parsed. The ports are those of
 * the socket, but where it only listens: that leaves the header to be asked.
 */
static __always_inline bool wanted_of_socket(struct sock *sk, const enum hop_id id)
{
	if (!cfg.tcp || !(id == HOP_IP6_XMIT ? cfg.ipv6 : cfg.ipv4))
		return false;
	if (id != HOP_IP_QUEUE_XMIT || !cfg.asks_ports)
		return true;
	return wanted_ports(READ(sk, __sk_common.skc_num), bpf_ntohs(READ(sk, __sk_common.skc_dport)));
}

/*
 * A segment at TCP's way out to IP. Whether it may be wanted; if not, it is refused
 * already.
 */
static __always_inline bool tcp_to_send(struct entry *e, struct sock *sk, struct sk_buff *skb,
					const enum hop_id id)
{
	if (!entry_of(e, skb, count_hit(id)))
		return false;
	if (tracked(e))
		lose(e);
	if (wanted_of_socket(sk, id))
		return true;
	refuse(e, REFUSED_BEFORE_OUTPUT);
	return false;
}

/* A TCP header that the IP layer has not seen yet: at skb->data, addresses set by the caller. */
static __noinline u32 parse_unsent_tcp(struct packet *p, struct sk_buff *skb)
{
	struct wire_tcp tcp;
	u32 len;

	if (!p || bpf_probe_read_kernel(&tcp, sizeof(tcp), READ(skb, data)))
		return UNPARSED;
	if (!wanted_ports(bpf_ntohs(tcp.source), bpf_ntohs(tcp.dest)))
		return UNWANTED;
	len = READ(skb, len);
	p->ip_id = 0;
	p->fragment = false;
	return parse_tcp(p, &tcp, len, len - READ(skb, data_len));
}

/* The addresses in p are the caller's: there is no IP header yet. */
static __always_inline int hop_send_tcp(struct entry *e, struct sock *sk, struct sk_buff *skb,
					struct packet *p, const enum hop_id id)
{
	u32 parsed = READ(sk, sk_protocol) == IPPROTO_TCP ? parse_unsent_tcp(p, skb) : NOT_OURS;

	leave_socket(e, p, parsed, id, bpf_ktime_get_ns(), READ(sk, __sk_common.skc_net.net), owns(sk), sk, skb);
	return 0;
}

/* A segment of a connection: its header is whole and linear, as TCP has just made it. */
static __always_inline int hop_queue_xmit(struct sock *sk, struct sk_buff *skb)
{
	struct wire_tcp tcp;
	struct packet p;
	struct entry e;
	u64 now;

	if (!tcp_to_send(&e, sk, skb, HOP_IP_QUEUE_XMIT))
		return 0;
	if (READ(sk, sk_protocol) != IPPROTO_TCP) {
		leave_alone(&e, ANEW, NOT_OURS);
		return 0;
	}
	if (bpf_probe_read_kernel(&tcp, sizeof(tcp), READ(skb, data)) || tcp.doff < 5 << 4) {
		leave_alone(&e, ANEW, UNPARSED);
		return 0;
	}
	now = bpf_ktime_get_ns();
	set_v4(&p.tuple, READ(sk, __sk_common.skc_rcv_saddr), READ(sk, __sk_common.skc_daddr));
	p.ip_id = 0;
	p.fragment = false;
	tell_tcp(&p, &tcp, READ(skb, len), 32);
	/* no listener comes here, so nobody need ask owns() */
	leave_socket(&e, &p, PARSED, HOP_IP_QUEUE_XMIT, now, READ(sk, __sk_common.skc_net.net),
		     READ(sk, sk_lock.owned), sk, skb);
	return 0;
}

/* A SYN-ACK: its socket listens, so the addresses are arguments. */
static __always_inline int hop_build_and_send(struct sock *sk, struct sk_buff *skb, __be32 saddr, __be32 daddr)
{
	struct packet p;
	struct entry e;

	if (!tcp_to_send(&e, sk, skb, HOP_IP_BUILD_AND_SEND_PKT))
		return 0;
	set_v4(&p.tuple, saddr, daddr);
	return hop_send_tcp(&e, sk, skb, &p, HOP_IP_BUILD_AND_SEND_PKT);
}

/* The flow's addresses, not the socket's: a SYN-ACK is sent for a socket that listens. */
static __always_inline int hop_xmit6(struct sock *sk, struct sk_buff *skb, struct flowi6 *fl6)
{
	struct in6_addr src, dst;
	struct packet p;
	struct entry e;

	if (!tcp_to_send(&e, sk, skb, HOP_IP6_XMIT))
		return 0;
	bpf_core_read(&src, sizeof(src), &fl6->saddr);
	bpf_core_read(&dst, sizeof(dst), &fl6->daddr);
	set_v6(&p.tuple, src.in6_u.u6_addr32, dst.in6_u.u6_addr32);
	return hop_send_tcp(&e, sk, skb, &p, HOP_IP6_XMIT);
}

/*
 * A datagram, or a TCP segment without a socket of its own (RST, TIME_WAIT), with
 * its IP header, whatever that looks like.
 */
static __noinline int send_headed(struct sk_buff *skb, struct net *net, u32 id, __be16 protocol)
{
	struct packet p;
	struct entry e;
	u32 parsed;

	if (!entry_of(&e, skb, bpf_get_smp_processor_id()))
		return 0;
	if (tracked(&e))
		lose(&e);
	parsed = parse_as(&p, skb, (u32)protocol << PROTOCOL_SHIFT | UNSENT | IF_WANTED);
	leave_socket(&e, &p, parsed, id, bpf_ktime_get_ns(), net,
		     parsed == PARSED && p.tuple.proto == IPPROTO_UDP, NULL, skb);
	return 0;
}

/*
 * The same of a datagram of the usual form: all that is parsed lies where it is
 * expected. Returns whether it is one. A function of its own, so that its stack is
 * not beneath send_headed()'s.
 */
static __noinline int send_datagram4(struct sk_buff *skb, struct net *net, u32 cpu)
{
	struct wire_ip4 ip;
	struct packet p;
	struct entry e;
	u64 now;

	if (!entry_of(&e, skb, cpu) || tracked(&e) || !cfg.ipv4 || !cfg.udp || !read_datagram4(skb, &ip))
		return 0;
	if (!wanted_ports(bpf_ntohs(ip.l4.udp.source), bpf_ntohs(ip.l4.udp.dest))) {
		refuse(&e, REFUSED_BEFORE_OUTPUT);
		return 1;
	}
	now = bpf_ktime_get_ns();
	tell_datagram4(&p, &ip);
	leave_socket(&e, &p, PARSED, HOP_IP_SEND_SKB, now, net, true, NULL, skb);
	return 1;
}

static __always_inline int hop_send_headed4(struct sk_buff *skb, struct net *net)
{
	u32 cpu = count_hit(HOP_IP_SEND_SKB);

	if (send_datagram4(skb, net, cpu))
		return 0;
	return send_headed(skb, net, HOP_IP_SEND_SKB, bpf_htons(ETH_P_IP));
}

static __always_inline int hop_send_headed6(struct sk_buff *skb)
{
	struct sock *sk = READ(skb, sk);

	count_hit(HOP_IP6_SEND_SKB);
	return send_headed(skb, READ(sk, __sk_common.skc_net.net), HOP_IP6_SEND_SKB, bpf_htons(ETH_P_IPV6));
}

#endif
