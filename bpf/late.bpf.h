/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where nothing is asked for but the wait in a UDP socket's queue, whoever the datagram
 * is of: its headers are looked at when it has waited too long, and of the others never.
 * To read them costs more than all else that is done here.
 *
 * Every datagram that is in a socket's queue has passed __udp_enqueue_schedule_skb()
 * (5.10 to 7.3), with softirqs off, and there by a trampoline, which is skipped only
 * within itself: the record at hand is that of the datagram that is read. Whether one
 * still waits is another matter, for the program at the read may be skipped.
 */
#ifndef SLOWPKT_LATE_BPF_H
#define SLOWPKT_LATE_BPF_H

#include "hops.bpf.h"
#include "look.bpf.h"

/* Held for as long as is slow. */
static __always_inline bool has_waited(const struct record *r, u64 now)
{
	return now >= r->last_at && now - r->last_at >= cfg.stage[PLACE_ENQUEUE][PLACE_READ];
}

/* The wait begins, and with it the journey: as begin(), stamp_anew() and publish() would write it. */
static __always_inline void begin_wait(struct record *r, struct sock *sk, struct sk_buff *skb, u64 now, u32 cpu)
{
	u32 gen = record_generation(now);
	u32 where = HOP_UDP_ENQUEUE | cpu << WHERE_CPU_SHIFT | gen << WHERE_GEN_SHIFT;
	u64 task = bpf_get_current_pid_tgid();
	struct net *net = READ(sk, __sk_common.skc_net.net);
	u32 netns = READ(net, ns.inum);

	r->skb = WAY_RESERVED;
	r->gen = gen;
	r->state = (RECORD_PARTIAL | RECORD_UNSEEN) << 8 | 1;
	r->head = (u64)READ(skb, head);
	r->skb_len = READ(skb, len);
	r->last_at = now;
	r->last_spot = netns;
	r->last_tid = task;
	r->last_where = where;
	r->last_link = last_link(PLACE_ENQUEUE, cpu);
	r->hop[0].at = now;
	r->hop[0].spot = netns;
	r->hop[0].tid = task;
	r->hop[0].where = where;
	note_task(task);
	if (cfg.must_meet)
		meet(r, netns, READ(skb, dev));
	counts_of(cpu)->matched++;
	if (r->gen == gen)
		r->skb = (u64)skb;
	else
		counts_of(cpu)->torn++;
}

/* The same where home is not free. */
static __noinline int begin_wait_away(struct sock *sk, struct sk_buff *skb, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct entry e;

	if (!entry_of(&e, skb, cpu))
		return 0;
	/* in the way of an earlier datagram in this skb, if that was taken out unseen */
	if (!tracked(&e)) {
		look_at_victim(e.index, now);
		claim(&e, now);
	}
	begin_wait(e.record, sk, skb, now, cpu);
	return 0;
}

static __always_inline int late_enqueue(struct sock *sk, struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_UDP_ENQUEUE);
	struct entry e;
	u64 now;

	/* UDP-Lite's come here too, up to 6.12 */
	if (READ(sk, sk_protocol) != IPPROTO_UDP || !has_wanted_port(sk) || !entry_of(&e, skb, cpu))
		return 0;
	now = bpf_ktime_get_ns();
	if (e.home->skb)
		begin_wait_away(sk, skb, now);
	else
		begin_wait(e.home, sk, skb, now, cpu);
	return 0;
}

static __noinline int late_read_slow(struct sk_buff *skb, u64 now)
{
	struct entry e;

	if (!entry_of(&e, skb, bpf_get_smp_processor_id()) || !tracked(&e))
		return 0;
	if (look_late(e.index, way_of(e.record), false))
		read_here(&e, skb, now);
	else
		release(&e);
	return 0;
}

static __always_inline int late_read(struct sock *sk, struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_UDP_READ);
	struct entry e;
	u64 now;

	if (!has_wanted_port(sk) || !entry_of(&e, skb, cpu) || !tracked(&e) || READ(skb, users.refs.counter) > 1)
		return 0;
	now = bpf_ktime_get_ns();
	if (has_waited(e.record, now))
		late_read_slow(skb, now);
	else
		release(&e);
	return 0;
}

/* Only the time until it is read is judged: one that is freed in the queue waits no more, that is all. */
static __always_inline int late_drop(struct sk_buff *skb)
{
	struct entry e;

	if (entry_of(&e, skb, count_hit(HOP_KFREE_SKB)) && tracked(&e))
		release(&e);
	return 0;
}

#endif
