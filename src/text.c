// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Text output: a line per slow packet, then its path. */
#include <netinet/in.h>

#include "format.h"
#include "hop.h"

/* Widths of columns. They hold what is usual; what is longer moves the rest of its line. */
enum {
	TIME_WIDTH = 12,	/* 12:11:24.787 */
	DIRECTION_WIDTH = 3,
	PROTO_WIDTH = 5,
	ENDPOINT_WIDTH = 21,	/* any IPv4 address and port */
	TOTAL_WIDTH = 7,	/* 200.8ms */
	SLOWEST_WIDTH = 21,	/* qdisc vethc 200.3ms */
	SINCE_WIDTH = 9,	/* +9999.999 */
	DEVICE_WIDTH = 26,	/* any device name, @, any inum */
	FUNCTION_WIDTH = 22,	/* the longest name in HOPS */
};

static const uint64_t worth_a_word = 1000000;	/* ns: hops after shorter stages stay bare */

/* The words that every line of a packet carries, for grep. */
struct packet {
	char words[64];
	size_t length;
};

static size_t position(const struct format *f)
{
	return f->flushed + f->length;
}

/* Ends a column that began at `start`; one space at least parts it from the next. */
static void end_column(struct format *f, size_t start, size_t width)
{
	static const char spaces[] = "                                ";
	size_t length = position(f) - start;

	format__bytes(f, spaces, length < width ? width + 1 - length : 1);
}

static void string_column(struct format *f, const char *string, size_t width)
{
	size_t start = position(f);

	format__string(f, string);
	end_column(f, start, width);
}

void text__header(FILE *out)
{
	struct format f;

	format__begin(&f, out);
	string_column(&f, "TIME", TIME_WIDTH);
	string_column(&f, "DIR", DIRECTION_WIDTH);
	string_column(&f, "PROTO", PROTO_WIDTH);
	string_column(&f, "SOURCE", ENDPOINT_WIDTH);
	string_column(&f, "DESTINATION", ENDPOINT_WIDTH);
	string_column(&f, "TOTAL", TOTAL_WIDTH);
	format__string(&f, "SLOWEST\n");
	format__flush(&f);
}

/*
 * A name that some process chose: what could move the cursor or end a line is
 * escaped. `first` is the first character that may stand as it is: ' ', or '!'
 * where a space would end the word.
 */
static void print_name(struct format *f, const char *name, size_t size, char first)
{
	static const char hex[] = "0123456789abcdef";
	size_t length = strnlen(name, size);
	size_t i, plain;

	for (i = 0; i < length; i++) {
		for (plain = i; plain < length; plain++) {
			if (name[plain] < first || name[plain] > '~' || name[plain] == '\\')
				break;
		}
		format__bytes(f, name + i, plain - i);
		i = plain;
		if (i == length)
			break;
		format__string(f, "\\x");
		format__char(f, hex[(unsigned char)name[i] >> 4]);
		format__char(f, hex[name[i] & 15]);
	}
}

/* In the unit that gives one to three digits before the point, rounded to one after it. */
static void print_duration(struct format *f, uint64_t ns)
{
	static const struct {
		uint64_t ns;
		const char *name;
	} units[] = { { 1000, "us" }, { 1000000, "ms" }, { 1000000000, "s" } };
	enum { UNITS = sizeof(units) / sizeof(*units) };
	uint64_t tenths;
	unsigned int i;

	if (ns < units[0].ns) {
		format__number(f, ns);
		format__string(f, "ns");
		return;
	}
	for (i = 0; i < UNITS; i++) {
		/* Rounded before the unit is chosen: 999.95us is 1.0ms. */
		tenths = (ns + units[i].ns / 20) / (units[i].ns / 10);
		if (tenths < 10000 || i == UNITS - 1)
			break;
	}
	format__number(f, tenths / 10);
	format__char(f, '.');
	format__number(f, tenths % 10);
	format__string(f, units[i].name);
}

static void print_time(struct format *f, uint64_t wall)
{
	time_t seconds = wall / 1000000000;
	struct tm tm;

	localtime_r(&seconds, &tm);
	format__time_of_day(f, &tm);
	format__char(f, '.');
	format__digits(f, wall % 1000000000 / 1000000, 3);
	format__char(f, ' ');
}

static void print_endpoint(struct format *f, const struct tuple *t, const __u64 address[2],
			   uint16_t port)
{
	bool brackets = t->family == AF_INET6;

	if (!t->family) {
		format__char(f, '-');
		return;
	}
	if (brackets)
		format__char(f, '[');
	format__address(f, t, address);
	if (brackets)
		format__char(f, ']');
	format__char(f, ':');
	format__number(f, port);
}

/* NAME, or ifINDEX where the name is not known. */
static void print_device(struct format *f, const struct hop *hop, const struct names *names)
{
	struct dev_name device;

	if (format__device(hop, names, &device)) {
		print_name(f, device.name, sizeof(device.name), '!');
	} else {
		format__string(f, "if");
		format__number(f, hop->ifindex);
	}
}

/* STAGE TIME, or STAGE DEVICE TIME where a device held the packet. */
static void print_slowest(struct format *f, const struct journey *j, const struct names *names)
{
	const struct journey_hop *held_at = journey__held_at(j);

	if (!held_at) {
		format__char(f, '-');
		return;
	}
	format__stages(f, j->slowest_stages);
	format__char(f, ' ');
	if (held_at->hop->ifindex) {
		print_device(f, held_at->hop, names);
		format__char(f, ' ');
	}
	print_duration(f, j->slowest_ns);
}

/*
 * pkt=N and what names the packet on the wire. B of seq=A..B is A + len: the
 * number of the first byte after the payload, SYN and FIN not counted.
 */
static void name_packet(struct packet *p, const struct journey *j)
{
	const struct record *r = j->record;
	char *to = p->words;
	char *end = to + sizeof(p->words);

	to += snprintf(to, end - to, "pkt=%llu", (unsigned long long)j->number);
	if (r->first.proto == IPPROTO_TCP && r->segs > 1)
		to += snprintf(to, end - to, " seq=%u..%u", r->seq, r->seq + r->len);
	else if (r->first.proto == IPPROTO_TCP)
		to += snprintf(to, end - to, " seq=%u", r->seq);
	else if (format__has_ip_id(r))
		to += snprintf(to, end - to, " id=%u", r->ip_id);
	p->length = to - p->words;
}

static void print_header_words(struct format *f, const struct record *r)
{
	if (r->first.proto == IPPROTO_TCP) {
		format__string(f, " ack=");
		format__number(f, r->ack);
		format__string(f, " flags=");
		format__tcp_flags(f, r->tcp_flags);
		format__string(f, " win=");
		format__number(f, r->win);
	}
	format__string(f, " len=");
	format__number(f, r->len);
	if (r->segs > 1) {
		format__string(f, " segs=");
		format__number(f, r->segs);
	}
}

static void print_end_words(struct format *f, const struct journey *j, const struct names *names)
{
	const struct record *r = j->record;
	const char *reason = format__drop_reason(j, names);
	const char *where = format__drop_at(j, names);

	if (j->end == END_READ && r->reader_tid) {
		format__string(f, " reader=");
		print_name(f, r->reader_comm, sizeof(r->reader_comm), '!');
		format__char(f, '/');
		format__number(f, r->reader_pid);
	} else if (j->end != END_READ && j->end != END_DELIVERED && j->end != END_SENT) {
		format__string(f, " end=");
		format__string(f, format__end(j->end));
	}
	if (reason) {
		format__string(f, " reason=");
		format__string(f, reason);
	}
	if (where) {
		format__string(f, " at=");
		format__string(f, where);
	}
}

static void print_flag_words(struct format *f, const struct journey *j)
{
	const struct record *r = j->record;
	const struct tuple *last = &r->last;

	if (journey__retrans(j) == AGAIN_YES)
		format__string(f, " retrans");
	if (r->flags & RECORD_PARTIAL)
		format__string(f, " partial");
	if (r->flags & RECORD_TRUNCATED)
		format__string(f, " truncated");
	if (journey__translated(j)) {
		format__string(f, " nat=");
		print_endpoint(f, last, last->src, last->sport);
		format__char(f, '>');
		print_endpoint(f, last, last->dst, last->dport);
	}
}

static void print_packet(struct format *f, const struct journey *j, const struct packet *p,
			 const struct names *names)
{
	static const char *const directions[] = {
		[DIR_UNKNOWN] = "-",
		[DIR_RCV] = "RCV",
		[DIR_SND] = "SND",
		[DIR_LOC] = "LOC",
		[DIR_FWD] = "FWD",
	};
	const struct tuple *first = &j->record->first;
	size_t start;

	print_time(f, names->wall(names->context, j->start));
	string_column(f, directions[j->direction], DIRECTION_WIDTH);
	string_column(f, format__proto(first->proto), PROTO_WIDTH);
	start = position(f);
	print_endpoint(f, first, first->src, first->sport);
	end_column(f, start, ENDPOINT_WIDTH);
	start = position(f);
	print_endpoint(f, first, first->dst, first->dport);
	end_column(f, start, ENDPOINT_WIDTH);
	start = position(f);
	print_duration(f, j->total);
	end_column(f, start, TOTAL_WIDTH);
	start = position(f);
	print_slowest(f, j, names);
	end_column(f, start, SLOWEST_WIDTH);
	format__bytes(f, p->words, p->length);
	print_header_words(f, j->record);
	print_end_words(f, j, names);
	print_flag_words(f, j);
	format__char(f, '\n');
}

/* What the lines of a path begin with: the packet, when, and in which netns. */
static void print_step(struct format *f, const struct packet *p, bool slowest, uint64_t since_start)
{
	uint64_t us = (since_start + 500) / 1000;
	size_t start;

	format__string(f, "  ");
	format__bytes(f, p->words, p->length);
	format__string(f, slowest ? " ! " : "   ");
	start = position(f);
	format__char(f, '+');
	format__number(f, us / 1000);
	format__char(f, '.');
	format__digits(f, us % 1000, 3);
	end_column(f, start, SINCE_WIDTH);
}

/* DEVICE@NETNS; '-' where there is no device, '?' where the netns is not known. */
static void print_where(struct format *f, const struct hop *hop, const struct names *names)
{
	size_t start = position(f);

	if (hop->ifindex)
		print_device(f, hop, names);
	else
		format__char(f, '-');
	format__char(f, '@');
	if (hop->netns)
		format__number(f, hop->netns);
	else
		format__char(f, '?');
	end_column(f, start, DEVICE_WIDTH);
}

/* The packet's owner as COMM/PID, anybody else as (on COMM). */
static void print_task(struct format *f, const struct journey_hop *hop, const struct names *names)
{
	struct task_name task;
	bool known = format__task(hop, names, &task);

	format__string(f, hop->owner ? " " : " (on ");
	if (known) {
		print_name(f, task.comm, sizeof(task.comm), hop->owner ? '!' : ' ');
	} else {
		format__string(f, "tid=");
		format__number(f, hop->hop->tid);
	}
	if (hop->owner && known && hop->hop->tid) {
		format__char(f, '/');
		format__number(f, task.pid);
	}
	if (!hop->owner)
		format__char(f, ')');
}

static void print_stage(struct format *f, uint32_t stages, uint64_t ns)
{
	format__string(f, "   ");
	format__stages(f, stages);
	format__char(f, ' ');
	print_duration(f, ns);
}

static void print_hop(struct format *f, const struct journey_hop *hop, const struct packet *p,
		      bool slowest, const struct names *names)
{
	print_step(f, p, slowest, hop->since_start);
	print_where(f, hop->hop, names);
	string_column(f, hop_infos[hop->id].shown, FUNCTION_WIDTH);
	format__string(f, "cpu");
	format__number(f, hop->cpu);
	print_task(f, hop, names);
	if (hop->stages && (slowest || hop->in_stage >= worth_a_word))
		print_stage(f, hop->stages, hop->in_stage);
	format__char(f, '\n');
}

/* The line that stands for the end where no hop shows it. */
static void print_rest(struct format *f, const struct journey *j, const struct packet *p,
		       const struct names *names)
{
	static const char *const words[END_WAITING + 1] = {
		[END_WAITING] = "still waiting",
		[END_EVICTED] = "evicted",
	};

	print_step(f, p, j->slowest == j->hops, j->total);
	print_where(f, j->hop[j->hops - 1].hop, names);
	format__string(f, words[j->end] ? words[j->end] : "hop not recorded");
	print_stage(f, j->rest_stages, j->rest);
	format__char(f, '\n');
}

void text__journey(FILE *out, const struct journey *j, const struct names *names, bool oneline)
{
	struct packet packet;
	struct format f;
	unsigned int i;

	name_packet(&packet, j);
	format__begin(&f, out);
	print_packet(&f, j, &packet, names);
	for (i = 0; i < j->hops && !oneline; i++)
		print_hop(&f, &j->hop[i], &packet, i && i == j->slowest, names);
	if (j->has_rest && !oneline)
		print_rest(&f, j, &packet, names);
	format__flush(&f);
}
