/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the printers share: the words for the numbers of a record, and the
 * buffer in which a journey is put together. It has hundreds of small pieces,
 * and fprintf costs hundreds of instructions for each.
 */
#ifndef SLOWPKT_FORMAT_H
#define SLOWPKT_FORMAT_H

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>

#include "journey.h"
#include "print.h"

enum { FORMAT_SIZE = 4096 };	/* a usual journey is one write */

struct format {
	FILE *out;
	size_t length;		/* of text[] */
	size_t flushed;		/* bytes written before them */
	char text[FORMAT_SIZE];
};

static inline void format__begin(struct format *f, FILE *out)
{
	f->out = out;
	f->length = 0;
	f->flushed = 0;
}

/* Writes what is in the buffer; to be called at the end. */
void format__flush(struct format *f);

/* size: at most FORMAT_SIZE */
static inline void format__bytes(struct format *f, const char *bytes, size_t size)
{
	if (size > sizeof(f->text) - f->length)
		format__flush(f);
	memcpy(f->text + f->length, bytes, size);
	f->length += size;
}

static inline void format__string(struct format *f, const char *string)
{
	format__bytes(f, string, strlen(string));
}

static inline void format__char(struct format *f, char c)
{
	format__bytes(f, &c, 1);
}

void format__number(struct format *f, uint64_t n);
/* With leading zeros up to so many digits, 20 at most. */
void format__digits(struct format *f, uint64_t n, unsigned int digits);
/* HH:MM:SS */
void format__time_of_day(struct format *f, const struct tm *tm);
/* A tuple's address without its port. */
void format__address(struct format *f, const struct tuple *t, const __u64 address[2]);
/* TCP flags in tcpdump's letters; "none" where there are none. */
void format__tcp_flags(struct format *f, uint8_t flags);
/* The names of a mask of stages, joined by '+'. */
void format__stages(struct format *f, uint32_t stages);

const char *format__end(enum record_end end);
const char *format__proto(uint8_t proto);

/* The IP id, where there is one that is known. */
static inline bool format__has_ip_id(const struct record *r)
{
	return r->first.family == AF_INET && r->ip_id;
}

/* NULL where the packet was not dropped or nobody knows why. */
const char *format__drop_reason(const struct journey *j, const struct names *names);
/* The function that dropped the packet; NULL where it was not dropped or that is not known. */
const char *format__drop_at(const struct journey *j, const struct names *names);
/* The current task of a hop; false: not known. The idle task needs no look-up. */
bool format__task(const struct journey_hop *hop, const struct names *names, struct task_name *task);
/* False: the hop has no device, or its name is not known. */
bool format__device(const struct hop *hop, const struct names *names, struct dev_name *name);

#endif
