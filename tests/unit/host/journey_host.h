/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The hooks on the host, and a host with a container for packets to pass. To be
 * included first. A step_*() is what the kernel does up to one hook: it sets the
 * skb as it is there, calls the hook, and the clock goes on.
 */
#ifndef SLOWPKT_JOURNEY_HOST_H
#define SLOWPKT_JOURNEY_HOST_H

#include "packet_host.h"
#include "../../../bpf/hooks.bpf.h"
#include "../../../bpf/verdict.bpf.c"
#include "../../../bpf/look.bpf.c"

enum {
	HOST_NS = 4026531840u,
	POD_NS = 4026532201u,
	STEP = 1000,	/* ns from hop to hop */
};

#define MS 1000000ull
#define TASK(tgid, tid) ((u64)(tgid) << 32 | (tid))

static __attribute__((unused)) struct net host_net = { .ns.inum = HOST_NS }, pod_net = { .ns.inum = POD_NS };
static struct device virtio;
/* No device lies beneath it. */
#define DEVICE(self, title, index, net, hardware) {					\
	.name = title, .ifindex = index, .nd_net = { &(net) }, .dev = { hardware },	\
	.adj_list.lower.next = &(self).adj_list.lower,					\
}
static __attribute__((unused)) struct net_device nic = DEVICE(nic, "eth0", 2, host_net, &virtio);
static __attribute__((unused)) struct net_device nic2 = DEVICE(nic2, "eth1", 4, host_net, &virtio);
static __attribute__((unused)) struct net_device docker0 = DEVICE(docker0, "docker0", 3, host_net, NULL);
static __attribute__((unused)) struct net_device vethc = DEVICE(vethc, "vethc", 7, host_net, NULL);
static __attribute__((unused)) struct net_device pod_eth0 = DEVICE(pod_eth0, "eth0", 2, pod_net, NULL);
static __attribute__((unused)) struct net_device lo = DEVICE(lo, "lo", 1, host_net, NULL);
static __attribute__((unused)) struct sock host_sock = { .__sk_common.skc_net = { &host_net }, .sk_lock.owned = 1 };
static __attribute__((unused)) struct sock pod_sock = { .__sk_common.skc_net = { &pod_net }, .sk_lock.owned = 1 };

static struct fake pool[64];

static inline int journey_reset(void **state)
{
	(void)state;
	host_reset();
	cfg.sees_cut = 1;
	host.cpu = 5;
	host.task = TASK(400, 401);
	strcpy(host.comm, "client");
	host_sock.sk_lock.owned = pod_sock.sk_lock.owned = 1;
	return 0;
}

static inline struct fake *fill(int i, const struct wire *w)
{
	fake_fill(&pool[i], w);
	return &pool[i];
}

static inline u8 *l4_of(struct fake *f)
{
	return fake_l3(f) + wire_l3_header(&f->wire);
}

static inline void step(struct fake *f, struct net_device *dev, u8 *data, u32 network_header)
{
	f->skb.dev = dev;
	f->skb.network_header = network_header;
	fake_data_at(f, data);
	host.now += STEP;
}

/* TCP has written no address yet: the socket, or the flow, has them. */
static inline void step_send_tcp(struct fake *f, struct sock *sk)
{
	const struct wire w = f->wire;
	struct flowi6 flow;
	u8 header[40];

	step(f, NULL, l4_of(f), NOWHERE);
	memcpy(header, fake_l3(f), 40);
	memset(fake_l3(f), 0xee, wire_l3_header(&w));
	sk->sk_protocol = IPPROTO_TCP;
	host.tcp.snd_nxt = w.seq + host.sent_before;
	if (w.v6) {
		wire_address((u8 *)&flow.saddr, true, w.src);
		wire_address((u8 *)&flow.daddr, true, w.dst);
		hook_ip6_xmit(NULL, sk, &f->skb, &flow);
	} else {
		sk->__sk_common.skc_rcv_saddr = bpf_htonl(w.src);
		sk->__sk_common.skc_daddr = bpf_htonl(w.dst);
		sk->__sk_common.skc_num = w.sport;
		sk->__sk_common.skc_dport = bpf_htons(w.dport);
		hook___ip_queue_xmit(NULL, sk, &f->skb);
	}
	memcpy(fake_l3(f), header, wire_l3_header(&w));
}

static inline void step_send(struct fake *f, struct sock *sk)
{
	if (f->wire.proto == WIRE_TCP) {
		step_send_tcp(f, sk);
		return;
	}
	step(f, NULL, fake_l3(f), WIRE_HEADROOM);
	f->skb.sk = sk;
	f->skb.protocol = 0;	/* IP sets it on the way out */
	if (f->wire.v6)
		hook_ip6_send_skb(NULL, &f->skb);
	else
		hook_ip_send_skb(NULL, sk->__sk_common.skc_net.net, &f->skb);
	f->skb.protocol = bpf_htons(f->wire.v6 ? ETH_P_IPV6 : ETH_P_IP);
}

static inline void step_output(struct fake *f, struct net_device *dev)
{
	step(f, dev, fake_l3(f), WIRE_HEADROOM);
	if (f->wire.v6)
		hook_ip6_finish_output2(NULL, NULL, NULL, &f->skb);
	else
		hook_ip_finish_output2(NULL, NULL, NULL, &f->skb);
}

static inline void step_queue(struct fake *f, struct net_device *dev)
{
	step(f, dev, fake_l3(f) - WIRE_MAC, WIRE_HEADROOM);
	hook_net_dev_queue(NULL, &f->skb);
}

static inline void step_xmit(struct fake *f, struct net_device *dev)
{
	step(f, dev, fake_l3(f) - WIRE_MAC, WIRE_HEADROOM);
	hook_net_dev_start_xmit(NULL, &f->skb, dev);
}

static inline void step_netif_rx(struct fake *f, struct net_device *dev)
{
	step(f, dev, fake_l3(f), NOWHERE);
	hook_netif_rx(NULL, &f->skb);
}

static inline void step_receive(struct fake *f, struct net_device *dev)
{
	step(f, dev, fake_l3(f), NOWHERE);
	hook_netif_receive_skb(NULL, &f->skb);
}

static inline void step_bridge(struct fake *f, struct net_device *dev)
{
	step(f, dev, fake_l3(f), WIRE_HEADROOM);
	hop_bridge(&f->skb);
}

static inline void step_ip_rcv(struct fake *f, struct net_device *dev)
{
	step(f, dev, fake_l3(f), WIRE_HEADROOM);
	if (f->wire.v6)
		hook_ip6_rcv_core(NULL, &f->skb);
	else
		hook_ip_rcv_core(NULL, &f->skb);
}

static inline void step_tcp_rcv(struct fake *f, struct net_device *dev)
{
	step(f, dev, l4_of(f), WIRE_HEADROOM);
	if (f->wire.v6)
		hook_tcp_v6_rcv(NULL, &f->skb);
	else
		hook_tcp_v4_rcv(NULL, &f->skb);
}

static inline void step_tcp_state(struct fake *f)
{
	step(f, NULL, l4_of(f), WIRE_HEADROOM);
	hook_tcp_rcv_established(NULL, &pod_sock, &f->skb);
}

static inline void step_enqueue(struct fake *f, struct net_device *dev)
{
	step(f, dev, l4_of(f) + 8, WIRE_HEADROOM);
	hook___udp_enqueue_schedule_skb(NULL, &pod_sock, &f->skb);
}

/* skb->dev is no device any more: a union has made use of it. */
static inline void step_read(struct fake *f)
{
	step(f, (struct net_device *)0x5ead, l4_of(f) + 8, WIRE_HEADROOM);
	hook_skb_consume_udp(NULL, &pod_sock, &f->skb);
}

static inline void step_drop(struct fake *f, u64 reason)
{
	u64 ctx[3] = { (u64)&f->skb, 0xffffffff81234567, reason };

	step(f, f->skb.dev, f->skb.data, WIRE_HEADROOM);
	hook_kfree_skb(ctx, &f->skb);
}

/* Nothing else happens for so long. */
static inline void rest(u64 ns)
{
	host.now += ns;
}

/* From a NIC's or a veth's receive up to the transport layer, for a socket at this device. */
static inline void receive_local(struct fake *f, struct net_device *dev)
{
	step_receive(f, dev);
	step_ip_rcv(f, dev);
	if (f->wire.proto == WIRE_TCP)
		step_tcp_rcv(f, dev);
	else
		step_enqueue(f, dev);
}

/* From the host's IP layer over the bridge into the container's backlog. */
static inline void bridge_in(struct fake *f)
{
	step_output(f, &docker0);
	step_queue(f, &docker0);
	step_xmit(f, &docker0);
	step_queue(f, &vethc);
	step_xmit(f, &vethc);
	step_netif_rx(f, &pod_eth0);
}

/* The record of the packet, if it is tracked. */
static inline struct record *record_of(struct fake *f)
{
	struct entry e = {};

	assert_true(entry_of(&e, &f->skb, host.cpu));
	return tracked(&e) ? e.record : NULL;
}

/* No record is in use. */
static inline void assert_table_free(void)
{
	for (u32 i = 0; i < HOST_SETS; i++)
		for (u32 way = 0; way < SET_WAYS; way++)
			assert_int_equal(host.sets[i].way[way].skb, 0);
}

static inline struct counts all_counts(void)
{
	struct counts sum = {};

	for (u32 i = 0; i < COUNT_CPUS; i++) {
		for (u32 id = 0; id < HOP_IDS; id++)
			sum.hits[id] += counts[i].hits[id];
		sum.matched += counts[i].matched;
		sum.slow += counts[i].slow;
		sum.lost += counts[i].lost;
		sum.evicted += counts[i].evicted;
		sum.unparsed += counts[i].unparsed;
		sum.torn += counts[i].torn;
	}
	return sum;
}

/* The n-th event, which is the last one. */
static inline const struct record *only_event(unsigned int n, enum record_end end)
{
	const struct record *r = &host.event[n];

	assert_int_equal(host.n_events, n + 1);
	assert_int_equal(r->end, end);
	assert_true(record_intact(r));
	assert_int_equal(host.event_size[n], offsetof(struct record, hop) + r->hops * sizeof(struct hop));
	for (u32 i = 0; i < r->hops; i++)
		assert_int_equal(WHERE_GEN(r->hop[i].where), WHERE_GEN(r->hop[0].where));
	return r;
}

static inline void assert_hops_(const struct record *r, const enum hop_id *ids, u32 n)
{
	for (u32 i = 0; i < n && i < r->hops; i++)
		assert_int_equal(WHERE_HOP(r->hop[i].where), ids[i]);
	assert_int_equal(r->hops, n);
}

/* assert_hops(record, HOP_…, HOP_…, …): these and no others */
#define assert_hops(r, ...) \
	assert_hops_(r, (const enum hop_id[]){ __VA_ARGS__ }, LEN(((const enum hop_id[]){ __VA_ARGS__ })))

/* One hop: where it was; ifindex 0: at a socket. */
static inline void assert_hop(const struct record *r, u32 i, u32 netns, u32 ifindex, bool owner)
{
	assert_true(i < r->hops);
	assert_int_equal(r->hop[i].netns, netns);
	assert_int_equal(r->hop[i].ifindex, ifindex);
	assert_int_equal(!!(r->hop[i].where & WHERE_OWNER), owner);
}

/* Fakes whose records lie in one set of the table. */
static __attribute__((unused)) struct fake *mates[SET_WAYS * 2];

static inline void find_mates(void)
{
	u32 n[HOST_SETS] = {};

	/* some set has a quarter of the pool at least */
	for (u32 set = 0; set < HOST_SETS; set++) {
		for (size_t i = 0; i < LEN(pool) && n[set] < LEN(mates); i++) {
			struct entry e = {};

			assert_true(entry_of(&e, &pool[i].skb, 0));
			if (e.set == &host.sets[set])
				mates[n[set]++] = &pool[i];
		}
		if (n[set] == LEN(mates))
			return;
	}
	fail();
}

#define cmocka_journey(test) cmocka_unit_test_setup(test, journey_reset)

#endif
