/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The filter by protocol, IP version and port, which can be asked before the rest of a packet is known. */
#ifndef SLOWPKT_PORTS_BPF_H
#define SLOWPKT_PORTS_BPF_H

#include "read.bpf.h"
#include "shared.bpf.h"

static __always_inline bool has_port(const volatile struct ports *ports, u16 port)
{
	u32 at = port;

	BOUND(at, 0xffff);
	return ports->bit[at >> 3] & 1 << (at & 7);
}

/* Ports in host order. */
static __always_inline bool wanted_ports(u16 sport, u16 dport)
{
	if (!cfg.asks_ports)
		return true;
	if (cfg.dport.used && !has_port(&cfg.dport, dport))
		return false;
	if (cfg.sport.used && !has_port(&cfg.sport, sport))
		return false;
	return !cfg.port.used || has_port(&cfg.port, dport) || has_port(&cfg.port, sport);
}

#endif
