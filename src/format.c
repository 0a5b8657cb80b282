// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the printers share. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "format.h"
#include "stage.h"

enum { MAX_DIGITS = 20 };	/* of UINT64_MAX */

void format__flush(struct format *f)
{
	fwrite(f->text, 1, f->length, f->out);
	f->flushed += f->length;
	f->length = 0;
}

/* Digits are made two by two: numbers are a quarter of what a journey costs. */
void format__digits(struct format *f, uint64_t n, unsigned int digits)
{
	static const char pairs[] =
		"00010203040506070809" "10111213141516171819"
		"20212223242526272829" "30313233343536373839"
		"40414243444546474849" "50515253545556575859"
		"60616263646566676869" "70717273747576777879"
		"80818283848586878889" "90919293949596979899";
	char text[MAX_DIGITS];
	char *end = text + sizeof(text);
	char *at = end;

	while (n >= 10) {
		at -= 2;
		memcpy(at, pairs + 2 * (n % 100), 2);
		n /= 100;
	}
	if (n)
		*--at = '0' + n;
	while (at > end - digits)
		*--at = '0';
	format__bytes(f, at, end - at);
}

void format__number(struct format *f, uint64_t n)
{
	format__digits(f, n, 1);
}

void format__time_of_day(struct format *f, const struct tm *tm)
{
	format__digits(f, tm->tm_hour, 2);
	format__char(f, ':');
	format__digits(f, tm->tm_min, 2);
	format__char(f, ':');
	format__digits(f, tm->tm_sec, 2);
}

static void format_ipv4(struct format *f, const uint8_t byte[4])
{
	int i;

	for (i = 0; i < 4; i++) {
		if (i)
			format__char(f, '.');
		format__number(f, byte[i]);
	}
}

void format__address(struct format *f, const struct tuple *t, const __u64 address[2])
{
	const uint8_t *byte = (const uint8_t *)address;
	char text[INET6_ADDRSTRLEN];

	if (t->family == AF_INET)
		format_ipv4(f, byte + 12);
	else
		format__string(f, inet_ntop(AF_INET6, byte, text, sizeof(text)));
}

void format__tcp_flags(struct format *f, uint8_t flags)
{
	/* tcpdump's order, which is not that of the bits */
	static const struct {
		uint8_t bit;
		char letter;
	} letters[] = {
		{ 0x01, 'F' }, { 0x02, 'S' }, { 0x04, 'R' }, { 0x08, 'P' },
		{ 0x20, 'U' }, { 0x40, 'E' }, { 0x80, 'W' }, { 0x10, '.' },
	};
	unsigned int i;

	if (!flags)
		format__string(f, "none");
	for (i = 0; i < sizeof(letters) / sizeof(*letters); i++) {
		if (flags & letters[i].bit)
			format__char(f, letters[i].letter);
	}
}

void format__stages(struct format *f, uint32_t stages)
{
	char text[STAGE_TEXT];

	/* Nearly every hop ends one stage only, and needs no joining. */
	if (!(stages & (stages - 1)))
		format__string(f, stage__name(__builtin_ctz(stages)));
	else
		format__string(f, stage__format(stages, text));
}

const char *format__end(enum record_end end)
{
	static const char *const names[] = {
		[END_NONE] = "unknown",
		[END_DELIVERED] = "delivered",
		[END_READ] = "read",
		[END_SENT] = "sent",
		[END_DROPPED] = "dropped",
		[END_UNREAD] = "unread",
		[END_EVICTED] = "evicted",
		[END_UNKNOWN] = "unknown",
		[END_WAITING] = "waiting",
	};

	return names[end];
}

const char *format__proto(uint8_t proto)
{
	return proto == IPPROTO_TCP ? "tcp" : "udp";
}

const char *format__drop_reason(const struct journey *j, const struct names *names)
{
	/* 0 is SKB_NOT_DROPPED_YET: a kernel that gives no reasons */
	if (j->end != END_DROPPED || !j->record->drop_reason)
		return NULL;
	return names->drop_reason(names->context, j->record->drop_reason);
}

const char *format__drop_at(const struct journey *j, const struct names *names)
{
	if (j->end != END_DROPPED)
		return NULL;
	return names->function(names->context, j->record->drop_at);
}

/* The idle tasks of all CPUs share tid 0, so a table by tid cannot name them. */
static void name_idle_task(unsigned int cpu, struct task_name *task)
{
	char digits[COMM_LEN];
	char *at = digits + sizeof(digits);

	*--at = '\0';
	do {
		*--at = '0' + cpu % 10;
		cpu /= 10;
	} while (cpu);
	task->pid = 0;
	strcpy(stpcpy(task->comm, "swapper/"), at);
}

bool format__task(const struct journey_hop *hop, const struct names *names, struct task_name *task)
{
	if (!hop->hop->tid) {
		name_idle_task(hop->cpu, task);
		return true;
	}
	return !names->task(names->context, hop->hop->tid, task);
}

bool format__device(const struct hop *hop, const struct names *names, struct dev_name *name)
{
	struct dev_key key = { .netns = hop->netns, .ifindex = hop->ifindex };

	return hop->ifindex && !names->device(names->context, key, name);
}
