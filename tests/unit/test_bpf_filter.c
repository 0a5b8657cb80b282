// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which packets the kernel side lets through. */
#include "host/bpf_host.h"
#include "host/wire.h"
#include "../../bpf/filter.bpf.h"
#include "sieve.h"

/* 10.0.1.2:49847 to 172.17.0.2:80, or the same with 2001:db8::. */
static struct wire make(u8 proto, bool v6)
{
	return (struct wire){ .proto = proto, .v6 = v6, .src = 0x0a000102, .dst = 0xac110002,
			      .sport = 49847, .dport = 80, .len = 100, .seq = 5000 };
}

/* As the hops ask: the parser, then the rest of the filter. */
static bool wire_passes(const struct wire *w)
{
	static struct fake f;
	struct packet p;

	fake_fill(&f, w);
	return parse(&p, &f.skb, L3_AT_HEADER, 0, WANTED) == PARSED && wanted(&p);
}

static bool lets_through(u8 proto, bool v6)
{
	struct wire w = make(proto, v6);

	return wire_passes(&w);
}

static int reset(void **state)
{
	(void)state;
	host_reset();
	return 0;
}

/* A prefix over 16 bytes as user space makes it: what the mask leaves. */
static void add_prefix(struct prefixes *list, const u8 address[16], u32 bits)
{
	struct prefix *p = &list->p[list->n++];
	u8 mask[16] = {}, addr[16];

	assert_in_range(list->n, 1, MAX_PREFIXES);
	for (u32 i = 0; i < bits; i++)
		mask[i / 8] |= 0x80 >> i % 8;
	for (u32 i = 0; i < 16; i++)
		addr[i] = address[i] & mask[i];
	memcpy(p->mask, mask, 16);
	memcpy(p->addr, addr, 16);
	sieve__fill(&cfg);
}

static void add_v4(struct prefixes *list, u32 address, u32 bits)
{
	u8 a[16];

	wire_address(a, false, address);
	add_prefix(list, a, 96 + bits);
}

static void add_v6(struct prefixes *list, u32 last, u32 bits)
{
	u8 a[16];

	wire_address(a, true, last);
	add_prefix(list, a, bits);
}

static void set_port(struct ports *ports, u32 port)
{
	ports->used = 1;
	ports->bit[port / 8] |= 1 << port % 8;
}

static void test_protocols(void **state)
{
	(void)state;
	for (int bits = 0; bits < 16; bits++) {
		cfg.tcp = bits & 1;
		cfg.udp = bits >> 1 & 1;
		cfg.ipv4 = bits >> 2 & 1;
		cfg.ipv6 = bits >> 3 & 1;
		assert_int_equal(lets_through(WIRE_TCP, false), cfg.tcp && cfg.ipv4);
		assert_int_equal(lets_through(WIRE_TCP, true), cfg.tcp && cfg.ipv6);
		assert_int_equal(lets_through(WIRE_UDP, false), cfg.udp && cfg.ipv4);
		assert_int_equal(lets_through(WIRE_UDP, true), cfg.udp && cfg.ipv6);
	}
}

static void test_ports(void **state)
{
	(void)state;
	set_port(&cfg.dport, 80);
	assert_true(lets_through(WIRE_TCP, false));
	assert_true(lets_through(WIRE_UDP, true));
	set_port(&cfg.sport, 49847);
	assert_true(lets_through(WIRE_TCP, false));
	set_port(&cfg.port, 80);
	assert_true(lets_through(WIRE_TCP, false));

	/* each one alone holds back */
	host_reset();
	set_port(&cfg.dport, 49847);
	assert_false(lets_through(WIRE_TCP, false));
	assert_false(lets_through(WIRE_UDP, false));
	host_reset();
	set_port(&cfg.sport, 80);
	assert_false(lets_through(WIRE_TCP, false));
	host_reset();
	set_port(&cfg.port, 49848);
	set_port(&cfg.port, 81);
	set_port(&cfg.port, 72);
	assert_false(lets_through(WIRE_TCP, false));

	/* either of both */
	set_port(&cfg.port, 49847);
	assert_true(lets_through(WIRE_TCP, false));
	host_reset();
	set_port(&cfg.port, 80);
	assert_true(lets_through(WIRE_TCP, false));
	/* both asked for, one missed */
	set_port(&cfg.dport, 81);
	assert_false(lets_through(WIRE_TCP, false));
	/* in use, and no bit set: nothing passes */
	host_reset();
	cfg.dport.used = 1;
	assert_false(lets_through(WIRE_TCP, false));
	cfg.dport.used = 0;
	set_port(&cfg.sport, 1);
	cfg.sport.used = 0;
	assert_true(lets_through(WIRE_TCP, false));
}

/* A bit is one port's, whatever its number. */
static void test_port_edges(void **state)
{
	static const u32 edges[] = { 0, 1, 7, 8, 15, 16, 255, 256, 32767, 32768, 65527, 65528, 65534, 65535 };

	(void)state;
	for (size_t i = 0; i < LEN(edges); i++) {
		host_reset();
		set_port(&cfg.dport, edges[i]);
		for (u32 port = 0; port < 65536; port++) {
			struct wire w = make(WIRE_UDP, false);

			w.dport = port;
			assert_int_equal(wire_passes(&w), port == edges[i]);
		}
	}
	/* the last byte is its own */
	memset(cfg.dport.bit, 0xff, PORT_BYTES);
	cfg.dport.bit[PORT_BYTES - 1] = 0x7f;
	assert_true(has_port(&cfg.dport, 65534));
	assert_false(has_port(&cfg.dport, 65535));
	assert_true(has_port(&cfg.dport, 0));
}

static void test_hosts(void **state)
{
	(void)state;
	add_v4(&cfg.src, 0x0a000102, 32);
	assert_true(lets_through(WIRE_TCP, false));
	assert_false(lets_through(WIRE_TCP, true));
	add_v4(&cfg.dst, 0xac110002, 32);
	assert_true(lets_through(WIRE_TCP, false));
	add_v4(&cfg.host, 0xac110002, 32);
	assert_true(lets_through(WIRE_UDP, false));

	/* each one alone holds back */
	host_reset();
	add_v4(&cfg.src, 0xac110002, 32);
	assert_false(lets_through(WIRE_TCP, false));
	host_reset();
	add_v4(&cfg.dst, 0x0a000102, 32);
	assert_false(lets_through(WIRE_TCP, false));
	host_reset();
	add_v4(&cfg.host, 0x0a000103, 32);
	assert_false(lets_through(WIRE_TCP, false));
	/* any one of a list, at either end */
	add_v4(&cfg.host, 0x0a000102, 32);
	assert_true(lets_through(WIRE_TCP, false));
	host_reset();
	for (u32 i = 0; i < MAX_PREFIXES - 1; i++)
		add_v4(&cfg.dst, 0xac120000 + i, 32);
	assert_false(lets_through(WIRE_TCP, false));
	add_v4(&cfg.dst, 0xac110002, 32);
	assert_true(lets_through(WIRE_TCP, false));
	/* what is beyond n is not there */
	cfg.dst.n--;
	assert_false(lets_through(WIRE_TCP, false));
}

static void test_prefixes_v4(void **state)
{
	(void)state;
	for (u32 bits = 0; bits <= 32; bits++) {
		u32 flipped = bits ? 1u << (32 - bits) : 0;

		/* all bits behind the prefix differ, then its last one does too */
		host_reset();
		add_v4(&cfg.dst, 0xac110002 ^ (bits < 32 ? 0xffffffff >> bits : 0), bits);
		assert_true(lets_through(WIRE_TCP, false));
		assert_false(lets_through(WIRE_TCP, true));
		host_reset();
		add_v4(&cfg.dst, 0xac110002 ^ flipped, bits);
		assert_int_equal(lets_through(WIRE_TCP, false), !bits);
		assert_false(lets_through(WIRE_TCP, true));
	}
}

static void test_prefixes_v6(void **state)
{
	u8 address[16], other[16];

	(void)state;
	wire_address(address, true, 0xac110002);
	for (u32 bits = 0; bits <= 128; bits++) {
		host_reset();
		memcpy(other, address, 16);
		for (u32 i = bits; i < 128; i++)
			other[i / 8] ^= 0x80 >> i % 8;
		add_prefix(&cfg.dst, other, bits);
		assert_true(lets_through(WIRE_UDP, true));
		if (!bits)
			continue;
		host_reset();
		memcpy(other, address, 16);
		other[(bits - 1) / 8] ^= 0x80 >> (bits - 1) % 8;
		add_prefix(&cfg.dst, other, bits);
		assert_false(lets_through(WIRE_UDP, true));
	}
	host_reset();
	add_v6(&cfg.src, 0x0a000102, 128);
	add_v6(&cfg.host, 0, 32);
	assert_true(lets_through(WIRE_UDP, true));
	assert_false(lets_through(WIRE_UDP, false));
}

/* What is asked must hold on this one tuple; another one's ports do not help. */
static void test_one_tuple(void **state)
{
	(void)state;
	add_v4(&cfg.src, 0x0a000102, 32);
	set_port(&cfg.dport, 80);
	assert_true(lets_through(WIRE_TCP, false));
	cfg.dport.bit[80 / 8] = 0;
	set_port(&cfg.dport, 81);
	assert_false(lets_through(WIRE_TCP, false));
	host_reset();
	add_v4(&cfg.src, 0x0a000103, 32);
	set_port(&cfg.dport, 80);
	assert_false(lets_through(WIRE_TCP, false));
	host_reset();
	add_v4(&cfg.host, 0, 0);
	set_port(&cfg.port, 80);
	cfg.has_seq = 1;
	cfg.seq = 5050;
	assert_true(lets_through(WIRE_TCP, false));
	cfg.seq = 4999;
	assert_false(lets_through(WIRE_TCP, false));
}

static bool seq_lets_through(u32 seq, u32 len)
{
	struct packet p = { .seq = seq, .len = len };

	return wanted(&p);
}

static void test_seq(void **state)
{
	(void)state;
	cfg.has_seq = 1;
	cfg.seq = 1000;
	assert_true(seq_lets_through(1000, 1));
	assert_true(seq_lets_through(901, 100));
	assert_false(seq_lets_through(900, 100));
	assert_false(seq_lets_through(1001, 100));
	/* without payload: its own number */
	assert_true(seq_lets_through(1000, 0));
	assert_false(seq_lets_through(999, 0));
	assert_false(seq_lets_through(1001, 0));
	/* over the end of the numbers */
	cfg.seq = 5;
	assert_true(seq_lets_through(0xfffffff0, 22));
	assert_false(seq_lets_through(0xfffffff0, 21));
	assert_false(seq_lets_through(6, 0x10000));
	cfg.seq = 0;
	assert_true(seq_lets_through(0xffffffff, 2));
	assert_false(seq_lets_through(0xffffffff, 1));
	assert_true(seq_lets_through(0, 0));
	cfg.seq = 0xffffffff;
	assert_true(seq_lets_through(0xfffffff0, 1448));
	assert_true(seq_lets_through(0xffffffff, 0));
	assert_false(seq_lets_through(0, 1448));
	/* asked for by the flag, not by the number */
	cfg.has_seq = 0;
	assert_true(seq_lets_through(7, 1));
}

/* Prefixes of all lengths in one list: each address in it is found, and no other one. */
static void test_sieve(void **state)
{
	u32 base[MAX_PREFIXES], address = 1, found = 0;

	(void)state;
	for (u32 i = 0; i < MAX_PREFIXES; i++) {
		address = address * 1664525 + 1013904223;
		base[i] = address;
		add_v4(&cfg.host, address, 17 + i);
	}
	for (u32 i = 0; i < 200000; i++) {
		struct tuple t;
		bool in = false;
		u32 asked;

		address = address * 1664525 + 1013904223;
		/* half of them near a prefix */
		asked = i & 1 ? address : base[i / 2 % MAX_PREFIXES] ^ address >> (16 + i / 2 % MAX_PREFIXES);
		for (u32 j = 0; j < MAX_PREFIXES; j++)
			in |= !((asked ^ base[j]) >> (15 - j));
		set_v4(&t, bpf_htonl(asked), 0);
		assert_int_equal(wanted_hosts(&t), in);
		found += in;
	}
	/* both kinds were there */
	assert_in_range(found, 10000, 190000);
}

static struct net_device *device(const char *name)
{
	static struct net_device dev;

	memset(&dev, 0, sizeof(dev));
	strcpy(dev.name, name);
	return &dev;
}

static void add_iface(const char *name, u32 netns)
{
	struct iface *i = &cfg.iface[cfg.n_ifaces++];

	memcpy(i->name, device(name)->name, sizeof(i->name));
	i->netns = netns;
	sieve__fill(&cfg);
}

static void test_meets_netns(void **state)
{
	(void)state;
	assert_int_equal(meets(7, device("eth0")), 0);
	cfg.n_netns = MAX_NETNS;
	for (u32 i = 0; i < MAX_NETNS; i++)
		cfg.netns[i] = 4026531840u + i;
	sieve__fill(&cfg);
	for (u32 i = 0; i < MAX_NETNS; i++) {
		assert_int_equal(meets(4026531840u + i, device("eth0")), MET_NETNS);
		assert_int_equal(meets(4026531840u + i, NULL), MET_NETNS);
	}
	assert_int_equal(meets(4026531839u, NULL), 0);
	assert_int_equal(meets(4026531840u + MAX_NETNS, NULL), 0);
	cfg.n_netns--;
	assert_int_equal(meets(4026531840u + MAX_NETNS - 1, NULL), 0);
}

static void test_meets_iface(void **state)
{
	(void)state;
	add_iface("eth0", 0);
	assert_int_equal(meets(1, device("eth0")), MET_IFACE);
	assert_int_equal(meets(1, device("eth1")), 0);
	assert_int_equal(meets(1, device("eth01")), 0);
	assert_int_equal(meets(1, device("eth")), 0);
	assert_int_equal(meets(1, device("")), 0);
	assert_int_equal(meets(1, NULL), 0);
	/* both halves of a long name count, and what lies behind the NUL does not match by chance */
	add_iface("br-0123456789ab", 0);
	assert_int_equal(meets(1, device("br-0123456789ab")), MET_IFACE);
	assert_int_equal(meets(1, device("br-0123456789ac")), 0);
	assert_int_equal(meets(1, device("bs-0123456789ab")), 0);
	/* nor does the rest of a longer name that it had before */
	memcpy(device("eth0")->name + 5, "67890a", 7);
	assert_int_equal(meets(1, device("eth0")), MET_IFACE);
	/* in a netns */
	add_iface("veth0", 5);
	assert_int_equal(meets(5, device("veth0")), MET_IFACE);
	assert_int_equal(meets(6, device("veth0")), 0);
	while (cfg.n_ifaces < MAX_IFACES)
		add_iface(cfg.n_ifaces == MAX_IFACES - 1 ? "last" : "x", 0);
	assert_int_equal(meets(1, device("last")), MET_IFACE);
	cfg.n_ifaces--;
	assert_int_equal(meets(1, device("last")), 0);
}

static void test_meets_both(void **state)
{
	(void)state;
	cfg.n_netns = 1;
	cfg.netns[0] = 5;
	add_iface("eth0", 6);
	assert_int_equal(meets(5, device("eth0")), MET_NETNS);
	assert_int_equal(meets(6, device("eth0")), MET_IFACE);
	add_iface("lo", 0);
	assert_int_equal(meets(5, device("lo")), MET_NETNS | MET_IFACE);
	assert_int_equal(meets(7, device("vethc")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_protocols, reset), cmocka_unit_test_setup(test_ports, reset),
		cmocka_unit_test_setup(test_port_edges, reset), cmocka_unit_test_setup(test_hosts, reset),
		cmocka_unit_test_setup(test_prefixes_v4, reset), cmocka_unit_test_setup(test_prefixes_v6, reset),
		cmocka_unit_test_setup(test_one_tuple, reset), cmocka_unit_test_setup(test_seq, reset),
		cmocka_unit_test_setup(test_meets_netns, reset), cmocka_unit_test_setup(test_meets_iface, reset),
		cmocka_unit_test_setup(test_meets_both, reset), cmocka_unit_test_setup(test_sieve, reset),
	};

	return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
