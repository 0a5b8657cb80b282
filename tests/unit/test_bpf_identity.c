// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* By what a packet is known that changes on its way: timestamps, numbers, fragments, GRO. */
#include "host/journey_host.h"

typedef void (*step_fn)(struct fake *f, struct net_device *dev);

/* On the way GRO merges later segments into the packet. */
static void test_grows(void **state)
{
	static const struct wire *const wires[] = { &tcp4, &tcp6 };

	(void)state;
	for (size_t i = 0; i < LEN(wires); i++) {
		struct wire longer = *wires[i];
		struct fake *f = fill(0, wires[i]);

		step_receive(f, &vethc);
		longer.len = 400;
		fake_fill(f, &longer);
		rest(2 * MS);
		step_ip_rcv(f, &vethc);
		assert_int_equal(record_of(f)->hops, 2);
		assert_int_equal(record_of(f)->len, 400);
		/* cut again, the first segment stands for all */
		fake_fill(f, wires[i]);
		rest(2 * MS);
		step_output(f, &docker0);
		assert_int_equal(record_of(f)->hops, 3);
		assert_int_equal(record_of(f)->len, 400);
	}
}

/* A packet of which this is the first fragment, or all. */
static struct fake *fill_fragment(const struct wire *w, bool more)
{
	u32 l4_len = wire_l4_header(w) + w->len;
	struct fake *f = fill(0, w);
	u8 *at;

	if (!w->v6) {
		wire_be16(fake_l3(f) + 6, more ? 0x2000 : 0x4000);
		return f;
	}
	at = wire_ip6(fake_l3(f), w, EXT_FRAGMENT, 8 + l4_len);
	*at++ = w->proto;
	*at++ = 0;
	at = wire_be16(at, more);
	at = wire_be32(at, 0xabcdef01);
	at = wire_l4(at, w, 0, l4_len);
	wire_payload(at, w, f->head + sizeof(f->head));
	f->skb.len += 8;
	return f;
}

/* Reassembly frees all fragments but one without a word: whoever has the skb then is asked. */
static void check_fragment(const struct wire *w, step_fn to, bool more)
{
	struct wire next = *w;
	struct fake *f;
	unsigned int reads;

	next.seq += 100, next.id++, next.fill++;
	for (int other = 0; other < 2; other++) {
		journey_reset(NULL);
		f = fill_fragment(w, more);
		step_receive(f, &nic);
		assert_int_equal(!!(record_of(f)->flags & RECORD_FRAGMENT), more);
		step_ip_rcv(f, &nic);
		/* reassembled, or freed and another one's */
		fake_fill(f, other ? &next : w);
		reads = host.reads;
		to(f, &nic);
		assert_int_equal(host.reads > reads, more);
		assert_int_equal(record_of(f)->hops, other && more ? 1 : 3);
	}
}

static void test_fragment(void **state)
{
	static const struct wire *const wires[] = { &tcp4, &udp4, &tcp6, &udp6 };

	(void)state;
	for (size_t i = 0; i < LEN(wires); i++) {
		for (int more = 0; more < 2; more++) {
			check_fragment(wires[i], step_output, more);
			check_fragment(wires[i], step_enqueue, more);
			check_fragment(wires[i], step_tcp_rcv, more);
		}
	}
}

/* A TCP packet with so many words of options, in which timestamps lie where they usually do. */
static void fill_timestamps(struct fake *f, const struct wire *w, u32 words, u32 value, u32 echo)
{
	u32 l4_len = 20 + words * 4 + w->len;
	u8 *at;

	fake_fill(f, w);
	at = w->v6 ? wire_ip6(fake_l3(f), w, w->proto, l4_len) : wire_ip4(fake_l3(f), w, 0, 20 + l4_len);
	wire_payload(wire_l4(at, w, words, l4_len), w, f->head + sizeof(f->head));
	wire_be32(wire_be32(at + 24, value), echo);
	f->skb.len += words * 4;
}

/*
 * Whether a packet passes for one of other timestamps; the one and the other have
 * so many bytes of their TCP packet in the linear part.
 */
static bool pass_for(const struct wire *w, u32 words, u32 linear_a, u32 linear_b, int which)
{
	const u32 all = 20 + words * 4 + w->len;
	struct fake *f = &pool[0];

	journey_reset(NULL);
	fill_timestamps(f, w, words, 1000, 2000);
	f->skb.data_len = all - linear_a;
	step_ip_rcv(f, &vethc);
	assert_int_equal(!!(record_of(f)->flags & RECORD_PAYLOAD), words >= 3 && linear_a >= 32);
	fill_timestamps(f, w, words, which & 1 ? 1001 : 1000, which & 2 ? 2001 : 2000);
	f->skb.data_len = all - linear_b;
	rest(2 * MS);
	step_output(f, &docker0);
	return record_of(f)->hops == 2;
}

static void test_timestamps(void **state)
{
	static const struct wire *const wires[] = { &tcp4, &tcp6 };

	(void)state;
	for (size_t i = 0; i < LEN(wires); i++) {
		for (u32 words = 1; words <= 10; words++) {
			const u32 all = 20 + words * 4 + wires[i]->len;

			for (int which = 0; which < 4; which++) {
				bool same = words < 3 || !which;

				assert_int_equal(pass_for(wires[i], words, all, all, which), same);
				assert_int_equal(pass_for(wires[i], words, 32, 32, which), same);
				assert_true(pass_for(wires[i], words, 31, 31, which));
				assert_true(pass_for(wires[i], words, all, 31, which));
				assert_true(pass_for(wires[i], words, 20, all, which));
			}
		}
	}
}

/* IPv4's number, of which 0 is none. */
static void test_ip_id(void **state)
{
	static const struct { u16 a, b; bool same; } cases[] = {
		{ 5, 5, true }, { 5, 6, false }, { 0, 6, true }, { 5, 0, true }, { 0xffff, 1, false },
	};

	(void)state;
	for (size_t i = 0; i < 2 * LEN(cases); i++) {
		struct wire w = i % 2 ? udp4 : tcp4;
		struct fake *f;

		w.id = cases[i / 2].a;
		f = fill(0, &w);
		step_ip_rcv(f, &vethc);
		w.id = cases[i / 2].b;
		fake_fill(f, &w);
		rest(2 * MS);
		step_output(f, &docker0);
		assert_int_equal(record_of(f)->hops, cases[i / 2].same ? 2 : 1);
		step_receive(f, &nic);	/* over */
	}
}

/*
 * Where only some stages are judged a record may outlive its packet: a datagram without
 * a number is believed no more, nor is one of another tuple; in the end of a long wait
 * that is judged both are, and so they are at once.
 */
static void test_outlived(void **state)
{
	static const struct {
		const struct wire *wire;
		u16 id, sport;
		bool same;
	} cases[] = {
		{ &udp4, 5, 1000, true }, { &udp4, 0, 1000, false }, { &udp4, 5, 1001, false },
		{ &tcp4, 5, 1000, true }, { &tcp4, 0, 1000, true }, { &tcp4, 5, 1001, true },
		{ &udp6, 0, 1000, false }, { &tcp6, 0, 1000, true },
	};
	static const struct { u32 waits; u64 rest; bool believed; } when[] = {
		{ ~0u, 2 * MS, true }, { 1u << PLACE_IP_RCV, 2 * MS, true },
		{ ~(1u << PLACE_IP_RCV), 2 * MS, false }, { 0, 2 * MS, false }, { 0, MS / 2, true },
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases) * LEN(when); i++) {
		const size_t c = i / LEN(when), at = i % LEN(when);
		struct wire w = *cases[c].wire;
		struct fake *f;

		journey_reset(NULL);
		cfg.waits = when[at].waits;
		w.id = cases[c].id, w.sport = 1000;
		f = fill(0, &w);
		step_ip_rcv(f, &vethc);
		w.sport = cases[c].sport;
		fake_fill(f, &w);
		rest(when[at].rest);
		host.cpu++;	/* so that it is looked at */
		step_output(f, &docker0);
		assert_int_equal(record_of(f)->hops, cases[c].same || when[at].believed ? 2 : 1);
	}
}

/* … nor is the time until a drop that of a record which may have outlived its packet. */
static void test_outlived_drop(void **state)
{
	(void)state;
	for (int few = 0; few < 2; few++) {
		struct wire w = udp4;
		struct fake *f;

		journey_reset(NULL);
		cfg.waits = few ? 0 : ~0u;
		w.id = 0;
		f = fill(0, &w);
		step_ip_rcv(f, &vethc);
		rest(50 * MS);
		step_drop(f, 5);
		assert_int_equal(host.n_events, few ? 0 : 1);
		assert_table_free();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_journey(test_grows), cmocka_journey(test_fragment),
		cmocka_journey(test_timestamps), cmocka_journey(test_ip_id), cmocka_journey(test_outlived),
		cmocka_journey(test_outlived_drop),
	};

	return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
