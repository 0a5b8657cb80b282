/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the bench's traffic programs have in common. */
#ifndef SLOWPKT_BENCH_COMMON_H
#define SLOWPKT_BENCH_COMMON_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP = 200, PARTS = 5, SIZE = 64 };

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(1);
}

static inline void check(int result, const char *what)
{
	if (result < 0)
		die(what);
}

/* CLOCK_MONOTONIC, ns. */
static inline uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Sockets that are made from here on belong to the netns; those made before stay where they are. */
static inline void enter(const char *netns)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	check(fd, path);
	check(setns(fd, CLONE_NEWNET), path);
	close(fd);
}

static inline int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Of PARTS numbers, which it sorts: what happens once a second does not decide. */
static inline uint64_t median(uint64_t part[PARTS])
{
	qsort(part, PARTS, sizeof(part[0]), by_size);
	return part[PARTS / 2];
}

#endif
