// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * traffic: real packets for the end-to-end tests, and the truth about them.
 *
 * Each line on stdout is one event; all times are CLOCK_MONOTONIC in ns, the clock
 * that slowpkt's mono_ns is from. So a test knows of each packet between which
 * two moments it was sent, was there to be read, and was read.
 *
 *   ready [PID TID]       bound, connected, or blocked in the read
 *   sent I BEFORE AFTER   datagram I, around the send call
 *   read I LEN SEEN CALL RETURN
 *                         datagram I; SEEN: poll said it was there (--block: 0)
 *   trip I BEFORE AFTER   a request and its response
 *   got LEN SEEN          a TCP server has a whole request
 *   eof SEEN              a TCP server has seen the end of its connection
 *   connected BEFORE AFTER, closed BEFORE AFTER
 *   done
 *
 * With --wait, the program goes on after "ready" when a line comes on stdin, with
 * --hold it ends after "done" when stdin does. Nothing here waits for a time but
 * what is told to: --delay.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { MAX_CONNS = 64, MAX_DATAGRAM = 65535 };

static struct {
	int n, warmup, size, reply, gso, log_over, delay, every, threads, ports, rcvbuf, gap;
	int isn;
	bool df, peek, block, wait, hold, log, quiet;
	const char *bind, *dev, *name;
} opt = { .n = 1, .size = 64, .every = 1, .threads = 1, .ports = 1 };

static void die(const char *what)
{
	fprintf(stderr, "traffic: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void sleep_ms(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	while (nanosleep(&t, &t))
		;
}

/* A line at once, whole also when threads write. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
	char line[256];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[n++] = '\n';
	if (write(STDOUT_FILENO, line, n) != n)
		exit(1);
}

/* Until a line has come. False: stdin has ended. */
static bool await_line(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1)
		if (c == '\n')
			return true;
	return false;
}

static void ready(void)
{
	say("ready %d %ld", getpid(), syscall(SYS_gettid));
	if (opt.wait && !await_line())
		exit(0);
}

static void done(void)
{
	say("done");
	while (opt.hold && await_line())
		;
}

union addr {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static union addr address(const char *text, const char *port)
{
	union addr a = { .any.sa_family = strchr(text, ':') ? AF_INET6 : AF_INET };
	void *at = a.any.sa_family == AF_INET ? (void *)&a.v4.sin_addr : (void *)&a.v6.sin6_addr;

	errno = EINVAL;
	if (inet_pton(a.any.sa_family, text, at) != 1)
		die(text);
	a.v4.sin_port = htons(atoi(port)); /* at the same place in both */
	return a;
}

static void set(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		die("setsockopt");
}

/* A socket of the address's family; --bind=ADDR,PORT is its own end. */
static int open_socket(const union addr *a, int type)
{
	int fd = socket(a->any.sa_family, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("socket");
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (a->any.sa_family == AF_INET6)
		set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (opt.rcvbuf)
		set(fd, SOL_SOCKET, SO_RCVBUFFORCE, opt.rcvbuf);
	if (opt.bind) {
		char *text = strdup(opt.bind), *comma = strchr(text, ',');
		union addr own;

		*comma = '\0';
		own = address(text, comma + 1);
		if (bind(fd, &own.any, sizeof(own)))
			die("bind");
		free(text);
	}
	return fd;
}

/* TCP. A request begins with its own length and that of its response. */

static void set_isn(int fd, uint32_t isn)
{
	set(fd, IPPROTO_TCP, TCP_REPAIR, 1);
	set(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE);
	set(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, isn);
	set(fd, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP);
}

static int connect_to(const union addr *a)
{
	int fd = open_socket(a, SOCK_STREAM);
	uint64_t before;

	if (opt.isn)
		set_isn(fd, opt.isn);
	set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	before = now();
	if (connect(fd, &a->any, sizeof(*a)))
		die("connect");
	say("connected %lu %lu", before, now());
	return fd;
}

static void send_all(int fd, const char *data, size_t left)
{
	while (left) {
		ssize_t n = send(fd, data, left, MSG_NOSIGNAL);

		if (n < 0)
			die("send");
		data += n;
		left -= n;
	}
}

static void receive_all(int fd, size_t left)
{
	static char scrap[65536];

	while (left) {
		ssize_t n = recv(fd, scrap, left < sizeof(scrap) ? left : sizeof(scrap), 0);

		if (n <= 0)
			die("recv");
		left -= n;
	}
}

/* With --log each trip, with --log-over those that took so long. */
static void log_trip(int i, uint64_t before, uint64_t after)
{
	if (opt.log || (opt.log_over && after - before >= opt.log_over * 1000000ull))
		say("trip %d %lu %lu", i, before, after);
}

/* One request and its response. */
static void trip(int fd, int i)
{
	uint32_t reply = opt.reply ? opt.reply : opt.size;
	char *request = calloc(1, opt.size);
	uint64_t before, after;

	memcpy(request, (uint32_t[]){ htonl(opt.size), htonl(reply) }, 8);
	before = now();
	send_all(fd, request, opt.size);
	receive_all(fd, reply);
	after = now();
	free(request);
	log_trip(i, before, after);
}

/* --warmup trips, then, after "ready", as many as -n says. */
static int tcp_rr(const union addr *a)
{
	int fd = connect_to(a);
	uint64_t before;

	for (int i = 0; i < opt.warmup; i++)
		trip(fd, -1);
	/* a delayed ACK goes out now, and not some time in what follows */
	set(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
	ready();
	for (int i = 0; i < opt.n; i++)
		trip(fd, i);
	set(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
	done();
	/* ours is the first FIN; the server's answers it */
	before = now();
	shutdown(fd, SHUT_WR);
	if (recv(fd, &(char){ 0 }, 1, 0) != 0)
		die("no FIN came");
	say("closed %lu %lu", before, now());
	return 0;
}

struct conn {
	uint32_t request, reply;	/* of the request that is coming; 0: not known yet */
	uint32_t have;
	char head[8];
};

/* Takes what has come. False: the connection has ended. */
static bool serve(int fd, struct conn *c, uint64_t seen)
{
	static char scrap[65536], zeros[65536];
	uint32_t want = c->request ? c->request - c->have : 8 - c->have;
	ssize_t n = recv(fd, scrap, want < sizeof(scrap) ? want : sizeof(scrap), 0);

	if (n <= 0) {
		say("eof %lu", seen);
		return false;
	}
	if (c->have < 8) {
		memcpy(c->head + c->have, scrap, n);
		if (c->have + n == 8) {
			c->request = ntohl(*(uint32_t *)c->head);
			c->reply = ntohl(*(uint32_t *)(c->head + 4));
		}
	}
	c->have += n;
	if (!c->request || c->have < c->request)
		return true;
	if (opt.log)
		say("got %u %lu", c->request, seen);
	for (uint32_t left = c->reply; left;) {
		uint32_t part = left < sizeof(zeros) ? left : sizeof(zeros);

		send_all(fd, zeros, part);
		left -= part;
	}
	*c = (struct conn){ 0 };
	return true;
}

static int tcp_echo(const union addr *a)
{
	struct pollfd polls[MAX_CONNS + 1];
	struct conn conns[MAX_CONNS + 1];
	int listener = open_socket(a, SOCK_STREAM), used = 1;

	if (bind(listener, &a->any, sizeof(*a)) || listen(listener, 64))
		die("bind");
	polls[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
	ready();
	while (poll(polls, used, -1) > 0) {
		uint64_t seen = now();

		for (int i = used - 1; i > 0; i--) {
			if (!polls[i].revents || serve(polls[i].fd, &conns[i], seen))
				continue;
			close(polls[i].fd);
			used--;
			polls[i] = polls[used];
			conns[i] = conns[used];
		}
		if (polls[0].revents && used <= MAX_CONNS) {
			int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

			set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
			polls[used] = (struct pollfd){ .fd = fd, .events = POLLIN };
			conns[used++] = (struct conn){ 0 };
		}
	}
	die("poll");
	return 1;
}

/* UDP. A datagram of four bytes or more begins with its number. */

static int udp_echo(const union addr *a)
{
	static char data[MAX_DATAGRAM];
	int fd = open_socket(a, SOCK_DGRAM);
	union addr from;
	socklen_t size;
	ssize_t n;

	if (bind(fd, &a->any, sizeof(*a)))
		die("bind");
	ready();
	do {
		size = sizeof(from);
		n = recvfrom(fd, data, sizeof(data), 0, &from.any, &size);
	} while (n >= 0 && sendto(fd, data, n, 0, &from.any, size) == n);
	die("echo");
	return 1;
}

static void number(char *data, uint32_t i)
{
	i = htonl(i);
	memcpy(data, &i, opt.size < 4 ? opt.size : 4);
}

static int udp_rr(const union addr *a)
{
	static char data[MAX_DATAGRAM];
	int fd = open_socket(a, SOCK_DGRAM);

	if (connect(fd, &a->any, sizeof(*a)))
		die("connect");
	ready();
	for (int i = 0; i < opt.n; i++) {
		uint64_t before;

		number(data, i);
		before = now();
		if (send(fd, data, opt.size, 0) < 0 || recv(fd, data, sizeof(data), 0) < 0)
			die("trip");
		log_trip(i, before, now());
	}
	done();
	return 0;
}

static int udp_send(const union addr *a)
{
	static char data[MAX_DATAGRAM];
	int fd = open_socket(a, SOCK_DGRAM), len = opt.size;
	bool v6 = a->any.sa_family == AF_INET6;

	if (opt.dev && v6)
		set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, if_nametoindex(opt.dev));
	else if (opt.dev)
		setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF,
			   &(struct ip_mreqn){ .imr_ifindex = if_nametoindex(opt.dev) },
			   sizeof(struct ip_mreqn));
	if (opt.df)
		set(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER,
		    IP_PMTUDISC_DO);
	if (opt.gso) {
		/* the whole train in one call: -n datagrams of --gso bytes */
		set(fd, IPPROTO_UDP, UDP_SEGMENT, opt.gso);
		len = opt.size = opt.gso;
	}
	ready();
	for (int i = 0; i < opt.n; i++) {
		union addr to = *a;
		uint64_t before;

		to.v4.sin_port = htons(ntohs(a->v4.sin_port) + i % opt.ports);
		number(data + (opt.gso ? i * opt.gso : 0), i);
		if (opt.gso && i < opt.n - 1)
			continue;
		if (opt.gso)
			len = opt.n * opt.gso;
		before = now();
		if (sendto(fd, data, len, 0, &to.any, sizeof(to)) != len)
			die("sendto");
		if (!opt.quiet)
			say("sent %d %lu %lu", opt.gso ? 0 : i, before, now());
		if (opt.gap)
			sleep_ms(opt.gap);
	}
	done();
	return 0;
}

struct reader {
	union addr addr;
	int fd;
	pthread_t thread;
	pid_t tid;
};

static void join_group(int fd, const union addr *a)
{
	if (a->any.sa_family == AF_INET) {
		struct ip_mreqn m = { .imr_multiaddr = a->v4.sin_addr,
				      .imr_ifindex = if_nametoindex(opt.dev) };

		if (setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m)))
			die("join");
	} else {
		struct ipv6_mreq m = { .ipv6mr_multiaddr = a->v6.sin6_addr,
				       .ipv6mr_interface = if_nametoindex(opt.dev) };

		if (setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m, sizeof(m)))
			die("join");
	}
}

static void read_one(int fd, int i)
{
	char data[MAX_DATAGRAM];
	uint64_t seen = 0, call;
	uint32_t number = 0;
	ssize_t n;

	if (!opt.block) {
		if (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1) != 1)
			die("poll");
		seen = now();
		if (opt.peek && (recv(fd, data, 0, MSG_PEEK) < 0 || recv(fd, data, sizeof(data), MSG_PEEK) < 0))
			die("peek");
		if (opt.delay && i % opt.every == 0)
			sleep_ms(opt.delay);
	}
	call = now();
	n = recv(fd, data, sizeof(data), 0);
	if (n < 0)
		die("recv");
	memcpy(&number, data, n < 4 ? n : 4);
	if (!opt.quiet)
		say("read %u %zd %lu %lu %lu", n < 4 ? 0 : ntohl(number), n, seen, call, now());
}

static void *run_reader(void *arg)
{
	struct reader *r = arg;

	prctl(PR_SET_NAME, opt.name ? opt.name : "reader");
	__atomic_store_n(&r->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	for (int i = 0; i < opt.n; i++)
		read_one(r->fd, i);
	return NULL;
}

/* Until the thread sleeps, which it does in its read. */
static void await_block(const struct reader *r)
{
	char path[64], stat[256], state = 0;

	while (!__atomic_load_n(&r->tid, __ATOMIC_ACQUIRE))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", r->tid);
	while (state != 'S') {
		FILE *f = fopen(path, "r");

		if (!f || !fgets(stat, sizeof(stat), f) || !strrchr(stat, ')'))
			die(path);
		fclose(f);
		state = strrchr(stat, ')')[2];
	}
}

static int udp_read(const union addr *a)
{
	struct reader *readers = calloc(opt.threads, sizeof(*readers));

	/* the threads' ports follow each other */
	for (int i = 0; i < opt.threads; i++) {
		readers[i].addr = *a;
		readers[i].addr.v4.sin_port = htons(ntohs(a->v4.sin_port) + i);
		readers[i].fd = open_socket(a, SOCK_DGRAM);
		if (bind(readers[i].fd, &readers[i].addr.any, sizeof(*a)))
			die("bind");
		if (opt.dev)
			join_group(readers[i].fd, a);
	}
	if (opt.wait) {
		say("ready %d %d", getpid(), 0);
		if (!await_line())
			return 0;
	}
	for (int i = 0; i < opt.threads; i++)
		pthread_create(&readers[i].thread, NULL, run_reader, &readers[i]);
	if (!opt.wait) {
		for (int i = 0; i < opt.threads; i++)
			await_block(&readers[i]);
		say("ready %d %d", getpid(), readers[0].tid);
	}
	for (int i = 0; i < opt.threads; i++)
		pthread_join(readers[i].thread, NULL);
	done();
	return 0;
}

static const struct {
	const char *name, *about;
	int (*run)(const union addr *a);
} commands[] = {
	{ "tcp-echo", "serves tcp-rr", tcp_echo },
	{ "tcp-rr", "-n trips over one connection, after --warmup", tcp_rr },
	{ "udp-echo", "serves udp-rr", udp_echo },
	{ "udp-rr", "-n trips", udp_rr },
	{ "udp-send", "-n datagrams", udp_send },
	{ "udp-read", "reads -n datagrams, with --dev those of a multicast group", udp_read },
};

enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

static const struct {
	const char *name;
	enum { NUMBER, FLAG, TEXT } kind;
	void *value;
} options[] = {
	{ "warmup", NUMBER, &opt.warmup },	{ "size", NUMBER, &opt.size },
	{ "reply", NUMBER, &opt.reply },	{ "isn", NUMBER, &opt.isn },
	{ "gso", NUMBER, &opt.gso },		{ "ports", NUMBER, &opt.ports },
	{ "gap", NUMBER, &opt.gap },		{ "delay", NUMBER, &opt.delay },
	{ "every", NUMBER, &opt.every },	{ "threads", NUMBER, &opt.threads },
	{ "rcvbuf", NUMBER, &opt.rcvbuf },	{ "log-over", NUMBER, &opt.log_over },
	{ "df", FLAG, &opt.df },		{ "peek", FLAG, &opt.peek },
	{ "block", FLAG, &opt.block },		{ "wait", FLAG, &opt.wait },
	{ "hold", FLAG, &opt.hold },		{ "log", FLAG, &opt.log },
	{ "quiet", FLAG, &opt.quiet },		{ "bind", TEXT, &opt.bind },
	{ "dev", TEXT, &opt.dev },		{ "name", TEXT, &opt.name },
};

enum { OPTIONS = sizeof(options) / sizeof(*options) };

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: traffic COMMAND ADDRESS PORT [OPTION]...\n\n");
	for (int i = 0; i < COMMANDS; i++)
		fprintf(stderr, "  %-12s %s\n", commands[i].name, commands[i].about);
	fprintf(stderr, "\n  -n N  --size BYTES  --bind ADDRESS,PORT  --wait  --hold  --quiet\n"
		"  *-rr      --log  --log-over MS\n"
		"  tcp-*     --log  --warmup N  --reply BYTES  --isn N (the first sequence number)\n"
		"  udp-send  --gso BYTES (one train of -n)  --df  --dev NAME  --gap MS\n"
		"            --ports N (which take turns)\n"
		"  udp-read  --delay MS [--every N]  --peek  --block  --threads N  --dev NAME\n"
		"            --rcvbuf BYTES  --name COMM\n");
	exit(2);
}

static void set_option(int i, const char *value)
{
	if (options[i].kind == NUMBER)
		*(int *)options[i].value = strtol(value, NULL, 10);
	else if (options[i].kind == FLAG)
		*(bool *)options[i].value = true;
	else
		*(const char **)options[i].value = value;
}

static void read_options(int argc, char **argv)
{
	struct option list[OPTIONS + 1] = { 0 };
	int i, c;

	for (i = 0; i < OPTIONS; i++)
		list[i] = (struct option){ options[i].name, options[i].kind != FLAG, NULL, 0 };
	while ((c = getopt_long(argc, argv, "n:", list, &i)) != -1) {
		if (c == 'n')
			opt.n = atoi(optarg);
		else if (c == 0)
			set_option(i, optarg);
		else
			usage();
	}
}

int main(int argc, char **argv)
{
	union addr a;

	read_options(argc, argv);
	if (argc - optind != 3)
		usage();
	a = address(argv[optind + 1], argv[optind + 2]);
	for (int i = 0; i < COMMANDS; i++)
		if (!strcmp(argv[optind], commands[i].name))
			return commands[i].run(&a);
	usage();
}
