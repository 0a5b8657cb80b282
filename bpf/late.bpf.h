/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where nothing is asked for but the wait in a UDP socket's queue, whoever the datagram
 * is of: its headers are looked at when it has waited too long, and of the others never.
 * To read them costs more than all else that is done here.
 *
 * Every datagram that is in a socket's queue has passed the hop where it went in, which
 * no other one interrupts: the record is the one that waits. Whether it still waits is
 * another matter, for the program at the read may be skipped.
 */
#ifndef SLOWPKT_LATE_BPF_H
#define SLOWPKT_LATE_BPF_H

#include "hops.bpf.h"
#include "look.bpf.h"

static __always_inline void claim_late(struct entry *e, u64 now)
{
	if (e->home->skb)
		look_at_full_set(e->index, now);
	claim(e, now);
}

/* The wait begins, and with it the journey: as begin() and hop_unsure() would write it. */
static __always_inline int late_enqueue(struct sock *sk, struct sk_buff *skb)
{
	u32 cpu = count_hit(HOP_UDP_ENQUEUE);
	struct record *r;
	struct entry e;
	struct net *net;
	u64 now, task;

	if (!has_wanted_port(sk) || !entry_of(&e, skb, cpu))
		return 0;
	now = bpf_ktime_get_ns();
	if (!at_home(&e))
		claim_late(&e, now);
	r = e.record;
	task = bpf_get_current_pid_tgid();
	r->gen = record_generation(now);
	r->state = (RECORD_PARTIAL | RECORD_UNSEEN) << 8 | 1;
	r->head = (u64)READ(skb, head);
	r->skb_len = READ(skb, len);
	r->last_at = now;
	net = READ(sk, __sk_common.skc_net.net);
	r->last_spot = READ(net, ns.inum);
	r->last_tid = task;
	r->last_where = HOP_UDP_ENQUEUE | cpu << WHERE_CPU_SHIFT | r->gen << WHERE_GEN_SHIFT;
	r->last_link = last_link(PLACE_ENQUEUE, cpu);
	r->hop[0].at = now;
	r->hop[0].spot = r->last_spot;
	r->hop[0].tid = task;
	r->hop[0].where = r->last_where;
	note_task(task);
	meet(r, r->last_spot, cfg.n_ifaces ? READ(skb, dev) : NULL);
	counts_of(cpu)->matched++;
	r->skb = e.skb;
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
