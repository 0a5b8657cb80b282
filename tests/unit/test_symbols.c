// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a kernel has of a function, by a list of symbols such as /proc/kallsyms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols.h"

static const char list[] =
	"ffffffff81000000 T _stext\n"
	"ffffffff81000010 t ip_rcv_core.part.0\n"
	"ffffffff81000020 t ip_rcv_core.cold\n"
	"ffffffff81000030 T ip_rcv\n"
	"0000000000000000 t ip6_rcv_core.isra.0\n"
	"ffffffff81000050 t tcp_v4_rcv.constprop.1\n"
	"ffffffff81000060 T tcp_v4_rcv\n"
	"ffffffff81000070 t tcp_v6_rcv_more\n"
	"ffffffff81000080 D tcp_data\n"
	"ffffffffc0000000 t br_handle_frame_finish\t[bridge]\n"
	"ffffffffc0000010 t ip_rcv\t[other]\n";

static char path[] = "/tmp/symbols.XXXXXX";

static int write_list(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 || write(fd, list, sizeof(list) - 1) != sizeof(list) - 1 || close(fd);
}

static int remove_list(void **state)
{
	(void)state;
	return unlink(path);
}

static void find(const char *function, bool exact, const char *copy)
{
	struct symbol s = { .function = function, .exact = !exact, .copy = "not looked up" };

	assert_int_equal(symbols__find(path, &s, 1), 0);
	assert_int_equal(s.exact, exact);
	assert_string_equal(s.copy, copy);
}

static void test_function_or_its_copy(void **state)
{
	(void)state;
	find("ip_rcv", true, "");
	find("ip6_rcv_core", false, "ip6_rcv_core.isra.0");
	find("tcp_v4_rcv", true, "tcp_v4_rcv.constprop.1");
	find("br_handle_frame_finish", true, "");
}

/* A part sees only some calls, .cold none from the start, and a longer name is another function. */
static void test_what_is_no_copy(void **state)
{
	(void)state;
	find("ip_rcv_core", false, "");
	find("tcp_v6_rcv", false, "");
	find("no_such_function", false, "");
}

static void test_several_in_one_pass(void **state)
{
	struct symbol s[] = { { .function = "ip6_rcv_core" }, { .function = "ip_rcv" }, { .function = "tcp_v6_rcv" } };

	(void)state;
	assert_int_equal(symbols__find(path, s, 3), 0);
	assert_string_equal(s[0].copy, "ip6_rcv_core.isra.0");
	assert_true(s[1].exact);
	assert_false(s[0].exact || s[2].exact);
}

static void test_count(void **state)
{
	const char *names[] = { "tcp_v4_rcv", "ip_rcv", "nothing", "ip_rcv", "_stext" };
	size_t n = 5, found = 99;

	(void)state;
	assert_int_equal(symbols__count(path, names, &n, &found), 0);
	assert_int_equal(n, 4);
	assert_int_equal(found, 3);
}

static void check_name(uint64_t address, const char *expected)
{
	char name[SYMBOL_TEXT] = "none";

	assert_int_equal(symbols__name(path, address, name), expected ? 0 : -ENOENT);
	assert_string_equal(name, expected ? expected : "none");
}

/* A call comes back to behind it, so never to a function's first byte, but perhaps to the next one's. */
static void test_name(void **state)
{
	(void)state;
	check_name(0xffffffff81000038, "ip_rcv");
	check_name(0xffffffff81000031, "ip_rcv");
	check_name(0xffffffff81000050, "ip_rcv");	/* the list does not say where the one between lies */
	check_name(0xffffffff81000060, "tcp_v4_rcv");
	check_name(0xffffffff81000015, "ip_rcv_core");
	check_name(0xffffffff81000021, "ip_rcv_core");
	check_name(0xffffffffc0000008, "br_handle_frame_finish");
	check_name(0xffffffff81000085, "tcp_v6_rcv_more");	/* behind it lie only data */
	check_name(0xffffffff81000000, NULL);
	check_name(0, NULL);
}

static void test_no_list(void **state)
{
	char name[SYMBOL_TEXT];
	struct symbol s = { .function = "ip_rcv" };
	const char *names[] = { "ip_rcv" };
	size_t n = 1, found;

	(void)state;
	assert_int_equal(symbols__find("/nonexistent", &s, 1), -ENOENT);
	assert_int_equal(symbols__count("/nonexistent", names, &n, &found), -ENOENT);
	assert_int_equal(symbols__name("/nonexistent", 1, name), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_function_or_its_copy),
		cmocka_unit_test(test_what_is_no_copy),
		cmocka_unit_test(test_several_in_one_pass),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_no_list),
	};

	return cmocka_run_group_tests(tests, write_list, remove_list);
}
