/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one table of hops. It feeds the BPF programs' ids, the attach code, the
 * names in text and JSON, and the stages between hops.
 */
#ifndef SLOWPKT_HOPS_H
#define SLOWPKT_HOPS_H

/*
 * Where on its way a packet is. Stages are named by pairs of places, so that
 * the IPv4 and the IPv6 function of one place need no rows of their own.
 */
enum place {
	PLACE_SEND,	/* the transport layer hands the packet to IP */
	PLACE_OUTPUT,	/* routed, past netfilter, before the neighbour */
	PLACE_QUEUE,	/* before the qdisc */
	PLACE_XMIT,	/* after the qdisc, into the driver */
	PLACE_GRO,	/* the driver hands the packet to GRO */
	PLACE_RPS,	/* on its way into the stack, which another CPU may go on with */
	PLACE_NETIF_RX,	/* into the backlog of a CPU */
	PLACE_RECEIVE,	/* the stack takes the packet from a device */
	PLACE_BRIDGE,
	PLACE_IP_RCV,
	PLACE_TCP_RCV,
	PLACE_TCP_STATE, /* the state machine: a TCP packet's end */
	PLACE_ENQUEUE,	/* into the UDP socket's receive queue */
	PLACE_READ,	/* the application takes the datagram: its end */
	PLACE_DROP,
	PLACE_CUT,	/* GSO: one skb becomes many; never recorded as a hop */
	PLACES
};

/* Places before the stack takes a packet; their hops are attached only where their stage is asked for. */
#define ARRIVAL_PLACES (1u << PLACE_GRO | 1u << PLACE_RPS)

/*
 * HOP(id, kind, target, place, shown, article)
 *   kind     TP: tracepoint; FN: function, at entry; SKBFN: one whose first
 *            argument is the skb, so that a copy of it that the compiler made with
 *            fewer arguments will do; FEXIT: function, at exit; MODFN: function of
 *            a module that may come and go (kprobe only)
 *   target   what is attached to; the programs are btf_<target> (BTF pointers)
 *            and probe_<target> (probe reads)
 *   shown    the hop's name in every output
 *   article  another function that does the job where target cannot be
 *            attached, with its skb argument at the same place; else NULL
 */
#define HOPS(HOP)								\
	HOP(NAPI_GRO_RECEIVE, TP, napi_gro_receive_entry, GRO,			\
	    "napi_gro_receive", NULL)						\
	HOP(NAPI_GRO_FRAGS, TP, napi_gro_frags_entry, GRO, "napi_gro_frags", NULL) \
	HOP(NETIF_RECEIVE_SKB_ENTRY, TP, netif_receive_skb_entry, RPS,		\
	    "netif_receive_skb", NULL)						\
	HOP(NETIF_RECEIVE_SKB_LIST, TP, netif_receive_skb_list_entry, RPS,	\
	    "netif_receive_skb_list", NULL)					\
	HOP(ENQUEUE_TO_BACKLOG, SKBFN, enqueue_to_backlog, RPS,			\
	    "enqueue_to_backlog", NULL)						\
	HOP(NETIF_RECEIVE_SKB, TP, netif_receive_skb, RECEIVE,			\
	    "__netif_receive_skb", NULL)					\
	HOP(NETIF_RX, TP, netif_rx, NETIF_RX, "netif_rx", NULL)			\
	HOP(BR_HANDLE_FRAME_FINISH, MODFN, br_handle_frame_finish, BRIDGE,	\
	    "br_handle_frame_finish", NULL)					\
	HOP(IP_RCV, SKBFN, ip_rcv_core, IP_RCV, "ip_rcv", "ip_rcv")		\
	HOP(IPV6_RCV, SKBFN, ip6_rcv_core, IP_RCV, "ipv6_rcv", "ipv6_rcv")		\
	HOP(TCP_V4_RCV, SKBFN, tcp_v4_rcv, TCP_RCV, "tcp_v4_rcv", NULL)		\
	HOP(TCP_V6_RCV, SKBFN, tcp_v6_rcv, TCP_RCV, "tcp_v6_rcv", NULL)		\
	HOP(TCP_RCV_STATE_PROCESS, FN, tcp_rcv_state_process, TCP_STATE,	\
	    "tcp_rcv_state_process", NULL)					\
	HOP(TCP_RCV_ESTABLISHED, FN, tcp_rcv_established, TCP_STATE,		\
	    "tcp_rcv_established", NULL)					\
	HOP(UDP_ENQUEUE, FN, __udp_enqueue_schedule_skb, ENQUEUE,		\
	    "udp_unicast_rcv_skb", NULL)					\
	HOP(UDP_READ, FN, skb_consume_udp, READ, "__skb_recv_udp", NULL)	\
	HOP(IP_QUEUE_XMIT, FN, __ip_queue_xmit, SEND, "ip_queue_xmit", NULL)	\
	HOP(IP6_XMIT, FN, ip6_xmit, SEND, "ip_queue_xmit", NULL)		\
	HOP(IP_BUILD_AND_SEND_PKT, FN, ip_build_and_send_pkt, SEND,		\
	    "ip_queue_xmit", NULL)						\
	HOP(IP_SEND_SKB, FN, ip_send_skb, SEND, "ip_queue_xmit", NULL)		\
	HOP(IP6_SEND_SKB, SKBFN, ip6_send_skb, SEND, "ip_queue_xmit", NULL)	\
	HOP(IP_FINISH_OUTPUT2, FN, ip_finish_output2, OUTPUT,			\
	    "ip_finish_output2", NULL)						\
	HOP(IP6_FINISH_OUTPUT2, FN, ip6_finish_output2, OUTPUT,			\
	    "ip6_finish_output2", NULL)						\
	HOP(DEV_QUEUE_XMIT, TP, net_dev_queue, QUEUE, "__dev_queue_xmit", NULL)	\
	HOP(DEV_HARD_START_XMIT, TP, net_dev_start_xmit, XMIT,			\
	    "dev_hard_start_xmit", NULL)					\
	HOP(GSO_SEGMENT, FEXIT, __skb_gso_segment, CUT, "__skb_gso_segment", NULL) \
	HOP(KFREE_SKB, TP, kfree_skb, DROP, "kfree_skb", NULL)

/* MODULE(id, module): where the function of a MODFN lives */
#define HOP_MODULES(MODULE) MODULE(BR_HANDLE_FRAME_FINISH, "bridge")

#define HOP_ID(id, kind, target, place, shown, article) HOP_##id,
enum hop_id { HOPS(HOP_ID) HOP_IDS };
#undef HOP_ID

#define HOP_PLACE(id, kind, target, place, shown, article) \
	case HOP_##id: return PLACE_##place;
/* The place of a hop; takes a constant on the kernel side, so it costs nothing there. */
static inline __attribute__((always_inline)) enum place hop_place(enum hop_id id)
{
	switch (id) {
	HOPS(HOP_PLACE)
	default: return PLACES;
	}
}
#undef HOP_PLACE

#endif
