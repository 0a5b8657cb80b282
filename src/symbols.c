// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols.h"

static bool is_copy(const char *suffix)
{
	return !strncmp(suffix, ".constprop.", strlen(".constprop.")) ||
	       !strncmp(suffix, ".isra.", strlen(".isra."));
}

static void note(const char *name, struct symbol *s)
{
	size_t n = strlen(s->function);

	if (strncmp(name, s->function, n))
		return;
	if (!name[n])
		s->exact = true;
	/* what does not fit is not one of ours */
	else if (is_copy(name + n) && strlen(name) < sizeof(s->copy))
		strcpy(s->copy, name);
}

/* The next name of the list; false: it is at its end. */
static bool next(FILE *f, char name[512])
{
	char line[1024];

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %*c %511s", name) == 1)
			return true;
	return false;
}

int symbols__find(const char *path, struct symbol *symbols, size_t n)
{
	FILE *f = fopen(path, "re");
	char name[512];

	if (!f)
		return -errno;
	for (size_t i = 0; i < n; i++) {
		symbols[i].exact = false;
		symbols[i].copy[0] = '\0';
	}
	while (next(f, name))
		for (size_t i = 0; i < n; i++)
			note(name, &symbols[i]);
	fclose(f);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts n names. Returns how many different ones there are; they come first. */
static size_t sort(const char **names, size_t n)
{
	size_t different = 0;

	qsort(names, n, sizeof(*names), compare);
	for (size_t i = 0; i < n; i++)
		if (!different || strcmp(names[different - 1], names[i]))
			names[different++] = names[i];
	return different;
}

int symbols__count(const char *path, const char **names, size_t *n, size_t *found)
{
	FILE *f = fopen(path, "re");
	bool *seen = calloc(*n + 1, sizeof(*seen));
	char name[512];
	const char *key = name;
	int err = f && seen ? 0 : -errno;

	*found = 0;
	*n = sort(names, *n);
	while (!err && next(f, name)) {
		const char **at = bsearch(&key, names, *n, sizeof(*names), compare);

		/* a static function may be there twice */
		if (at && !seen[at - names]) {
			seen[at - names] = true;
			++*found;
		}
	}
	free(seen);
	if (f)
		fclose(f);
	return err;
}
