/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parser on the host. To be included first. */
#ifndef SLOWPKT_PACKET_HOST_H
#define SLOWPKT_PACKET_HOST_H

#include "bpf_host.h"
#include "wire.h"
#include "../../../bpf/packet.bpf.h"

static const struct wire tcp4 = {
	.proto = WIRE_TCP, .src = 0x0a000102, .dst = 0xac110002, .sport = 49847, .dport = 80,
	.seq = 3511028477u, .ack = 0x89abcdef, .win = 64240, .flags = 0x18, .id = 54321, .len = 100,
};
static const struct wire udp4 = {
	.proto = WIRE_UDP, .src = 0xc0a80001, .dst = 0x01020304, .sport = 65535, .dport = 53,
	.id = 4711, .len = 33, .fill = 0x11,
};
static const struct wire tcp6 = {
	.v6 = true, .proto = WIRE_TCP, .src = 0x11223344, .dst = 0x55667788, .sport = 1, .dport = 443,
	.seq = 0xfffffff0, .ack = 7, .win = 501, .flags = 0x11, .len = 50,
};
static const struct wire udp6 = {
	.v6 = true, .proto = WIRE_UDP, .src = 0x99aabbcc, .dst = 0xddeeff01, .sport = 5353, .dport = 5354,
	.len = 1200, .fill = 0x80,
};

/* A number that is no place in any head. */
enum { NOWHERE = 0x7000 };

static inline void assert_tuple(const struct tuple *t, const struct wire *w)
{
	u8 address[16];

	assert_int_equal(t->family, w->v6 ? AF_INET6 : AF_INET);
	assert_int_equal(t->proto, w->proto);
	assert_int_equal(t->sport, w->sport);
	assert_int_equal(t->dport, w->dport);
	assert_int_equal(t->unused, 0);
	wire_address(address, w->v6, w->src);
	assert_memory_equal(t->src, address, 16);
	wire_address(address, w->v6, w->dst);
	assert_memory_equal(t->dst, address, 16);
}

/* The packet is what the wire says; of its payload only payload_seen says. */
static inline void assert_packet_(const struct packet *p, const struct wire *w, bool payload_seen)
{
	bool tcp = w->proto == WIRE_TCP;
	u8 payload[8] = {};

	assert_tuple(&p->tuple, w);
	assert_int_equal(p->seq, tcp ? w->seq : 0);
	assert_int_equal(p->ack, tcp ? w->ack : 0);
	assert_int_equal(p->win, tcp ? w->win : 0);
	assert_int_equal(p->tcp_flags, tcp ? w->flags : 0);
	assert_int_equal(p->len, w->len);
	assert_int_equal(p->ip_id, w->v6 ? 0 : w->id);
	assert_int_equal(p->has_payload, payload_seen);
	for (int i = 0; payload_seen && i < 8; i++)
		payload[i] = w->fill + i;
	assert_memory_equal(&p->payload, payload, 8);
}

static inline void assert_packet(const struct packet *p, const struct wire *w)
{
	assert_packet_(p, w, w->proto == WIRE_UDP && w->len >= 8);
}

/* Parses into a packet that is full of nonsense before. */
static __noinline enum parsed parse_at(struct packet *p, struct fake *f, enum l3_at at, __be16 protocol)
{
	memset(p, 0xcc, sizeof(*p));
	switch (at) {
	case L3_AT_DATA:
		return parse(p, &f->skb, L3_AT_DATA, protocol, ANYBODYS);
	case L3_AT_HEADER:
		return parse(p, &f->skb, L3_AT_HEADER, protocol, ANYBODYS);
	case L3_UNSENT:
		return parse(p, &f->skb, L3_UNSENT, protocol, ANYBODYS);
	case L3_MAY_BE_INNER:
		return parse(p, &f->skb, L3_MAY_BE_INNER, protocol, ANYBODYS);
	}
	return NOT_OURS;
}

static inline void assert_parses(struct fake *f, enum l3_at at, const struct wire *w)
{
	struct packet p;

	assert_int_equal(parse_at(&p, f, at, 0), PARSED);
	assert_packet(&p, w);
}

static inline void assert_refused(struct fake *f, enum l3_at at, enum parsed why)
{
	struct packet p;

	assert_int_equal(parse_at(&p, f, at, 0), why);
}

#endif
