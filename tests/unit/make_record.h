/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Records as the kernel side would write them, and names for their numbers. */
#ifndef SLOWPKT_MAKE_RECORD_H
#define SLOWPKT_MAKE_RECORD_H

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "journey.h"
#include "print.h"

#define MS 1000000ull
#define START 5000000000123ull		/* CLOCK_MONOTONIC of every first hop */
#define WALL 1795954284787123456ull	/* of START: 2026-11-29T12:11:24.787123456Z */

#define GEN record_generation(START)
#define TCP_DROPS 0xffffffff81a2b3c4ull	/* an address in a function */

enum {
	HOST = 4026531840u,	/* netns: the host's and a container's */
	POD = 4026532201u,
	ETH0 = 2,		/* in both */
	DOCKER0 = 3,
	VETHC = 7,
	NAMELESS = 9,		/* a device that nobody knows */
	LONG_NAME = 10,
	NO_DEV = 0,
	IDLE = 0,		/* tids */
	KSOFTIRQD = 36,
	RESOLVER = 4243,	/* a thread of process 4242 */
	HOSTILE = 666,
	GONE = 777,		/* a task that nobody knows */
	OFO_QUEUE = 77,		/* drop reasons: this kernel's number, and no reason's */
	NO_REASON = 99,
};

static inline uint32_t make__where(uint32_t gen, enum hop_id id, unsigned int cpu, bool owner)
{
	return gen << WHERE_GEN_SHIFT | cpu << WHERE_CPU_SHIFT | (owner ? WHERE_OWNER : 0) | id;
}

/* A hop so long after START; the owner is whoever is at a send or a read. */
static inline void make__hop(struct record *r, enum hop_id id, uint64_t after, uint32_t netns,
			     uint32_t ifindex, uint32_t tid)
{
	bool owner = hop_place(id) == PLACE_SEND || hop_place(id) == PLACE_READ;

	r->last_at = START + after;
	r->last_where = make__where(GEN, id, 5, owner && tid);
	if (r->hops == RECORD_HOPS) {
		r->flags |= RECORD_TRUNCATED;
		return;
	}
	r->hop[r->hops++] = (struct hop){
		.at = r->last_at,
		.netns = netns,
		.ifindex = ifindex,
		.tid = tid,
		.where = r->last_where,
	};
}

/* The packet ends at its last hop. */
static inline void make__end(struct record *r, enum record_end end)
{
	r->end = end;
	r->end_at = r->last_at;
}

static inline void make__address(__u64 address[2], int family, const char *text)
{
	uint8_t bytes[16] = { [10] = 0xff, [11] = 0xff };

	inet_pton(family, text, family == AF_INET ? bytes + 12 : bytes);
	memcpy(address, bytes, sizeof(bytes));
}

static inline struct tuple make__tuple(uint8_t proto, const char *src, uint16_t sport,
				       const char *dst, uint16_t dport)
{
	int family = strchr(src, ':') ? AF_INET6 : AF_INET;
	struct tuple t = { .sport = sport, .dport = dport, .family = family, .proto = proto };

	make__address(t.src, family, src);
	make__address(t.dst, family, dst);
	return t;
}

static inline struct record make__record(struct tuple tuple)
{
	return (struct record){ .gen = GEN, .first = tuple, .last = tuple };
}

static inline struct record make__udp(uint16_t ip_id)
{
	struct record r = make__record(make__tuple(IPPROTO_UDP, "10.0.1.2", 53, "172.17.0.2", 40123));

	r.len = 120;
	r.ip_id = ip_id;
	return r;
}

/* The first article's SYN: 200 ms in the qdisc of the container's veth on the host. */
static inline struct record make__syn(void)
{
	struct record r = make__record(make__tuple(IPPROTO_TCP, "10.0.1.2", 49847, "172.17.0.2", 80));

	r.seq = 3511028477;
	r.tcp_flags = 0x02;
	r.win = 64240;
	r.ip_id = 54321;
	r.segs = 1;
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 0, HOST, ETH0, IDLE);
	make__hop(&r, HOP_IP_RCV, 4000, HOST, ETH0, IDLE);
	make__hop(&r, HOP_IP_FINISH_OUTPUT2, 12000, HOST, DOCKER0, IDLE);
	make__hop(&r, HOP_DEV_QUEUE_XMIT, 15000, HOST, DOCKER0, IDLE);
	make__hop(&r, HOP_DEV_HARD_START_XMIT, 16000, HOST, DOCKER0, IDLE);
	make__hop(&r, HOP_DEV_QUEUE_XMIT, 18000, HOST, VETHC, IDLE);
	make__hop(&r, HOP_DEV_HARD_START_XMIT, 200310400, HOST, VETHC, IDLE);
	make__hop(&r, HOP_NETIF_RX, 200318000, POD, ETH0, IDLE);
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 200500000, POD, ETH0, KSOFTIRQD);
	make__hop(&r, HOP_IP_RCV, 200504000, POD, ETH0, KSOFTIRQD);
	make__hop(&r, HOP_TCP_V4_RCV, 200510000, POD, ETH0, KSOFTIRQD);
	make__hop(&r, HOP_TCP_RCV_STATE_PROCESS, 200516000, POD, NO_DEV, KSOFTIRQD);
	make__end(&r, END_DELIVERED);
	return r;
}

/* Its answer: 100 ms at the container's own device, where the hop after the qdisc was missed. */
static inline struct record make__synack(void)
{
	struct record r = make__record(make__tuple(IPPROTO_TCP, "172.17.0.2", 80, "10.0.1.2", 49847));

	r.seq = 278643593;
	r.ack = 3511028478;
	r.tcp_flags = 0x12;
	r.win = 65160;
	r.segs = 1;
	make__hop(&r, HOP_IP_BUILD_AND_SEND_PKT, 0, POD, NO_DEV, IDLE);
	make__hop(&r, HOP_IP_FINISH_OUTPUT2, 4000, POD, ETH0, IDLE);
	make__hop(&r, HOP_DEV_QUEUE_XMIT, 6000, POD, ETH0, IDLE);
	make__hop(&r, HOP_NETIF_RX, 100200000, HOST, VETHC, IDLE);
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 101900000, HOST, VETHC, KSOFTIRQD);
	make__hop(&r, HOP_BR_HANDLE_FRAME_FINISH, 101903000, HOST, VETHC, KSOFTIRQD);
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 101906000, HOST, DOCKER0, KSOFTIRQD);
	make__hop(&r, HOP_IP_RCV, 101909000, HOST, DOCKER0, KSOFTIRQD);
	make__hop(&r, HOP_IP_FINISH_OUTPUT2, 101920000, HOST, ETH0, KSOFTIRQD);
	make__hop(&r, HOP_DEV_QUEUE_XMIT, 101925000, HOST, ETH0, KSOFTIRQD);
	make__hop(&r, HOP_DEV_HARD_START_XMIT, 101928000, HOST, ETH0, KSOFTIRQD);
	make__end(&r, END_SENT);
	return r;
}

/* A DNS answer, not read yet. */
static inline struct record make__waiting(void)
{
	struct record r = make__udp(4711);

	r.end = END_WAITING;
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 0, POD, ETH0, IDLE);
	make__hop(&r, HOP_IP_RCV, 2000, POD, ETH0, IDLE);
	make__hop(&r, HOP_UDP_ENQUEUE, 9000, POD, NO_DEV, IDLE);
	return r;
}

/* The same, read at last. */
static inline struct record make__read(void)
{
	struct record r = make__waiting();

	make__hop(&r, HOP_UDP_READ, 42009000, POD, NO_DEV, RESOLVER);
	make__end(&r, END_READ);
	r.reader_pid = 4242;
	r.reader_tid = RESOLVER;
	strcpy(r.reader_comm, "my resolver");
	return r;
}

/* Its socket was closed instead. */
static inline struct record make__unread(void)
{
	struct record r = make__waiting();

	make__hop(&r, HOP_KFREE_SKB, 60000 * MS, POD, NO_DEV, RESOLVER);
	make__end(&r, END_UNREAD);
	return r;
}

/* Pushed out of the table while it waited, which no hop shows. */
static inline struct record make__evicted(void)
{
	struct record r = make__waiting();

	make__end(&r, END_EVICTED);
	r.end_at += 40 * MS;
	return r;
}

/* First seen on its way up, dropped by TCP. */
static inline struct record make__dropped(void)
{
	struct record r = make__syn();

	r.hops = 0;
	r.flags = RECORD_PARTIAL;
	r.tcp_flags = 0x18;
	r.len = 100;
	make__hop(&r, HOP_NETIF_RX, 0, POD, ETH0, IDLE);
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 35000000, POD, ETH0, IDLE);
	make__hop(&r, HOP_TCP_V4_RCV, 35100000, POD, ETH0, IDLE);
	make__hop(&r, HOP_KFREE_SKB, 35200000, POD, NO_DEV, IDLE);
	make__end(&r, END_DROPPED);
	r.drop_reason = OFO_QUEUE;
	r.drop_at = TCP_DROPS;
	return r;
}

/* 32 hops find room, its end 50 ms later does not. */
static inline struct record make__truncated(void)
{
	struct record r = make__syn();
	unsigned int i;

	r.hops = 0;
	for (i = 0; i < RECORD_HOPS / 2; i++) {
		make__hop(&r, HOP_DEV_QUEUE_XMIT, i * MS, HOST, VETHC, IDLE);
		make__hop(&r, HOP_DEV_HARD_START_XMIT, i * MS + 1000, HOST, VETHC, IDLE);
	}
	make__hop(&r, HOP_TCP_V4_RCV, 60 * MS, POD, ETH0, IDLE);
	make__hop(&r, HOP_TCP_RCV_ESTABLISHED, 65 * MS, POD, NO_DEV, IDLE);
	make__end(&r, END_DELIVERED);
	return r;
}

/* Through the host by way of DNAT, 14 segments as one, over the end of the sequence numbers. */
static inline struct record make__nat_gso(void)
{
	struct record r = make__record(make__tuple(IPPROTO_TCP, "10.0.1.2", 49847, "10.0.0.1", 8080));

	r.last = make__tuple(IPPROTO_TCP, "10.0.1.2", 49847, "172.17.0.2", 80);
	r.seq = 4294960000;
	r.ack = 1;
	r.len = 20000;
	r.segs = 14;
	r.tcp_flags = 0x18;
	r.win = 502;
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 0, HOST, ETH0, KSOFTIRQD);
	make__hop(&r, HOP_IP_FINISH_OUTPUT2, 31500000, HOST, DOCKER0, KSOFTIRQD);
	make__hop(&r, HOP_DEV_HARD_START_XMIT, 31504000, HOST, DOCKER0, KSOFTIRQD);
	make__end(&r, END_SENT);
	return r;
}

/* UDP over IPv6 through loopback; nothing is known of its device and tasks. */
static inline struct record make__ipv6(void)
{
	struct record r = make__record(make__tuple(IPPROTO_UDP, "::1", 5353, "2001:db8::10", 53));

	r.len = 40;
	make__hop(&r, HOP_IP6_SEND_SKB, 0, HOST, NO_DEV, GONE);
	make__hop(&r, HOP_IP6_FINISH_OUTPUT2, 1000, 0, NAMELESS, GONE);
	make__hop(&r, HOP_NETIF_RX, 3000, HOST, NAMELESS, GONE);
	make__hop(&r, HOP_NETIF_RECEIVE_SKB, 3500000, HOST, NAMELESS, HOSTILE);
	make__hop(&r, HOP_UDP_ENQUEUE, 3504000, HOST, NO_DEV, HOSTILE);
	make__hop(&r, HOP_UDP_READ, 3600000, HOST, NO_DEV, HOSTILE);
	make__end(&r, END_READ);
	return r;
}

/* More output than a buffer holds, all of its names to be escaped. */
static inline struct record make__long(void)
{
	struct record r = make__syn();

	r.hops = 0;
	while (r.hops < RECORD_HOPS)
		make__hop(&r, HOP_NETIF_RX, r.hops * 100 * MS, POD, LONG_NAME, HOSTILE);
	make__end(&r, END_UNKNOWN);
	return r;
}

static inline int make__device(void *context, struct dev_key key, struct dev_name *name)
{
	static const struct {
		struct dev_key key;
		const char *name;
	} devices[] = {
		{ { HOST, ETH0 }, "eth0" },
		{ { HOST, DOCKER0 }, "docker0" },
		{ { HOST, VETHC }, "vethc" },
		{ { POD, ETH0 }, "eth0" },
		{ { POD, LONG_NAME }, "br-0123456789\x1b\x1b" },
		{ { POD, NO_DEV }, "not to be asked" },
	};
	size_t i;

	(void)context;
	for (i = 0; i < sizeof(devices) / sizeof(*devices); i++) {
		if (devices[i].key.netns == key.netns && devices[i].key.ifindex == key.ifindex) {
			*name = (struct dev_name){ 0 };
			strcpy(name->name, devices[i].name);
			return 0;
		}
	}
	return -ENOENT;
}

/* The idle task is not among them: it has as many names as there are CPUs. */
static inline int make__task(void *context, uint32_t tid, struct task_name *task)
{
	/* Fifteen bytes: quote, backslash, escape, DEL, a whole and a half of a letter. */
	static const char hostile[COMM_LEN] = "a \"\\\x1b[2J\x7f\xc3\xa9.\xe2\x82";

	(void)context;
	*task = (struct task_name){ .pid = tid };
	switch (tid) {
	case KSOFTIRQD:
		strcpy(task->comm, "ksoftirqd/5");
		return 0;
	case RESOLVER:
		task->pid = 4242;
		strcpy(task->comm, "my resolver");
		return 0;
	case HOSTILE:
		memcpy(task->comm, hostile, sizeof(hostile));
		return 0;
	default:
		return -ENOENT;
	}
}

static inline const char *make__drop_reason(void *context, uint32_t reason)
{
	(void)context;
	if (!reason)
		return "not to be asked";
	return reason == OFO_QUEUE ? "TCP_OFO_QUEUE" : NULL;
}

static inline const char *make__function(void *context, uint64_t address)
{
	(void)context;
	return address == TCP_DROPS ? "tcp_data_queue_ofo" : NULL;
}

static inline uint64_t make__wall(void *context, uint64_t mono)
{
	(void)context;
	return mono - START + WALL;
}

static const struct names make__names = {
	.device = make__device,
	.task = make__task,
	.drop_reason = make__drop_reason,
	.function = make__function,
	.wall = make__wall,
};

#endif
