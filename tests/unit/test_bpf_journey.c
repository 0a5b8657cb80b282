// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whole journeys through the hooks: what they pass, what is sent up of them. */
#include "host/journey_host.h"

#define PATH_INTO_CONTAINER \
	HOP_IP_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT, \
	HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT, HOP_NETIF_RX, HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV

/* Client on the host, server in the container; `wait` ns in the qdisc of the container's veth. */
static struct fake *client_to_container(const struct wire *w, u64 wait)
{
	struct fake *f = fill(0, w);

	step_send(f, &host_sock);
	step_output(f, &docker0);
	step_queue(f, &docker0);
	step_xmit(f, &docker0);
	step_queue(f, &vethc);
	rest(wait);
	step_xmit(f, &vethc);
	step_netif_rx(f, &pod_eth0);
	host.cpu = 6;
	host.task = TASK(0, 0);	/* the backlog is out of the client's context */
	receive_local(f, &pod_eth0);
	return f;
}

static void test_tcp(void **state)
{
	const u64 start = host.now + STEP;
	const struct record *r;
	struct counts sum;

	(void)state;
	step_tcp_state(client_to_container(&tcp4, 200 * MS));
	r = only_event(0, END_DELIVERED);
	assert_hops(r, HOP_IP_QUEUE_XMIT, PATH_INTO_CONTAINER, HOP_TCP_V4_RCV, HOP_TCP_RCV_ESTABLISHED);
	for (u32 i = 0; i < r->hops; i++) {
		assert_int_equal(r->hop[i].at, start + i * STEP + (i > 4 ? 200 * MS : 0));
		assert_int_equal(WHERE_CPU(r->hop[i].where), i < 7 ? 5 : 6);
		assert_int_equal(r->hop[i].tid, i < 7 ? 401 : 0);
	}
	assert_hop(r, 0, HOST_NS, 0, true);
	assert_hop(r, 1, HOST_NS, 3, false);
	assert_hop(r, 3, HOST_NS, 3, false);
	assert_hop(r, 5, HOST_NS, 7, false);
	assert_hop(r, 6, POD_NS, 2, false);
	assert_hop(r, 9, POD_NS, 2, false);
	assert_hop(r, 10, POD_NS, 0, false);
	assert_int_equal(r->end_at, start + 10 * STEP + 200 * MS);
	assert_int_equal(r->last_at, r->end_at);
	assert_int_equal(r->flags, 0);
	assert_tuple(&r->first, &tcp4);
	assert_tuple(&r->last, &tcp4);
	assert_int_equal(r->seq, tcp4.seq);
	assert_int_equal(r->ack, tcp4.ack);
	assert_int_equal(r->win, tcp4.win);
	assert_int_equal(r->tcp_flags, tcp4.flags);
	assert_int_equal(r->len, tcp4.len);
	assert_int_equal(r->ip_id, tcp4.id);	/* not written yet at the first hop */
	assert_int_equal(r->segs, 1);
	assert_int_equal(r->drop_reason, 0);
	assert_int_equal(r->reported, 0);
	assert_table_free();
	sum = all_counts();
	assert_int_equal(sum.matched, 1);
	assert_int_equal(sum.slow, 1);
	assert_int_equal(sum.lost | sum.evicted | sum.unparsed | sum.torn, 0);
	assert_int_equal(sum.hits[HOP_DEV_QUEUE_XMIT], 2);
	assert_int_equal(sum.hits[HOP_TCP_V4_RCV], 1);
	assert_int_equal(counts[5].hits[HOP_IP_QUEUE_XMIT], 1);
	assert_int_equal(counts[6].hits[HOP_IP_RCV], 1);
}

static void test_fast(void **state)
{
	(void)state;
	step_tcp_state(client_to_container(&tcp4, 0));
	step_tcp_state(client_to_container(&tcp6, 0));
	step_read(client_to_container(&udp4, 0));
	step_read(client_to_container(&udp6, 0));
	assert_int_equal(host.n_events, 0);
	assert_int_equal(all_counts().slow, 0);
	assert_int_equal(all_counts().matched, 4);
	assert_table_free();
}

/* Ten steps from hop to hop, whatever the wait is. */
static void test_threshold(void **state)
{
	(void)state;
	step_tcp_state(client_to_container(&tcp4, 30 * MS - 10 * STEP - 1));
	step_read(client_to_container(&udp4, 3 * MS - 10 * STEP - 1));
	assert_int_equal(host.n_events, 0);
	step_tcp_state(client_to_container(&tcp4, 30 * MS - 10 * STEP));
	only_event(0, END_DELIVERED);
	step_read(client_to_container(&udp4, 3 * MS - 10 * STEP));
	only_event(1, END_READ);
	cfg.total_tcp = cfg.total_udp = 0;
	step_tcp_state(client_to_container(&tcp4, 0));
	only_event(2, END_DELIVERED);
	cfg.total_tcp = cfg.total_udp = NEVER;
	step_tcp_state(client_to_container(&tcp4, 10000000 * MS));
	step_read(client_to_container(&udp4, 10000000 * MS));
	assert_int_equal(host.n_events, 3);
}

static void test_tcp6(void **state)
{
	const struct record *r;

	(void)state;
	step_tcp_state(client_to_container(&tcp6, 40 * MS));
	r = only_event(0, END_DELIVERED);
	assert_hops(r, HOP_IP6_XMIT, HOP_IP6_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT,
		    HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT, HOP_NETIF_RX, HOP_NETIF_RECEIVE_SKB,
		    HOP_IPV6_RCV, HOP_TCP_V6_RCV, HOP_TCP_RCV_ESTABLISHED);
	assert_tuple(&r->first, &tcp6);
	assert_int_equal(r->seq, tcp6.seq);
	assert_int_equal(r->flags, 0);
	assert_hop(r, 0, HOST_NS, 0, true);
}

static void test_udp(void **state)
{
	const struct record *r;
	struct fake *f;
	u64 read_at;

	(void)state;
	f = client_to_container(&udp4, 0);
	rest(50 * MS);
	host.task = TASK(4242, 4243);
	strcpy(host.comm, "resolver");
	step_read(f);
	read_at = host.now;
	r = only_event(0, END_READ);
	assert_hops(r, HOP_IP_SEND_SKB, PATH_INTO_CONTAINER, HOP_UDP_ENQUEUE, HOP_UDP_READ);
	assert_hop(r, 0, HOST_NS, 0, true);
	assert_hop(r, 8, POD_NS, 2, false);
	assert_hop(r, 9, POD_NS, 0, false);	/* the socket's queue is at no device */
	assert_hop(r, 10, POD_NS, 0, true);
	assert_int_equal(r->hop[10].at - r->hop[9].at, 50 * MS + STEP);
	assert_int_equal(r->end_at, read_at);
	assert_int_equal(r->reader_pid, 4242);
	assert_int_equal(r->reader_tid, 4243);
	assert_string_equal(r->reader_comm, "resolver");
	assert_tuple(&r->first, &udp4);
	assert_int_equal(r->len, udp4.len);
	assert_int_equal(r->ip_id, udp4.id);
	assert_int_equal(r->seq | r->ack | r->win | r->tcp_flags, 0);
	assert_int_equal(r->flags, RECORD_PAYLOAD);
	assert_table_free();

	f = client_to_container(&udp6, 50 * MS);
	step_read(f);
	r = only_event(1, END_READ);
	assert_int_equal(WHERE_HOP(r->hop[0].where), HOP_IP6_SEND_SKB);
	assert_hop(r, 0, HOST_NS, 0, true);
	assert_tuple(&r->last, &udp6);
	assert_int_equal(r->ip_id, 0);
}

/* Where only the wait in the socket is judged, no other hop is attached: the journey is that wait. */
static void test_only_the_socket(void **state)
{
	static const struct wire *const wires[] = { &udp4, &udp6 };

	for (size_t i = 0; i < LEN(wires) * 2; i++) {
		const struct wire *w = wires[i / 2];
		const struct record *r;
		struct fake *f = fill(0, w);

		journey_reset(state);
		cfg.begins_at_socket = 1;
		cfg.total_tcp = cfg.total_udp = NEVER;
		cfg.judge_stages = 1;
		cfg.stage[PLACE_ENQUEUE][PLACE_READ] = 50 * MS;
		if (i % 2) {	/* another packet of that skb was read, and nobody saw it */
			step_enqueue(fill(0, &udp4), &pod_eth0);
			f = fill(0, w);
			f->wire.id++;
			f->wire.fill++;
			fake_write(f, &f->wire);
		}
		step_enqueue(f, &pod_eth0);
		rest(50 * MS - STEP - 1);
		step_read(f);
		assert_int_equal(host.n_events, 0);
		assert_table_free();
		step_enqueue(f, &pod_eth0);
		rest(50 * MS - STEP);
		step_read(f);
		r = only_event(0, END_READ);
		assert_hops(r, HOP_UDP_ENQUEUE, HOP_UDP_READ);
		assert_hop(r, 0, POD_NS, 0, false);
		assert_hop(r, 1, POD_NS, 0, true);
		assert_tuple(&r->first, &f->wire);
		assert_int_equal(r->len, w->len);
		assert_int_equal(r->ip_id, w->v6 ? 0 : f->wire.id);
		assert_int_equal(r->flags, RECORD_PARTIAL | RECORD_PAYLOAD | RECORD_SLOW);
		assert_int_equal(all_counts().matched, i % 2 ? 3 : 2);
		/* no other port, protocol version or address is let through */
		cfg.dport.used = 1;
		step_enqueue(f, &pod_eth0);
		assert_null(record_of(f));
		cfg.dport.used = 0;
		cfg.ipv4 = cfg.ipv6 = 0;
		step_enqueue(f, &pod_eth0);
		assert_null(record_of(f));
		cfg.ipv4 = cfg.ipv6 = 1;
		cfg.src.n = 1;
		memset(&cfg.src.p[0], 0xff, sizeof(cfg.src.p[0]));
		step_enqueue(f, &pod_eth0);
		assert_null(record_of(f));
		/* nor is a fragment a datagram of the usual form */
		cfg.src.n = 0;
		if (!w->v6) {
			fake_l3(f)[6] = 0x20;
			step_enqueue(f, &pod_eth0);
			assert_int_equal(record_of(f)->flags & RECORD_FRAGMENT, RECORD_FRAGMENT);
		}
	}
}

/* … and a port is asked of the socket before the packet is looked at. */
static void test_port_of_the_socket(void **state)
{
	struct fake *f = fill(0, &udp4);

	(void)state;
	cfg.begins_at_socket = 1;
	cfg.asks_ports = cfg.dport.used = 1;
	cfg.dport.bit[udp4.dport / 8] |= 1 << udp4.dport % 8;
	pod_sock.__sk_common.skc_num = udp4.dport ^ 1;
	host.reads = 0;
	step_enqueue(f, &pod_eth0);
	assert_null(record_of(f));
	assert_int_equal(host.reads, 0);
	pod_sock.__sk_common.skc_num = udp4.dport;
	step_enqueue(f, &pod_eth0);
	assert_non_null(record_of(f));
	/* the reader is asked for the same */
	pod_sock.__sk_common.skc_num = udp4.dport ^ 1;
	step_read(f);
	assert_non_null(record_of(f));
	pod_sock.__sk_common.skc_num = udp4.dport;
	step_read(f);
	assert_null(record_of(f));
	/* with other hops besides, the packet alone says */
	cfg.begins_at_socket = 0;
	pod_sock.__sk_common.skc_num = udp4.dport ^ 1;
	step_enqueue(f, &pod_eth0);
	assert_non_null(record_of(f));
	pod_sock.__sk_common.skc_num = 0;
}

/* Who peeks holds a second reference to the datagram, which stays in the queue. */
static void test_peek(void **state)
{
	struct fake *f;

	(void)state;
	f = client_to_container(&udp4, 10 * MS);
	f->skb.users.refs.counter = 2;
	step_read(f);
	step_read(f);
	assert_int_equal(host.n_events, 0);
	assert_non_null(record_of(f));
	assert_int_equal(record_of(f)->last_place, PLACE_ENQUEUE);
	assert_int_equal(record_of(f)->last_dev, 0);
	f->skb.users.refs.counter = 1;
	rest(70 * MS);
	step_read(f);
	assert_hop(only_event(0, END_READ), 10, POD_NS, 0, true);
	assert_int_equal(host.event[0].hops, 11);
}

/* From outside to a published port, and the answer: DNAT, masquerading, the bridge's own hop. */
static void test_nat_in(void **state)
{
	struct wire inside = tcp4;
	const struct record *r;
	struct fake *f;

	(void)state;
	inside.dst = 0xac110009;
	inside.dport = 8080;
	f = fill(0, &tcp4);
	step_receive(f, &nic);
	step_ip_rcv(f, &nic);
	fake_write(f, &inside);
	rest(40 * MS);	/* SOON is over: the hop asks the packet */
	bridge_in(f);
	receive_local(f, &pod_eth0);
	step_tcp_state(f);
	r = only_event(0, END_DELIVERED);
	assert_hops(r, HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, PATH_INTO_CONTAINER, HOP_TCP_V4_RCV,
		    HOP_TCP_RCV_ESTABLISHED);
	assert_tuple(&r->first, &tcp4);
	assert_tuple(&r->last, &inside);
	assert_int_equal(r->flags, 0);
	assert_hop(r, 0, HOST_NS, 2, false);

	/* so fast that no hop need look: the end still knows the last tuple */
	cfg.total_tcp = 0;
	f = fill(0, &tcp4);
	step_receive(f, &nic);
	step_ip_rcv(f, &nic);
	fake_write(f, &inside);
	bridge_in(f);
	receive_local(f, &pod_eth0);
	step_tcp_state(f);
	r = only_event(1, END_DELIVERED);
	assert_int_equal(r->hops, 12);
	assert_tuple(&r->first, &tcp4);
	assert_tuple(&r->last, &inside);

	cfg.total_udp = 0;
	inside = udp4;
	inside.dst = 0xac110009;
	f = fill(0, &udp4);
	step_receive(f, &nic);
	step_ip_rcv(f, &nic);
	fake_write(f, &inside);
	bridge_in(f);
	receive_local(f, &pod_eth0);
	step_read(f);
	r = only_event(2, END_READ);
	assert_int_equal(r->hops, 12);
	assert_tuple(&r->first, &udp4);
	assert_tuple(&r->last, &inside);
}

/* Merged by GRO, or to be cut by a device: many segments are one skb. */
static void test_segments(void **state)
{
	struct fake *f;

	(void)state;
	cfg.total_tcp = 0;
	for (int i = 0; i < 3; i++) {
		f = fill(0, &tcp4);
		f->shinfo.gso_segs = i == 1 ? 0 : 14;
		receive_local(f, &nic);
		step_tcp_state(f);
		assert_int_equal(only_event(i, END_DELIVERED)->segs, i == 1 ? 1 : 14);
	}
}

static void test_nat_out(void **state)
{
	struct wire outside = udp4;
	const struct record *r;
	struct fake *f;

	(void)state;
	outside.src = 0x0a000001;
	outside.sport = 1024;
	f = fill(0, &udp4);
	step_send(f, &pod_sock);
	step_output(f, &pod_eth0);
	step_queue(f, &pod_eth0);
	step_xmit(f, &pod_eth0);
	step_netif_rx(f, &vethc);
	step_receive(f, &vethc);
	step_bridge(f, &vethc);
	step_receive(f, &docker0);
	step_ip_rcv(f, &docker0);
	fake_write(f, &outside);
	step_output(f, &nic);
	step_queue(f, &nic);
	rest(20 * MS);
	step_xmit(f, &nic);
	r = only_event(0, END_SENT);
	assert_hops(r, HOP_IP_SEND_SKB, HOP_IP_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT,
		    HOP_NETIF_RX, HOP_NETIF_RECEIVE_SKB, HOP_BR_HANDLE_FRAME_FINISH, HOP_NETIF_RECEIVE_SKB,
		    HOP_IP_RCV, HOP_IP_FINISH_OUTPUT2, HOP_DEV_QUEUE_XMIT, HOP_DEV_HARD_START_XMIT);
	assert_tuple(&r->first, &udp4);
	assert_hop(r, 0, POD_NS, 0, true);
	assert_hop(r, 6, HOST_NS, 7, false);
	assert_hop(r, 7, HOST_NS, 3, false);
	assert_hop(r, 11, HOST_NS, 2, false);
	assert_table_free();
}

/* The NIC's driver ends it, even where the tuple has changed a moment ago: the last one is told. */
static void test_nat_out_tuple(void **state)
{
	struct wire outside = tcp4;
	const struct record *r;
	struct fake *f;

	(void)state;
	outside.src = 0x0a000001;
	outside.sport = 1024;
	cfg.total_tcp = 0;
	f = fill(0, &tcp4);
	step_send(f, &host_sock);
	fake_write(f, &outside);
	step_output(f, &nic);
	step_queue(f, &nic);
	step_xmit(f, &nic);
	r = only_event(0, END_SENT);
	assert_int_equal(r->hops, 4);
	assert_tuple(&r->first, &tcp4);
	assert_tuple(&r->last, &outside);
}

static void test_loopback(void **state)
{
	struct fake *f;

	(void)state;
	for (int i = 0; i < 2; i++) {
		f = fill(0, i ? &udp4 : &tcp4);
		cfg.total_tcp = cfg.total_udp = 0;
		step_send(f, &host_sock);
		step_output(f, &lo);
		step_queue(f, &lo);
		step_xmit(f, &lo);
		step_netif_rx(f, &lo);
		receive_local(f, &lo);
		if (i)
			step_read(f);
		else
			step_tcp_state(f);
		assert_int_equal(host.event[i].hops, 9);
	}
	only_event(1, END_READ);
	assert_int_equal(all_counts().matched, 2);
}

/* An old driver calls netif_rx: the journey begins there, and goes on at the backlog's other end. */
static void test_netif_rx_on_nic(void **state)
{
	const struct record *r;
	struct fake *f;

	(void)state;
	f = fill(0, &tcp4);
	step_netif_rx(f, &nic);
	rest(60 * MS);
	host.cpu = 7;
	receive_local(f, &nic);
	step_tcp_state(f);
	r = only_event(0, END_DELIVERED);
	assert_hops(r, HOP_NETIF_RX, HOP_NETIF_RECEIVE_SKB, HOP_IP_RCV, HOP_TCP_V4_RCV,
		    HOP_TCP_RCV_ESTABLISHED);
	assert_int_equal(r->flags, 0);

	/* at another NIC it is another packet, and so it is at the same one the second time */
	step_netif_rx(f, &nic);
	step_receive(f, &nic2);
	assert_int_equal(record_of(f)->hops, 1);
	step_receive(f, &nic2);
	assert_int_equal(record_of(f)->hops, 1);
	assert_int_equal(record_of(f)->flags, 0);
	assert_hop(record_of(f), 0, HOST_NS, 4, false);
	step_netif_rx(f, &nic2);
	step_netif_rx(f, &nic2);
	assert_int_equal(record_of(f)->hops, 1);
}

/* TCP answers without a socket of its own, in whatever task was interrupted. */
static void test_send_headed_tcp(void **state)
{
	struct fake *f;

	(void)state;
	cfg.total_tcp = 0;
	f = fill(0, &tcp4);
	step(f, NULL, fake_l3(f), WIRE_HEADROOM);
	hook_ip_send_skb(NULL, &pod_net, &f->skb);
	step_output(f, &nic);
	step_queue(f, &nic);
	step_xmit(f, &nic);
	assert_hop(only_event(0, END_SENT), 0, POD_NS, 0, false);
	assert_int_equal(host.event[0].seq, tcp4.seq);
}

/* A SYN-ACK: the addresses are arguments; the socket listens and is owned by nobody. */
static void test_synack(void **state)
{
	struct wire w = tcp4;
	struct fake *f;

	(void)state;
	cfg.total_tcp = 0;
	w.len = 0;
	w.flags = 0x12;
	f = fill(0, &w);
	step(f, NULL, l4_of(f), NOWHERE);
	pod_sock.sk_lock.owned = 0;
	pod_sock.sk_protocol = IPPROTO_TCP;
	pod_sock.__sk_common.skc_rcv_saddr = pod_sock.__sk_common.skc_daddr = 0;
	hook_ip_build_and_send_pkt(NULL, &f->skb, &pod_sock, bpf_htonl(w.src), bpf_htonl(w.dst));
	step_output(f, &pod_eth0);
	step_queue(f, &pod_eth0);
	step_xmit(f, &nic);
	assert_hop(only_event(0, END_SENT), 0, POD_NS, 0, false);
	assert_tuple(&host.event[0].first, &w);
	assert_int_equal(host.event[0].tcp_flags, 0x12);
	assert_int_equal(WHERE_HOP(host.event[0].hop[0].where), HOP_IP_BUILD_AND_SEND_PKT);
	/* what is not TCP there (DCCP, L2TP) is left alone */
	pod_sock.sk_protocol = 33;
	hook_ip_build_and_send_pkt(NULL, &f->skb, &pod_sock, bpf_htonl(w.src), bpf_htonl(w.dst));
	assert_null(record_of(f));
}

/* Names are stored when they are first seen, and once. */
static void test_names(void **state)
{
	(void)state;
	client_to_container(&tcp4, 0);
	assert_int_equal(host.n_devs, 3);
	assert_int_equal(host.dev_key[0].netns, HOST_NS);
	assert_int_equal(host.dev_key[0].ifindex, 3);
	assert_string_equal(host.dev_name[0].name, "docker0");
	assert_string_equal(host.dev_name[1].name, "vethc");
	assert_int_equal(host.dev_key[2].netns, POD_NS);
	assert_string_equal(host.dev_name[2].name, "eth0");
	/* the idle task has none */
	assert_int_equal(host.n_tasks, 1);
	assert_int_equal(host.tid[0], 401);
	assert_int_equal(host.task_name[0].pid, 400);
	assert_string_equal(host.task_name[0].comm, "client");
	host.task = TASK(400, 401);
	client_to_container(&udp4, 0);
	assert_int_equal(host.n_devs, 3);
	assert_int_equal(host.n_tasks, 1);
	memset(devs_seen, 0, sizeof(devs_seen));
	memset(tasks_seen, 0, sizeof(tasks_seen));
	host.task = TASK(400, 401);
	client_to_container(&udp6, 0);
	assert_int_equal(host.n_devs, 6);
	assert_int_equal(host.n_tasks, 2);
}

/* Of two that share a place in the kernel side's memory, each is stored; the idle task never. */
static void test_names_collide(void **state)
{
	struct net far_net = { .ns.inum = HOST_NS + SEEN };
	struct net_device far = DEVICE(far, "far0", 2, far_net, NULL);

	(void)state;
	host.task = TASK(SEEN, SEEN);
	step_receive(fill(0, &tcp4), &nic);
	host.task = TASK(0, 0);
	step_ip_rcv(&pool[0], &nic);
	step_receive(fill(1, &tcp4), &far);
	assert_int_equal(host.n_devs, 2);
	assert_string_equal(host.dev_name[1].name, "far0");
	assert_int_equal(host.dev_key[1].netns, HOST_NS + SEEN);
	assert_int_equal(host.n_tasks, 1);
	host.task = TASK(7, 2 * SEEN);
	step_receive(&pool[1], &far);
	assert_int_equal(host.n_tasks, 2);
	assert_int_equal(host.tid[1], 2 * SEEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_journey(test_tcp), cmocka_journey(test_fast), cmocka_journey(test_threshold),
		cmocka_journey(test_tcp6), cmocka_journey(test_udp), cmocka_journey(test_only_the_socket), cmocka_journey(test_port_of_the_socket), cmocka_journey(test_peek),
		cmocka_journey(test_nat_in), cmocka_journey(test_nat_out), cmocka_journey(test_nat_out_tuple),
		cmocka_journey(test_loopback), cmocka_journey(test_netif_rx_on_nic),
		cmocka_journey(test_send_headed_tcp), cmocka_journey(test_synack), cmocka_journey(test_names),
		cmocka_journey(test_names_collide), cmocka_journey(test_segments),
	};

	return cmocka_run_group_tests_name("journey", tests, NULL, NULL);
}
