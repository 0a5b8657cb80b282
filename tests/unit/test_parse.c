// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "parse.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void test_number(void **state)
{
	static const struct {
		const char *text;
		uint64_t min, max;
		int rc;
		uint64_t n;
	} cases[] = {
		{ "0", 0, 10, 0, 0 },
		{ "10", 0, 10, 0, 10 },
		{ "007", 0, 10, 0, 7 },
		{ "1", 1, 1, 0, 1 },
		{ "18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX },
		{ "11", 0, 10, -ERANGE, 0 },
		{ "0", 1, 10, -ERANGE, 0 },
		{ "18446744073709551616", 0, UINT64_MAX, -ERANGE, 0 },
		/* 2^64 + 5: wrapped, it would be in range */
		{ "18446744073709551621", 0, 10, -ERANGE, 0 },
		{ "99999999999999999999999999", 0, UINT64_MAX, -ERANGE, 0 },
		{ "", 0, 10, -EINVAL, 0 },
		{ "-1", 0, UINT64_MAX, -EINVAL, 0 },
		{ "+1", 0, 10, -EINVAL, 0 },
		{ " 1", 0, 10, -EINVAL, 0 },
		{ "1 ", 0, 10, -EINVAL, 0 },
		{ "1x", 0, 10, -EINVAL, 0 },
		{ "0x1", 0, 10, -EINVAL, 0 },
		{ "1e3", 0, 10, -EINVAL, 0 },
		{ "1.5", 0, 10, -EINVAL, 0 },
		{ "99999999999999999999x", 0, 10, -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		uint64_t n = 4711;

		assert_int_equal(parse__number(cases[i].text, cases[i].min, cases[i].max, &n),
				 cases[i].rc);
		assert_int_equal(n, cases[i].rc ? 4711 : cases[i].n);
	}
}

static void test_time(void **state)
{
	static const struct {
		const char *text;
		uint64_t bare;
		int rc;
		uint64_t ns;
	} cases[] = {
		{ "0", 1, 0, 0 },
		{ "30", 1, 0, 30 },
		{ "30", NS_PER_S, 0, 30000000000ull },
		{ "1.5", NS_PER_S, 0, 1500000000 },
		{ "7ns", NS_PER_S, 0, 7 },
		{ "7us", 1, 0, 7000 },
		{ "7ms", 1, 0, 7000000 },
		{ "7s", 1, 0, 7000000000ull },
		{ "1.5ms", 1, 0, 1500000 },
		{ "0.000001ms", 1, 0, 1 },
		{ "1.0ns", 1, 0, 1 },
		{ "0.25us", 1, 0, 250 },
		{ "1.000000001s", 1, 0, 1000000001 },
		{ "1.0000000010s", 1, 0, 1000000001 },
		{ "0.0000000000000000000000000s", 1, 0, 0 },
		{ "9223372036854775807", 1, 0, INT64_MAX },
		{ "9223372036.854775807s", 1, 0, INT64_MAX },
		{ "9223372036.854775808s", 1, -ERANGE, 0 },
		{ "9223372036854775808", 1, -ERANGE, 0 },
		{ "18446744073709551615", 1, -ERANGE, 0 },
		{ "18446744073709551616", 1, -ERANGE, 0 },
		{ "18446744074s", 1, -ERANGE, 0 },	/* wraps to 0.3 s */
		{ "", 1, -EINVAL, 0 },
		{ "-1", 1, -EINVAL, 0 },
		{ "+1ms", 1, -EINVAL, 0 },
		{ "ms", 1, -EINVAL, 0 },
		{ ".5ms", 1, -EINVAL, 0 },
		{ "5.ms", 1, -EINVAL, 0 },
		{ "5.", NS_PER_S, -EINVAL, 0 },
		{ "1.5", 1, -EINVAL, 0 },	/* half a nanosecond */
		{ "1.5ns", 1, -EINVAL, 0 },
		{ "0.0001us", 1, -EINVAL, 0 },
		{ "1.5.5ms", 1, -EINVAL, 0 },
		{ "1e3", 1, -EINVAL, 0 },
		{ "1,5ms", 1, -EINVAL, 0 },
		{ "3 parsecs", 1, -EINVAL, 0 },
		{ "3 ms", 1, -EINVAL, 0 },
		{ "3ms ", 1, -EINVAL, 0 },
		{ "3msec", 1, -EINVAL, 0 },
		{ "3MS", 1, -EINVAL, 0 },
		{ "3m", 1, -EINVAL, 0 },
		{ "0x10ms", 1, -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		uint64_t ns = 4711;

		if (parse__time(cases[i].text, cases[i].bare, &ns) != cases[i].rc)
			fail_msg("'%s'", cases[i].text);
		assert_int_equal(ns, cases[i].rc ? 4711 : cases[i].ns);
	}
}

/* The bits must be those of the ranges, and no other. */
static void assert_ports(const struct ports *ports, const unsigned int (*ranges)[2], size_t n)
{
	assert_int_equal(ports->used, 1);
	for (unsigned int port = 0; port < 65536; port++) {
		int want = 0;

		for (size_t i = 0; i < n; i++)
			want |= port >= ranges[i][0] && port <= ranges[i][1];
		if ((ports->bit[port / 8] >> port % 8 & 1) != want)
			fail_msg("port %u", port);
	}
}

#define ASSERT_PORTS(ports, ...) do {						\
	static const unsigned int ranges[][2] = { __VA_ARGS__ };		\
	assert_ports(ports, ranges, LEN(ranges));				\
} while (0)

static void test_ports(void **state)
{
	struct ports ports = { 0 };
	struct part bad;

	(void)state;
	assert_int_equal(parse__ports("80", &ports, &bad), 0);
	ASSERT_PORTS(&ports, { 80, 80 });
	/* a second list adds */
	assert_int_equal(parse__ports("443,8000-8010", &ports, &bad), 0);
	ASSERT_PORTS(&ports, { 80, 80 }, { 443, 443 }, { 8000, 8010 });

	memset(&ports, 0, sizeof(ports));
	assert_int_equal(parse__ports("0,65535,7-7", &ports, &bad), 0);
	ASSERT_PORTS(&ports, { 0, 0 }, { 7, 7 }, { 65535, 65535 });

	memset(&ports, 0, sizeof(ports));
	assert_int_equal(parse__ports("0-65535", &ports, &bad), 0);
	ASSERT_PORTS(&ports, { 0, 65535 });
}

static void test_bad_ports(void **state)
{
	static const struct {
		const char *text, *bad;
		int rc;
	} cases[] = {
		{ "80x", "80x", -EINVAL },
		{ "", "", -EINVAL },
		{ "80,", "", -EINVAL },
		{ ",80", "", -EINVAL },
		{ "80,,443", "", -EINVAL },
		{ "-1", "-1", -EINVAL },
		{ "80-", "80-", -EINVAL },
		{ "80--90", "80--90", -EINVAL },
		{ "80-90-100", "80-90-100", -EINVAL },
		{ "80-90x", "80-90x", -EINVAL },
		{ "80, 443", " 443", -EINVAL },
		{ "http", "http", -EINVAL },
		{ "1e3", "1e3", -EINVAL },
		{ "0x50", "0x50", -EINVAL },
		{ "70000", "70000", -ERANGE },
		{ "65536", "65536", -ERANGE },
		{ "22,70000,80x", "70000", -ERANGE },
		{ "80-70", "80-70", -ERANGE },
		{ "80-65536", "80-65536", -ERANGE },
		{ "18446744073709551696", "18446744073709551696", -ERANGE }, /* 2^64 + 80 */
		{ "80-18446744073709551706", "80-18446744073709551706", -ERANGE },
	};
	static struct ports ports, before;

	(void)state;
	before.used = 1;
	before.bit[1] = 2;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct part bad = { NULL, 0 };

		ports = before;
		if (parse__ports(cases[i].text, &ports, &bad) != cases[i].rc)
			fail_msg("'%s'", cases[i].text);
		assert_int_equal(bad.len, strlen(cases[i].bad));
		assert_memory_equal(bad.at, cases[i].bad, bad.len);
		assert_memory_equal(&ports, &before, sizeof(ports));
	}
}

/* What the kernel side does with a prefix. */
static int matches(const struct prefix *p, const char *address)
{
	uint8_t bytes[16] = { [10] = 0xff, [11] = 0xff };
	uint64_t a[2];

	if (!strchr(address, ':'))
		assert_int_equal(inet_pton(AF_INET, address, bytes + 12), 1);
	else
		assert_int_equal(inet_pton(AF_INET6, address, bytes), 1);
	memcpy(a, bytes, sizeof(a));
	return (a[0] & p->mask[0]) == p->addr[0] && (a[1] & p->mask[1]) == p->addr[1];
}

static void test_prefix(void **state)
{
	static const struct {
		const char *text, *shown, *in[3], *out[3];
		int ipv4, covers_ipv4;
	} cases[] = {
		{ "10.0.1.2", "10.0.1.2", { "10.0.1.2" }, { "10.0.1.3", "10.0.1.1", "::10.0.1.2" },
		  1, 0 },
		{ "10.0.1.2/32", "10.0.1.2", { "10.0.1.2" }, { "10.0.1.3", "10.0.1.0" }, 1, 0 },
		{ "10.0.0.0/8", "10.0.0.0/8", { "10.0.0.0", "10.255.255.255" },
		  { "9.255.255.255", "11.0.0.0", "2001:db8::a00:1" }, 1, 0 },
		{ "10.0.1.4/30", "10.0.1.4/30", { "10.0.1.4", "10.0.1.7" },
		  { "10.0.1.3", "10.0.1.8" }, 1, 0 },
		{ "172.16.0.0/12", "172.16.0.0/12", { "172.16.0.0", "172.31.255.255" },
		  { "172.15.255.255", "172.32.0.0" }, 1, 0 },
		{ "0.0.0.0/0", "0.0.0.0/0", { "0.0.0.0", "255.255.255.255", "::ffff:1.2.3.4" },
		  { "::1", "2001:db8::1", "::" }, 1, 0 },
		{ "::1", "::1", { "::1" }, { "::2", "::", "0.0.0.1" }, 0, 0 },
		{ "2001:db8::/32", "2001:db8::/32", { "2001:db8::", "2001:db8:ffff::1" },
		  { "2001:db7:ffff::", "2001:db9::" }, 0, 0 },
		{ "2001:db8::8/125", "2001:db8::8/125", { "2001:db8::8", "2001:db8::f" },
		  { "2001:db8::7", "2001:db8::10" }, 0, 0 },
		{ "fe80::/10", "fe80::/10", { "fe80::1", "febf::1" }, { "fec0::1", "fe7f::1" },
		  0, 0 },
		{ "fe80:0:0:1::/64", "fe80:0:0:1::/64", { "fe80:0:0:1::", "fe80:0:0:1:ffff::" },
		  { "fe80::", "fe80:0:0:2::" }, 0, 0 },
		{ "::/0", "::/0", { "::", "ffff::1" }, { NULL }, 0, 1 },
		{ "::/80", "::/80", { "::", "::1:2:3" }, { "0:0:0:0:1::" }, 0, 1 },
		{ "::/96", "::/96", { "::1.2.3.4" }, { "1.2.3.4" }, 0, 0 },
		{ "::ffff:10.0.0.0/104", "10.0.0.0/8", { "10.1.2.3" }, { "11.0.0.0" }, 1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct prefix p;
		char text[PREFIX_TEXT];

		if (parse__prefix(cases[i].text, &p))
			fail_msg("'%s'", cases[i].text);
		assert_string_equal(prefix__format(&p, text), cases[i].shown);
		assert_int_equal(prefix__is_ipv4(&p), cases[i].ipv4);
		assert_int_equal(prefix__covers_ipv4(&p), cases[i].covers_ipv4);
		for (size_t k = 0; k < 3 && cases[i].in[k]; k++)
			if (!matches(&p, cases[i].in[k]))
				fail_msg("%s does not match %s", cases[i].text, cases[i].in[k]);
		for (size_t k = 0; k < 3 && cases[i].out[k]; k++)
			if (matches(&p, cases[i].out[k]))
				fail_msg("%s matches %s", cases[i].text, cases[i].out[k]);
	}
}

static void test_bad_prefix(void **state)
{
	static const struct {
		const char *text;
		int rc;
	} cases[] = {
		{ "", -EINVAL }, { "/8", -EINVAL }, { "10.0.0.1/", -EINVAL },
		{ "10.0.0.1/x", -EINVAL }, { "10.0.0.1/8x", -EINVAL }, { "10.0.0.1/-1", -EINVAL },
		{ "10.0.0.1/255.0.0.0", -EINVAL }, { "10.0.0.0/8/8", -EINVAL },
		{ "10.0.0", -EINVAL }, { "10.0.0.256", -EINVAL }, { "10.0.0.1x", -EINVAL },
		{ " 10.0.0.1", -EINVAL }, { "10.0.0.1 ", -EINVAL }, { "localhost", -EINVAL },
		{ "fe80::1%eth0", -EINVAL }, { "[::1]", -EINVAL }, { ":::1", -EINVAL },
		{ "::1::", -EINVAL }, { "12345::", -EINVAL },
		{ "1111:2222:3333:4444:5555:6666:7777:8888:9999", -EINVAL },
		{ "0000000000000000000000000000000000000000000000000000000000000000", -EINVAL },
		{ "10.0.0.1/33", -ERANGE }, { "::1/129", -ERANGE },
		{ "10.0.0.0/18446744073709551624", -ERANGE },
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct prefix p, before;

		memset(&p, 0x55, sizeof(p));
		before = p;
		if (parse__prefix(cases[i].text, &p) != cases[i].rc)
			fail_msg("'%s'", cases[i].text);
		assert_memory_equal(&p, &before, sizeof(p));
	}
}

/* Bits behind LEN: refused, with what LEN leaves of the address. */
static void test_bits_behind(void **state)
{
	static const char *const cases[][2] = {
		{ "10.1.2.3/8", "10.0.0.0/8" },
		{ "10.0.0.1/31", "10.0.0.0/31" },
		{ "0.0.0.1/0", "0.0.0.0/0" },
		{ "2001:db8::1/64", "2001:db8::/64" },
		{ "::1/0", "::/0" },
		{ "::1/127", "::/127" },
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct prefix p;
		char text[PREFIX_TEXT];

		assert_int_equal(parse__prefix(cases[i][0], &p), -EDOM);
		assert_string_equal(prefix__format(&p, text), cases[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_number), cmocka_unit_test(test_time),
		cmocka_unit_test(test_ports), cmocka_unit_test(test_bad_ports),
		cmocka_unit_test(test_prefix), cmocka_unit_test(test_bad_prefix),
		cmocka_unit_test(test_bits_behind),
	};

	return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
