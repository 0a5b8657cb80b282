/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's types as far as slowpkt reads them. CO-RE finds the real offsets
 * at load, so only names and types matter here, not order or completeness.
 * `make VMLINUX_H=FILE` builds against a full dump instead.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef short int __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#define NULL ((void *)0)
#define offsetof(type, member) __builtin_offsetof(type, member)

enum {
	false = 0,
	true = 1,
};

enum bpf_map_type {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_F_MMAPABLE = 1024,
};

enum {
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
};

enum {
	TCP_LISTEN = 10,
	TCP_NEW_SYN_RECV = 12,
};

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct device {
	struct device *parent;
};

struct list_head {
	struct list_head *next, *prev;
};

struct net_device {
	char name[16];
	u64 features;
	int ifindex;
	possible_net_t nd_net;
	struct device dev;
	struct {
		struct list_head upper;
		struct list_head lower;
	} adj_list;
};

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct flowi6 {
	struct in6_addr daddr;
	struct in6_addr saddr;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
};

typedef struct {
	int owned;
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	u16 sk_protocol;
};

typedef struct {
	int counter;
} atomic_t;

typedef struct refcount_struct {
	atomic_t refs;
} refcount_t;

typedef unsigned int sk_buff_data_t;

struct sk_buff {
	struct sk_buff *next, *prev;
	struct net_device *dev;
	struct sock *sk;
	u64 skb_mstamp_ns;
	char cb[48];
	unsigned long _nfct;
	unsigned int len;
	unsigned int data_len;
	__u8 encapsulation:1;
	__be16 protocol;
	__u16 inner_network_header;
	__u16 transport_header;
	__u16 network_header;
	sk_buff_data_t end;
	unsigned char *head;
	unsigned char *data;
	refcount_t users;
};

struct skb_shared_info {
	unsigned int gso_type;
	unsigned short gso_segs;
};

struct tcp_sock {
	u32 snd_nxt;
	u32 tcp_tx_delay;
};

struct tcp_request_sock {
	u64 snt_synack;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 ack_seq;
};

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif
