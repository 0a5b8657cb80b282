// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * print path|oneline|json COUNT - what it costs to print a packet, in user space
 *
 * Prints the way from a client's socket over host and bridge to a container's, COUNT
 * times to /dev/null, from the record on. Says the nanoseconds of one, which with
 * -icount are instructions; one system call that does nothing is among them.
 */
#include "common.h"
#include "../unit/make_record.h"

/* With each hop 100 us after the one before; the names are those of make_record.h. */
static struct record make_way(void)
{
	static const struct {
		enum hop_id id;
		uint32_t netns, ifindex;
	} way[] = {
		{ HOP_IP_QUEUE_XMIT, POD, NO_DEV }, { HOP_IP_FINISH_OUTPUT2, POD, ETH0 },
		{ HOP_DEV_QUEUE_XMIT, POD, ETH0 }, { HOP_DEV_HARD_START_XMIT, POD, ETH0 },
		{ HOP_NETIF_RX, HOST, ETH0 }, { HOP_NETIF_RECEIVE_SKB, HOST, ETH0 },
		{ HOP_IP_RCV, HOST, ETH0 }, { HOP_IP_FINISH_OUTPUT2, HOST, DOCKER0 },
		{ HOP_DEV_QUEUE_XMIT, HOST, DOCKER0 }, { HOP_DEV_HARD_START_XMIT, HOST, DOCKER0 },
		{ HOP_DEV_QUEUE_XMIT, HOST, VETHC }, { HOP_DEV_HARD_START_XMIT, HOST, VETHC },
		{ HOP_NETIF_RX, POD, ETH0 }, { HOP_NETIF_RECEIVE_SKB, POD, ETH0 },
		{ HOP_IP_RCV, POD, ETH0 }, { HOP_TCP_V4_RCV, POD, ETH0 },
		{ HOP_TCP_RCV_ESTABLISHED, POD, NO_DEV },
	};
	struct record r = make__syn();

	r.hops = 0;
	for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++)
		make__hop(&r, way[i].id, i * 100000, way[i].netns, way[i].ifindex, KSOFTIRQD);
	make__end(&r, END_DELIVERED);
	return r;
}

static void print(FILE *out, const struct record *r, const char *how, uint64_t number)
{
	struct journey j;

	if (journey__read(&j, r, number, r->end_at))
		die("the record");
	if (!strcmp(how, "json"))
		json__journey(out, &j, &make__names);
	else
		text__journey(out, &j, &make__names, !strcmp(how, "oneline"));
	check(fflush(out), "/dev/null");
}

int main(int argc, char **argv)
{
	struct record r = make_way();
	unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	FILE *out = fopen("/dev/null", "w");
	uint64_t start;

	if (!count) {
		fprintf(stderr, "usage: print path|oneline|json COUNT\n");
		return 2;
	}
	if (!out)
		die("/dev/null");
	setvbuf(out, NULL, _IONBF, 0);	/* as slowpkt does */
	print(out, &r, argv[1], 1);
	start = now();
	for (unsigned long i = 0; i < count; i++)
		print(out, &r, argv[1], i);
	printf("%llu\n", (unsigned long long)((now() - start) / count));
	return 0;
}
