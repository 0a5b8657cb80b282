// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cmdline.h"
#include "netns.h"
#include "parse.h"

#ifndef SLOWPKT_VERSION
#define SLOWPKT_VERSION "0.1"
#endif

enum {
	TABLE_DEFAULT = 32768,
	TABLE_MIN = 64,
	TABLE_MAX = 4194304,
	PID_MAX = 4194304,		/* the kernel's PID_MAX_LIMIT */
	SLIP_BELOW = 100000,		/* ns: nobody asks for bare numbers below it */
};

enum { KEY_SRC = 256, KEY_DST, KEY_PID, KEY_SEQ, KEY_TABLE, KEY_ATTACH, KEY_BTF, KEY_CHECK, KEY_LIST, KEY_USAGE };

#define A_PORT "a port is 0-65535, several are PORT,PORT or LO-HI"
#define A_TIME "a time is a number and ns, us, ms or s, such as 1.5ms"
#define A_NETNS "a netns is an inum such as 4026531840, a /path, an `ip netns` name or pid:N"

static const char head[] =
	"Prints the packets that this host's network stack held too long, and where it held them."
	"\v"
	"PORTS is PORT[,PORT|LO-HI...]. REF is an inum, a /path, an `ip netns` name or pid:N. "
	"TIME is a number and ns, us, ms or s: 1.5ms. STAGE is one of output, neigh, qdisc, "
	"device, napi, gro, rps, backlog, bridge, link, forward, input, tcplock, socket, drop, "
	"other. What gro and rps need is attached only where they are named.\n"
	"\n"
	"Examples:\n"
	"  slowpkt -p 6379 -l 30ms | grep 3511028477\n"
	"        of the slow packets to and from a redis, the one with this TCP seq\n"
	"  slowpkt -u -d 53 -l 3ms\n"
	"        queries that took 3 ms to the DNS server's read\n"
	"  slowpkt -u -l socket=3ms\n"
	"        datagrams that waited for their reader, with two hooks only\n"
	"  slowpkt -N pid:1234 -l 50ms\n"
	"        what went through the container of process 1234\n"
	"  slowpkt -p 80 -l qdisc=20ms -j\n"
	"        what a qdisc held for 20 ms, as JSON\n"
	"  slowpkt -H 10.0.1.0/24 -i eth0 -l 0 -c 10\n"
	"        any ten packets of a network through eth0\n"
	"\n"
	"Exit status: 0 done; 1 could not run; 64 bad usage.";

static const struct argp_option table[] = {
	{ .doc = "Packets (all of these must hold on one tuple, before or after NAT):", .group = 1 },
	{ "dport", 'd', "PORTS", 0, "to these ports", 1 },
	{ "sport", 's', "PORTS", 0, "from these ports", 1 },
	{ "port", 'p', "PORTS", 0, "from or to these ports: both directions", 1 },
	{ "host", 'H', "ADDR[/LEN]", 0, "from or to this address, IPv4 or IPv6; repeatable", 1 },
	{ "src", KEY_SRC, "ADDR[/LEN]", 0, "from this address; repeatable", 1 },
	{ "dst", KEY_DST, "ADDR[/LEN]", 0, "to this address; repeatable", 1 },
	{ "tcp", 't', NULL, 0, "TCP only", 1 },
	{ "udp", 'u', NULL, 0, "UDP only", 1 },
	{ "ipv4", '4', NULL, 0, "IPv4 only", 1 },
	{ "ipv6", '6', NULL, 0, "IPv6 only", 1 },
	{ "seq", KEY_SEQ, "N", 0, "TCP packets whose range contains the sequence number N", 1 },

	{ .doc = "Journeys:", .group = 2 },
	{ "netns", 'N', "REF", 0, "passed this network namespace; repeatable", 2 },
	{ "interface", 'i', "NAME[@REF]", 0, "passed this device (of netns REF); repeatable", 2 },
	{ "pid", KEY_PID, "PID", 0, "read, or sent from sendmsg, by this process", 2 },

	{ .doc = "Thresholds:", .group = 3 },
	{ "latency", 'l', "[STAGE=]TIME", 0,
	  "print what took so long from first hop to end (default: 3ms for UDP, 30ms for TCP; 0: "
	  "everything), or in STAGE; repeatable. Where only stages are named, only the hooks "
	  "that they need are attached", 3 },

	{ .doc = "Output:", .group = 4 },
	{ "oneline", '1', NULL, 0, "a line per packet, without its path", 4 },
	{ "json", 'j', NULL, 0, "a JSON object per line", 4 },
	{ "count", 'c', "N", 0, "end after N packets", 4 },
	{ "duration", 'D', "TIME", 0, "end after this time (a bare number is seconds)", 4 },
	{ "quiet", 'q', NULL, 0, "nothing but packets and errors", 4 },
	{ "verbose", 'v', NULL, 0, "say how each hop is attached, and at the end what it cost (to measure that costs, too)", 4 },

	{ .doc = "Other:", .group = 5 },
	{ "table", KEY_TABLE, "N", 0, "follow N packets at once, 1 KB each (default 32768)", 5 },
	{ "check", KEY_CHECK, NULL, 0, "say what this kernel lets be attached and what is lost where it does not, and end", 5 },
	{ "list-hooks", KEY_LIST, NULL, 0, "print the table of hops, and end; needs no root", 5 },
	{ "attach", KEY_ATTACH, "WAY", 0,
	  "attach hops in this way only, to look into one: btf, kprobe, or article (the article's "
	  "function where slowpkt has a better one)", 5 },
	{ "btf", KEY_BTF, "FILE", 0, "the kernel's types, for a kernel that has no BTF of its own", 5 },
	/* argp moves help and version to the last group, which is -1 */
	{ "help", 'h', NULL, 0, "this text", -1 },
	{ "usage", KEY_USAGE, NULL, 0, "a short list of the options", -1 },
	{ "version", 'V', NULL, 0, "the version", -1 },
	{ 0 },
};

int cmdline__error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("slowpkt: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	return -EINVAL;
}

static int read_ports(const char *option, const char *value, struct ports *ports)
{
	struct part bad;
	int rc = parse__ports(value, ports, &bad);

	if (rc == -ERANGE && memchr(bad.at, '-', (size_t)bad.len))
		return cmdline__error("%s: bad port range '%.*s': " A_PORT " with LO not above HI",
				      option, bad.len, bad.at);
	if (rc)
		return cmdline__error("%s: bad port '%.*s': " A_PORT, option, bad.len, bad.at);
	return 0;
}

static int read_prefix(const char *option, const char *value, struct prefixes *list)
{
	struct prefix prefix;
	char text[PREFIX_TEXT];
	int rc = parse__prefix(value, &prefix);

	if (rc == -EDOM)
		return cmdline__error("%s: '%s' has bits set behind its LEN: did you mean %s, or %.*s?",
				      option, value, prefix__format(&prefix, text),
				      (int)strcspn(value, "/"), value);
	if (rc)
		return cmdline__error("%s: bad address '%s': ADDR[/LEN] is an IPv4 address with "
				      "LEN 0-32, or IPv6 with LEN 0-128", option, value);
	if (list->n == MAX_PREFIXES)
		return cmdline__error("%s: '%s' is one too many: %d addresses at the most",
				      option, value, MAX_PREFIXES);
	list->p[list->n++] = prefix;
	return 0;
}

static int read_number(const char *option, const char *value, uint64_t min, uint64_t max,
		       uint64_t *number)
{
	if (parse__number(value, min, max, number))
		return cmdline__error("%s: bad number '%s': it is %llu-%llu", option, value,
				      (unsigned long long)min, (unsigned long long)max);
	return 0;
}

/* Finds the netns of -N, or of an -i whose whole value is given. */
static int read_netns(const char *option, const char *ref, uint32_t *inum)
{
	int rc = netns__find(ref, inum);

	switch (rc) {
	case 0:
		return 0;
	case 1:
		fprintf(stderr, "slowpkt: %s: cannot check that netns %s is there: "
			"not allowed to look at every process's\n", option, ref);
		return 0;
	case -EINVAL:
		return cmdline__error("%s: bad netns '%s': " A_NETNS, option, ref);
	case -ENOENT:
		return cmdline__error("%s: no such netns '%s': " A_NETNS
				      "; `lsns -t net` lists them", option, ref);
	case -ESRCH:
		return cmdline__error("%s: no such process '%s': " A_NETNS, option, ref);
	case -EBADF:
		return cmdline__error("%s: '%s' is not a network namespace: " A_NETNS, option, ref);
	default:
		cmdline__error("%s: cannot look at netns '%s': %s%s", option, ref, strerror(-rc),
			       rc == -EACCES || rc == -EPERM ? ": run as root" : "");
		return rc;
	}
}

static int read_netns_option(const char *ref, struct config *config)
{
	uint32_t inum;
	int rc = read_netns("-N", ref, &inum);

	if (rc)
		return rc;
	if (config->n_netns == MAX_NETNS)
		return cmdline__error("-N: '%s' is one too many: %d at the most", ref, MAX_NETNS);
	config->netns[config->n_netns++] = inum;
	return 0;
}

static int read_iface(const char *value, struct config *config)
{
	size_t len = strcspn(value, "@");
	struct iface iface = { 0 };

	if (netns__check_iface(value, len))
		return cmdline__error("-i: bad interface '%.*s': NAME[@NETNS] has a NAME of 1-%d "
				      "characters without blank, '/' and ':'", (int)len, value,
				      DEV_NAME_LEN - 1);
	memcpy(iface.name, value, len);
	if (value[len] == '@') {
		uint32_t inum;
		int rc = read_netns("-i", value + len + 1, &inum);

		/* `ip link` writes so, and people copy it */
		if (rc && !strncmp(value + len + 1, "if", 2))
			fprintf(stderr, "slowpkt: -i: did you mean %.*s?\n", (int)len, value);
		if (rc)
			return rc;
		iface.netns = inum;
	}
	if (config->n_ifaces == MAX_IFACES)
		return cmdline__error("-i: '%s' is one too many: %d at the most", value, MAX_IFACES);
	config->iface[config->n_ifaces++] = iface;
	return 0;
}

/* The time of an -l whose whole value is given; time is all or the end of it. */
static int read_threshold(const char *value, const char *time, uint64_t *ns)
{
	bool bare = time[strspn(time, "0123456789.")] == '\0';
	char ms[32];
	uint64_t ignored;
	int rc = parse__time(time, 1, ns);

	if (rc == -ERANGE)
		return cmdline__error("-l: time '%s' is too long: 292 years at the most", time);
	if (!rc && (!bare || !*ns || *ns >= SLIP_BELOW))
		return 0;
	/* a bare number that is not whole is as surely a slip as a small one */
	if (bare && snprintf(ms, sizeof(ms), "%sms", time) < (int)sizeof(ms) &&
	    !parse__time(ms, 1, &ignored))
		return cmdline__error("-l: '%s' without a unit is nanoseconds: did you mean %.*s%s?",
				      value, (int)(time - value), value, ms);
	if (stage__parse(time) >= 0)
		return cmdline__error("-l: stage '%s' needs a time: -l %s=20ms", time, time);
	return cmdline__error("-l: bad time '%s': " A_TIME ", and STAGE=TIME judges a stage", time);
}

static int read_latency(const char *value, struct cmdline *c)
{
	const char *equals = strchr(value, '=');
	char name[STAGE_TEXT];
	int stage, rc;

	if (!equals) {
		rc = read_threshold(value, value, &c->total);
		c->has_total |= !rc;
		return rc;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(equals - value), value);
	stage = stage__parse(name);
	if (stage < 0) {
		char list[256] = "";

		for (unsigned int i = 0, n = 0; i < STAGES; i++)
			n += (unsigned int)snprintf(list + n, sizeof(list) - n, "%s%s",
						    i ? ", " : "", stage__name(i));
		return cmdline__error("-l: unknown stage '%s': it is one of %s", name, list);
	}
	rc = read_threshold(value, equals + 1, &c->stage[stage]);
	if (!rc)
		c->stages |= 1u << stage;
	return rc;
}

static int read_duration(const char *value, uint64_t *ns)
{
	int rc = parse__time(value, NS_PER_S, ns);

	if (rc == -ERANGE)
		return cmdline__error("-D: time '%s' is too long: 292 years at the most", value);
	if (rc || !*ns)
		return cmdline__error("-D: bad time '%s': " A_TIME ", above 0; bare, it is seconds",
				      value);
	return 0;
}

static int read_table(const char *value, struct config *config)
{
	uint64_t records;
	int rc = read_number("--table", value, TABLE_MIN, TABLE_MAX, &records);

	if (rc)
		return rc;
	config->sets = (records + SET_WAYS - 1) / SET_WAYS;
	return 0;
}

static int read_attach(const char *value, struct options *o)
{
	static const char *const ways[] = {
		[ATTACH_BTF] = "btf", [ATTACH_KPROBE] = "kprobe", [ATTACH_ARTICLE] = "article",
	};

	for (unsigned int i = ATTACH_BTF; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!strcmp(value, ways[i])) {
			o->attach = i;
			return 0;
		}
	}
	return cmdline__error("--attach: unknown way '%s': it is btf, kprobe or article", value);
}

static int read_filter(int key, char *value, struct config *config)
{
	uint64_t number;
	int rc;

	switch (key) {
	case 'd':
		return read_ports("-d", value, &config->dport);
	case 's':
		return read_ports("-s", value, &config->sport);
	case 'p':
		return read_ports("-p", value, &config->port);
	case 'H':
		return read_prefix("-H", value, &config->host);
	case KEY_SRC:
		return read_prefix("--src", value, &config->src);
	case KEY_DST:
		return read_prefix("--dst", value, &config->dst);
	case 'N':
		return read_netns_option(value, config);
	case 'i':
		return read_iface(value, config);
	case KEY_PID:
		rc = read_number("--pid", value, 1, PID_MAX, &number);
		if (!rc)
			config->pid = (uint32_t)number;
		return rc;
	case KEY_SEQ:
		rc = read_number("--seq", value, 0, UINT32_MAX, &number);
		if (!rc) {
			config->seq = (uint32_t)number;
			config->has_seq = 1;
		}
		return rc;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int read_flag(int key, struct cmdline *c)
{
	switch (key) {
	case 't':
		c->tcp = true;
		return 0;
	case 'u':
		c->udp = true;
		return 0;
	case '4':
		c->ipv4 = true;
		return 0;
	case '6':
		c->ipv6 = true;
		return 0;
	case '1':
		c->o->oneline = true;
		return 0;
	case 'j':
		c->o->json = true;
		return 0;
	case 'q':
		c->o->quiet = true;
		return 0;
	case 'v':
		c->o->verbose = true;
		return 0;
	case KEY_CHECK:
		c->o->check = true;
		return 0;
	case KEY_LIST:
		c->o->list_hooks = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t read_option(int key, char *value, struct argp_state *state)
{
	struct cmdline *c = state->input;
	int rc;

	switch (key) {
	case ARGP_KEY_INIT:
		/* or argp would end the process with its own words behind an error */
		state->err_stream = NULL;
		return 0;
	case ARGP_KEY_ARG:
		return -cmdline__error("unexpected word '%s': slowpkt takes options only", value);
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	case KEY_USAGE:
		argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
		return 0;
	case 'V':
		puts("slowpkt " SLOWPKT_VERSION);
		exit(EXIT_SUCCESS);
	case 'l':
		return -read_latency(value, c);
	case 'c':
		return -read_number("-c", value, 1, UINT64_MAX, &c->o->count);
	case 'D':
		return -read_duration(value, &c->o->duration);
	case KEY_TABLE:
		return -read_table(value, &c->o->config);
	case KEY_ATTACH:
		return -read_attach(value, c->o);
	case KEY_BTF:
		c->o->btf = value;
		return 0;
	}
	rc = read_flag(key, c);
	if (rc == ARGP_ERR_UNKNOWN)
		rc = read_filter(key, value, &c->o->config);
	return rc == ARGP_ERR_UNKNOWN ? rc : -rc;
}

void options__parse(struct options *o, int argc, char **argv)
{
	static const struct argp argp = { .options = table, .parser = read_option, .doc = head };
	struct cmdline c = { .o = o };
	char *name = argc > 0 ? argv[0] : NULL;
	int rc;

	memset(o, 0, sizeof(*o));
	o->config.sets = TABLE_DEFAULT / SET_WAYS;

	/* getopt's messages begin with argv[0] */
	if (name)
		argv[0] = (char *)"slowpkt";
	rc = argp_parse(&argp, argc, argv, ARGP_NO_HELP, NULL, &c);
	if (name)
		argv[0] = name;
	if (!rc)
		rc = -cmdline__settle(&c);
	if (rc == EACCES || rc == EPERM)
		exit(EXIT_FAILURE);
	if (rc) {
		fputs("Try 'slowpkt --help'\n", stderr);
		exit(EXIT_BAD_USAGE);
	}
	cmdline__describe(&c);
}
