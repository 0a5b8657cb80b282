/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which packets are let through. Everything that is asked must hold on one tuple. */
#ifndef SLOWPKT_FILTER_BPF_H
#define SLOWPKT_FILTER_BPF_H

#include "shared.bpf.h"
#include "packet.bpf.h"

/* n: entries of the list; a single one is compared as fast as the sieve is asked. */
static __always_inline bool may_hold(const volatile struct sieve *sieve, u32 n, u64 key)
{
	return n == 1 || sieve->may[sieve_slot(key)];
}

static __always_inline bool within(const volatile struct prefixes *list, const u64 *addr)
{
	if (!may_hold(&list->sieve, list->n, prefixes_key(list, addr)))
		return false;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_PREFIXES && i < list->n; i++) {
		const volatile struct prefix *p = &list->p[i];

		if ((addr[1] & p->mask[1]) == p->addr[1] && (addr[0] & p->mask[0]) == p->addr[0])
			return true;
	}
	return false;
}

static __always_inline bool wanted_hosts(const struct tuple *t)
{
	if (cfg.src.n && !within(&cfg.src, t->src))
		return false;
	if (cfg.dst.n && !within(&cfg.dst, t->dst))
		return false;
	return !cfg.host.n || within(&cfg.host, t->src) || within(&cfg.host, t->dst);
}

/* The filter of one tuple, but for what the parser has asked (ports.bpf.h). */
static __always_inline bool wanted(const struct packet *p)
{
	if (!cfg.asks_more)
		return true;
	/* a segment without payload still has its own number */
	if (cfg.has_seq && cfg.seq - p->seq >= (p->len ?: 1))
		return false;
	return wanted_hosts(&p->tuple);
}

static __always_inline bool is_wanted_netns(u32 netns)
{
	if (!may_hold(&cfg.netns_sieve, cfg.n_netns, netns))
		return false;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_NETNS && i < cfg.n_netns; i++)
		if (cfg.netns[i] == netns)
			return true;
	return false;
}

/* Seldom asked, and not inlined for the sake of its callers' stack. */
static __noinline int is_wanted_device(struct net_device *dev, u32 netns)
{
	u64 dev_name[2] = {};

	/* of a device that was renamed the old name's end may lie behind the new one */
	if (bpf_core_read_str(dev_name, sizeof(dev_name), &dev->name) < 0 ||
	    !may_hold(&cfg.iface_sieve, cfg.n_ifaces, dev_name[0] ^ dev_name[1]))
		return false;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < MAX_IFACES && i < cfg.n_ifaces; i++) {
		const volatile u64 *name = (const volatile u64 *)cfg.iface[i].name;

		if (name[0] == dev_name[0] && name[1] == dev_name[1] &&
		    (!cfg.iface[i].netns || cfg.iface[i].netns == netns))
			return true;
	}
	return false;
}

/* Which conditions of the whole journey a place meets (enum record_met). dev: NULL at a socket. */
static __always_inline u8 meets(u32 netns, struct net_device *dev)
{
	u8 met = 0;

	if (cfg.n_netns && is_wanted_netns(netns))
		met |= MET_NETNS;
	if (cfg.n_ifaces && dev && is_wanted_device(dev, netns))
		met |= MET_IFACE;
	return met;
}

#endif
