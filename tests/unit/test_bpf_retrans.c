// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether a segment that a socket sends is told from one that it sends again. */
#include "host/journey_host.h"

enum { FIN = 1, SYN = 2, ACK = 16 };

/* The flags of what a segment's journey says of it, once it is printed. */
static u32 flags_of(const struct wire *w, u32 sent_before)
{
	struct fake *f = fill(0, w);
	struct record *r;

	host.sent_before = sent_before;
	step_send(f, &pod_sock);
	r = record_of(f);
	assert_non_null(r);
	return r->flags & (RECORD_RETRANS | RECORD_RETRANS_UNKNOWN);
}

static struct wire segment(const struct wire *like, u8 flags, u32 len)
{
	struct wire w = *like;

	w.flags = flags;
	w.len = len;
	return w;
}

static void check_family(const struct wire *like)
{
	struct wire data = segment(like, ACK, 100), fin = segment(like, FIN | ACK, 0);
	struct wire syn = segment(like, SYN, 0), ack = segment(like, ACK, 0);

	assert_int_equal(flags_of(&data, 0), 0);
	assert_int_equal(flags_of(&fin, 0), 0);
	assert_int_equal(flags_of(&syn, 0), 0);
	assert_int_equal(flags_of(&data, 100), RECORD_RETRANS);
	assert_int_equal(flags_of(&data, 5000), RECORD_RETRANS);
	assert_int_equal(flags_of(&fin, 1), RECORD_RETRANS);
	assert_int_equal(flags_of(&syn, 1), RECORD_RETRANS);
	/* beyond what was sent: a socket that was told its numbers (TCP_REPAIR) */
	assert_int_equal(flags_of(&data, -1u), 0);
	/* an ACK, and a keepalive or window probe, which takes a number from below */
	assert_int_equal(flags_of(&ack, 0), 0);
	assert_int_equal(flags_of(&ack, 1), 0);
	/* over the end of the numbers */
	data.seq = 0xffffffc0;
	assert_int_equal(flags_of(&data, 0), 0);
	assert_int_equal(flags_of(&data, 100), RECORD_RETRANS);
}

static void test_segments(void **state)
{
	(void)state;
	check_family(&tcp4);
	check_family(&tcp6);
}

/* What a request has in common with a socket lies where no test looks. */
static union {
	struct sock sk;
	struct tcp_request_sock tcp;
} request;

static u32 synack_flags(const struct wire *like, struct sock *sk, u64 first_us, u64 sent_ns)
{
	struct wire w = segment(like, SYN | ACK, 0);
	struct fake *f = fill(0, &w);
	struct sock listener = { .__sk_common = { .skc_state = TCP_LISTEN, .skc_net = { &pod_net } },
				 .sk_protocol = IPPROTO_TCP };
	struct flowi6 flow = {};
	struct record *r;

	request.tcp.snt_synack = first_us;
	request.sk.__sk_common.skc_state = TCP_NEW_SYN_RECV;
	f->skb.sk = sk;
	f->skb.skb_mstamp_ns = sent_ns;
	/* what a listener has sent is nothing that says anything of this */
	host.tcp.snd_nxt = w.seq + 1;
	step(f, NULL, l4_of(f), NOWHERE);
	if (w.v6)
		hook_ip6_xmit(NULL, &listener, &f->skb, &flow);
	else
		hook_ip_build_and_send_pkt(NULL, &f->skb, &listener, 1, 2);
	r = record_of(f);
	assert_non_null(r);
	return r->flags & (RECORD_RETRANS | RECORD_RETRANS_UNKNOWN);
}

static void check_synack(const struct wire *like)
{
	struct sock established = { .__sk_common.skc_state = 3 /* SYN_RECV */ };

	host.tcp.tcp_tx_delay = 0;
	assert_int_equal(synack_flags(like, &request.sk, 5000123, 5000123999), 0);
	assert_int_equal(synack_flags(like, &request.sk, 5000123, 6000123999), RECORD_RETRANS);
	assert_int_equal(synack_flags(like, NULL, 5000123, 5000123999), RECORD_RETRANS_UNKNOWN);
	assert_int_equal(synack_flags(like, &established, 5000123, 5000123999), RECORD_RETRANS_UNKNOWN);
	host.tcp.tcp_tx_delay = 20000;
	assert_int_equal(synack_flags(like, &request.sk, 5000123, 5020123000), 0);
	assert_int_equal(synack_flags(like, &request.sk, 5000123, 6020123000), RECORD_RETRANS);
	host.unreadable = &request.tcp.snt_synack;
	assert_int_equal(synack_flags(like, &request.sk, 5000123, 5020123000), RECORD_RETRANS_UNKNOWN);
	host.unreadable = NULL;
}

static void test_synack(void **state)
{
	(void)state;
	check_synack(&tcp4);
	check_synack(&tcp6);
}

/* Its time is its own: from when it was sent again. */
static void test_journey_of_its_own(void **state)
{
	struct fake *f = fill(0, &tcp4);
	const struct record *r;

	(void)state;
	step_send(f, &pod_sock);
	rest(1000 * MS);	/* it is lost, and nobody says so */
	host.sent_before = 100;
	step_send(f, &pod_sock);
	assert_int_equal(host.n_events, 0);
	step_output(f, &pod_eth0);
	step_queue(f, &pod_eth0);
	rest(200 * MS);
	step_xmit(f, &nic);
	r = only_event(0, END_SENT);
	assert_true(r->flags & RECORD_RETRANS);
	assert_in_range(r->end_at - r->hop[0].at, 200 * MS, 201 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_journey(test_segments),
		cmocka_journey(test_synack),
		cmocka_journey(test_journey_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
