// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What reviews found wrong once: ways taken over, garbage in headers, refusals and ends held too firmly. */
#include "host/journey_host.h"

typedef void (*step_fn)(struct fake *f, struct net_device *dev);

static int mended_reset(void **state)
{
	journey_reset(state);
	find_mates();
	return 0;
}

/* The n-th of the mates begins its journey. */
static struct fake *begin_mate(int n, const struct wire *w)
{
	struct wire own = *w;

	own.sport = 1000 + n;
	own.seq += n * 100000;
	fake_fill(mates[n], &own);
	step_receive(mates[n], &vethc);
	return mates[n];
}

static struct entry entry_for(struct fake *f)
{
	struct entry e = {};

	assert_true(entry_of(&e, &f->skb, host.cpu));
	return e;
}

/* Where a refusal of the packet is remembered. */
static u64 refusal_of(struct fake *f)
{
	return entry_for(f).home->refused;
}

enum { ADD_HOP, LOSE, END, WRITES };

static void write_to(int what, struct entry *e, struct fake *f)
{
	switch (what) {
	case ADD_HOP:
		stamp_ours(e, HOP_IP_RCV, PLACE_IP_RCV, host.now, true);
		break;
	case LOSE:
		lose(e);
		break;
	case END:
		end_journey(e, &f->skb, END_DELIVERED, host.now);
		break;
	}
}

/* Between tracked() and what a hop does, a slow packet took the way: nothing of it is touched, or told. */
static void test_way_of_another(void **state)
{
	for (int what = 0; what < WRITES; what++) {
		struct set before;
		struct entry e;
		struct fake *f;

		mended_reset(state);
		cfg.pid = 400;
		for (int i = 0; i < SET_WAYS; i++)
			f = begin_mate(SET_WAYS - 1 - i, &tcp4);
		for (int i = 1; i < SET_WAYS; i++)
			step_receive(mates[i], &nic);
		e = entry_for(f);
		assert_true(tracked(&e));
		/* the oldest one */
		begin_mate(SET_WAYS, &tcp4);
		assert_null(record_of(f));
		assert_int_equal(e.record->skb, (u64)&mates[SET_WAYS]->skb);
		e.record->flags |= RECORD_SLOW;
		rest(1 * MS);
		before = *e.set;
		write_to(what, &e, f);
		assert_memory_equal(e.set, &before, sizeof(before));
		assert_int_equal(host.n_events, 0);
		assert_int_equal(all_counts().slow, 0);
		/* a record that is still its own is written to, told and given back */
		f = mates[SET_WAYS];
		e = entry_for(f);
		assert_true(tracked(&e));
		write_to(what, &e, f);
		if (what == ADD_HOP) {
			assert_int_equal(record_of(f)->hops, 2);
			continue;
		}
		only_event(0, what == END ? END_DELIVERED : END_UNKNOWN);
		assert_null(record_of(f));
	}
}

/* The same packet began anew in the same way, as another CPU does: the generation alone tells. */
static void test_way_begun_anew(void **state)
{
	for (int what = 0; what < WRITES; what++) {
		struct record before;
		struct entry e;
		struct fake *f;

		mended_reset(state);
		f = begin_mate(0, &tcp4);
		e = entry_for(f);
		assert_true(tracked(&e));
		step_receive(f, &nic);
		assert_ptr_equal(record_of(f), e.record);
		e.record->flags |= RECORD_SLOW;
		before = *record_of(f);
		write_to(what, &e, f);
		assert_int_equal(host.n_events, 0);
		if (what == ADD_HOP)
			assert_memory_equal(record_of(f), &before, sizeof(before));
	}
}

static void test_release(void **state)
{
	static const struct { bool begun, own; } cases[] = {
		{ false, true }, { false, false }, { true, true }, { true, false },
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct fake *f = fill(0, &tcp4);
		struct record *r;
		struct entry e;

		step_receive(f, &nic);
		e = entry_for(f);
		assert_true(tracked(&e));
		r = e.record;
		e.begun = cases[i].begun;
		if (!cases[i].own)	/* begun here: not published yet; else another one's */
			r->skb = e.begun ? WAY_RESERVED : e.skb + 64;
		release(&e);
		assert_null(e.record);
		assert_int_equal(r->skb, cases[i].begun || cases[i].own ? 0 : e.skb + 64);
		r->skb = 0;
	}
}

static void send_rst(struct fake *f)
{
	step(f, NULL, fake_l3(f), WIRE_HEADROOM);
	f->skb.sk = &host_sock;
	if (f->wire.v6)
		hook_ip6_send_skb(NULL, &f->skb);
	else
		hook_ip_send_skb(NULL, &host_net, &f->skb);
}

/* IP writes its length behind the hop: what lies there is left from another packet. */
static void test_length_of_unsent(void **state)
{
	static const struct wire *const wires[] = { &tcp4, &udp4, &tcp6, &udp6 };
	static const u16 garbage[] = { 0, 1, 7, 19, 20, 27, 28, 39, 40, 60, 500, 0x7fff, 0xeeee, 0xffff };

	(void)state;
	for (size_t i = 0; i < LEN(wires); i++) {
		for (size_t j = 0; j < LEN(garbage); j++) {
			struct fake *f = fill(0, wires[i]);

			wire_be16(fake_l3(f) + (wires[i]->v6 ? 4 : 2), garbage[j]);
			send_rst(f);
			assert_non_null(record_of(f));
			assert_int_equal(record_of(f)->len, wires[i]->len);
			assert_int_equal(!!(record_of(f)->flags & RECORD_PAYLOAD), wires[i]->proto == WIRE_UDP);
			/* where it is written it is believed: the skb may be padded */
			if (wires[i]->proto == WIRE_UDP)
				continue;
			f = fill(0, wires[i]);
			f->skb.len += 6;
			step_receive(f, &vethc);
			assert_int_equal(record_of(f)->len, wires[i]->len);
		}
	}
	assert_int_equal(all_counts().unparsed, 0);
}

static void send_step(struct fake *f, struct net_device *dev)
{
	(void)dev;
	send_rst(f);
}

static void nic_step(struct fake *f, struct net_device *dev)
{
	(void)dev;
	step_receive(f, &nic);
}

/* Hops in the order in which a refusal at one holds at the next one. */
static const struct { step_fn step; struct net_device *dev; bool origin; } ways[][6] = {
	{ { send_step, NULL, true }, { step_output, &docker0, false }, { step_queue, &docker0, false },
	  { step_xmit, &docker0, false }, { step_netif_rx, &vethc, false }, { step_receive, &vethc, false } },
	{ { nic_step, NULL, true }, { step_bridge, &nic, false }, { step_receive, &docker0, false },
	  { step_ip_rcv, &docker0, false }, { step_output, &vethc, false }, { step_tcp_rcv, &vethc, false } },
};

/* Neither TCP nor UDP, or not to be read: maybe at the next hop, so it is looked at there. */
static void check_unreadable(size_t way, bool unparsed)
{
	const size_t n = LEN(ways[way]);

	for (size_t good = 1; good < n; good++) {
		struct fake *f = fill(0, &tcp4);

		journey_reset(NULL);
		for (int round = 1; round <= 2; round++) {
			if (unparsed)
				fake_l3(f)[0] = 0x44;
			else
				fake_l3(f)[9] = 50;	/* ESP */
			for (size_t i = 0; i < good; i++) {
				unsigned int reads = host.reads;

				ways[way][i].step(f, ways[way][i].dev);
				assert_true(host.reads > reads);
				assert_int_equal(refusal_of(f), (u64)&f->skb + REFUSED_TRANSPORT);
				/* once a packet; at an origin it is another one */
				assert_int_equal(all_counts().unparsed, unparsed ? round : 0);
			}
		}
		assert_int_equal(all_counts().matched, 0);
		fake_write(f, &tcp4);
		ways[way][good].step(f, ways[way][good].dev);
		assert_non_null(record_of(f));
		assert_int_equal(record_of(f)->flags & RECORD_PARTIAL, RECORD_PARTIAL);
		assert_int_equal(refusal_of(f), 0);
	}
}

static void test_unreadable(void **state)
{
	(void)state;
	for (size_t way = 0; way < LEN(ways); way++) {
		check_unreadable(way, false);
		check_unreadable(way, true);
	}
}

/* What TCP hands down is asked as well, and what is not TCP there. */
static void test_unreadable_tcp(void **state)
{
	struct fake *f = fill(0, &tcp4);

	(void)state;
	l4_of(f)[12] = 0x40;
	step_send(f, &host_sock);
	assert_int_equal(refusal_of(f), (u64)&f->skb + REFUSED_TRANSPORT);
	assert_int_equal(all_counts().unparsed, 1);
	step_send(f, &host_sock);
	assert_int_equal(all_counts().unparsed, 2);
	fake_write(f, &tcp4);
	step_output(f, &docker0);
	assert_non_null(record_of(f));
	/* one whose origin was not seen */
	f = fill(1, &tcp4);
	fake_l3(f)[0] = 0x44;
	step_ip_rcv(f, &vethc);
	step_output(f, &docker0);
	assert_int_equal(all_counts().unparsed, 3);
}

static void test_owner(void **state)
{
	(void)state;
	for (u8 tcp_state = 1; tcp_state <= TCP_NEW_SYN_RECV; tcp_state++) {
		for (int owned = 0; owned < 2; owned++) {
			struct sock sk = {
				.__sk_common = { .skc_net = { &pod_net }, .skc_state = tcp_state },
				.sk_lock.owned = owned,
			};
			bool answers = tcp_state == TCP_LISTEN || tcp_state == TCP_NEW_SYN_RECV;
			struct fake *f = fill(0, &tcp4);

			assert_int_equal(owns(&sk), owned && !answers);
			/* a segment of IPv4 comes from a connection only */
			if (!answers) {
				step_send(f, &sk);
				assert_hop(record_of(f), 0, POD_NS, 0, owned);
			}
			f = fill(0, &tcp6);
			step_send(f, &sk);
			assert_hop(record_of(f), 0, POD_NS, 0, owned && !answers);
			f = fill(0, &tcp4);
			step(f, NULL, l4_of(f), NOWHERE);
			hook_ip_build_and_send_pkt(NULL, &f->skb, &sk, 1, 2);
			assert_hop(record_of(f), 0, POD_NS, 0, owned && !answers);
		}
	}
}

/* Where GSO's cutting is not seen a packet may have left its qdisc by it: its wait there is not known. */
static void test_queue_not_held(void **state)
{
	for (int i = 0; i < 4; i++) {
		bool sees_cut = i & 1, slow_before = i & 2;

		mended_reset(state);
		cfg.sees_cut = sees_cut;
		for (int j = 0; j < SET_WAYS; j++)
			begin_mate(j, &tcp4);
		rest(slow_before ? 35 * MS : 0);
		for (int j = 0; j < SET_WAYS; j++)
			step_queue(mates[j], &vethc);
		rest(50 * MS);
		begin_mate(SET_WAYS, &tcp4);
		assert_int_equal(all_counts().evicted, 1);
		assert_int_equal(host.n_events, sees_cut || slow_before);
		if (!host.n_events)
			continue;
		only_event(0, END_EVICTED);
		assert_int_equal(host.event[0].end_at, sees_cut ? host.now : host.event[0].hop[1].at);
	}
}

enum late { AS_BEFORE, NATED, ESP, UNREADABLE, LATES };

/* In the NIC's queue, where the packet's header is written to; then to `dev`, a NIC. */
static const struct record *queue_and_xmit(enum late late, u64 wait, struct net_device *dev)
{
	struct fake *f = fill(0, &tcp4);
	struct wire outside = tcp4;
	const struct record *r;
	unsigned int reads;

	outside.src = 0x0a000001;
	step_send(f, &host_sock);
	step_output(f, &nic);
	step_queue(f, &nic);
	r = record_of(f);
	rest(wait);
	if (late == NATED)
		fake_write(f, &outside);
	else if (late == ESP)
		fake_l3(f)[9] = 50;
	else if (late == UNREADABLE)
		host.unreadable = fake_l3(f);
	reads = host.reads;
	step_xmit(f, dev);
	if (!wait && dev == &nic)
		assert_int_equal(host.reads, reads);
	host.unreadable = NULL;
	assert_table_free();
	return r;
}

/* What comes out of a queue is what went in. */
static void test_sent(void **state)
{
	struct wire outside = tcp4;
	const struct record *r;

	outside.src = 0x0a000001;
	for (enum late late = AS_BEFORE; late < LATES; late++) {
		journey_reset(state);
		r = queue_and_xmit(late, 0, &nic);
		assert_int_equal(host.n_events, 0);
		assert_int_equal(r->hops, 3);	/* nobody will print it */
		assert_int_equal(r->last_place, PLACE_QUEUE);
		assert_tuple(&r->last, &tcp4);

		queue_and_xmit(late, 40 * MS, &nic);
		r = only_event(0, END_SENT);
		assert_hops(r, HOP_IP_QUEUE_XMIT, HOP_IP_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT,
			    HOP_DEV_HARD_START_XMIT);
		assert_tuple(&r->first, &tcp4);
		assert_tuple(&r->last, late == NATED ? &outside : &tcp4);
		assert_int_equal(all_counts().matched, 2);
		assert_int_equal(all_counts().unparsed, 0);

		/* another NIC's queue it was not in: the packet is asked */
		cfg.total_tcp = 0;
		queue_and_xmit(late, 0, &nic2);
		only_event(1, late < ESP ? END_SENT : END_UNKNOWN);
	}
}

/* Without conntrack there is no such field, whatever lies in its place, and a refusal holds. */
static void test_no_conntrack(void **state)
{
	for (int no_nfct = 0; no_nfct < 2; no_nfct++) {
		struct fake *f = fill(0, &tcp4);
		unsigned int reads;

		journey_reset(state);
		host.no_nfct = no_nfct;
		f->skb._nfct = 0xffff888012345602;
		assert_int_equal(may_be_natted(&f->skb), !no_nfct);
		cfg.tcp = 0;
		step_receive(f, &vethc);
		step_ip_rcv(f, &vethc);
		assert_int_equal(refusal_of(f), (u64)&f->skb + REFUSED_BEFORE_OUTPUT);
		reads = host.reads;
		step_output(f, &docker0);
		assert_int_equal(host.reads > reads, !no_nfct);
		assert_int_equal(refusal_of(f), (u64)&f->skb + REFUSED_OUTPUT);
		f->skb._nfct = 0;
		assert_false(may_be_natted(&f->skb));
	}
}

#define cmocka_mended(test) cmocka_unit_test_setup(test, mended_reset)

static struct fake *own_mate(int n)
{
	struct wire own = tcp4;

	own.sport = 1000 + n;
	own.seq += n * 100000;
	fake_fill(mates[n], &own);
	return mates[n];
}

static void begin_in_the_middle(void)
{
	step_receive(own_mate(5), &vethc);
}

/* A set is full, and two packets begin in it at once, one in the middle of the other: no record is another's. */
static void test_two_begin_at_once(void **state)
{
	(void)state;
	find_mates();
	for (int i = 0; i < SET_WAYS; i++)
		step_receive(own_mate(i), &vethc);
	host.nested = begin_in_the_middle;
	step_receive(own_mate(4), &vethc);
	assert_non_null(record_of(mates[5]));
	for (int i = 0; i < 6; i++)
		if (record_of(mates[i]))
			assert_int_equal(record_of(mates[i])->seq, mates[i]->wire.seq);
	/* the other one's way stays, if the one that began ends at once */
	host.nested = begin_in_the_middle;
	step_xmit(own_mate(4), &nic);
	assert_non_null(record_of(mates[5]));
	assert_int_equal(record_of(mates[5])->seq, mates[5]->wire.seq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_journey(test_two_begin_at_once),
		cmocka_mended(test_way_of_another), cmocka_mended(test_way_begun_anew),
		cmocka_mended(test_release), cmocka_mended(test_length_of_unsent),
		cmocka_mended(test_unreadable), cmocka_mended(test_unreadable_tcp),
		cmocka_mended(test_owner), cmocka_mended(test_queue_not_held),
		cmocka_mended(test_sent), cmocka_mended(test_no_conntrack),
	};

	return cmocka_run_group_tests_name("mended", tests, NULL, NULL);
}
