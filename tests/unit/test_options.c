// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Every option and its values. */
#define _GNU_SOURCE 1	/* unshare */
#include "command.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "parse.h"
#include "stage.h"

static int has_port(const struct ports *p, unsigned int port)
{
	return p->bit[port / 8] >> port % 8 & 1;
}

static unsigned int count_ports(const struct ports *p)
{
	unsigned int n = 0;

	for (unsigned int port = 0; port < 65536; port++)
		n += has_port(p, port);
	return n;
}

static void test_ports(void **state)
{
	static const char *const names[][2] = {
		{ "-d", "--dport" }, { "-s", "--sport" }, { "-p", "--port" },
	};
	const struct ports *lists[] = { &o->config.dport, &o->config.sport, &o->config.port };

	(void)state;
	for (size_t i = 0; i < LEN(names); i++) {
		char message[80];

		ACCEPT_QUIETLY(names[i][0], "80", names[i][1], "443,8000-8002");
		for (size_t k = 0; k < LEN(lists); k++) {
			assert_int_equal(lists[k]->used, i == k);
			assert_int_equal(count_ports(lists[k]), i == k ? 5 : 0);
		}
		assert_true(has_port(lists[i], 80) && has_port(lists[i], 443));
		assert_true(has_port(lists[i], 8000) && has_port(lists[i], 8001));
		assert_true(has_port(lists[i], 8002));

		snprintf(message, sizeof(message), "%s: bad port '80x': a port is 0-65535, ", names[i][0]);
		REFUSE(message, names[i][0], "80x");
		REFUSE(message, names[i][1], "22,80x");
	}
	REFUSE("-d: bad port '70000': a port is 0-65535", "-d", "70000");
	REFUSE("-d: bad port '-1': ", "-d", "-1");
	REFUSE("-d: bad port '': ", "-d", "");
	REFUSE("-d: bad port '': ", "-d", "80,");
	REFUSE("-p: bad port range '80-70': ", "-p", "80-70");
}

static void test_addresses(void **state)
{
	static const char *const names[] = { "-H", "--host", "--src", "--dst" };
	static const char *const shown[] = { "-H", "-H", "--src", "--dst" };
	const struct prefixes *lists[] = {
		&o->config.host, &o->config.host, &o->config.src, &o->config.dst,
	};

	(void)state;
	for (size_t i = 0; i < LEN(names); i++) {
		char text[PREFIX_TEXT], message[80];

		ACCEPT_QUIETLY(names[i], "10.0.0.0/8", names[i], "2001:db8::1");
		assert_int_equal(o->config.host.n + o->config.src.n + o->config.dst.n, 2);
		assert_int_equal(lists[i]->n, 2);
		assert_string_equal(prefix__format(&lists[i]->p[0], text), "10.0.0.0/8");
		assert_string_equal(prefix__format(&lists[i]->p[1], text), "2001:db8::1");
		snprintf(message, sizeof(message), "%s: bad address 'x': ", shown[i]);
		REFUSE(message, names[i], "x");
	}
	REFUSE("-H: bad address '10.0.0.1/33': ", "-H", "10.0.0.1/33");
	REFUSE("-H: bad address '::1/129': ", "-H", "::1/129");
	REFUSE("-H: bad address 'fe80::1%eth0': ", "-H", "fe80::1%eth0");
	REFUSE("-H: '10.1.2.3/8' has bits set behind its LEN: did you mean 10.0.0.0/8, or 10.1.2.3?",
	       "-H", "10.1.2.3/8");
}

static void test_one_too_many(void **state)
{
	(void)state;
	accepted(repeat("-H", "10.0.0.1", MAX_PREFIXES));
	assert_int_equal(o->config.host.n, MAX_PREFIXES);
	refused("-H: '10.0.0.1' is one too many: 16 ", repeat("-H", "10.0.0.1", MAX_PREFIXES + 1));
	accepted(repeat("-N", "/proc/self/ns/net", MAX_NETNS));
	assert_int_equal(o->config.n_netns, MAX_NETNS);
	refused("-N: '/proc/self/ns/net' is one too many: 16 ",
		repeat("-N", "/proc/self/ns/net", MAX_NETNS + 1));
	accepted(repeat("-i", "eth0", MAX_IFACES));
	assert_int_equal(o->config.n_ifaces, MAX_IFACES);
	refused("-i: 'eth0' is one too many: 16 ", repeat("-i", "eth0", MAX_IFACES + 1));
}

static void test_netns(void **state)
{
	struct stat st;
	char inum[32], link[48], pid[32];
	const char *const refs[] = { "/proc/self/ns/net", inum, link, pid };

	(void)state;
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	snprintf(inum, sizeof(inum), "%lu", (unsigned long)st.st_ino);
	snprintf(link, sizeof(link), "net:[%s]", inum);
	snprintf(pid, sizeof(pid), "pid:%d", getpid());
	for (size_t i = 0; i < LEN(refs); i++) {
		ACCEPT_QUIETLY("-N", refs[i]);
		assert_int_equal(o->config.n_netns, 1);
		assert_int_equal(o->config.netns[0], st.st_ino);
		assert_int_equal(o->config.must_meet, MET_NETNS);
	}
	ACCEPT_QUIETLY("--netns", inum, "-N", pid);
	assert_int_equal(o->config.n_netns, 2);

	REFUSE("-N: no such netns 'not-there': a netns is an inum such as", "-N", "not-there");
	REFUSE("-N: no such netns '/not/there': ", "-N", "/not/there");
	REFUSE("-N: no such netns '1': ", "-N", "1");
	REFUSE("-N: no such netns '99999999999': ", "-N", "99999999999");
	REFUSE("-N: no such netns 'net:[1]': ", "-N", "net:[1]");
	REFUSE("-N: no such netns 'net:[40265318400000]': ", "-N", "net:[40265318400000]");
	REFUSE("-N: no such process 'pid:999999999': ", "-N", "pid:999999999");
	REFUSE("-N: no such process 'pid:99999999999999999999': ", "-N", "pid:99999999999999999999");
	REFUSE("-N: '/proc/self/ns/mnt' is not a network namespace: ", "-N", "/proc/self/ns/mnt");
	REFUSE("-N: '/dev/null' is not a network namespace: ", "-N", "/dev/null");
	REFUSE("-N: bad netns '': ", "-N", "");
	REFUSE("-N: bad netns 'pid:': ", "-N", "pid:");
	REFUSE("-N: bad netns 'pid:1x': ", "-N", "pid:1x");
	REFUSE("-N: bad netns 'a/b': ", "-N", "a/b");
	REFUSE("-N: bad netns '..': ", "-N", "..");
}

static int write_map(const char *path, const char *text)
{
	FILE *map = fopen(path, "w");

	if (!map)
		return -1;
	fputs(text, map);
	return fclose(map);
}

/* Looking at a FIFO must not wait for its writer. */
static void test_netns_fifo(void **state)
{
	char path[] = "/tmp/slowpkt-test-XXXXXX";
	int fd = mkstemp(path), status;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	status = run_in(NULL, ARGS("-N", path));
	unlink(path);
	assert_int_equal(status, EXIT_BAD_USAGE);
	assert_non_null(strstr(err, "' is not a network namespace: "));
}

/* Nobody can make files whose ids are not mapped; the gid's map needs setgroups off. */
static int map_root(uid_t uid, gid_t gid)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", uid);
	snprintf(gids, sizeof(gids), "0 %u 1", gid);
	return write_map("/proc/self/uid_map", uids) ||
	       write_map("/proc/self/setgroups", "deny") || write_map("/proc/self/gid_map", gids);
}

/*
 * The netns "blue" and "42", and a file that is left of one. In a user namespace,
 * from which no mount can spread to the host.
 */
static int make_names(void)
{
	static const char *const names[] = { "/run/netns/blue", "/run/netns/42", "/run/netns/stale" };
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) || map_root(uid, gid) ||
	    mount("none", "/run", "tmpfs", 0, NULL) || mkdir("/run/netns", 0755))
		return -1;
	for (size_t i = 0; i < LEN(names); i++) {
		close(open(names[i], O_CREAT | O_WRONLY, 0644));
		if (i < 2 && mount("/proc/self/ns/net", names[i], NULL, MS_BIND, NULL))
			return -1;
	}
	return 0;
}

static void test_netns_name(void **state)
{
	struct stat st;
	int status = run_in(make_names, ARGS("-N", "blue", "-N", "42", "-i", "eth0@blue"));

	(void)state;
	if (status == NOT_ALLOWED)
		skip();
	assert_int_equal(status, RETURNED);
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	assert_int_equal(o->config.n_netns, 2);
	assert_int_equal(o->config.netns[0], st.st_ino);
	assert_int_equal(o->config.netns[1], st.st_ino);
	assert_int_equal(o->config.iface[0].netns, st.st_ino);
	assert_int_equal(run_in(make_names, ARGS("-N", "stale")), EXIT_BAD_USAGE);
	assert_non_null(strstr(err, "'stale' is not a network namespace"));
}

static void test_interface(void **state)
{
	static const char zeros[DEV_NAME_LEN];
	struct stat st;

	(void)state;
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	ACCEPT_QUIETLY("-i", "eth0", "--interface=veth12345678901@/proc/self/ns/net");
	assert_int_equal(o->config.n_ifaces, 2);
	assert_string_equal(o->config.iface[0].name, "eth0");
	assert_memory_equal(o->config.iface[0].name + 4, zeros, DEV_NAME_LEN - 4);
	assert_int_equal(o->config.iface[0].netns, 0);
	assert_string_equal(o->config.iface[1].name, "veth12345678901");
	assert_int_equal(o->config.iface[1].netns, st.st_ino);
	assert_int_equal(o->config.must_meet, MET_IFACE);

	REFUSE("-i: bad interface '': ", "-i", "");
	REFUSE("-i: bad interface '': ", "-i", "@/proc/self/ns/net");
	REFUSE("-i: bad interface 'veth123456789012': ", "-i", "veth123456789012");
	REFUSE("-i: bad interface 'a b': ", "-i", "a b");
	REFUSE("-i: bad interface 'a/b': ", "-i", "a/b");
	REFUSE("-i: bad interface '..': ", "-i", "..");
	REFUSE("-i: bad netns '': ", "-i", "eth0@");
	REFUSE("-i: no such netns 'nowhere': ", "-i", "eth0@nowhere");
	assert_int_equal(run_in(NULL, ARGS("-i", "eth0@if5")), EXIT_BAD_USAGE);
	assert_non_null(strstr(err, "did you mean eth0?"));
}

static void test_numbers(void **state)
{
	static const struct {
		const char *records;
		unsigned int sets;
	} tables[] = {
		{ "64", 16 }, { "65", 17 }, { "68", 17 }, { "69", 18 }, { "32768", 8192 },
		{ "32769", 8193 }, { "4194304", 1048576 },
	};

	(void)state;
	ACCEPT_QUIETLY("--pid=4194304", "--seq", "4294967295", "-c", "18446744073709551615");
	assert_int_equal(o->config.pid, 4194304);
	assert_int_equal(o->config.must_meet, MET_PID);
	assert_int_equal(o->config.seq, 4294967295u);
	assert_int_equal(o->config.has_seq, 1);
	assert_true(o->count == UINT64_MAX);
	ACCEPT_QUIETLY("--seq=0", "--count=1");
	assert_int_equal(o->config.seq, 0);
	assert_int_equal(o->config.has_seq, 1);
	assert_int_equal(o->count, 1);
	for (size_t i = 0; i < LEN(tables); i++) {
		ACCEPT_QUIETLY("--table", tables[i].records);
		assert_int_equal(o->config.sets, tables[i].sets);
	}
	REFUSE("--pid: bad number '0': it is 1-4194304", "--pid=0");
	REFUSE("--pid: bad number '4194305': ", "--pid=4194305");
	REFUSE("--pid: bad number 'self': ", "--pid=self");
	REFUSE("--seq: bad number '4294967296': it is 0-4294967295", "--seq=4294967296");
	REFUSE("--seq: bad number '-1': ", "--seq=-1");
	REFUSE("-c: bad number '0': ", "-c", "0");
	REFUSE("-c: bad number '1e3': ", "-c", "1e3");
	REFUSE("-c: bad number '18446744073709551616': ", "-c", "18446744073709551616");
	REFUSE("--table: bad number '63': it is 64-4194304", "--table=63");
	REFUSE("--table: bad number '4194305': ", "--table=4194305");
	REFUSE("--table: bad number '': ", "--table=");
}

static void test_flags(void **state)
{
	(void)state;
	ACCEPT_QUIETLY("-1");
	assert_true(o->oneline && !o->json && !o->quiet && !o->verbose);
	ACCEPT_QUIETLY("-j");
	assert_true(!o->oneline && o->json && !o->quiet && !o->verbose);
	ACCEPT_QUIETLY("-q");
	assert_true(!o->oneline && !o->json && o->quiet && !o->verbose);
	ACCEPT_QUIETLY("-v");
	assert_true(!o->oneline && !o->json && !o->quiet && o->verbose);
	ACCEPT_QUIETLY("--oneline", "--json", "--quiet", "--verb");
	assert_true(o->oneline && o->json && o->quiet && o->verbose);
}

static void test_duration(void **state)
{
	(void)state;
	ACCEPT_QUIETLY("-D", "10");
	assert_int_equal(o->duration, 10 * NS_PER_S);
	ACCEPT_QUIETLY("--duration=1.5");
	assert_int_equal(o->duration, 1500 * NS_PER_MS);
	ACCEPT_QUIETLY("-D200ms");
	assert_int_equal(o->duration, 200 * NS_PER_MS);
	REFUSE("-D: bad time '0': ", "-D", "0");
	REFUSE("-D: bad time '3 parsecs': a time is ", "-D", "3 parsecs");
	REFUSE("-D: time '18446744073709551616' is too long", "-D", "18446744073709551616");
}

static void assert_totals(uint64_t tcp, uint64_t udp)
{
	assert_true(o->config.total_tcp == tcp);
	assert_true(o->config.total_udp == udp);
}

static void test_total(void **state)
{
	(void)state;
	ACCEPT_QUIETLY("-l", "1.5ms");
	assert_totals(1500000, 1500000);
	assert_int_equal(o->hops, ALL_HOPS);
	assert_false(o->only_stages);
	ACCEPT_QUIETLY("--latency=100000");
	assert_totals(100000, 100000);
	ACCEPT_QUIETLY("-l", "30ns");
	assert_totals(30, 30);
	ACCEPT_QUIETLY("-l", "0");
	assert_totals(0, 0);
	ACCEPT_QUIETLY("-l", "5ms", "-l", "7ms");
	assert_totals(7 * NS_PER_MS, 7 * NS_PER_MS);

	REFUSE("-l: '30' without a unit is nanoseconds: did you mean 30ms?", "-l", "30");
	REFUSE("-l: '1' without a unit is nanoseconds: did you mean 1ms?", "-l", "1");
	REFUSE("-l: '99999' without a unit is nanoseconds: did you mean 99999ms?", "-l", "99999");
	REFUSE("-l: '1.5' without a unit is nanoseconds: did you mean 1.5ms?", "-l", "1.5");
	REFUSE("-l: bad time '3 parsecs': a time is a number and ns, us, ms or s", "-l", "3 parsecs");
	REFUSE("-l: bad time '1e3': ", "-l", "1e3");
	REFUSE("-l: bad time '': ", "-l", "");
	REFUSE("-l: bad time '-1': ", "-l", "-1");
	REFUSE("-l: time '18446744073709551616' is too long", "-l", "18446744073709551616");
}

static void test_bad_stage(void **state)
{
	static const char all[] =
		"-l: unknown stage 'sendq': it is one of output, neigh, qdisc, device, napi, "
		"gro, rps, backlog, bridge, link, forward, input, tcplock, socket, drop, other\n";

	(void)state;
	REFUSE(all, "-l", "sendq=3ms");
	REFUSE("-l: unknown stage '': ", "-l", "=3ms");
	REFUSE("-l: unknown stage 'qdisc+device': ", "-l", "qdisc+device=3ms");
	REFUSE("-l: bad time '': ", "-l", "qdisc=");
	REFUSE("-l: bad time '3 parsecs': ", "-l", "qdisc=3 parsecs");
	REFUSE("-l: bad time '3ms=4': ", "-l", "qdisc=3ms=4");
	REFUSE("-l: 'qdisc=3' without a unit is nanoseconds: did you mean qdisc=3ms?", "-l", "qdisc=3");
	REFUSE("-l: stage 'qdisc' needs a time: ", "-l", "qdisc");
	REFUSE("-l socket: it is judged for UDP only: leave out -t", "-t", "-l", "socket=3ms");
	REFUSE("-l socket: it is judged for UDP only: leave out --seq",
	       "--seq=1", "-l", "socket=3ms", "-l", "30ms");
	REFUSE("-l tcplock: only TCP has this stage: leave out -u", "-u", "-l", "tcplock=3ms");
}

static void test_ways_to_attach(void **state)
{
	(void)state;
	ACCEPT_QUIETLY("-p", "80");
	assert_int_equal(o->attach, ATTACH_BEST);
	assert_null(o->btf);
	assert_false(o->check || o->list_hooks);
	ACCEPT_QUIETLY("--attach=btf");
	assert_int_equal(o->attach, ATTACH_BTF);
	ACCEPT_QUIETLY("--attach", "kprobe");
	assert_int_equal(o->attach, ATTACH_KPROBE);
	ACCEPT_QUIETLY("--attach=article", "--btf=/some/file");
	assert_int_equal(o->attach, ATTACH_ARTICLE);
	assert_string_equal(o->btf, "/some/file");
	ACCEPT_QUIETLY("--list-hooks");
	assert_true(o->list_hooks);
	/* it is the whole table that is checked */
	ACCEPT_QUIETLY("--check", "-u", "-l", "socket=3ms");
	assert_true(o->check);
	assert_int_equal(o->hops, ALL_HOPS | ARRIVAL_HOPS);
	REFUSE("--attach: unknown way 'fentry': it is btf, kprobe or article", "--attach=fentry");
	REFUSE("--attach: unknown way '': ", "--attach=");
	REFUSE("--btf: with types from a file there are only raw_tp and kprobe", "--btf=x", "--attach=btf");
}

static void test_help(void **state)
{
	static const char *const options[] = {
		"-d, --dport=", "-s, --sport=", "-p, --port=", "-H, --host=", "--src=", "--dst=",
		"-N, --netns=", "-i, --interface=", "-t, --tcp", "-u, --udp", "-4, --ipv4",
		"-6, --ipv6", "--pid=", "--seq=", "-l, --latency=", "-1, --oneline", "-j, --json",
		"-c, --count=", "-D, --duration=", "-q, --quiet", "-v, --verbose", "--table=",
		"--check", "--list-hooks", "--attach=", "--btf=",
		"-h, --help", "--usage", "-V, --version", "Examples:", "slowpkt -u -l socket=3ms",
	};
	char help[OUTPUT_MAX];

	(void)state;
	assert_int_equal(run_in(NULL, ARGS("--help")), 0);
	assert_string_equal(err, "");
	for (size_t i = 0; i < LEN(options); i++)
		if (!strstr(out, options[i]))
			fail_msg("no '%s' in --help", options[i]);
	for (int i = 0; i < STAGES; i++)
		assert_non_null(strstr(out, stage__name(i)));
	strcpy(help, out);
	assert_int_equal(run_in(NULL, ARGS("-h")), 0);
	assert_string_equal(out, help);
	assert_int_equal(run_in(NULL, ARGS("--usage")), 0);
	assert_string_equal(err, "");
	assert_ptr_equal(strstr(out, "Usage: slowpkt "), out);
}

static void test_version(void **state)
{
	static const char *const names[] = { "-V", "--version" };

	(void)state;
	for (size_t i = 0; i < LEN(names); i++) {
		assert_int_equal(run_in(NULL, ARGS(names[i])), 0);
		assert_string_equal(err, "");
		assert_ptr_equal(strstr(out, "slowpkt "), out);
		assert_in_range(out[strlen("slowpkt ")], '0', '9');
		assert_ptr_equal(strchr(out, '\n'), out + strlen(out) - 1);
	}
}

static void test_bad_usage(void **state)
{
	(void)state;
	REFUSE("unexpected word 'ms': ", "-l", "30ms", "ms");
	REFUSE("unexpected word 'x': ", "--", "x");
	REFUSE("unexpected word '': ", "");
	REFUSE("unrecognized option '--nosuch'", "--nosuch");
	REFUSE("invalid option -- 'Z'", "-Z");
	REFUSE("invalid option -- '?'", "-?");
	REFUSE("option requires an argument -- 'd'", "-d");
	REFUSE("option '--latency' requires an argument", "--lat");
	REFUSE("option '--json' doesn't allow an argument", "--json=x");
	REFUSE("option '--d=1' is ambiguous", "--d=1");
	/* the first mistake is the one that is told */
	REFUSE("-d: bad port 'x'", "-d", "x", "-s", "y", "--help");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ports), cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_one_too_many), cmocka_unit_test(test_netns),
		cmocka_unit_test(test_netns_fifo),
		cmocka_unit_test(test_netns_name), cmocka_unit_test(test_interface),
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_flags),
		cmocka_unit_test(test_duration), cmocka_unit_test(test_total),
		cmocka_unit_test(test_bad_stage), cmocka_unit_test(test_ways_to_attach),
		cmocka_unit_test(test_help),
		cmocka_unit_test(test_version), cmocka_unit_test(test_bad_usage),
	};

	return cmocka_run_group_tests_name("options", tests, map_options, unmap_options);
}
