/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the kernel side writes and user space reads: the record of a journey.
 * The same bytes live in the table and travel through the ring buffer.
 *
 * The includer supplies __u8 … __u64 (linux/types.h or vmlinux.h).
 */
#ifndef SLOWPKT_RECORD_H
#define SLOWPKT_RECORD_H

#include "hops.h"

enum {
	RECORD_HOPS = 32,
	SET_WAYS = 4,
	WAY_RESERVED = 1,	/* a record's skb: claimed, but it is not whole yet */
	COMM_LEN = 16,		/* TASK_COMM_LEN */
	DEV_NAME_LEN = 16,	/* IFNAMSIZ */
};

/* Addresses are in network order, IPv4 as ::ffff:a.b.c.d; ports in host order. */
struct tuple {
	__u64 src[2];
	__u64 dst[2];
	__u16 sport;
	__u16 dport;
	__u8 family;	/* AF_INET or AF_INET6; 0: not known */
	__u8 proto;	/* IPPROTO_TCP or IPPROTO_UDP */
	__u16 unused;
};

/*
 * One hop. `where` holds the hop's id, whether the current task owns the packet,
 * the CPU, and the generation of the journey that wrote it: a hop whose
 * generation is not the record's was written by another packet and is not shown.
 */
struct hop {
	__u64 at;	/* CLOCK_MONOTONIC, ns */
	union {
		struct {
			__u32 netns;	/* inum; 0: not known */
			__u32 ifindex;	/* in netns; 0: no device here */
		};
		__u64 spot;	/* both, to be copied at once */
	};
	__u32 tid;	/* the current task, owner or not */
	__u32 where;
};

enum {
	WHERE_HOP_BITS = 6,
	WHERE_OWNER = 1 << 6,
	WHERE_CPU_SHIFT = 7,
	WHERE_CPU_BITS = 13,	/* NR_CPUS is 8192 at the most */
	WHERE_GEN_SHIFT = 20,
	WHERE_GEN_BITS = 12,
};

#define WHERE_HOP(w)	((w) & ((1u << WHERE_HOP_BITS) - 1))
#define WHERE_CPU(w)	(((w) >> WHERE_CPU_SHIFT) & ((1u << WHERE_CPU_BITS) - 1))
#define WHERE_GEN(w)	((w) >> WHERE_GEN_SHIFT)

enum record_end {
	END_NONE,
	END_DELIVERED,	/* handed to the TCP state machine */
	END_READ,
	END_SENT,	/* handed to a device with hardware behind it */
	END_DROPPED,
	END_UNREAD,	/* its socket was closed */
	END_EVICTED,
	END_UNKNOWN,
	END_WAITING,	/* not an end: user space found it still held */
};

enum record_flag {
	RECORD_PARTIAL = 1 << 0,	/* the journey's beginning was not seen */
	RECORD_TRUNCATED = 1 << 1,	/* more than RECORD_HOPS hops */
	RECORD_SLOW = 1 << 2,		/* a named stage reached its threshold */
	RECORD_PAYLOAD = 1 << 3,	/* payload is known */
	RECORD_FRAGMENT = 1 << 4,	/* it began as a first fragment */
	RECORD_RETRANS = 1 << 5,	/* TCP had sent it before */
	RECORD_RETRANS_UNKNOWN = 1 << 6, /* … or not: nobody knows */
	RECORD_UNSEEN = 1 << 7,		/* its headers are not looked at before it is slow: see `seen` */
};

/* The conditions that a journey must meet before it is sent up, in any order. */
enum record_met {
	MET_NETNS = 1 << 0,
	MET_IFACE = 1 << 1,
	MET_PID = 1 << 2,
};

/*
 * One way of a set of the table, 1 KB. skb, refused and guest are the way's, and
 * stay where they are when the rest is copied.
 */
struct record {
	__u64 skb;		/* the packet's address; 0: free */
	/* a packet at home here that no filter let through, so that the next hop need not parse it again */
	__u64 refused;
	/* a packet at home here whose journey found no room: half its address, and in the low bits its way */
	__u32 guest;
	__u32 unused3;
	__u32 gen;		/* of this journey; never 0 in a live record */
	union {
		struct {
			__u8 hops;	/* used entries of hop[] */
			__u8 flags;	/* enum record_flag */
			__u8 met;	/* enum record_met */
			__u8 end;	/* enum record_end */
		};
		__u32 state;	/* all four, to be cleared at once */
	};
	__u64 end_at;		/* ns; of a journey that was sent up */
	__u64 last_at;		/* the last hop's time, also of one that found no room */
	__u64 last_dev;		/* struct net_device *; 0: no device there */
	union {
		struct {
			__u32 last_netns, last_ifindex;
		};
		__u64 last_spot;
	};
	__u32 last_where;	/* the last hop's `where` */
	__u32 last_tid;
	__u32 drop_reason;	/* enum skb_drop_reason of the running kernel; with END_DROPPED */
	__u32 seen;		/* with RECORD_UNSEEN: the generation whose headers these are; or not_there() */
	struct tuple first;
	struct tuple last;
	__u32 seq;		/* TCP; host order as all below */
	__u32 ack;
	__u32 len;		/* payload, bytes */
	__u16 win;		/* TCP, as in the header, not scaled */
	__u16 ip_id;		/* IPv4; 0: none or not known yet */
	/* identity beyond the numbers: UDP's first eight bytes, TCP's options from 24 on: timestamps */
	__u64 payload;
	__u16 segs;		/* segments in this skb; 0: not known */
	__u8 tcp_flags;		/* the header's byte: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, … */
	__u8 reported_hops;	/* written by user space, see below */
	union {
		struct {
			__u8 last_place;	/* enum place of the last hop */
			__u8 unused;
			__u16 last_cpu;
		};
		__u32 last_link;	/* all of it, as last_link() makes it */
	};
	/* the reader of a UDP datagram; with END_READ */
	__u32 reader_pid;
	__u32 reader_tid;
	char reader_comm[COMM_LEN];
	/* Written by user space when its sweep printed the record. */
	__u32 reported;		/* the generation that was printed, with reported_hops hops, */
	__u32 pkt;		/* and its number */
	__u64 drop_at;		/* where the kernel freed it: a return address; with END_DROPPED */
	__u64 head;		/* with RECORD_UNSEEN: of the skb, by which it is known, */
	__u32 skb_len;		/* and its length */
	__u32 unused2;
	__u64 unused_tail;
	struct hop hop[RECORD_HOPS];
};

/* So that a hop asks for both with one comparison. */
static inline __attribute__((always_inline)) __u32 last_link(enum place place, __u32 cpu)
{
	return place | cpu << 16;
}

/*
 * The generation of a journey follows from its first hop's time, so that a record
 * whose head and first hop come from two packets gives itself away.
 */
static inline __attribute__((always_inline)) __u32 record_generation(__u64 first_at)
{
	return (__u32)((first_at * 0x9e3779b97f4a7c15ull) >> 32) | 1u << 31;
}

/* Whether head and first hop were written by one packet. */
static inline __attribute__((always_inline)) int record_intact(const struct record *r)
{
	return r->gen == record_generation(r->hop[0].at) &&
	       WHERE_GEN(r->hop[0].where) == (r->gen & ((1u << WHERE_GEN_BITS) - 1));
}

/* Whether what a packet's headers say is in its record. */
static inline __attribute__((always_inline)) int record_is_seen(const struct record *r)
{
	return !(r->flags & RECORD_UNSEEN) || r->seen == r->gen;
}

/* A record's `seen` where the last look has found that its packet waits no more; no generation is like it. */
static inline __attribute__((always_inline)) __u32 not_there(__u32 gen)
{
	return ~gen;
}

/* Whether the sweep has printed all that is known of the journey: it has not moved since. */
static inline __attribute__((always_inline)) int record_is_told(const struct record *r)
{
	return r->reported == r->gen && r->reported_hops == r->hops;
}

/* One set of the table, a page. */
struct set {
	struct record way[SET_WAYS];
};

/*
 * When and where a packet came before the stack took it. Only noted: it becomes the
 * first hops of a journey, or the next ones.
 */
struct noted {
	__u64 at;	/* 0: it was not there */
	__u32 tid;
	__u32 where;	/* as in struct hop, without a generation */
};

struct arrival {
	__u64 skb;	/* 0: free */
	__u64 dev;	/* struct net_device * */
	struct noted gro, rps;
};

enum {
	ARRIVAL_WAYS = 4,
	ARRIVAL_SETS = 4096,	/* where they are asked for */
};

struct arrivals {
	struct arrival way[ARRIVAL_WAYS];
};

/* Counters of one CPU, in a cache line of its own. */
struct counts {
	__u64 hits[HOP_IDS];
	__u64 matched;
	__u64 slow;
	__u64 lost;
	__u64 evicted;
	__u64 unparsed;
	__u64 torn;	/* slow, but written by two packets at once: not sent */
} __attribute__((aligned(64)));

enum { COUNT_CPUS = 1024 };	/* a power of two; CPUs beyond share a line */

struct dev_key {
	__u32 netns;
	__u32 ifindex;
};

struct dev_name {
	char name[DEV_NAME_LEN];
};

struct task_name {
	__u32 pid;	/* tgid */
	char comm[COMM_LEN];
};

enum { SEEN = 1024 };	/* devices, and tasks, whose names the kernel side knows to be stored */

_Static_assert(sizeof(struct tuple) == 40, "tuple");
_Static_assert(sizeof(struct hop) == 24, "hop");
_Static_assert(sizeof(struct record) == 1024, "an offset is a shift");
_Static_assert(sizeof(struct set) == 4096, "a set must be a page");
_Static_assert(HOP_IDS <= 1 << WHERE_HOP_BITS, "hop ids must fit into where");

#endif
