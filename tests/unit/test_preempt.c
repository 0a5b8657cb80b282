// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* On which kernels a task may be preempted in the midst of a BPF program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "preempt.h"

static const char dynamic[] = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.187-1 (2026-01-02)";

static void test_as_it_was_built(void **state)
{
	(void)state;
	assert_false(preempt__in_programs("5.10.0-41-amd64", "#1 SMP Debian 5.10.257-1 (2026-01-02)", NULL));
	assert_false(preempt__in_programs("7.3.4", "#1 SMP Fri Jan 2", NULL));
	assert_true(preempt__in_programs("5.10.0", "#1 SMP PREEMPT Fri Jan 2", NULL));
	assert_true(preempt__in_programs("6.1.0-57-rt-amd64", "#1 SMP PREEMPT_RT Debian 6.1.187-1", NULL));
}

static void test_as_its_mode_is(void **state)
{
	(void)state;
	assert_false(preempt__in_programs("6.1.0", dynamic, "none (voluntary) full \n"));
	assert_false(preempt__in_programs("6.18.0", dynamic, "(none) voluntary full lazy \n"));
	assert_true(preempt__in_programs("6.1.0", dynamic, "none voluntary (full) \n"));
	assert_true(preempt__in_programs("6.18.0", dynamic, "none voluntary full (lazy) \n"));
	assert_true(preempt__in_programs("7.3.4", dynamic, "full (lazy) \n"));
	assert_true(preempt__in_programs("7.3.4", dynamic, "(full) lazy \n"));
}

static void test_as_is_usual(void **state)
{
	(void)state;
	assert_false(preempt__in_programs("6.18.0", dynamic, NULL));
	assert_true(preempt__in_programs("7.0.0", dynamic, NULL));
	assert_true(preempt__in_programs("10.0.1-generic", dynamic, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_it_was_built),
		cmocka_unit_test(test_as_its_mode_is),
		cmocka_unit_test(test_as_is_usual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
