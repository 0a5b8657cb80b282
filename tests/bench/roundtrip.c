// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * roundtrip - what a round trip from netns client to netns web and back takes
 *
 *	roundtrip udp|tcp COUNT PORT [PID]...
 *
 * A message of 64 bytes goes to 172.17.0.2:PORT and back, COUNT times, after a
 * warm-up. Prints the nanoseconds of one round trip: the median of five parts, so
 * that what happens once a second does not decide. With the PIDs of processes that
 * still have work when the last message is back (they print what was traced) it is
 * the mean, and what they run until they are idle is added; a second number is what is
 * left without all that they run: what tracing costs the packet's own way.
 *
 * Meant for a VM with one CPU and --icount, where a nanosecond is an instruction.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common.h"

/*
 * Both ends stay on one CPU, should there be more. As batch they do not preempt one
 * another when they are woken: whether the scheduler lets them depends on what has run
 * before, and changes a round trip by 1000 instructions.
 */
static void settle_down(void)
{
	struct sched_param none = { 0 };
	cpu_set_t cpu;

	check(sched_setscheduler(0, SCHED_BATCH, &none), "SCHED_BATCH");
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	check(sched_setaffinity(0, sizeof(cpu), &cpu), "CPU 0");
}

static void no_delay(int fd)
{
	int one = 1;

	check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "TCP_NODELAY");
}

/* The far end: sends back what comes. */
static void echo(int type, const struct sockaddr_in *to, int ready)
{
	struct sockaddr_in from;
	char message[SIZE];
	int one = 1, fd;
	ssize_t n;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	enter("web");
	fd = socket(AF_INET, type, 0);
	check(fd, "socket");
	check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), "SO_REUSEADDR");
	check(bind(fd, (const void *)to, sizeof(*to)), "bind");
	if (type == SOCK_STREAM)
		check(listen(fd, 1), "listen");
	check(write(ready, "", 1), "pipe");
	if (type == SOCK_STREAM) {
		fd = accept(fd, NULL, NULL);
		check(fd, "accept");
		no_delay(fd);
	}
	for (;;) {
		socklen_t size = sizeof(from);

		n = recvfrom(fd, message, sizeof(message), 0, (void *)&from, &size);
		if (n <= 0)
			exit(n < 0);
		check(sendto(fd, message, n, 0, type == SOCK_DGRAM ? (void *)&from : NULL, size), "send back");
	}
}

static int connect_to(int type, const struct sockaddr_in *to)
{
	int fd;

	enter("client");
	fd = socket(AF_INET, type, 0);
	check(fd, "socket");
	check(connect(fd, (const void *)to, sizeof(*to)), "connect");
	if (type == SOCK_STREAM)
		no_delay(fd);
	return fd;
}

static uint64_t go(int fd, int count)
{
	char message[SIZE] = "";
	uint64_t start = now();

	for (int i = 0; i < count; i++) {
		check(send(fd, message, sizeof(message), 0), "send");
		for (ssize_t n, got = 0; got < SIZE; got += n) {
			n = recv(fd, message, sizeof(message), 0);
			if (n <= 0)
				die("receive");
		}
	}
	return now() - start;
}

/* How long the processes have run, by the scheduler's own account. */
static uint64_t run_time(int n, char **pids)
{
	unsigned long long time, sum = 0;

	for (int i = 0; i < n; i++) {
		char path[64];
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/schedstat", pids[i]);
		f = fopen(path, "re");
		if (!f || fscanf(f, "%llu", &time) != 1)
			die(path);
		fclose(f);
		sum += time;
	}
	return sum;
}

/* What they run from now on until for a while they do not run at all. */
static uint64_t rest(int n, char **pids)
{
	uint64_t start = run_time(n, pids), last = start, next;
	struct timespec while_ = { .tv_nsec = 20000000 };

	for (;; last = next) {
		nanosleep(&while_, NULL);
		next = run_time(n, pids);
		if (next == last)
			return next - start;
	}
}

static uint64_t median_of_parts(int fd, int count)
{
	uint64_t part[PARTS];

	for (int i = 0; i < PARTS; i++)
		part[i] = go(fd, count / PARTS);
	return median(part) / (count / PARTS);
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int type, count, ready[2], fd;
	uint64_t time, busy;
	pid_t child;
	char byte;

	if (argc < 4 || (count = atoi(argv[2])) < PARTS) {
		fprintf(stderr, "usage: roundtrip udp|tcp COUNT PORT [PID]...\n");
		return 2;
	}
	type = strcmp(argv[1], "udp") ? SOCK_STREAM : SOCK_DGRAM;
	to.sin_port = htons(atoi(argv[3]));
	inet_pton(AF_INET, "172.17.0.2", &to.sin_addr);
	settle_down();
	check(pipe(ready), "pipe");
	child = fork();
	check(child, "fork");
	if (!child)
		echo(type, &to, ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		return 1;
	fd = connect_to(type, &to);
	go(fd, WARM_UP);
	if (argc > 4) {
		rest(argc - 4, argv + 4);
		busy = run_time(argc - 4, argv + 4);
		time = go(fd, count);
		busy = run_time(argc - 4, argv + 4) - busy;
		printf("%llu %llu\n", (unsigned long long)(time + rest(argc - 4, argv + 4)) / count,
		       (unsigned long long)(time - busy) / count);
	} else {
		time = median_of_parts(fd, count);
		printf("%llu\n", (unsigned long long)time);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
