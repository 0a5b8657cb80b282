// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What follows from all options together, and which of them exclude each other. */
#include <errno.h>

#include "cmdline.h"
#include "hop.h"
#include "parse.h"
#include "sieve.h"

/* The articles' thresholds. */
#define TOTAL_TCP (30 * NS_PER_MS)
#define TOTAL_UDP (3 * NS_PER_MS)

enum { IPV4 = 1, IPV6 = 2 };

static int settle_protocols(struct cmdline *c)
{
	struct config *config = &c->o->config;
	bool tcp = c->tcp || !c->udp, udp = c->udp || !c->tcp;

	if (config->has_seq) {
		if (!tcp)
			return cmdline__error("--seq: only TCP has sequence numbers: leave out -u");
		udp = false;
	}
	if (c->stages & 1u << STAGE_SOCKET && !udp)
		return cmdline__error("-l socket: it is judged for UDP only: leave out %s",
				      config->has_seq ? "--seq" : "-t");
	if (c->stages & 1u << STAGE_TCPLOCK && !tcp)
		return cmdline__error("-l tcplock: only TCP has this stage: leave out -u");

	/* where nothing of a protocol is judged, its packets need not be tracked */
	if (!c->has_total && c->stages == 1u << STAGE_SOCKET)
		tcp = false;
	if (!c->has_total && c->stages == 1u << STAGE_TCPLOCK)
		udp = false;
	config->tcp = tcp;
	config->udp = udp;
	return 0;
}

/* The IP versions that a list of prefixes lets through; 0 after a message. */
static unsigned int versions_of(const struct prefixes *list, const char *option)
{
	unsigned int versions = 0;
	bool wide = false;

	for (unsigned int i = 0; i < list->n; i++) {
		versions |= prefix__is_ipv4(&list->p[i]) ? IPV4 : IPV6;
		wide |= prefix__covers_ipv4(&list->p[i]);
	}
	/* IPv4 lies inside ::/0 in the kernel's comparison, but not in the user's mind */
	if (wide && versions == (IPV4 | IPV6)) {
		cmdline__error("%s: ::/0 and an IPv4 address exclude each other: give one of "
			       "them, or no address at all", option);
		return 0;
	}
	return versions ? versions : IPV4 | IPV6;
}

static int settle_versions(struct cmdline *c)
{
	struct config *config = &c->o->config;
	const struct prefixes *lists[] = { &config->host, &config->src, &config->dst };
	static const char *const options[] = { "-H", "--src", "--dst" };
	unsigned int left = IPV4 | IPV6;
	const char *narrowed = NULL;

	if (c->ipv4 != c->ipv6) {
		left = c->ipv4 ? IPV4 : IPV6;
		narrowed = c->ipv4 ? "-4" : "-6";
	}
	for (unsigned int i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		unsigned int versions = versions_of(lists[i], options[i]);

		if (!versions)
			return -EINVAL;
		if (!(left & versions))
			return cmdline__error("%s: no packet can match: it lets only %s through, "
					      "%s only %s", options[i],
					      versions == IPV4 ? "IPv4" : "IPv6", narrowed,
					      left == IPV4 ? "IPv4" : "IPv6");
		if ((left & versions) != left)
			narrowed = options[i];
		left &= versions;
	}
	config->ipv4 = !!(left & IPV4);
	config->ipv6 = !!(left & IPV6);
	return 0;
}

/* The smallest threshold of the named stages among those of a mask. */
static uint64_t threshold_of(const struct cmdline *c, uint32_t stages)
{
	uint64_t least = NEVER;

	for (unsigned int i = 0; i < STAGES; i++)
		if (c->stages & stages & 1u << i && c->stage[i] < least)
			least = c->stage[i];
	return least;
}

/* The places (mask) out of which a stage is judged that begins there; all where everything is. */
static uint32_t waits_of(const struct cmdline *c)
{
	uint32_t waits = 0;

	if (!c->o->only_stages || c->stages & (1u << STAGE_DROP | 1u << STAGE_OTHER))
		return ~0u;
	for (unsigned int place = 0; place < PLACES; place++)
		if (c->stages & stage__out_of(place))
			waits |= 1u << place;
	return waits;
}

static void settle_thresholds(struct cmdline *c)
{
	struct config *config = &c->o->config;

	c->o->only_stages = c->stages && !c->has_total;
	if (c->o->only_stages) {
		config->total_tcp = config->total_udp = NEVER;
	} else {
		config->total_tcp = c->has_total ? c->total : TOTAL_TCP;
		config->total_udp = c->has_total ? c->total : TOTAL_UDP;
	}
	config->judge_stages = c->stages != 0;
	for (unsigned int from = 0; from < PLACES; from++)
		for (unsigned int to = 0; to < PLACES; to++)
			config->stage[from][to] = threshold_of(c, stage__between(from, to));
	config->waits = waits_of(c);
}

/* The hops that only packets of one protocol pass, of the other one. */
static uint32_t hops_of_others(const struct config *config)
{
	const uint32_t tcp = 1u << HOP_TCP_V4_RCV | 1u << HOP_TCP_V6_RCV | 1u << HOP_TCP_RCV_STATE_PROCESS |
			     1u << HOP_TCP_RCV_ESTABLISHED | 1u << HOP_IP_QUEUE_XMIT | 1u << HOP_IP6_XMIT |
			     1u << HOP_IP_BUILD_AND_SEND_PKT;
	/* ip_send_skb is not among them: TCP answers by it where it has no socket */
	const uint32_t udp = 1u << HOP_UDP_ENQUEUE | 1u << HOP_UDP_READ | 1u << HOP_IP6_SEND_SKB;

	return (config->tcp ? 0 : tcp) | (config->udp ? 0 : udp);
}

static void settle_hops(struct cmdline *c)
{
	uint32_t places = 0;

	if (c->o->check) {
		c->o->hops = (1u << HOP_IDS) - 1;
		return;
	}
	for (unsigned int i = 0; i < STAGES; i++)
		if (c->stages & 1u << i)
			places |= stage__places(i);
	c->o->config.notes_arrivals = (places & ARRIVAL_PLACES) != 0;
	if (!c->o->only_stages)
		places |= ~ARRIVAL_PLACES;
	/* a packet is cut between the qdisc and the driver: who asks there must follow it */
	if (places & 1u << PLACE_XMIT)
		places |= 1u << PLACE_CUT;
	/* what is freed in its queue must not be told as waiting there */
	if (places & (1u << PLACE_ENQUEUE | 1u << PLACE_QUEUE))
		places |= 1u << PLACE_DROP;
	c->o->hops = hop__at(places) & ~hops_of_others(&c->o->config);
	c->o->config.begins_at_socket = places == (1u << PLACE_ENQUEUE | 1u << PLACE_READ | 1u << PLACE_DROP);
}

_Static_assert(HOP_IDS < 32, "options.hops is a mask of 32 bits");

static int settle_attach(const struct options *o)
{
	if (o->btf && o->attach == ATTACH_BTF)
		return cmdline__error("--btf: with types from a file there are only raw_tp and kprobe: "
				      "leave out --attach=btf");
	return 0;
}

int cmdline__settle(struct cmdline *c)
{
	struct config *config = &c->o->config;
	int rc = settle_protocols(c);

	if (!rc)
		rc = settle_versions(c);
	if (!rc)
		rc = settle_attach(c->o);
	if (rc)
		return rc;
	settle_thresholds(c);
	settle_hops(c);
	config->asks_ports = config->dport.used || config->sport.used || config->port.used;
	config->asks_more = config->has_seq || config->host.n || config->src.n || config->dst.n;
	config->must_meet = (config->n_netns ? MET_NETNS : 0) | (config->n_ifaces ? MET_IFACE : 0) |
			    (config->pid ? MET_PID : 0);
	config->looks_late = config->begins_at_socket && config->ipv4 && config->ipv6 && !config->asks_more &&
			     !config->sport.used && !config->port.used;
	sieve__fill(config);
	return 0;
}
