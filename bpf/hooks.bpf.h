/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks: where a packet is met. Included by btf.bpf.c and probe.bpf.c, which
 * differ only in how they read.
 */
#include "read.bpf.h"
#include "hops.bpf.h"
#include "send.bpf.h"
#include "cut.bpf.h"
#include "late.bpf.h"

/* The programs. A module's function has no BTF on 5.10, and an exit program no arguments without BTF. */
TP(napi_gro_receive_entry, struct sk_buff *skb) { return hop_arrival(skb, HOP_NAPI_GRO_RECEIVE); }
TP(napi_gro_frags_entry, struct sk_buff *skb) { return hop_arrival(skb, HOP_NAPI_GRO_FRAGS); }
TP(netif_receive_skb_entry, struct sk_buff *skb) { return hop_arrival(skb, HOP_NETIF_RECEIVE_SKB_ENTRY); }
TP(netif_receive_skb_list_entry, struct sk_buff *skb) { return hop_arrival(skb, HOP_NETIF_RECEIVE_SKB_LIST); }
FN(enqueue_to_backlog, struct sk_buff *skb) { return hop_arrival(skb, HOP_ENQUEUE_TO_BACKLOG); }
TP(netif_receive_skb, struct sk_buff *skb) { return hop_receive(skb, HOP_NETIF_RECEIVE_SKB); }
TP(netif_rx, struct sk_buff *skb) { return hop_receive(skb, HOP_NETIF_RX); }
TP(net_dev_queue, struct sk_buff *skb)
{ return hop_between(skb, HOP_DEV_QUEUE_XMIT, MAY_BE_INNER); }
TP(net_dev_start_xmit, struct sk_buff *skb, struct net_device *dev) { return hop_xmit(skb, dev); }
TP(kfree_skb, struct sk_buff *skb) { return hop_drop((const u64 *)ctx, skb); }

FN(ip_rcv_core, struct sk_buff *skb)
{ return hop_between(skb, HOP_IP_RCV, MAY_HAVE_BEEN_INNER | PROTOCOL(ETH_P_IP)); }
FN(ip6_rcv_core, struct sk_buff *skb)
{ return hop_between(skb, HOP_IPV6_RCV, MAY_HAVE_BEEN_INNER | PROTOCOL(ETH_P_IPV6)); }
FN(tcp_v4_rcv, struct sk_buff *skb) { return hop_transport(NULL, skb, HOP_TCP_V4_RCV, PROTOCOL(ETH_P_IP)); }
FN(tcp_v6_rcv, struct sk_buff *skb) { return hop_transport(NULL, skb, HOP_TCP_V6_RCV, PROTOCOL(ETH_P_IPV6)); }
FN(tcp_rcv_state_process, struct sock *sk, struct sk_buff *skb)
{ return hop_tcp_state(skb, HOP_TCP_RCV_STATE_PROCESS); }
FN(tcp_rcv_established, struct sock *sk, struct sk_buff *skb)
{ return hop_tcp_state(skb, HOP_TCP_RCV_ESTABLISHED); }
FN(__udp_enqueue_schedule_skb, struct sock *sk, struct sk_buff *skb)
{ return hop_transport(sk, skb, HOP_UDP_ENQUEUE, 0); }
FN(skb_consume_udp, struct sock *sk, struct sk_buff *skb) { return hop_read(sk, skb); }

FN(__ip_queue_xmit, struct sock *sk, struct sk_buff *skb) { return hop_queue_xmit(sk, skb); }
FN(ip_build_and_send_pkt, struct sk_buff *skb, struct sock *sk, u32 saddr, u32 daddr)
{ return hop_build_and_send(sk, skb, saddr, daddr); }
FN(ip6_xmit, struct sock *sk, struct sk_buff *skb, struct flowi6 *fl6) { return hop_xmit6(sk, skb, fl6); }
FN(ip_send_skb, struct net *net, struct sk_buff *skb) { return hop_send_headed4(skb, net); }
FN(ip6_send_skb, struct sk_buff *skb) { return hop_send_headed6(skb); }
FN(ip_finish_output2, struct net *net, struct sock *sk, struct sk_buff *skb)
{ return hop_output(skb, HOP_IP_FINISH_OUTPUT2, PROTOCOL(ETH_P_IP)); }
FN(ip6_finish_output2, struct net *net, struct sock *sk, struct sk_buff *skb)
{ return hop_output(skb, HOP_IP6_FINISH_OUTPUT2, PROTOCOL(ETH_P_IPV6)); }

/* In place of those of the same targets where headers are looked at late. */
#ifdef DIRECT
FN_AS(late___udp_enqueue_schedule_skb, __udp_enqueue_schedule_skb, struct sock *sk, struct sk_buff *skb)
{ return late_enqueue(sk, skb); }
#endif
FN_AS(late_skb_consume_udp, skb_consume_udp, struct sock *sk, struct sk_buff *skb) { return late_read(sk, skb); }
TP_AS(late_kfree_skb, kfree_skb, struct sk_buff *skb) { return late_drop(skb); }

#ifdef DIRECT
SEC("fexit/__skb_gso_segment")
int BPF_PROG(btf___skb_gso_segment, struct sk_buff *skb, u64 features, bool tx_path, struct sk_buff *segs)
{ return hop_cut(skb, segs, features, tx_path); }
#else
FN(br_handle_frame_finish, struct net *net, struct sock *sk, struct sk_buff *skb) { return hop_bridge(skb); }
#endif
