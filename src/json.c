// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* JSON output: an object per line. A field that is not known is left out. */
#include <netinet/in.h>

#include "format.h"
#include "hop.h"

/*
 * All keys below carry what stands before them ('{' or ','), their quotes and the
 * colon. Inlined, so that a key's length is known and it is copied without a call.
 */
#define INLINE static inline __attribute__((always_inline))

INLINE void put_number(struct format *f, const char *key, uint64_t n)
{
	format__string(f, key);
	format__number(f, n);
}

/* A string that needs no escapes. */
INLINE void put_word(struct format *f, const char *key, const char *word)
{
	format__string(f, key);
	format__char(f, '"');
	format__string(f, word);
	format__char(f, '"');
}

INLINE void put_bool(struct format *f, const char *key, bool value)
{
	format__string(f, key);
	format__string(f, value ? "true" : "false");
}

/* The length of the UTF-8 sequence at `at`; 0: no valid one. */
static size_t utf8_length(const unsigned char *at, size_t left)
{
	static const struct {
		unsigned char low, high;	/* of the first byte */
		unsigned char second_low, second_high;	/* neither too long nor a surrogate */
		size_t length;
	} forms[] = {
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 },
		{ 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};
	size_t i, byte;

	for (i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		if (*at >= forms[i].low && *at <= forms[i].high)
			break;
	}
	if (i == sizeof(forms) / sizeof(*forms) || forms[i].length > left)
		return 0;
	if (at[1] < forms[i].second_low || at[1] > forms[i].second_high)
		return 0;
	for (byte = 2; byte < forms[i].length; byte++) {
		if ((at[byte] & 0xc0) != 0x80)
			return 0;
	}
	return forms[i].length;
}

/* How many ASCII characters from here on need no escape. */
static size_t plain_length(const char *at, size_t left)
{
	static const char special[128] = {
		[0 ... ' ' - 1] = 1, ['"'] = 1, ['\\'] = 1, [127] = 1,
	};
	size_t i = 0;

	while (i < left && at[i] >= 0 && !special[(unsigned char)at[i]])
		i++;
	return i;
}

/* A name that some process chose: any bytes, perhaps cut inside of a character. */
static void put_quoted(struct format *f, const char *name, size_t size)
{
	static const char hex[] = "0123456789abcdef";
	size_t length = strnlen(name, size);
	size_t i, step;

	format__char(f, '"');
	for (i = 0; i < length; i += step) {
		unsigned char c = name[i];

		step = plain_length(name + i, length - i);
		if (!step)
			step = utf8_length((const unsigned char *)name + i, length - i);
		if (step) {
			format__bytes(f, name + i, step);
			continue;
		}
		step = 1;
		if (c == '"' || c == '\\') {
			format__char(f, '\\');
			format__char(f, c);
		} else {
			format__string(f, "\\u00");
			format__char(f, hex[c >> 4]);
			format__char(f, hex[c & 15]);
		}
	}
	format__char(f, '"');
}

INLINE void put_name(struct format *f, const char *key, const char *name, size_t size)
{
	format__string(f, key);
	put_quoted(f, name, size);
}

INLINE void put_stage(struct format *f, const char *key, uint32_t stages)
{
	format__string(f, key);
	format__char(f, '"');
	format__stages(f, stages);
	format__char(f, '"');
}

static void put_time(struct format *f, const char *key, uint64_t wall)
{
	time_t seconds = wall / 1000000000;
	struct tm tm;

	gmtime_r(&seconds, &tm);
	format__string(f, key);
	format__char(f, '"');
	format__digits(f, tm.tm_year + 1900, 4);
	format__char(f, '-');
	format__digits(f, tm.tm_mon + 1, 2);
	format__char(f, '-');
	format__digits(f, tm.tm_mday, 2);
	format__char(f, 'T');
	format__time_of_day(f, &tm);
	format__char(f, '.');
	format__digits(f, wall % 1000000000, 9);
	format__string(f, "Z\"");
}

/* The four fields of a tuple, without braces. */
static void put_tuple(struct format *f, const char *before, const struct tuple *t)
{
	format__string(f, before);
	format__string(f, "\"src\":\"");
	format__address(f, t, t->src);
	put_number(f, "\",\"sport\":", t->sport);
	format__string(f, ",\"dst\":\"");
	format__address(f, t, t->dst);
	put_number(f, "\",\"dport\":", t->dport);
}

/* seq_end is seq + len: the number of the first byte after the payload, SYN and FIN not counted. */
static void put_headers(struct format *f, const struct record *r)
{
	bool tcp = r->first.proto == IPPROTO_TCP;

	if (tcp) {
		put_number(f, ",\"seq\":", r->seq);
		put_number(f, ",\"seq_end\":", r->seq + r->len);
		put_number(f, ",\"ack\":", r->ack);
		format__string(f, ",\"flags\":\"");
		format__tcp_flags(f, r->tcp_flags);
		put_number(f, "\",\"win\":", r->win);
	}
	put_number(f, ",\"len\":", r->len);
	if (format__has_ip_id(r))
		put_number(f, ",\"id\":", r->ip_id);
	if (r->segs)
		put_number(f, ",\"segs\":", r->segs);
}

static void put_device(struct format *f, const struct hop *hop, const struct names *names)
{
	struct dev_name device;

	if (format__device(hop, names, &device))
		put_name(f, ",\"dev\":", device.name, sizeof(device.name));
	else if (hop->ifindex)
		put_number(f, ",\"ifindex\":", hop->ifindex);
}

static void put_netns(struct format *f, const struct hop *hop)
{
	if (hop->netns)
		put_number(f, ",\"netns\":", hop->netns);
}

static void put_slowest(struct format *f, const struct journey *j, const struct names *names)
{
	const struct journey_hop *from = journey__slowest_from(j);
	const struct journey_hop *held_at = journey__held_at(j);

	if (!from)
		return;
	put_stage(f, ",\"slowest\":{\"stage\":", j->slowest_stages);
	put_number(f, ",\"ns\":", j->slowest_ns);
	put_word(f, ",\"from\":", hop_infos[from->id].shown);
	if (j->slowest < j->hops)
		put_word(f, ",\"to\":", hop_infos[j->hop[j->slowest].id].shown);
	put_device(f, held_at->hop, names);
	put_netns(f, held_at->hop);
	format__char(f, '}');
}

static void put_end(struct format *f, const struct journey *j, const struct names *names)
{
	const char *reason = format__drop_reason(j, names);
	const char *where = format__drop_at(j, names);

	put_number(f, ",\"total_ns\":", j->total);
	put_word(f, ",\"end\":", format__end(j->end));
	if (reason)
		put_word(f, ",\"drop_reason\":", reason);
	if (where)
		put_word(f, ",\"drop_at\":", where);
}

static void put_nat(struct format *f, const struct journey *j)
{
	if (!journey__translated(j))
		return;
	put_tuple(f, ",\"nat\":{", &j->record->last);
	format__char(f, '}');
}

static void put_reader(struct format *f, const struct journey *j)
{
	const struct record *r = j->record;

	if (j->end != END_READ || !r->reader_tid)
		return;
	put_number(f, ",\"reader\":{\"pid\":", r->reader_pid);
	put_number(f, ",\"tid\":", r->reader_tid);
	put_name(f, ",\"comm\":", r->reader_comm, sizeof(r->reader_comm));
	format__char(f, '}');
}

static void put_hop(struct format *f, const struct journey_hop *hop, const struct names *names)
{
	struct task_name task;
	bool known = format__task(hop, names, &task);

	put_word(f, "{\"func\":", hop_infos[hop->id].shown);
	if (hop->stages)
		put_stage(f, ",\"stage\":", hop->stages);
	else
		format__string(f, ",\"stage\":null");
	put_number(f, ",\"at_ns\":", hop->since_start);
	put_netns(f, hop->hop);
	put_device(f, hop->hop, names);
	put_number(f, ",\"cpu\":", hop->cpu);
	if (known)
		put_number(f, ",\"pid\":", task.pid);
	put_number(f, ",\"tid\":", hop->hop->tid);
	if (known)
		put_name(f, ",\"comm\":", task.comm, sizeof(task.comm));
	put_word(f, ",\"ctx\":", hop->owner ? "owner" : "interrupted");
	format__char(f, '}');
}

static void put_hops(struct format *f, const struct journey *j, const struct names *names)
{
	unsigned int i;

	format__string(f, ",\"hops\":[");
	for (i = 0; i < j->hops; i++) {
		if (i)
			format__char(f, ',');
		put_hop(f, &j->hop[i], names);
	}
	format__char(f, ']');
}

void json__journey(FILE *out, const struct journey *j, const struct names *names)
{
	static const char *const directions[] = {
		[DIR_UNKNOWN] = "unknown",
		[DIR_RCV] = "rcv",
		[DIR_SND] = "snd",
		[DIR_LOC] = "loc",
		[DIR_FWD] = "fwd",
	};
	const struct record *r = j->record;
	enum again again = journey__retrans(j);
	struct format f;

	format__begin(&f, out);
	put_number(&f, "{\"pkt\":", j->number);
	put_time(&f, ",\"time\":", names->wall(names->context, j->start));
	put_number(&f, ",\"mono_ns\":", j->start);
	put_word(&f, ",\"dir\":", directions[j->direction]);
	put_word(&f, ",\"proto\":", format__proto(r->first.proto));
	if (r->first.family)
		put_tuple(&f, ",", &r->first);
	put_headers(&f, r);
	if (again != AGAIN_UNKNOWN)
		put_bool(&f, ",\"retrans\":", again == AGAIN_YES);
	put_bool(&f, ",\"partial\":", r->flags & RECORD_PARTIAL);
	put_bool(&f, ",\"truncated\":", r->flags & RECORD_TRUNCATED);
	put_end(&f, j, names);
	put_slowest(&f, j, names);
	put_nat(&f, j);
	put_reader(&f, j);
	put_hops(&f, j, names);
	format__string(&f, "}\n");
	format__flush(&f);
}
