/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Command lines for the unit tests: a file that includes it is a program of its
 * own. All is inline, as no program uses everything.
 */
#ifndef SLOWPKT_TEST_COMMAND_H
#define SLOWPKT_TEST_COMMAND_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"

/* those that no stage is needed for */
#define ALL_HOPS (((1u << HOP_IDS) - 1) & ~ARRIVAL_HOPS)
#define ARRIVAL_HOPS (1u << HOP_NAPI_GRO_RECEIVE | 1u << HOP_NAPI_GRO_FRAGS | 1u << HOP_NETIF_RECEIVE_SKB_ENTRY | \
		      1u << HOP_NETIF_RECEIVE_SKB_LIST | 1u << HOP_ENQUEUE_TO_BACKLOG)
#define LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { RETURNED = 100, NOT_ALLOWED = 101, OUTPUT_MAX = 16384 };

/* What the last command line gave. */
static struct options *o;
static char out[OUTPUT_MAX], err[OUTPUT_MAX];

/* options__parse() ends the process, so each command line is read by a child. */
static inline int run_in(int (*prepare)(void), const char *const *args)
{
	FILE *files[] = { tmpfile(), tmpfile() };
	char *texts[] = { out, err };
	char *argv[80] = { (char *)"/opt/bin/slowpkt" };
	int argc = 1, status;
	pid_t pid;

	for (; args[argc - 1]; argc++)
		argv[argc] = (char *)args[argc - 1];
	assert_in_range(argc, 1, LEN(argv) - 1);
	memset(o, 0x55, sizeof(*o));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		dup2(fileno(files[0]), STDOUT_FILENO);
		dup2(fileno(files[1]), STDERR_FILENO);
		if (prepare && prepare())
			_exit(NOT_ALLOWED);
		options__parse(o, argc, argv);
		fflush(NULL);
		_exit(RETURNED);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	for (size_t i = 0; i < LEN(files); i++) {
		rewind(files[i]);
		texts[i][fread(texts[i], 1, OUTPUT_MAX - 1, files[i])] = '\0';
		fclose(files[i]);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define ARGS(...) ((const char *const[]){ __VA_ARGS__ __VA_OPT__(,) NULL })

static inline void accepted(const char *const *args)
{
	int status = run_in(NULL, args);

	if (status != RETURNED)
		fail_msg("exit %d: %s", status, err);
	assert_string_equal(out, "");
}

#define ACCEPT(...) accepted(ARGS(__VA_ARGS__))
#define ACCEPT_QUIETLY(...) do { ACCEPT(__VA_ARGS__); assert_string_equal(err, ""); } while (0)

/* Refused with 64, one line that begins so, and the way to the help. */
static inline void refused(const char *message, const char *const *args)
{
	static const char name[] = "slowpkt: ", help[] = "Try 'slowpkt --help'\n";
	int status = run_in(NULL, args);
	char *end;

	if (status != EXIT_BAD_USAGE || strncmp(err, name, strlen(name)) ||
	    strncmp(err + strlen(name), message, strlen(message)))
		fail_msg("exit %d, not '%s': %s", status, message, err);
	assert_string_equal(out, "");
	end = strchr(err, '\n');
	assert_non_null(end);
	assert_string_equal(end + 1, help);
}

#define REFUSE(message, ...) refused(message, ARGS(__VA_ARGS__))

/* n times the same option and value. */
static inline const char *const *repeat(const char *option, const char *value, int n)
{
	static const char *args[80];
	int i = 0;

	while (n--) {
		args[i++] = option;
		args[i++] = value;
	}
	args[i] = NULL;
	return args;
}

static inline int map_options(void **state)
{
	(void)state;
	o = mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return o == MAP_FAILED ? -1 : 0;
}

static inline int unmap_options(void **state)
{
	(void)state;
	return munmap(o, sizeof(*o));
}

#endif
