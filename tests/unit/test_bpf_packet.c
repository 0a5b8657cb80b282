// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* From an skb to a packet: where the headers lie, IPv4, TCP and UDP. */
#include "host/journey_host.h"

static struct fake f;

static const struct wire *const wires[] = { &tcp4, &udp4, &tcp6, &udp6 };

static void test_at_data(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(wires); i++) {
		fake_fill(&f, wires[i]);
		f.skb.network_header = NOWHERE;
		f.skb.inner_network_header = NOWHERE;
		f.skb.encapsulation = 1;
		assert_parses(&f, L3_AT_DATA, wires[i]);
	}
}

static void test_at_header(void **state)
{
	(void)state;
	for (size_t i = 0; i < LEN(wires); i++) {
		fake_fill(&f, wires[i]);
		f.skb.inner_network_header = NOWHERE;
		/* before the MAC header as on transmit, behind the IP header as in a socket */
		fake_data_at(&f, fake_l3(&f) - WIRE_MAC);
		assert_parses(&f, L3_AT_HEADER, wires[i]);
		assert_parses(&f, L3_MAY_BE_INNER, wires[i]);
		fake_data_at(&f, fake_l3(&f) + wire_l3_header(wires[i]));
		assert_parses(&f, L3_AT_HEADER, wires[i]);
		fake_data_at(&f, f.skb.data + wire_l4_header(wires[i]));
		assert_parses(&f, L3_AT_HEADER, wires[i]);
	}
}

/* The hook knows better than the skb. */
static void test_protocol(void **state)
{
	struct packet p;

	(void)state;
	fake_fill(&f, &tcp4);
	f.skb.protocol = bpf_htons(ETH_P_IPV6);
	assert_int_equal(parse_at(&p, &f, L3_AT_HEADER, bpf_htons(ETH_P_IP)), PARSED);
	assert_packet(&p, &tcp4);
	fake_fill(&f, &udp6);
	f.skb.protocol = 0;
	assert_int_equal(parse_at(&p, &f, L3_AT_DATA, bpf_htons(ETH_P_IPV6)), PARSED);
	assert_packet(&p, &udp6);
}

static void test_not_ours(void **state)
{
	static const u16 others[] = { 0, 0x0806 /* ARP */, 0x8847 /* MPLS */, 0x8863 /* PPPoE */, 0xffff };
	static const u8 protos[] = { 0, 1 /* ICMP */, 2 /* IGMP */, 4 /* IPIP */, 47 /* GRE */, 132 /* SCTP */ };

	(void)state;
	for (size_t i = 0; i < LEN(others); i++) {
		fake_fill(&f, &tcp4);
		f.skb.protocol = bpf_htons(others[i]);
		assert_refused(&f, L3_AT_DATA, NOT_OURS);
		assert_refused(&f, L3_AT_HEADER, NOT_OURS);
		assert_refused(&f, L3_MAY_BE_INNER, NOT_OURS);
	}
	for (size_t i = 0; i < LEN(protos); i++) {
		fake_fill(&f, &tcp4);
		fake_l3(&f)[9] = protos[i];
		assert_refused(&f, L3_AT_DATA, NOT_OURS);
		/* a fragment of it is still not ours */
		fake_l3(&f)[7] = 1;
		assert_refused(&f, L3_AT_DATA, NOT_OURS);
	}
}

/* An IPv4 packet with options. */
static void fill_options(const struct wire *w, u32 words)
{
	u32 l4_len = wire_l4_header(w) + w->len;
	u8 *at;

	fake_clear(&f, false);
	at = wire_ip4(fake_l3(&f), w, words, 20 + words * 4 + l4_len);
	at = wire_l4(at, w, 0, l4_len);
	wire_payload(at, w, f.head + sizeof(f.head));
	f.skb.len = 20 + words * 4 + l4_len;
}

static void test_ip_options(void **state)
{
	(void)state;
	for (u32 words = 0; words <= 10; words++) {
		fill_options(&tcp4, words);
		assert_parses(&f, L3_AT_DATA, &tcp4);
		fill_options(&udp4, words);
		assert_parses(&f, L3_AT_HEADER, &udp4);
	}
}

static void test_ip_header_wrong(void **state)
{
	(void)state;
	for (u8 ihl = 0; ihl < 5; ihl++) {
		fake_fill(&f, &tcp4);
		fake_l3(&f)[0] = 0x40 | ihl;
		assert_refused(&f, L3_AT_DATA, UNPARSED);
	}
	/* shorter than its own header */
	fake_fill(&f, &udp4);
	wire_be16(fake_l3(&f) + 2, 19);
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	fill_options(&udp4, 10);
	wire_be16(fake_l3(&f) + 2, 59);
	assert_refused(&f, L3_AT_DATA, UNPARSED);
}

static void test_tcp_header_wrong(void **state)
{
	(void)state;
	for (u8 words = 0; words < 16; words++) {
		fake_fill(&f, &tcp4);
		/* 20 bytes of header and 12 more */
		wire_be16(fake_l3(&f) + 2, 20 + 32);
		fake_l3(&f)[20 + 12] = words << 4 | 0xf;
		assert_refused(&f, L3_AT_DATA, words < 5 || words > 8 ? UNPARSED : PARSED);
	}
	/* an IP packet that ends within the header */
	for (u32 l4_len = 0; l4_len < 20; l4_len++) {
		fake_fill(&f, &tcp4);
		wire_be16(fake_l3(&f) + 2, 20 + l4_len);
		assert_refused(&f, L3_AT_DATA, UNPARSED);
	}
}

static void test_tcp_length(void **state)
{
	struct wire w = tcp4;
	struct packet p;

	(void)state;
	/* TCP options are no payload */
	for (u32 words = 0; words <= 10; words++) {
		fake_clear(&f, false);
		wire_l4(wire_ip4(fake_l3(&f), &w, 0, 20 + 20 + words * 4 + w.len), &w, words, 0);
		f.skb.len = 20 + 20 + words * 4 + w.len;
		assert_int_equal(parse_at(&p, &f, L3_AT_DATA, 0), PARSED);
		/* but where timestamps may be they are part of the identity */
		assert_int_equal(p.has_payload, words >= 3);
		p.has_payload = false;
		p.payload = 0;
		assert_packet_(&p, &w, false);
	}
	/* nor is what fills a short Ethernet frame up */
	w.len = 0;
	fake_fill(&f, &w);
	f.skb.len = 46;
	assert_parses(&f, L3_AT_DATA, &w);
	w.len = 65535 - 40;
	fake_fill(&f, &w);
	assert_parses(&f, L3_AT_DATA, &w);
}

/* BIG TCP: the IP header gives no length, the skb does, wherever its data begins. */
static void test_big_tcp(void **state)
{
	struct wire w = tcp4;

	(void)state;
	w.len = 180000;
	fake_fill(&f, &w);
	wire_be16(fake_l3(&f) + 2, 0);
	assert_parses(&f, L3_AT_DATA, &w);
	assert_parses(&f, L3_AT_HEADER, &w);
	fake_data_at(&f, fake_l3(&f) - WIRE_MAC);
	assert_parses(&f, L3_MAY_BE_INNER, &w);
	fake_data_at(&f, fake_l3(&f) + 20);
	assert_parses(&f, L3_AT_HEADER, &w);
	fake_data_at(&f, fake_l3(&f) + 40);
	assert_parses(&f, L3_AT_HEADER, &w);
	f.skb.data_len = 180000;
	assert_parses(&f, L3_AT_HEADER, &w);
}

static void test_udp_length(void **state)
{
	struct wire w = udp4;

	(void)state;
	for (u32 l4_len = 0; l4_len < 8; l4_len++) {
		fake_fill(&f, &w);
		wire_be16(fake_l3(&f) + 2, 20 + l4_len);
		assert_refused(&f, L3_AT_DATA, UNPARSED);
	}
	/* no length of its own (a jumbogram, a GSO packet), or an impossible one: IP's */
	for (u32 udp_len = 0; udp_len < 8; udp_len++) {
		fake_fill(&f, &w);
		wire_be16(fake_l3(&f) + 24, udp_len);
		assert_parses(&f, L3_AT_DATA, &w);
	}
	/* IP may hold more than the datagram, the datagram more than its first fragment */
	fake_fill(&f, &w);
	wire_be16(fake_l3(&f) + 24, 8 + 20);
	w.len = 20;
	assert_parses(&f, L3_AT_DATA, &w);
	wire_be16(fake_l3(&f) + 24, 8 + 3000);
	w.len = 3000;
	assert_parses(&f, L3_AT_DATA, &w);
	w.len = 0;
	fake_fill(&f, &w);
	assert_parses(&f, L3_AT_DATA, &w);
}

static void test_payload(void **state)
{
	struct wire w = udp4;

	(void)state;
	for (w.len = 0; w.len < 20; w.len++) {
		fake_fill(&f, &w);
		assert_parses(&f, L3_AT_DATA, &w);	/* all eight bytes or none */
		fill_options(&w, 3);
		assert_parses(&f, L3_AT_DATA, &w);
	}
	/* bytes behind the datagram are not its payload */
	w.len = 33;
	fake_fill(&f, &w);
	wire_be16(fake_l3(&f) + 24, 8 + 7);
	w.len = 7;
	assert_parses(&f, L3_AT_DATA, &w);
}

/* A first fragment may end within the first eight bytes. */
static void test_payload_cut(void **state)
{
	struct packet p;

	(void)state;
	for (u32 here = 0; here <= 8; here += 8) {
		fake_fill(&f, &udp4);
		wire_be16(fake_l3(&f) + 2, 20 + 8 + here);
		wire_be16(fake_l3(&f) + 6, 0x2000);
		assert_int_equal(parse_at(&p, &f, L3_AT_DATA, 0), PARSED);
		assert_packet_(&p, &udp4, here == 8);
	}
}

static void test_fragments(void **state)
{
	static const struct { u16 frag_off; enum parsed want; } cases[] = {
		{ 0x0000, PARSED }, { 0x4000, PARSED }, { 0x8000, PARSED },
		{ 0x2000, PARSED },	/* the first of many */
		{ 0x2001, UNPARSED }, { 0x0001, UNPARSED }, { 0x1000, UNPARSED },
		{ 0x0100, UNPARSED }, { 0x1fff, UNPARSED }, { 0x00b9, UNPARSED },
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		fake_fill(&f, &udp4);
		wire_be16(fake_l3(&f) + 6, cases[i].frag_off);
		assert_refused(&f, L3_AT_DATA, cases[i].want);
		assert_refused(&f, L3_AT_HEADER, cases[i].want);
		fake_fill(&f, &tcp4);
		wire_be16(fake_l3(&f) + 6, cases[i].frag_off);
		assert_refused(&f, L3_AT_DATA, cases[i].want);
	}
}

/* So many bytes from the network header on are linear, wherever skb->data is. */
static void fill_linear(const struct wire *w, u32 ip_words, u32 linear)
{
	fill_options(w, ip_words);
	f.skb.data_len = f.skb.len - linear;
	memset(fake_l3(&f) + linear, 0x66, f.head + sizeof(f.head) - fake_l3(&f) - linear);
}

static void check_linear(const struct wire *w, u32 ip_words, u32 linear)
{
	u32 header = wire_l4_header(w), at = 20 + ip_words * 4;
	const int data_at[] = { 0, -WIRE_MAC, 20, 28 };
	struct packet p;

	for (size_t i = 0; i < LEN(data_at); i++) {
		enum l3_at where = data_at[i] ? L3_AT_HEADER : L3_AT_DATA;

		fill_linear(w, ip_words, linear);
		fake_data_at(&f, fake_l3(&f) + data_at[i]);
		if (linear < at + header) {
			assert_refused(&f, where, UNPARSED);
			continue;
		}
		assert_int_equal(parse_at(&p, &f, where, 0), PARSED);
		assert_packet_(&p, w, w->proto == WIRE_UDP && linear >= at + 16);
	}
}

/* What lies in the pages is not read: a header there is no header. */
static void test_paged_udp(void **state)
{
	(void)state;
	for (u32 words = 0; words <= 10; words += 5)
		for (u32 linear = 20; linear < 20 + words * 4 + 30; linear++)
			check_linear(&udp4, words, linear);
}

static void test_paged_tcp(void **state)
{
	(void)state;
	for (u32 words = 0; words <= 10; words += 5)
		for (u32 linear = 20; linear < 20 + words * 4 + 30; linear++)
			check_linear(&tcp4, words, linear);
}

static void test_unreadable(void **state)
{
	(void)state;
	host_reset();
	fake_fill(&f, &tcp4);
	host.unreadable = fake_l3(&f) + 39;
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	fill_options(&tcp4, 10);
	host.unreadable = fake_l3(&f) + 60 + 19;
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	fake_fill(&f, &tcp4);
	f.skb.data = NULL;
	assert_refused(&f, L3_AT_DATA, UNPARSED);
	host_reset();
}

static void test_unsent_tcp(void **state)
{
	struct packet p = {};
	struct wire w = tcp4;

	(void)state;
	w.id = 0;
	fake_fill(&f, &w);
	fake_data_at(&f, fake_l3(&f) + 20);
	memset(fake_l3(&f), 0xee, 20);
	f.skb.network_header = NOWHERE;
	f.skb.protocol = 0;
	set_v4(&p.tuple, bpf_htonl(w.src), bpf_htonl(w.dst));
	assert_int_equal(parse_unsent_tcp(&p, &f.skb), PARSED);
	assert_packet(&p, &w);
	f.skb.len = 19;
	assert_int_equal(parse_unsent_tcp(&p, &f.skb), UNPARSED);
	f.skb.len = 20;
	assert_int_equal(parse_unsent_tcp(&p, &f.skb), PARSED);
	assert_int_equal(p.len, 0);
	f.skb.data = NULL;
	assert_int_equal(parse_unsent_tcp(&p, &f.skb), UNPARSED);
}

static void test_skb(void **state)
{
	u32 words[12];

	(void)state;
	fake_fill(&f, &tcp4);
	f.shinfo.gso_segs = 14;
	assert_int_equal(segments(&f.skb), 14);
	for (u32 i = 0; i < LEN(words); i++)
		words[i] = 0x01010101 * i + 0x80000000;
	memcpy(f.skb.cb, words, sizeof(words));
	for (u32 i = 0; i < LEN(words); i++)
		assert_int_equal(read_cb_u32(&f.skb, i * 4), words[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_data), cmocka_unit_test(test_at_header),
		cmocka_unit_test(test_protocol), cmocka_unit_test(test_not_ours),
		cmocka_unit_test(test_ip_options), cmocka_unit_test(test_ip_header_wrong),
		cmocka_unit_test(test_tcp_header_wrong), cmocka_unit_test(test_tcp_length),
		cmocka_unit_test(test_big_tcp), cmocka_unit_test(test_udp_length),
		cmocka_unit_test(test_payload), cmocka_unit_test(test_payload_cut),
		cmocka_unit_test(test_fragments),
		cmocka_unit_test(test_paged_udp), cmocka_unit_test(test_paged_tcp),
		cmocka_unit_test(test_unreadable), cmocka_unit_test(test_unsent_tcp),
		cmocka_unit_test(test_skb),
	};

	return cmocka_run_group_tests_name("packet", tests, NULL, NULL);
}
