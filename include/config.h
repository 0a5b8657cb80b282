/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space tells the kernel side before it is loaded. It lies in .rodata,
 * which is frozen at load, so the verifier drops the code of unused filters.
 */
#ifndef SLOWPKT_CONFIG_H
#define SLOWPKT_CONFIG_H

enum {
	MAX_PREFIXES = 16,
	MAX_NETNS = 16,
	MAX_IFACES = 16,
	PORT_BYTES = 65536 / 8,
};

#define NEVER (~0ull)	/* a threshold that nothing reaches */

/*
 * Which keys a list may hold: what it says no to need not be looked for. So a long
 * list costs no more than a short one where nothing matches.
 */
struct sieve {
	__u8 may[256];
};

static inline __attribute__((always_inline)) __u8 sieve_slot(__u64 key)
{
	return key * 0x9e3779b97f4a7c15ull >> 56;
}

/* A packet's address a matches if (a[i] & mask[i]) == addr[i] for both halves. */
struct prefix {
	__u64 addr[2];	/* network order, IPv4 as ::ffff:a.b.c.d */
	__u64 mask[2];
};

struct prefixes {
	__u32 n;	/* 0: any address will do */
	struct prefix p[MAX_PREFIXES];
	__u64 common[2];	/* the bits that each mask has */
	struct sieve sieve;	/* of addresses, with only these bits */
};

/* The sieve's key of an address. */
static inline __attribute__((always_inline)) __u64 prefixes_key(const volatile struct prefixes *list,
								 const __u64 *addr)
{
	return (addr[0] & list->common[0]) ^ (addr[1] & list->common[1]);
}

struct iface {
	char name[DEV_NAME_LEN] __attribute__((aligned(8))); /* padded with NULs */
	__u32 netns;	/* inum; 0: any */
};

/* A bit per port, in host order: byte port / 8, bit port % 8. */
struct ports {
	__u8 used;	/* 0: any port will do */
	__u8 bit[PORT_BYTES];
};

struct config {
	/* the filter of one tuple */
	__u8 tcp, udp;		/* let through */
	__u8 ipv4, ipv6;	/* let through */
	__u8 has_seq;
	__u8 asks_ports;	/* of one kind or another */
	__u8 asks_more;		/* for seq, or addresses */
	__u32 seq;		/* the TCP range must contain it */
	struct prefixes host, src, dst;
	struct ports dport, sport, port; /* port: either of both */
	/* the filter of the whole journey */
	__u32 n_netns;
	__u32 netns[MAX_NETNS];
	struct sieve netns_sieve;
	__u32 n_ifaces;
	struct iface iface[MAX_IFACES];
	struct sieve iface_sieve;	/* of both halves of their names, one xor the other */
	__u32 pid;		/* 0: any */
	__u8 must_meet;		/* enum record_met */
	/* the thresholds, ns; NEVER: not judged */
	__u64 total_tcp, total_udp;
	__u8 judge_stages;	/* some entry of stage[] is not NEVER */
	__u64 stage[PLACES][PLACES]; /* from, to */
	__u32 waits;		/* places (mask) out of which a stage is judged: behind others a record is soon doubted */
	__u8 begins_at_socket;	/* only the wait in a socket's queue is judged, and only its hops are attached */
	__u8 looks_late;	/* … and nothing of its headers is asked for: see bpf/late.bpf.h */
	__u8 notes_arrivals;	/* the hops of ARRIVAL_PLACES are attached */
	__u8 sees_cut;		/* GSO's cutting is seen: a packet does not leave a qdisc by it unnoticed */
	/* the table */
	__u32 sets;		/* it has so many */
};

#endif
