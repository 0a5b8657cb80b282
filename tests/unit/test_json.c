// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "format.h"
#include "golden.h"
#include "make_record.h"

/* A record as JSON, to be freed; a waiting one has waited 512.345678 ms. */
static char *json_with(const struct record *r, const struct names *names)
{
	size_t size;
	char *json;
	FILE *out = open_memstream(&json, &size);
	struct journey j;

	assert_non_null(out);
	assert_int_equal(journey__read(&j, r, 7, START + 512345678), 0);
	json__journey(out, &j, names);
	assert_int_equal(fclose(out), 0);
	return json;
}

static void check(const char *name, struct record r)
{
	char *json = json_with(&r, &make__names);

	golden__check(name, json);
	free(json);
}

static void prints_journeys(void **state)
{
	(void)state;
	check("syn.json", make__syn());
	check("synack.json", make__synack());
	check("read.json", make__read());
	check("waiting.json", make__waiting());
	check("unread.json", make__unread());
	check("evicted.json", make__evicted());
	check("dropped.json", make__dropped());
	check("truncated.json", make__truncated());
	check("nat_gso.json", make__nat_gso());
	check("ipv6.json", make__ipv6());
}

static void leaves_out_what_is_not_known(void **state)
{
	struct record r = make__udp(0);
	char *json;

	(void)state;
	make__hop(&r, HOP_UDP_READ, 0, 0, NO_DEV, GONE);
	make__end(&r, END_READ);
	r.first = (struct tuple){ .proto = IPPROTO_UDP };
	r.last = r.first;
	json = json_with(&r, &make__names);
	assert_string_equal(json,
		"{\"pkt\":7,\"time\":\"2026-11-29T12:11:24.787123456Z\",\"mono_ns\":5000000000123,"
		"\"dir\":\"rcv\",\"proto\":\"udp\",\"len\":120,\"partial\":false,\"truncated\":false,"
		"\"total_ns\":0,\"end\":\"read\",\"hops\":[{\"func\":\"__skb_recv_udp\",\"stage\":null,"
		"\"at_ns\":0,\"cpu\":5,\"tid\":777,\"ctx\":\"owner\"}]}\n");
	free(json);
	r = make__dropped();
	r.drop_reason = NO_REASON;
	r.drop_at = 0;
	json = json_with(&r, &make__names);
	assert_null(strstr(json, "\"drop_"));
	free(json);
	r = make__waiting();
	r.drop_at = TCP_DROPS;
	r.reader_tid = RESOLVER;	/* of the packet that had the record before */
	json = json_with(&r, &make__names);
	assert_null(strstr(json, "reader"));
	assert_null(strstr(json, "drop_at"));
	free(json);
}

static void check_retrans(struct record r, const char *field)
{
	char *json = json_with(&r, &make__names);

	if (field ? !strstr(json, field) : !!strstr(json, "retrans"))
		fail_msg("%s is in: %s", field ? "something else" : "retrans", json);
	free(json);
}

static void says_what_was_sent_again_where_that_is_known(void **state)
{
	struct record r = make__synack();

	(void)state;
	check_retrans(r, "\"segs\":1,\"retrans\":false,\"partial\":false");
	r.flags = RECORD_RETRANS;
	check_retrans(r, "\"segs\":1,\"retrans\":true,\"partial\":false");
	r.flags |= RECORD_PARTIAL;
	check_retrans(r, NULL);
	r.flags = RECORD_RETRANS_UNKNOWN;
	check_retrans(r, NULL);
	check_retrans(make__syn(), NULL);	/* came from outside */
	check_retrans(make__ipv6(), NULL);	/* UDP */
}

/* Beyond one buffer: as many hops as the record has, each of them whole. */
static void prints_long_journeys(void **state)
{
	static const char hop[] =
		",\"netns\":4026532201,\"dev\":\"br-0123456789\\u001b\\u001b\",\"cpu\":5,"
		"\"pid\":666,\"tid\":666,\"comm\":\"a \\\"\\\\\\u001b[2J\\u007f\xc3\xa9.\\u00e2\\u0082\","
		"\"ctx\":\"interrupted\"}";
	struct record r = make__long();
	char *json = json_with(&r, &make__names);
	unsigned int hops = 0;
	char *at;

	(void)state;
	assert_true(strlen(json) > FORMAT_SIZE);
	for (at = json; (at = strstr(at, hop)); at++)
		hops++;
	assert_int_equal(hops, RECORD_HOPS);
	assert_string_equal(json + strlen(json) - 5, "\"}]}\n");
	free(json);
}

static int name_task(void *context, uint32_t tid, struct task_name *task)
{
	*task = (struct task_name){ .pid = tid };
	memcpy(task->comm, context, strnlen(context, COMM_LEN));
	return 0;
}

static void escapes_names(void **state)
{
	static const struct {
		const char *name, *json;
	} names[] = {
		{ "a \"b\\\n\x01\x7f", "\"a \\\"b\\\\\\u000a\\u0001\\u007f\"" },
		{ "sixteen bytes xx", "\"sixteen bytes xx\"" },	/* and no NUL */
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
		{ "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"" },
		{ "fourteen byte\xc3", "\"fourteen byte\\u00c3\"" },	/* cut */
		{ "thirteen bytes\xe2\x82", "\"thirteen bytes\\u00e2\\u0082\"" },
		{ "\x80z\xff", "\"\\u0080z\\u00ff\"" },
		{ "\xc0\xaf\xc1\xbf", "\"\\u00c0\\u00af\\u00c1\\u00bf\"" },	/* too long */
		{ "\xe0\x9f\xbf", "\"\\u00e0\\u009f\\u00bf\"" },
		{ "\xf0\x8f\xbf\xbf", "\"\\u00f0\\u008f\\u00bf\\u00bf\"" },
		{ "\xed\xa0\x80", "\"\\u00ed\\u00a0\\u0080\"" },	/* a surrogate */
		{ "\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\"" },	/* beyond Unicode */
		{ "\xe2\x82z", "\"\\u00e2\\u0082z\"" },
	};
	struct names source = make__names;
	struct record r = make__udp(1);
	size_t i;

	(void)state;
	make__hop(&r, HOP_UDP_ENQUEUE, 0, POD, NO_DEV, RESOLVER);
	make__end(&r, END_UNREAD);
	source.task = name_task;
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char expected[256];
		char *json;

		source.context = (void *)names[i].name;
		json = json_with(&r, &source);
		snprintf(expected, sizeof(expected), "\"comm\":%s,", names[i].json);
		if (!strstr(json, expected))
			fail_msg("%s is not in: %s", expected, json);
		free(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prints_journeys),
		cmocka_unit_test(leaves_out_what_is_not_known),
		cmocka_unit_test(says_what_was_sent_again_where_that_is_known),
		cmocka_unit_test(prints_long_journeys),
		cmocka_unit_test(escapes_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
