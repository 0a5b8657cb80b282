// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "symbols.h"

/* What a symbol is of a function: 0 something else, 1 a copy of it, 2 the function itself. */
static int likeness(const char *symbol, const char *function)
{
	size_t n = strlen(function);

	if (strncmp(symbol, function, n))
		return 0;
	if (!symbol[n])
		return 2;
	return !strncmp(symbol + n, ".constprop.", strlen(".constprop.")) ||
	       !strncmp(symbol + n, ".isra.", strlen(".isra."));
}

int symbols__find(const char *function, bool renamed, char *symbol, size_t size)
{
	FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], name[256];
	int best = renamed ? 0 : 1, start = best;

	if (!f)
		return -errno;
	while (best < 2 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*x %*c %255s", name) != 1 || likeness(name, function) <= best)
			continue;
		best = likeness(name, function);
		snprintf(symbol, size, "%s", name);
	}
	fclose(f);
	return best > start ? 0 : -ENOENT;
}
