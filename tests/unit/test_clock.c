// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "clock.h"

static uint64_t now(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void mono_is_the_monotonic_clock(void **state)
{
	uint64_t before = now(CLOCK_MONOTONIC);
	uint64_t read = clock__mono();
	uint64_t after = now(CLOCK_MONOTONIC);

	(void)state;
	assert_in_range(read, before, after);
}

/* As far as 100 ms, so that a clock that is slewed or a busy machine does not fail it. */
static void wall_translates_times_of_the_past(void **state)
{
	const uint64_t slack = 100000000, minute = 60000000000;
	uint64_t mono = now(CLOCK_MONOTONIC);
	uint64_t wall = now(CLOCK_REALTIME);

	(void)state;
	assert_in_range(clock__wall(mono), wall - slack, wall + slack);
	assert_in_range(clock__wall(mono - minute), wall - minute - slack, wall - minute + slack);
}

static void wall_is_close(void **state)
{
	uint64_t best = UINT64_MAX;
	int i;

	(void)state;
	/* The best of many, for an undisturbed one is among them. */
	for (i = 0; i < 100; i++) {
		uint64_t before = now(CLOCK_REALTIME);
		uint64_t wall = clock__wall(now(CLOCK_MONOTONIC));
		uint64_t off = wall > before ? wall - before : before - wall;

		if (off < best)
			best = off;
	}
	assert_in_range(best, 0, 100000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mono_is_the_monotonic_clock),
		cmocka_unit_test(wall_translates_times_of_the_past),
		cmocka_unit_test(wall_is_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
