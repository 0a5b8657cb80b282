// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The command line in words. */
#include <stdarg.h>
#include <string.h>

#include "cmdline.h"
#include "hop.h"
#include "parse.h"

/* A text of limited size; what no longer fits ends it with dots. */
struct text {
	char *buf;
	size_t size, len;
	bool full;
};

enum { LIST_TEXT = 64, TIME_TEXT = 32 };

/*
 * Adds a piece, or dots for this and all later ones: a cut address or port would
 * read as another one.
 */
static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *format, ...)
{
	static const char dots[] = " ...";
	size_t room = t->size - t->len - (sizeof(dots) - 1);
	va_list args;
	int n;

	if (t->full)
		return;
	va_start(args, format);
	n = vsnprintf(t->buf + t->len, room, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= room) {
		memcpy(t->buf + t->len, dots, sizeof(dots));
		t->full = true;
		return;
	}
	t->len += (size_t)n;
}

/* A time in the largest unit that it fills, exact: 1.5ms. */
static const char *format_time(uint64_t ns, char buf[TIME_TEXT])
{
	uint64_t unit = ns >= NS_PER_S ? NS_PER_S : ns >= NS_PER_MS ? NS_PER_MS :
			ns >= NS_PER_US ? NS_PER_US : 1;
	const char *name = unit == NS_PER_S ? "s" : unit == NS_PER_MS ? "ms" :
			   unit == NS_PER_US ? "us" : "ns";
	uint64_t rest = ns % unit;
	int n = snprintf(buf, TIME_TEXT, "%llu", (unsigned long long)(ns / unit));

	if (rest)
		buf[n++] = '.';
	for (; rest; rest = rest * 10 % unit)
		buf[n++] = (char)('0' + rest * 10 / unit);
	strcpy(buf + n, name);
	return buf;
}

static bool has_port(const struct ports *ports, unsigned int port)
{
	return ports->bit[port / 8] >> port % 8 & 1;
}

/* "80", or "80,443,8000-8010". Returns whether it is more than one. */
static bool list_ports(const struct ports *ports, char buf[LIST_TEXT])
{
	struct text t = { buf, LIST_TEXT, 0, false };
	unsigned int count = 0;

	buf[0] = '\0';
	for (unsigned int lo = 0, hi; lo <= UINT16_MAX; lo = hi + 1) {
		hi = lo;
		if (!has_port(ports, lo))
			continue;
		while (hi < UINT16_MAX && has_port(ports, hi + 1))
			hi++;
		count += hi - lo + 1;
		if (lo == hi)
			add(&t, "%s%u", t.len ? "," : "", lo);
		else
			add(&t, "%s%u-%u", t.len ? "," : "", lo, hi);
	}
	return count > 1;
}

/* "<word> ADDR or ADDR ports N,N", or nothing. Returns whether it wrote. */
static bool add_endpoint(struct text *t, const char *word, const struct prefixes *addresses,
			 const struct ports *ports)
{
	char list[LIST_TEXT], one[PREFIX_TEXT];
	struct text l = { list, sizeof(list), 0, false };

	if (!addresses->n && !ports->used)
		return false;
	add(t, " %s", word);
	for (unsigned int i = 0; i < addresses->n; i++)
		add(&l, "%s%s", i ? " or " : " ", prefix__format(&addresses->p[i], one));
	if (addresses->n)
		add(t, "%s", list);
	if (ports->used) {
		bool many = list_ports(ports, list);

		add(t, " port%s %s", many ? "s" : "", list);
	}
	return true;
}

/* The one list of ports in the filter, if it lets one direction only through. */
static const struct ports *one_way(const struct config *c)
{
	if (c->port.used || c->src.n || c->dst.n || c->dport.used == c->sport.used)
		return NULL;
	return c->dport.used ? &c->dport : &c->sport;
}

static void add_tuple(struct text *t, const struct config *c)
{
	static const struct prefixes no_address;
	static const struct ports no_port;
	const struct ports *half = one_way(c);
	bool more;

	add(t, "%s", c->tcp && c->udp ? "tcp and udp" : c->tcp ? "tcp" : "udp");
	/* addresses say it themselves */
	if (c->ipv4 != c->ipv6 && !c->host.n && !c->src.n && !c->dst.n)
		add(t, " over IPv%c", c->ipv4 ? '4' : '6');
	more = add_endpoint(t, "from", &c->src, &c->sport);
	more |= add_endpoint(t, "to", &c->dst, &c->dport);
	/* an address and a port of -H and -p may be those of different ends */
	more |= add_endpoint(t, more ? "and from or to" : "from or to", &c->host, &no_port);
	add_endpoint(t, more ? "and from or to" : "from or to", &no_address, &c->port);
	if (c->has_seq)
		add(t, " with seq %u in its range", c->seq);
	/* A UDP server's requests are a whole job; half of a TCP connection is not. */
	if (half && c->tcp) {
		char list[LIST_TEXT];

		list_ports(half, list);
		add(t, " (only this direction; -p %s for both)", list);
	}
}

static void add_journey(struct text *t, const struct config *c)
{
	char list[LIST_TEXT];
	struct text l = { list, sizeof(list), 0, false };

	for (unsigned int i = 0; i < c->n_netns; i++)
		add(&l, "%s%u", i ? " or " : " through netns ", c->netns[i]);
	if (c->n_netns)
		add(t, "%s", list);
	l.len = 0;
	l.full = false;
	for (unsigned int i = 0; i < c->n_ifaces; i++) {
		const char *word = i ? "or" : c->n_netns ? "and through" : "through";
		const struct iface *iface = &c->iface[i];

		if (iface->netns)
			add(&l, " %s %s of netns %u", word, iface->name, iface->netns);
		else
			add(&l, " %s %s", word, iface->name);
	}
	if (c->n_ifaces)
		add(t, "%s", list);
	if (c->pid)
		add(t, " read or sent by pid %u", c->pid);
}

static void add_thresholds(struct text *t, const struct cmdline *c)
{
	const struct config *config = &c->o->config;
	char tcp[TIME_TEXT], udp[TIME_TEXT];
	bool first = true;

	if (c->has_total && !c->total) {
		add(t, ", every packet");
		return;
	}
	format_time(config->total_tcp, tcp);
	format_time(config->total_udp, udp);
	if (!c->o->only_stages) {
		if (config->tcp && config->udp && config->total_tcp != config->total_udp)
			add(t, ", total ≥ %s (tcp), ≥ %s (udp)", tcp, udp);
		else
			add(t, ", total ≥ %s", config->tcp ? tcp : udp);
		first = false;
	}
	for (unsigned int i = 0; i < STAGES; i++) {
		char time[TIME_TEXT];

		if (!(c->stages & 1u << i))
			continue;
		add(t, "%s%s ≥ %s", first ? ", " : " or ", stage__name(i),
		    format_time(c->stage[i], time));
		first = false;
	}
}

/* No more than the hops that the named stages need. */
static bool has_few_hops(const struct options *o)
{
	return o->only_stages && (o->hops | hop__at(ARRIVAL_PLACES)) != (1u << HOP_IDS) - 1;
}

static void describe_filter(const struct cmdline *c)
{
	struct options *o = c->o;
	struct text t = { o->what, sizeof(o->what), 0, false };

	add_tuple(&t, &o->config);
	add_journey(&t, &o->config);
	add_thresholds(&t, c);
	if (has_few_hops(o))
		add(&t, " (only the hops of %s are attached: partial journeys, tuples as seen there)",
		    c->stages & (c->stages - 1) ? "these stages" : "this stage");
}

static bool has_tuple_filter(const struct config *c)
{
	return c->host.n || c->src.n || c->dst.n || c->port.used || c->dport.used || c->sport.used;
}

static void describe_remedy(const struct cmdline *c)
{
	const struct config *config = &c->o->config;
	struct text t = { c->o->hint, sizeof(c->o->hint), 0, false };
	const struct ports *half = one_way(config);
	char list[LIST_TEXT];

	if (half) {
		char option = config->dport.used ? 'd' : 's';

		list_ports(half, list);
		add(&t, "-%c %s is one direction only: try -p %s", option, list, list);
	} else if (config->has_seq) {
		add(&t, "--seq finds only what passes from now on, and not a retransmission cut "
		    "otherwise: try without it");
	} else if (config->pid) {
		add(&t, "--pid finds only what this process itself reads or sends: try without "
		    "it, or -N pid:%u for all of its netns", config->pid);
	} else if (config->n_netns || config->n_ifaces) {
		add(&t, "no packet of the filter passed %s: try without %s, and look at the path "
		    "of what comes", config->n_netns ? "this netns" : "this device",
		    config->n_netns && config->n_ifaces ? "-N and -i" :
		    config->n_netns ? "-N" : "-i");
	} else if (has_few_hops(c->o)) {
		add(&t, "only few hops are attached: try -l TIME without a stage");
	} else if (!has_tuple_filter(config)) {
		add(&t, "no such packet passed at all: is this the host that the traffic goes through?");
	} else {
		add(&t, "no packet passed the filter: check port and address, or run without a "
		    "filter and -l 0 -c 10");
	}
}

void cmdline__describe(const struct cmdline *c)
{
	describe_filter(c);
	describe_remedy(c);
}
