// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols.h"

enum { LINE_SIZE = 1024 };

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

/*
 * The next name of the list; NULL: it is at its end. A line is "ADDRESS TYPE NAME",
 * with "\t[MODULE]" behind it perhaps. There are 150000: sscanf() would take seconds
 * of an emulated CPU.
 */
static char *next(FILE *f, char line[LINE_SIZE])
{
	while (fgets(line, LINE_SIZE, f)) {
		char *type = strchr(line, ' '), *name = type ? strchr(type + 1, ' ') : NULL;

		if (!name)
			continue;
		name++;
		name[strcspn(name, "\t\n")] = '\0';
		return name;
	}
	return NULL;
}

int symbols__find(const char *path, struct symbol *symbols, size_t n)
{
	FILE *f = fopen(path, "re");
	char line[LINE_SIZE], *name;

	if (!f)
		return -errno;
	for (size_t i = 0; i < n; i++) {
		symbols[i].exact = false;
		symbols[i].copy[0] = '\0';
	}
	while ((name = next(f, line)))
		for (size_t i = 0; i < n; i++)
			note(name, &symbols[i]);
	fclose(f);
	return 0;
}

static bool is_function(const char *line)
{
	const char *type = strchr(line, ' ');

	return type && strchr("tTwW", type[1]);
}

int symbols__name(const char *path, uint64_t address, char name[SYMBOL_TEXT])
{
	FILE *f = fopen(path, "re");
	char line[LINE_SIZE], *at;
	uint64_t nearest = 0, start;
	size_t length;

	if (!f)
		return -errno;
	while ((at = next(f, line))) {
		start = strtoull(line, NULL, 16);
		/* a call may be the last of its function: then it comes back to where the next one starts */
		if (start <= nearest || start >= address || !is_function(line))
			continue;
		nearest = start;
		/* nearly each line comes here: no snprintf() */
		length = strcspn(at, ".");
		if (length >= SYMBOL_TEXT)
			length = SYMBOL_TEXT - 1;
		memcpy(name, at, length);
		name[length] = '\0';
	}
	fclose(f);
	return nearest ? 0 : -ENOENT;
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
	char line[LINE_SIZE];
	const char *key;
	int err = f && seen ? 0 : -errno;

	*found = 0;
	*n = sort(names, *n);
	while (!err && (key = next(f, line))) {
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
