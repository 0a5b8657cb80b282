// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* slowpkt: prints the packets that the network stack held too long, and where. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"
#include "options.h"
#include "report.h"
#include "tracer.h"

static const uint64_t SWEEP_EVERY = 1000000000;	/* ns */

static volatile sig_atomic_t stop, tell;

struct output {
	const struct options *options;
	struct tracer *tracer;
	uint64_t printed;	/* packets */
	uint64_t torn;	/* written by two packets at once: not printed */
	bool closed;	/* nobody reads stdout any more */
};

static void on_stop(int sig)
{
	(void)sig;
	stop = 1;
}

static void on_tell(int sig)
{
	(void)sig;
	tell = 1;
}

static void catch_signals(void)
{
	struct sigaction quit = { .sa_handler = on_stop }, counts = { .sa_handler = on_tell };

	sigaction(SIGINT, &quit, NULL);
	sigaction(SIGTERM, &quit, NULL);
	sigaction(SIGUSR1, &counts, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Flushed at each packet, so that a reader of the pipe has it at once. */
static void flush(struct output *out)
{
	if (fflush(stdout) || ferror(stdout))
		out->closed = true;
}

/* Nothing more is to be printed. */
static bool is_full(const struct output *out)
{
	return out->closed || (out->options->count && out->printed >= out->options->count);
}

static void print(void *context, const struct record *record, uint64_t number)
{
	struct output *out = context;
	struct journey j;

	if (is_full(out))
		return;
	if (journey__read(&j, record, number, record->end_at) ||
	    !journey__is_slow(&j, &out->options->config)) {
		out->torn++;
		return;
	}
	if (out->options->json)
		json__journey(stdout, &j, tracer__names(out->tracer));
	else
		text__journey(stdout, &j, tracer__names(out->tracer), out->options->oneline);
	flush(out);
	/* one that was waiting is printed again at its end, but is one packet */
	if (!out->closed && record->reported != record->gen)
		out->printed++;
}

static void announce(struct output *out)
{
	report__ready(stderr, out->options);
	if (!out->options->json && !out->options->quiet)
		text__header(stdout);
	flush(out);
}

static int until(uint64_t when, uint64_t now)
{
	return when <= now ? 0 : (when - now + 999999) / 1000000;
}

/* Polls and sweeps until something ends it. Returns 0 or -errno. */
static int run(struct output *out)
{
	uint64_t start = clock__mono(), now = start, next = start + SWEEP_EVERY;
	uint64_t end = out->options->duration ? start + out->options->duration : UINT64_MAX;
	int err;

	while (!stop && !is_full(out) && now < end) {
		err = tracer__poll(out->tracer, until(next < end ? next : end, now));
		if (err && err != -EINTR)
			return err;
		if (tell) {
			tell = 0;
			report__counts(stderr, out->options, out->tracer, out->printed, out->torn);
		}
		now = clock__mono();
		if (now >= next) {
			tracer__sweep(out->tracer);
			next = now + SWEEP_EVERY;
		}
	}
	tracer__drain(out->tracer);
	return 0;
}

int main(int argc, char **argv)
{
	static struct options options;
	struct output out = { .options = &options };
	int err;

	options__parse(&options, argc, argv);
	if (options.list_hooks)
		return check__list(stdout);
	if (options.check)
		return check__run(&options, stdout);
	catch_signals();
	/* the printers have a buffer of their own, so each journey is one write */
	setvbuf(stdout, NULL, _IONBF, 0);
	out.tracer = tracer__open(&options, print, &out);
	if (!out.tracer)
		return EXIT_FAILURE;
	announce(&out);
	err = run(&out);
	if (err)
		fprintf(stderr, "slowpkt: cannot read the ring buffer: %s\n", strerror(-err));
	report__counts(stderr, &options, out.tracer, out.printed, out.torn);
	tracer__close(out.tracer);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
