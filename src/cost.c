// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <bpf/bpf.h>

#include "cost.h"

int cost__account(void)
{
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	return fd < 0 ? -errno : fd;
}

int cost__read(int prog_fd, struct cost *cost)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &size))
		return -errno;
	cost->runs = info.run_cnt;
	cost->ns = info.run_time_ns;
	return 0;
}

void cost__say_hop(FILE *out, const char *shown, const char *target, const struct cost *cost)
{
	fprintf(out, "slowpkt: cost at %s (%s): %" PRIu64 " runs, %" PRIu64 " ns each\n", shown, target,
		cost->runs, cost->runs ? cost->ns / cost->runs : 0);
}

void cost__say_sum(FILE *out, const struct cost *sum, uint64_t in_ns)
{
	fprintf(out, "slowpkt: cost: %" PRIu64 " runs took %.3f ms of %.3f s, %.4f %% of one CPU\n",
		sum->runs, sum->ns / 1e6, in_ns / 1e9, in_ns ? 100.0 * sum->ns / in_ns : 0);
}
