// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * flows - datagrams from netns client to netns web, of as many flows as one likes
 *
 *	flows FLOWS COUNT PORT	sends COUNT of FLOWS flows, each from an address of its own,
 *				and reads each; prints the nanoseconds of one: the median
 *				of five parts
 *	flows 0 COUNT PORT	sends COUNT that nobody reads, says "flows: waiting" on
 *				stderr, and holds them until SIGINT
 *
 * Both ends are this process, so that nothing but the packet's way costs.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "common.h"

static const uint32_t FIRST_SOURCE = 10u << 24 | 64u << 16; /* 10.64.0.0, in front of 4 million */

/* A UDP socket of a netns: that stays the socket's, whereever the process goes. */
static int socket_in(const char *netns)
{
	int fd;

	enter(netns);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	check(fd, "socket");
	return fd;
}

static int receiver(const struct sockaddr_in *at)
{
	int fd = socket_in("web"), room = 1 << 28;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = at->sin_port };

	check(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)), "SO_RCVBUFFORCE");
	check(bind(fd, (void *)&any, sizeof(any)), "bind");
	return fd;
}

/* It may send from addresses that are not its host's. */
static int sender(void)
{
	int fd = socket_in("client"), one = 1;

	check(setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof(one)), "IP_TRANSPARENT");
	return fd;
}

static void send_from(int fd, uint32_t source, const struct sockaddr_in *to)
{
	char message[SIZE] = "";
	struct iovec io = { message, sizeof(message) };
	union {
		char space[CMSG_SPACE(sizeof(struct in_pktinfo))];
		struct cmsghdr head;
	} control = { .head = { CMSG_LEN(sizeof(struct in_pktinfo)), IPPROTO_IP, IP_PKTINFO } };
	struct in_pktinfo info = { .ipi_spec_dst.s_addr = htonl(source) };
	struct msghdr m = { .msg_name = (void *)to, .msg_namelen = sizeof(*to), .msg_iov = &io, .msg_iovlen = 1,
			    .msg_control = &control, .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.head), &info, sizeof(info));
	check(sendmsg(fd, &m, 0), "send");
}

static uint64_t go(int from, int at, const struct sockaddr_in *to, int start, int count, int flows)
{
	uint64_t begin = now();
	char message[SIZE];

	for (int i = start; i < start + count; i++) {
		send_from(from, FIRST_SOURCE + i % flows, to);
		check(recv(at, message, sizeof(message), 0), "receive");
	}
	return now() - begin;
}

static void measure(int from, int at, const struct sockaddr_in *to, int flows, int count)
{
	uint64_t part[PARTS];

	go(from, at, to, 0, WARM_UP, flows);
	for (int i = 0; i < PARTS; i++)
		part[i] = go(from, at, to, count / PARTS * i, count / PARTS, flows);
	printf("%llu\n", (unsigned long long)median(part) / (count / PARTS));
}

/* Fails if one of them found no room in the socket. */
static void hold(int from, int at, const struct sockaddr_in *to, int count)
{
	sigset_t end;
	int got;

	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	for (int i = 0; i < count; i++)
		send_from(from, FIRST_SOURCE, to);
	fprintf(stderr, "flows: waiting\n");
	sigwait(&end, &got);
	for (int i = 0; i < count; i++)
		check(recv(at, &(char){ 0 }, 1, MSG_DONTWAIT), "what was to wait is not there");
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int flows, count, at, from;

	if (argc != 4 || (count = atoi(argv[2])) < PARTS) {
		fprintf(stderr, "usage: flows FLOWS COUNT PORT\n");
		return 2;
	}
	flows = atoi(argv[1]);
	to.sin_port = htons(atoi(argv[3]));
	inet_pton(AF_INET, "172.17.0.2", &to.sin_addr);
	at = receiver(&to);
	from = sender();
	if (flows)
		measure(from, at, &to, flows, count);
	else
		hold(from, at, &to, count);
	return 0;
}
