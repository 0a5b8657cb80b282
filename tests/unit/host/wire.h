/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets as they lie in memory, and skbs that hold them. After bpf_host.h. */
#ifndef SLOWPKT_WIRE_H
#define SLOWPKT_WIRE_H

enum {
	WIRE_TCP = 6,
	WIRE_UDP = 17,
	WIRE_MAC = 14,
	WIRE_HEADROOM = 128,	/* so far into the head lies the network header */
	WIRE_HEAD = 640,
};

/*
 * What a packet says. Addresses are numbers: IPv4 in host order, of IPv6 the last
 * 32 bits behind 2001:db8::.
 */
struct wire {
	bool v6;
	u8 proto;
	u32 src, dst;
	u16 sport, dport;
	u32 seq, ack;
	u16 win;
	u8 flags;
	u16 id;
	u32 len;	/* payload */
	u8 fill;	/* the payload's first byte; it counts up */
};

/* An skb and its head. Of the payload only so much is there as finds room. */
struct fake {
	struct sk_buff skb;
	unsigned char head[WIRE_HEAD];
	struct skb_shared_info shinfo;
	struct wire wire;
};

static inline u8 *wire_be16(u8 *at, u32 value)
{
	at[0] = value >> 8;
	at[1] = value;
	return at + 2;
}

static inline u8 *wire_be32(u8 *at, u32 value)
{
	return wire_be16(wire_be16(at, value >> 16), value);
}

/* An address as struct tuple has it. */
static inline void wire_address(u8 address[16], bool v6, u32 number)
{
	memset(address, 0, 16);
	if (v6)
		wire_be32(address, 0x20010db8);
	else
		wire_be16(address + 10, 0xffff);
	wire_be32(address + 12, number);
}

static inline u8 *wire_ip4(u8 *at, const struct wire *w, u32 option_words, u32 tot_len)
{
	*at++ = 0x45 + option_words;
	*at++ = 0;
	at = wire_be16(at, tot_len);
	at = wire_be16(at, w->id);
	at = wire_be16(at, 0x4000);
	*at++ = 64;
	*at++ = w->proto;
	at = wire_be16(at, 0xbeef);
	at = wire_be32(at, w->src);
	at = wire_be32(at, w->dst);
	memset(at, 1 /* NOP */, option_words * 4);
	return at + option_words * 4;
}

static inline u8 *wire_ip6(u8 *at, const struct wire *w, u8 next, u32 payload_len)
{
	at = wire_be32(at, 0x60012345);
	at = wire_be16(at, payload_len);
	*at++ = next;
	*at++ = 64;
	wire_address(at, true, w->src);
	wire_address(at + 16, true, w->dst);
	return at + 32;
}

static inline u8 *wire_l4(u8 *at, const struct wire *w, u32 option_words, u32 udp_len)
{
	at = wire_be16(at, w->sport);
	at = wire_be16(at, w->dport);
	if (w->proto == WIRE_UDP) {
		at = wire_be16(at, udp_len);
		return wire_be16(at, 0xbeef);
	}
	at = wire_be32(at, w->seq);
	at = wire_be32(at, w->ack);
	*at++ = (5 + option_words) << 4;
	*at++ = w->flags;
	at = wire_be16(at, w->win);
	at = wire_be32(at, 0xbeef0000);
	memset(at, 1 /* NOP */, option_words * 4);
	return at + option_words * 4;
}

static inline u32 wire_l4_header(const struct wire *w)
{
	return w->proto == WIRE_UDP ? 8 : 20;
}

static inline u32 wire_l3_header(const struct wire *w)
{
	return w->v6 ? 40 : 20;
}

/* The transport header and the payload, after all that was put before. */
static inline void wire_payload(u8 *at, const struct wire *w, const u8 *end)
{
	for (u32 i = 0; i < w->len && at < end; i++)
		*at++ = w->fill + i;
}

static inline u8 *fake_l3(struct fake *f)
{
	return f->head + WIRE_HEADROOM;
}

/* What all skbs have in common: bytes that mean nothing, and the network header's place. */
static inline void fake_clear(struct fake *f, bool v6)
{
	memset(f, 0, sizeof(*f));
	memset(f->head, 0x5a, sizeof(f->head));
	f->skb.head = f->head;
	f->skb.end = offsetof(struct fake, shinfo) - offsetof(struct fake, head);
	f->skb.network_header = WIRE_HEADROOM;
	f->skb.data = fake_l3(f);
	f->skb.protocol = v6 ? 0xdd86 : 0x0008;	/* network order */
	f->skb.users.refs.counter = 1;
}

/* Writes the packet where it lies already, as NAT does. */
static inline void fake_write(struct fake *f, const struct wire *w)
{
	u32 l4_len = wire_l4_header(w) + w->len;
	u8 *at;

	f->wire = *w;
	f->skb.transport_header = WIRE_HEADROOM + wire_l3_header(w);
	if (w->v6)
		at = wire_ip6(fake_l3(f), w, w->proto, l4_len);
	else
		at = wire_ip4(fake_l3(f), w, 0, 20 + l4_len);
	at = wire_l4(at, w, 0, l4_len);
	wire_payload(at, w, f->head + sizeof(f->head));
}

/* An skb with the packet, skb->data at its network header. */
static inline void fake_fill(struct fake *f, const struct wire *w)
{
	fake_clear(f, w->v6);
	fake_write(f, w);
	f->skb.len = wire_l3_header(w) + wire_l4_header(w) + w->len;
	/* what the TCP layer notes for itself */
	((struct tcp_skb_cb *)f->skb.cb)->seq = w->seq;
	((struct tcp_skb_cb *)f->skb.cb)->ack_seq = w->ack;
}

/* Moves skb->data as pulling and pushing does. */
static inline void fake_data_at(struct fake *f, unsigned char *data)
{
	f->skb.len += f->skb.data - data;
	f->skb.data = data;
}

/* Puts a tunnel's headers (UDP, VXLAN, MAC) before the packet, skb->data at the outer MAC header. */
static inline void fake_wrap(struct fake *f, const struct wire *outer)
{
	u32 l4_len = 8 + 8 + WIRE_MAC + f->skb.len, before = wire_l3_header(outer) + 8 + 8 + WIRE_MAC;
	u8 *at = fake_l3(f) - before;

	fake_data_at(f, at - WIRE_MAC);
	f->skb.network_header = at - f->head;
	f->skb.inner_network_header = WIRE_HEADROOM;
	f->skb.encapsulation = 1;
	f->skb.protocol = outer->v6 ? 0xdd86 : 0x0008;
	if (outer->v6)
		at = wire_ip6(at, outer, WIRE_UDP, l4_len);
	else
		at = wire_ip4(at, outer, 0, 20 + l4_len);
	wire_l4(at, outer, 0, l4_len);
}

#endif
