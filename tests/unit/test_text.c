// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <cmocka.h>

#include "format.h"
#include "golden.h"
#include "make_record.h"

/* A record as text, to be freed; a waiting one has waited 512.345678 ms. */
static char *text_of_number(const struct record *r, uint64_t number, bool oneline)
{
	size_t size;
	char *text;
	FILE *out = open_memstream(&text, &size);
	struct journey j;

	assert_non_null(out);
	assert_int_equal(journey__read(&j, r, number, START + 512345678), 0);
	text__journey(out, &j, &make__names, oneline);
	assert_int_equal(fclose(out), 0);
	return text;
}

static char *text_of(const struct record *r, bool oneline)
{
	return text_of_number(r, 7, oneline);
}

static void check(const char *name, struct record r)
{
	char *text = text_of(&r, false);

	golden__check(name, text);
	free(text);
}

static void prints_journeys(void **state)
{
	(void)state;
	check("syn.txt", make__syn());
	check("synack.txt", make__synack());
	check("read.txt", make__read());
	check("waiting.txt", make__waiting());
	check("unread.txt", make__unread());
	check("evicted.txt", make__evicted());
	check("dropped.txt", make__dropped());
	check("truncated.txt", make__truncated());
	check("nat_gso.txt", make__nat_gso());
	check("ipv6.txt", make__ipv6());
}

static void prints_the_header(void **state)
{
	size_t size;
	char *text;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	text__header(out);
	fclose(out);
	assert_string_equal(text,
		"TIME         DIR PROTO SOURCE                DESTINATION           TOTAL   SLOWEST\n");
	free(text);
}

static void prints_one_line_where_asked(void **state)
{
	struct record r = make__waiting();
	char *whole = text_of(&r, false), *line = text_of(&r, true);

	(void)state;
	assert_ptr_equal(strchr(line, '\n') + 1, line + strlen(line));
	assert_memory_equal(line, whole, strlen(line));
	free(whole);
	free(line);
}

static void marks_the_slowest_stage_however_short(void **state)
{
	struct record r = make__udp(1);
	char *text;

	(void)state;
	make__hop(&r, HOP_UDP_ENQUEUE, 0, POD, NO_DEV, IDLE);
	make__hop(&r, HOP_UDP_READ, 3000, POD, NO_DEV, IDLE);
	make__end(&r, END_READ);
	r.hop[1].where |= WHERE_OWNER;	/* the idle task's name says its PID */
	text = text_of(&r, false);
	assert_non_null(strstr(text, " ! +0.003 "));
	assert_non_null(strstr(text, " cpu5 swapper/5   socket 3.0us\n"));
	free(text);
}

/* With packet numbers of every length, so that the buffer fills up in every column. */
static void keeps_columns_beyond_one_buffer(void **state)
{
	static const char step[] =
		"br-0123456789\\x1b\\x1b@4026532201 netif_rx               cpu5 (on ";
	struct record r = make__long();
	uint64_t number;

	(void)state;
	for (number = 1; number < 1000000000000000000; number *= 10) {
		char *text = text_of_number(&r, number, false);
		char *line = strchr(text, '\n') + 1;	/* after the packet's own line */
		unsigned int lines = 0;

		assert_true(strlen(text) > FORMAT_SIZE);
		for (; *line; line = strchr(line, '\n') + 1) {
			char *since = strchr(line, '+');

			assert_memory_equal(line, "  pkt=1", 7);
			assert_memory_equal(since + 10, step, strlen(step));
			lines++;
		}
		assert_int_equal(lines, RECORD_HOPS);
		free(text);
	}
}

static void assert_contains(const struct record *r, const char *words)
{
	char *text = text_of(r, true);

	if (!strstr(text, words))
		fail_msg("'%s' is not in: %s", words, text);
	free(text);
}

static void assert_lacks(const struct record *r, const char *words)
{
	char *text = text_of(r, true);

	if (strstr(text, words))
		fail_msg("'%s' is in: %s", words, text);
	free(text);
}

static void rounds_to_one_decimal_of_the_unit_that_fits(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} times[] = {
		{ 0, " 0ns " }, { 812, " 812ns " }, { 999, " 999ns " },
		{ 1000, " 1.0us " }, { 1049, " 1.0us " }, { 1050, " 1.1us " },
		{ 3249, " 3.2us " }, { 999949, " 999.9us " }, { 999950, " 1.0ms " },
		{ 200849999, " 200.8ms " }, { 999949999, " 999.9ms " }, { 999950000, " 1.0s " },
		{ 12345678901, " 12.3s " }, { 59999600000, " 60.0s " }, { 3600000000000, " 3600.0s " },
		{ 1000000000000000, " 1000000.0s " },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(times) / sizeof(*times); i++) {
		struct record r = make__udp(1);

		make__hop(&r, HOP_UDP_ENQUEUE, 0, POD, NO_DEV, IDLE);
		make__hop(&r, HOP_UDP_READ, times[i].ns, POD, NO_DEV, IDLE);
		make__end(&r, END_READ);
		assert_contains(&r, times[i].text);
	}
}

static void prints_tcp_flags(void **state)
{
	static const struct {
		uint8_t flags;
		const char *text;
	} flags[] = {
		{ 0x00, " flags=none " }, { 0x02, " flags=S " }, { 0x12, " flags=S. " },
		{ 0x11, " flags=F. " }, { 0x18, " flags=P. " }, { 0x04, " flags=R " },
		{ 0xff, " flags=FSRPUEW. " },
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		struct record r = make__syn();

		r.tcp_flags = flags[i].flags;
		assert_contains(&r, flags[i].text);
	}
}

static void adds_words_only_where_they_apply(void **state)
{
	struct record r = make__dropped();
	char *text;

	(void)state;
	r.drop_reason = NO_REASON;
	assert_contains(&r, " end=dropped at=tcp_data_queue_ofo partial\n");
	r.drop_at = 1;
	assert_contains(&r, " end=dropped partial\n");
	r.drop_at = TCP_DROPS;
	r.drop_reason = 0;	/* a kernel that gives none */
	assert_lacks(&r, "reason=");
	r.drop_reason = OFO_QUEUE;
	r.end = END_DELIVERED;
	assert_lacks(&r, " end=");
	assert_lacks(&r, "reason=");
	assert_lacks(&r, "at=tcp");
	r = make__synack();
	assert_lacks(&r, "retrans");
	r.flags = RECORD_RETRANS;
	assert_contains(&r, " len=0 retrans\n");
	r.flags |= RECORD_PARTIAL;
	assert_contains(&r, " len=0 partial\n");
	r = make__waiting();
	r.reader_tid = RESOLVER;	/* of the packet that had the record before */
	assert_lacks(&r, "reader=");
	r = make__ipv6();
	r.ip_id = 5;
	assert_lacks(&r, "id=");
	r = make__syn();
	assert_lacks(&r, "segs=");
	assert_lacks(&r, "..");
	r = make__udp(0);	/* the id is not known */
	make__hop(&r, HOP_UDP_ENQUEUE, 0, POD, NO_DEV, IDLE);
	make__end(&r, END_EVICTED);
	assert_contains(&r, " 0ns     -                     pkt=7 len=120 end=evicted\n");
	text = text_of(&r, false);
	assert_null(strchr(text, '!'));	/* no stage, so no slowest one */
	free(text);
	r.first = (struct tuple){ .proto = IPPROTO_UDP };
	r.last = r.first;
	assert_contains(&r, " udp   -                     -                     0ns ");
}

static void tells_local_time(void **state)
{
	struct record r = make__syn();
	char *text;

	(void)state;
	setenv("TZ", "CET-1", 1);
	tzset();
	text = text_of(&r, true);
	setenv("TZ", "UTC", 1);
	tzset();
	assert_memory_equal(text, "13:11:24.787 ", 13);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prints_journeys),
		cmocka_unit_test(prints_the_header),
		cmocka_unit_test(prints_one_line_where_asked),
		cmocka_unit_test(marks_the_slowest_stage_however_short),
		cmocka_unit_test(keeps_columns_beyond_one_buffer),
		cmocka_unit_test(rounds_to_one_decimal_of_the_unit_that_fits),
		cmocka_unit_test(prints_tcp_flags),
		cmocka_unit_test(adds_words_only_where_they_apply),
		cmocka_unit_test(tells_local_time),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
