// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* From an skb to a packet: IPv6 and its extension headers, VLAN tags, tunnels. */
#include "host/packet_host.h"

static struct fake f;

/* An extension header: its own number, and its length in bytes. */
struct ext {
	u8 kind;
	u32 len;
};

/* One header; `next` is the number of what follows it. */
static u8 *put_ext(u8 *at, const struct ext *ext, u8 next)
{
	memset(at, 0, ext->len);
	at[0] = next;
	switch (ext->kind) {
	case EXT_FRAGMENT:	/* has no length; where it would be is a reserved byte */
		at[1] = 0xff;
		wire_be32(at + 4, 0x12345678);
		break;
	case EXT_AUTH:
		at[1] = ext->len / 4 - 2;
		break;
	default:
		at[1] = ext->len / 8 - 1;
	}
	return at + ext->len;
}

/* A packet with these headers. Returns where the transport header lies, from the network header. */
static u32 fill_exts(const struct wire *w, const struct ext *exts, u32 n)
{
	u32 l4_len = wire_l4_header(w) + w->len, length = 0;
	u8 *at;

	for (u32 i = 0; i < n; i++)
		length += exts[i].len;
	fake_clear(&f, true);
	at = wire_ip6(fake_l3(&f), w, n ? exts[0].kind : w->proto, length + l4_len);
	for (u32 i = 0; i < n; i++)
		at = put_ext(at, &exts[i], i + 1 < n ? exts[i + 1].kind : w->proto);
	at = wire_l4(at, w, 0, l4_len);
	wire_payload(at, w, f.head + sizeof(f.head));
	f.skb.len = 40 + length + l4_len;
	return 40 + length;
}

static const struct ext kinds[] = {
	{ EXT_HOPOPTS, 8 }, { EXT_HOPOPTS, 16 }, { EXT_HOPOPTS, 72 },
	{ EXT_ROUTING, 8 }, { EXT_ROUTING, 24 }, { EXT_ROUTING, 40 },
	{ EXT_FRAGMENT, 8 },
	{ EXT_AUTH, 12 }, { EXT_AUTH, 24 }, { EXT_AUTH, 28 },
	{ EXT_DSTOPTS, 8 }, { EXT_DSTOPTS, 32 },
};

static void test_each_kind(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(kinds); i++) {
		fill_exts(&tcp6, &kinds[i], 1);
		assert_parses(&f, L3_AT_DATA, &tcp6);
		fill_exts(&udp6, &kinds[i], 1);
		fake_data_at(&f, fake_l3(&f) - WIRE_MAC);
		assert_parses(&f, L3_AT_HEADER, &udp6);
	}
}

/* Every pair, so that each header's length counts where it is not the last one. */
static void test_pairs(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(kinds); i++) {
		for (size_t j = 0; j < LEN(kinds); j++) {
			fill_exts(&udp6, (const struct ext[]){ kinds[i], kinds[j] }, 2);
			assert_parses(&f, L3_AT_DATA, &udp6);
		}
	}
}

static const struct ext chain[MAX_EXT_HEADERS + 1] = {
	{ EXT_HOPOPTS, 8 }, { EXT_DSTOPTS, 16 }, { EXT_ROUTING, 24 }, { EXT_FRAGMENT, 8 },
	{ EXT_AUTH, 12 }, { EXT_DSTOPTS, 8 }, { EXT_DSTOPTS, 8 },
};

static void test_chains(void **state)
{
	(void)state;
	for (u32 n = 0; n < MAX_EXT_HEADERS; n++) {
		fill_exts(&tcp6, chain, n);
		assert_parses(&f, L3_AT_DATA, &tcp6);
		fill_exts(&udp6, chain, n);
		assert_parses(&f, L3_AT_DATA, &udp6);
	}
	fill_exts(&tcp6, chain, MAX_EXT_HEADERS + 1);
	assert_refused(&f, L3_AT_DATA, UNPARSED);
}

/* As many as the name says. */
static void test_longest_chain(void **state)
{
	(void)state;
	fill_exts(&tcp6, chain, MAX_EXT_HEADERS);
	assert_parses(&f, L3_AT_DATA, &tcp6);
}

static void test_fragments(void **state)
{
	static const struct { u16 offset; enum parsed want; } cases[] = {
		{ 0x0000, PARSED }, { 0x0001, PARSED },	/* an atomic one; the first of many */
		{ 0x0006, PARSED },	/* reserved bits */
		{ 0x0008, UNPARSED }, { 0x0009, UNPARSED }, { 0x0100, UNPARSED },
		{ 0x0101, UNPARSED }, { 0xfff8, UNPARSED }, { 0x05b1, UNPARSED },
	};
	static const struct ext exts[] = { { EXT_DSTOPTS, 8 }, { EXT_FRAGMENT, 8 } };

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		fill_exts(&udp6, exts + 1, 1);
		wire_be16(fake_l3(&f) + 42, cases[i].offset);
		assert_refused(&f, L3_AT_DATA, cases[i].want);
		assert_refused(&f, L3_AT_HEADER, cases[i].want);
		fill_exts(&tcp6, exts, 2);
		wire_be16(fake_l3(&f) + 50, cases[i].offset);
		assert_refused(&f, L3_AT_DATA, cases[i].want);
	}
}

static void test_not_ours(void **state)
{
	static const u8 protos[] = { 1, 4, 41, 47, 50 /* ESP */, 58 /* ICMPv6 */, 59 /* none */, 132, 255 };
	struct wire w = udp6;

	(void)state;
	for (size_t i = 0; i < LEN(protos); i++) {
		w.proto = protos[i];
		fill_exts(&w, NULL, 0);
		assert_refused(&f, L3_AT_DATA, NOT_OURS);
		fill_exts(&w, chain, 3);
		assert_refused(&f, L3_AT_DATA, NOT_OURS);
	}
}

static void test_lengths(void **state)
{
	struct wire w = tcp6;
	u32 l4;

	(void)state;
	/* what fills a frame up is no payload, nor are extension headers */
	w.len = 0;
	l4 = fill_exts(&w, chain, 5);
	f.skb.len += 99;
	assert_parses(&f, L3_AT_DATA, &w);
	/* IP ends within the transport header, or before it */
	wire_be16(fake_l3(&f) + 4, l4 - 40 + 19);
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	wire_be16(fake_l3(&f) + 4, l4 - 40 - 1);
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	wire_be16(fake_l3(&f) + 4, 1);
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	/* a jumbogram: the skb's length, wherever its data begins */
	w.len = 200000;
	fill_exts(&w, chain, 1);
	wire_be16(fake_l3(&f) + 4, 0);
	assert_parses(&f, L3_AT_DATA, &w);
	fake_data_at(&f, fake_l3(&f) - WIRE_MAC);
	assert_parses(&f, L3_AT_HEADER, &w);
	fake_data_at(&f, fake_l3(&f) + 48);
	assert_parses(&f, L3_AT_HEADER, &w);
	w = udp6;
	w.len = 70000;
	fake_fill(&f, &w);
	wire_be16(fake_l3(&f) + 4, 0);
	wire_be16(fake_l3(&f) + 44, 0);
	assert_parses(&f, L3_AT_DATA, &w);
}

/* So many bytes are linear; behind them lies something else. */
static void check_linear(const struct wire *w, u32 n, u32 linear)
{
	u32 l4 = fill_exts(w, chain, n);
	struct packet p;

	f.skb.data_len = f.skb.len - linear;
	memset(fake_l3(&f) + linear, 0x66, f.head + sizeof(f.head) - fake_l3(&f) - linear);
	fake_data_at(&f, fake_l3(&f) - WIRE_MAC);
	if (linear < l4 + wire_l4_header(w)) {
		assert_refused(&f, L3_AT_HEADER, UNPARSED);
		return;
	}
	assert_int_equal(parse_at(&p, &f, L3_AT_HEADER, 0), PARSED);
	assert_packet_(&p, w, w->proto == WIRE_UDP && linear >= l4 + 16);
}

static void test_paged(void **state)
{
	(void)state;
	for (u32 n = 0; n < 4; n++) {
		u32 l4 = fill_exts(&udp6, chain, n);

		for (u32 linear = l4; linear < l4 + 30; linear++) {
			check_linear(&udp6, n, linear);
			if (linear < l4 + 8 || linear >= l4 + 20)
				check_linear(&tcp6, n, linear);
		}
	}
}

static void test_paged_tcp(void **state)
{
	(void)state;
	for (u32 n = 0; n < 4; n++) {
		u32 l4 = fill_exts(&tcp6, chain, n);

		for (u32 linear = l4 + 8; linear < l4 + 20; linear++)
			check_linear(&tcp6, n, linear);
	}
}

static void test_unreadable(void **state)
{
	u32 l4;

	(void)state;
	host_reset();
	fill_exts(&udp6, chain, 4);
	host.unreadable = fake_l3(&f) + 20;
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	host.unreadable = fake_l3(&f) + 64;	/* beyond what is read at first */
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	l4 = fill_exts(&udp6, chain, 4);
	host.unreadable = fake_l3(&f) + l4 + 4;
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	host_reset();
}

/* So many tags between skb->data and the network header, the outermost one in skb->protocol. */
static void fill_tags(const struct wire *w, u32 tags, u16 outer, u16 inner)
{
	u8 *data = fake_l3(&f) - tags * 4;

	fake_fill(&f, w);
	f.skb.network_header = NOWHERE;
	fake_data_at(&f, data);
	f.skb.protocol = bpf_htons(outer);
	for (u32 i = 0; i < tags; i++) {
		wire_be16(data + i * 4, 0x8064);
		wire_be16(data + i * 4 + 2, i + 1 < tags ? inner : w->v6 ? ETH_P_IPV6 : ETH_P_IP);
	}
}

static void test_vlan(void **state)
{
	static const u16 tags[] = { ETH_P_8021Q, ETH_P_8021AD };

	(void)state;
	for (size_t outer = 0; outer < 2; outer++) {
		for (size_t inner = 0; inner < 2; inner++) {
			for (u32 n = 1; n <= MAX_VLAN_TAGS; n++) {
				fill_tags(&udp4, n, tags[outer], tags[inner]);
				assert_parses(&f, L3_AT_DATA, &udp4);
				fill_tags(&tcp6, n, tags[outer], tags[inner]);
				assert_parses(&f, L3_AT_DATA, &tcp6);
			}
			fill_tags(&udp4, MAX_VLAN_TAGS + 1, tags[outer], tags[inner]);
			assert_refused(&f, L3_AT_DATA, NOT_OURS);
		}
	}
	fill_tags(&udp4, 2, ETH_P_8021Q, 0x0806);
	assert_refused(&f, L3_AT_DATA, NOT_OURS);
	f.skb.data = NULL;
	assert_refused(&f, L3_AT_DATA, NOT_OURS);
}

static void test_vlan_lengths(void **state)
{
	struct wire w = tcp4;

	(void)state;
	w.len = 100000;
	fill_tags(&w, 2, ETH_P_8021AD, ETH_P_8021Q);
	wire_be16(fake_l3(&f) + 2, 0);
	assert_parses(&f, L3_AT_DATA, &w);
	/* eight bytes of tags, and 27 of IP and UDP: one too few */
	fill_tags(&udp4, 2, ETH_P_8021Q, ETH_P_8021Q);
	f.skb.data_len = f.skb.len - 8 - 27;
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	f.skb.data_len--;
	assert_refused(&f, L3_AT_DATA, PARSED);
}

/* On transmit the protocol may be the tag's, but the header is where it always is. */
static void test_vlan_on_transmit(void **state)
{
	(void)state;
	fake_fill(&f, &tcp4);
	f.skb.protocol = bpf_htons(ETH_P_8021Q);
	fake_data_at(&f, fake_l3(&f) - WIRE_MAC - 4);
	assert_parses(&f, L3_MAY_BE_INNER, &tcp4);
	fake_fill(&f, &udp6);
	f.skb.protocol = bpf_htons(ETH_P_8021AD);
	assert_parses(&f, L3_MAY_BE_INNER, &udp6);
	f.skb.head = NULL;
	f.skb.network_header = 0;
	assert_refused(&f, L3_MAY_BE_INNER, NOT_OURS);
}

static void test_tunnel(void **state)
{
	struct wire w = tcp4;

	(void)state;
	fake_fill(&f, &tcp4);
	fake_wrap(&f, &udp4);
	assert_parses(&f, L3_MAY_BE_INNER, &tcp4);
	fake_fill(&f, &udp6);
	fake_wrap(&f, &udp6);
	assert_parses(&f, L3_MAY_BE_INNER, &udp6);
	/* only the mark counts, and only where it is asked for */
	fake_fill(&f, &tcp4);
	f.skb.inner_network_header = NOWHERE;
	assert_parses(&f, L3_MAY_BE_INNER, &tcp4);
	f.skb.encapsulation = 1;
	assert_parses(&f, L3_AT_HEADER, &tcp4);
	/* the inner packet's lengths */
	w.len = 100000;
	fake_fill(&f, &w);
	wire_be16(fake_l3(&f) + 2, 0);
	fake_wrap(&f, &udp4);
	assert_parses(&f, L3_MAY_BE_INNER, &w);
}

/* skb->protocol says what the outer header is. */
static void test_tunnel_of_other_family(void **state)
{
	struct packet p;

	(void)state;
	fake_fill(&f, &tcp6);
	fake_wrap(&f, &udp4);
	assert_parses(&f, L3_MAY_BE_INNER, &tcp6);
	fake_fill(&f, &udp4);
	fake_wrap(&f, &udp6);
	assert_parses(&f, L3_MAY_BE_INNER, &udp4);
	assert_int_equal(parse_at(&p, &f, L3_MAY_BE_INNER, bpf_htons(ETH_P_IPV6)), PARSED);
	assert_packet(&p, &udp4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_kind), cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_chains), cmocka_unit_test(test_longest_chain),
		cmocka_unit_test(test_fragments), cmocka_unit_test(test_not_ours),
		cmocka_unit_test(test_lengths), cmocka_unit_test(test_paged),
		cmocka_unit_test(test_paged_tcp), cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_vlan), cmocka_unit_test(test_vlan_lengths),
		cmocka_unit_test(test_vlan_on_transmit), cmocka_unit_test(test_tunnel),
		cmocka_unit_test(test_tunnel_of_other_family),
	};

	return cmocka_run_group_tests_name("packet6", tests, NULL, NULL);
}
