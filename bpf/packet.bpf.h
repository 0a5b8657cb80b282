/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From an skb to what the filter and the journey ask of a packet. */
#ifndef SLOWPKT_PACKET_BPF_H
#define SLOWPKT_PACKET_BPF_H

#include "ports.bpf.h"
#include "read.bpf.h"
#include "record.h"
#include <bpf/bpf_endian.h>

enum {
	AF_INET = 2,
	AF_INET6 = 10,
	ETH_P_IP = 0x0800,
	ETH_P_IPV6 = 0x86dd,
	ETH_P_8021Q = 0x8100,
	ETH_P_8021AD = 0x88a8,
	EXT_HOPOPTS = 0,
	EXT_ROUTING = 43,
	EXT_FRAGMENT = 44,
	EXT_AUTH = 51,
	EXT_DSTOPTS = 60,
	MAX_EXT_HEADERS = 6,
	MAX_VLAN_TAGS = 2,
};

/* A bit for each of them. */
#define EXT_HEADERS (1ull << EXT_HOPOPTS | 1ull << EXT_ROUTING | 1ull << EXT_FRAGMENT | \
		     1ull << EXT_AUTH | 1ull << EXT_DSTOPTS)

struct wire_tcp {
	__be16 source, dest;
	__be32 seq, ack;
	u8 doff;	/* in the high half, in words */
	u8 flags;
	__be16 window;
	u32 check_urg;
	u32 options[3];
};

struct wire_udp {
	__be16 source, dest;
	__be16 len, check;
	u32 payload[2];
};

/* As much of a transport header as is read: 32 bytes, of a UDP one 16. */
union wire_l4 {
	struct wire_tcp tcp;
	struct wire_udp udp;
};

struct wire_ip4 {
	u8 ver_ihl, tos;
	__be16 tot_len, id, frag_off;
	u8 ttl, protocol;
	u16 check;
	__be32 saddr, daddr;
	union wire_l4 l4;	/* where there are no options */
};

struct wire_ip6 {
	__be32 ver_flow;
	__be16 payload_len;
	u8 nexthdr, hop_limit;
	__be32 saddr[4], daddr[4];
	union wire_l4 l4;	/* where there is no extension header */
};

_Static_assert(sizeof(struct wire_ip4) == 52, "an IPv4 and a TCP header with timestamps");
_Static_assert(sizeof(struct wire_ip6) == 72, "an IPv6 and a TCP header with timestamps");

struct packet {
	struct tuple tuple;
	u32 seq, ack;
	u32 len;
	u16 win;
	u16 ip_id;
	u64 payload;
	u8 tcp_flags;
	bool has_payload;
	bool fragment;	/* the first of several */
};

enum parsed {
	PARSED,
	UNWANTED,	/* by its protocol, its IP version or its ports; nothing else is known of it */
	NOT_OURS,	/* neither TCP nor UDP over IP */
	UNPARSED,	/* IP, but its ports are not to be had: a later fragment, a cut-off header */
};

/* Which packets are parsed. */
enum whose {
	ANYBODYS,
	WANTED,		/* those that ports.bpf.h lets through */
};

/* Where the network header lies; what skb->data points to changes from hop to hop. */
enum l3_at {
	L3_AT_DATA,	/* receive hops: skb->network_header is not set yet */
	L3_AT_HEADER,
	L3_UNSENT,	/* a send hop: so it is, but its length is yet to be written */
	L3_MAY_BE_INNER, /* transmit hops: so it is, but a tunnel may have put headers in front */
};

static __always_inline u64 mapped_v4(__be32 addr)
{
	return (u64)addr << 32 | bpf_htonl(0xffff);
}

static __always_inline void set_v4(struct tuple *t, __be32 src, __be32 dst)
{
	t->family = AF_INET;
	t->unused = 0;
	t->src[0] = 0;
	t->src[1] = mapped_v4(src);
	t->dst[0] = 0;
	t->dst[1] = mapped_v4(dst);
}

static __always_inline u64 two_words(const __be32 *w)
{
	return (u64)w[1] << 32 | w[0];
}

static __always_inline void set_v6(struct tuple *t, const __be32 *src, const __be32 *dst)
{
	t->family = AF_INET6;
	t->unused = 0;
	t->src[0] = two_words(src);
	t->src[1] = two_words(src + 2);
	t->dst[0] = two_words(dst);
	t->dst[1] = two_words(dst + 2);
}

/* known: 1, or 0 where the bytes are not the packet's. */
static __always_inline void tell_payload(struct packet *p, const __be32 *bytes, u64 known)
{
	p->has_payload = known;
	p->payload = two_words(bytes) & -known;
}

/*
 * l4_len: the transport header and what follows it, bytes; linear: as many of
 * them as lie in the linear part, the header at least. The options stand in for a
 * payload: their timestamps tell a keepalive or a retransmission from the one
 * before it.
 */
static __always_inline void tell_tcp(struct packet *p, const struct wire_tcp *tcp, u32 l4_len, s32 linear)
{
	u32 header = (tcp->doff >> 4) * 4;

	p->tuple.proto = IPPROTO_TCP;
	p->tuple.sport = bpf_ntohs(tcp->source);
	p->tuple.dport = bpf_ntohs(tcp->dest);
	p->seq = bpf_ntohl(tcp->seq);
	p->ack = bpf_ntohl(tcp->ack);
	p->win = bpf_ntohs(tcp->window);
	p->tcp_flags = tcp->flags;
	p->len = l4_len - header;
	tell_payload(p, &tcp->options[1], at_least(header, 32) & at_least(linear, 32));
}

static __always_inline enum parsed parse_tcp(struct packet *p, const struct wire_tcp *tcp, u32 l4_len,
					     s32 linear)
{
	u32 header = (tcp->doff >> 4) * 4;

	if (linear < 20 || header < 20 || l4_len < header)
		return UNPARSED;
	tell_tcp(p, tcp, l4_len, linear);
	return PARSED;
}

/* len: of the UDP packet; of it `here` bytes are in this skb, and in its linear part. */
static __always_inline void tell_udp(struct packet *p, const struct wire_udp *udp, u32 len, s32 here)
{
	p->tuple.proto = IPPROTO_UDP;
	p->tuple.sport = bpf_ntohs(udp->source);
	p->tuple.dport = bpf_ntohs(udp->dest);
	p->len = len - 8;
	tell_payload(p, udp->payload, at_least(here, 16));
	p->seq = p->ack = 0;
	p->win = 0;
	p->tcp_flags = 0;
}

/* linear: bytes of the UDP packet that lie in the linear part, header included. */
static __always_inline enum parsed parse_udp(struct packet *p, const struct wire_udp *udp, u32 l4_len,
					     s32 linear)
{
	u32 len = bpf_ntohs(udp->len);

	if (l4_len < 8)
		return UNPARSED;
	if (len < 8)
		len = l4_len;
	/* a first fragment may end before they do */
	tell_udp(p, udp, len, len < 16 || l4_len < 16 ? 0 : linear);
	return PARSED;
}

/* Of both protocols the ports come first. */
static __always_inline bool wanted_l4(u8 proto, const union wire_l4 *l4)
{
	return (proto == IPPROTO_TCP ? cfg.tcp : cfg.udp) &&
	       wanted_ports(bpf_ntohs(l4->tcp.source), bpf_ntohs(l4->tcp.dest));
}

static __always_inline enum parsed parse_l4(struct packet *p, u8 proto, const union wire_l4 *l4,
					    u32 l4_len, s32 linear)
{
	if (proto == IPPROTO_TCP)
		return parse_tcp(p, &l4->tcp, l4_len, linear);
	if (proto == IPPROTO_UDP)
		return parse_udp(p, &l4->udp, l4_len, linear);
	return NOT_OURS;
}

/* Bytes from the network header to the packet's end; data may lie before or behind it. */
static __always_inline u32 l3_length(struct sk_buff *skb, const void *l3)
{
	return READ(skb, len) - (ptr_low(l3) - ptr_low(READ(skb, data)));
}

/*
 * Bytes from the network header to the linear part's end. Reading past it is
 * harmless, the skb's shared info lies behind, but what is read is not the packet.
 */
static __always_inline s32 l3_linear(struct sk_buff *skb, const void *l3)
{
	u32 paged = READ(skb, data_len);

	return paged ? (s32)(l3_length(skb, l3) - paged) : 0xffff;
}

/* l3: the header's address. unsent: its length is yet to be written. */
static __always_inline enum parsed parse_v4(struct packet *p, struct sk_buff *skb, const void *l3, bool unsent,
					    enum whose whose)
{
	struct wire_ip4 ip;
	u32 header, tot_len;
	s32 linear;

	if (whose == WANTED && !cfg.ipv4)
		return UNWANTED;
	if (bpf_probe_read_kernel(&ip, sizeof(ip), l3))
		return UNPARSED;
	if (ip.protocol != IPPROTO_TCP && ip.protocol != IPPROTO_UDP)
		return NOT_OURS;
	header = (ip.ver_ihl & 0xf) * 4;
	linear = l3_linear(skb, l3) - (s32)header;
	if (header < 20 || linear < 8 || ip.frag_off & bpf_htons(0x1fff))
		return UNPARSED;
	if (header != 20 && bpf_probe_read_kernel(&ip.l4, sizeof(ip.l4), l3 + header))
		return UNPARSED;
	if (whose == WANTED && !wanted_l4(ip.protocol, &ip.l4))
		return UNWANTED;
	tot_len = bpf_ntohs(ip.tot_len);
	/* 0: a packet beyond 64 kB (BIG TCP) */
	if (!tot_len || unsent)
		tot_len = l3_length(skb, l3);
	if (tot_len < header)
		return UNPARSED;
	set_v4(&p->tuple, ip.saddr, ip.daddr);
	p->fragment = ip.frag_off & bpf_htons(0x2000);
	p->ip_id = bpf_ntohs(ip.id);
	return parse_l4(p, ip.protocol, &ip.l4, tot_len - header, linear);
}

/*
 * Steps over extension headers. Returns the transport protocol, or -1; *off: where
 * it begins; *fragment: this is the first of several.
 */
static __noinline int skip_extensions(const void *l3, u32 next, u32 *off, bool *fragment)
{
	u8 ext[4];

	if (!off || !fragment)
		return -1;
#pragma clang loop unroll(disable)
	for (int i = 0; i <= MAX_EXT_HEADERS; i++) {
		u64 frag = 1 - nonzero(next ^ EXT_FRAGMENT), auth = 1 - nonzero(next ^ EXT_AUTH);

		if (next > EXT_DSTOPTS || !(EXT_HEADERS >> next & 1))
			return next;
		if (bpf_probe_read_kernel(ext, sizeof(ext), l3 + *off))
			return -1;
		/* a later fragment has no ports; its offset is in the upper 13 bits */
		if (frag & nonzero(ext[2] | (ext[3] & 0xf8)))
			return -1;
		*fragment |= frag & ext[3];
		/* a fragment's has no length, that of AH is in words */
		*off += ((ext[1] & (frag - 1)) + 1 + auth) * 8 >> auth;
		next = ext[0];
	}
	return -1;
}

static __always_inline enum parsed parse_v6(struct packet *p, struct sk_buff *skb, const void *l3, bool unsent,
					    enum whose whose)
{
	bool fragment = false;
	struct wire_ip6 ip;
	u32 off = 40, total;
	s32 linear;
	int proto;

	if (whose == WANTED && !cfg.ipv6)
		return UNWANTED;
	if (bpf_probe_read_kernel(&ip, sizeof(ip), l3))
		return UNPARSED;
	proto = ip.nexthdr;
	if (proto != IPPROTO_TCP && proto != IPPROTO_UDP) {
		proto = skip_extensions(l3, proto, &off, &fragment);
		if (proto < 0)
			return UNPARSED;
		if (proto != IPPROTO_TCP && proto != IPPROTO_UDP)
			return NOT_OURS;
		if (bpf_probe_read_kernel(&ip.l4, sizeof(ip.l4), l3 + off))
			return UNPARSED;
	}
	linear = l3_linear(skb, l3) - (s32)off;
	if (linear < 8)
		return UNPARSED;
	if (whose == WANTED && !wanted_l4(proto, &ip.l4))
		return UNWANTED;
	total = bpf_ntohs(ip.payload_len) + 40;
	/* 0: a jumbogram (BIG TCP) */
	if (total == 40 || unsent)
		total = l3_length(skb, l3);
	if (total < off)
		return UNPARSED;
	set_v6(&p->tuple, ip.saddr, ip.daddr);
	p->fragment = fragment;
	p->ip_id = 0;
	return parse_l4(p, proto, &ip.l4, total - off, linear);
}

static __always_inline bool is_vlan(__be16 protocol)
{
	return protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD);
}

/*
 * Bytes of the 802.1Q tags that are still in the data, on receive. *protocol: in
 * what skb->protocol says, out what the tags hold.
 */
static __noinline u32 vlan_length(const void *data, __be16 *protocol)
{
	__be16 tag[2];
	u32 length = 0;

	if (!protocol)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < MAX_VLAN_TAGS && is_vlan(*protocol); i++) {
		if (bpf_probe_read_kernel(tag, sizeof(tag), data + length))
			break;
		length += sizeof(tag);
		*protocol = tag[1];
	}
	return length;
}

/* Where skb->protocol is that of a VLAN tag or of a tunnel, the header itself is asked. */
static __noinline u32 protocol_of_header(const void *l3)
{
	u8 version;

	if (bpf_probe_read_kernel(&version, 1, l3))
		return 0;
	return version >> 4 == 6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
}

/* A tunnel has put headers in front; on receive the bit may be left from GRO. */
static __always_inline bool is_encapsulated(struct sk_buff *skb)
{
	return READ_BITFIELD(skb, encapsulation);
}

/*
 * Parses the packet of an skb. protocol: ETH_P_* in network order where the hook
 * knows it; else 0. *p is whole if PARSED is returned, else it is not to be used.
 */
static __always_inline enum parsed parse(struct packet *p, struct sk_buff *skb, enum l3_at at,
					 __be16 protocol, enum whose whose)
{
	const void *l3;

	if (!protocol)
		protocol = READ(skb, protocol);
	if (at == L3_AT_DATA) {
		l3 = READ(skb, data);
		if (is_vlan(protocol))
			l3 += vlan_length(l3, &protocol);
	} else {
		l3 = READ(skb, head);
		/* what a tunnel put in front does not change which packet it is */
		if (at == L3_MAY_BE_INNER && is_encapsulated(skb)) {
			l3 += READ(skb, inner_network_header);
			protocol = protocol_of_header(l3);
		} else {
			l3 += READ(skb, network_header);
			if (is_vlan(protocol))
				protocol = protocol_of_header(l3);
		}
	}
	if (protocol == bpf_htons(ETH_P_IP))
		return parse_v4(p, skb, l3, at == L3_UNSENT, whose);
	if (protocol == bpf_htons(ETH_P_IPV6))
		return parse_v6(p, skb, l3, at == L3_UNSENT, whose);
	return NOT_OURS;
}

/* Whether an skb is a whole datagram over IPv4 in its usual form, all of it linear; *ip: its headers, up to UDP's. */
static __always_inline bool read_datagram4(struct sk_buff *skb, struct wire_ip4 *ip)
{
	const u32 size = offsetof(struct wire_ip4, l4) + sizeof(struct wire_udp);

	return !READ(skb, data_len) &&
	       !bpf_probe_read_kernel(ip, size, READ(skb, head) + READ(skb, network_header)) &&
	       ip->ver_ihl == 0x45 && ip->protocol == IPPROTO_UDP && !(ip->frag_off & bpf_htons(0x3fff)) &&
	       bpf_ntohs(ip->l4.udp.len) >= 8;
}

/* What the parser says of such a one. */
static __always_inline void tell_datagram4(struct packet *p, const struct wire_ip4 *ip)
{
	u32 len = bpf_ntohs(ip->l4.udp.len);

	set_v4(&p->tuple, ip->saddr, ip->daddr);
	p->fragment = false;
	p->ip_id = bpf_ntohs(ip->id);
	tell_udp(p, &ip->l4.udp, len, len);
}

/* Four bytes of skb->cb, which the layers use as they like. */
static __always_inline u32 read_cb_u32(struct sk_buff *skb, u32 offset)
{
	const void *at = (const void *)&skb->cb + offset;
#ifdef DIRECT
	return *(const u32 *)at;
#else
	u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), at);
	return value;
#endif
}

/* Segments in an skb: 0 in one that was never segmented or merged. */
static __always_inline u16 segments(struct sk_buff *skb)
{
	struct skb_shared_info *shinfo = (void *)READ(skb, head) + READ(skb, end);
	u16 segs = 0;

	bpf_core_read(&segs, sizeof(segs), &shinfo->gso_segs);
	return segs;
}

#endif
