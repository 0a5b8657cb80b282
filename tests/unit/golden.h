/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Output against the files in golden/, which lie beside this one. Needs cmocka.h first. */
#ifndef SLOWPKT_GOLDEN_H
#define SLOWPKT_GOLDEN_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The golden text, to be freed; fails the test where there is no such file. */
static inline char *golden__read(const char *name)
{
	const char *here = strrchr(__FILE__, '/');
	char path[PATH_MAX];
	size_t size = 0;
	char *text = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "%.*sgolden/%s", here ? (int)(here + 1 - __FILE__) : 0, __FILE__, name);
	file = fopen(path, "r");
	if (!file)
		fail_msg("%s cannot be opened", path);
	if (getdelim(&text, &size, '\0', file) < 0)
		fail_msg("%s is empty", path);
	fclose(file);
	return text;
}

static inline void golden__check(const char *name, const char *text)
{
	char *expected = golden__read(name);

	if (strcmp(expected, text))
		print_error("golden/%s expects\n%sbut this came\n%s", name, expected, text);
	assert_string_equal(expected, text);
	free(expected);
}

#endif
