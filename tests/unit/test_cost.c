// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cost.h"

static char text[256];

static FILE *open_text(void)
{
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	return out;
}

static void hop(const struct cost *cost)
{
	FILE *out = open_text();

	cost__say_hop(out, "netif_rx", "netif_rx", cost);
	fclose(out);
}

static void sum(const struct cost *cost, uint64_t in_ns)
{
	FILE *out = open_text();

	cost__say_sum(out, cost, in_ns);
	fclose(out);
}

static void a_hop_has_its_mean(void **state)
{
	(void)state;
	hop(&(struct cost){ .runs = 4, .ns = 1003 });
	assert_string_equal(text, "slowpkt: cost at netif_rx (netif_rx): 4 runs, 250 ns each\n");
}

static void a_hop_without_runs_has_none(void **state)
{
	(void)state;
	hop(&(struct cost){ 0 });
	assert_string_equal(text, "slowpkt: cost at netif_rx (netif_rx): 0 runs, 0 ns each\n");
}

static void the_sum_is_a_share_of_a_cpu(void **state)
{
	(void)state;
	sum(&(struct cost){ .runs = 1000, .ns = 2500000 }, 2000000000);
	assert_string_equal(text, "slowpkt: cost: 1000 runs took 2.500 ms of 2.000 s, 0.1250 % of one CPU\n");
}

static void the_sum_of_a_long_run_does_not_overflow(void **state)
{
	const uint64_t year = 365ull * 86400 * 1000000000;

	(void)state;
	sum(&(struct cost){ .runs = UINT64_MAX, .ns = year / 2 }, year);
	assert_non_null(strstr(text, "18446744073709551615 runs took 15768000000.000 ms of 31536000.000 s, 50.0000 %"));
}

static void no_time_is_no_share(void **state)
{
	(void)state;
	sum(&(struct cost){ 0 }, 0);
	assert_string_equal(text, "slowpkt: cost: 0 runs took 0.000 ms of 0.000 s, 0.0000 % of one CPU\n");
}

static void what_is_no_program_has_no_cost(void **state)
{
	struct cost cost;

	(void)state;
	assert_true(cost__read(-1, &cost) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hop_has_its_mean),
		cmocka_unit_test(a_hop_without_runs_has_none),
		cmocka_unit_test(the_sum_is_a_share_of_a_cpu),
		cmocka_unit_test(the_sum_of_a_long_run_does_not_overflow),
		cmocka_unit_test(no_time_is_no_share),
		cmocka_unit_test(what_is_no_program_has_no_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
