// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "trial.h"

/* Takes what was made away again. Returns 0 or -errno of its making. */
static int give_back(int fd)
{
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int trial__fentry(const struct btf *btf, const char *function)
{
	/* r0 = 0; exit */
	static const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_FENTRY);
	int id = btf__find_by_name_kind(btf, function, BTF_KIND_FUNC);
	int prog, err;

	if (id < 0)
		return -ENOENT;
	opts.attach_btf_id = id;
	prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "trial", "Dual BSD/GPL", nothing,
			     sizeof(nothing) / sizeof(nothing[0]), &opts);
	if (prog < 0)
		return -errno;
	err = give_back(bpf_raw_tracepoint_open(NULL, prog));
	close(prog);
	return err;
}

/* perf's kind of event for them, which a kernel without them has not. */
static const char kprobe_type[] = "/sys/bus/event_source/devices/kprobe/type";

bool trial__has_kprobes(void)
{
	return !access(kprobe_type, F_OK);
}

int trial__kprobe(const char *function)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .config1 = (uint64_t)(uintptr_t)function };
	FILE *f = fopen(kprobe_type, "re");
	int found;

	if (!f)
		return -errno;
	found = fscanf(f, "%u", &attr.type);
	fclose(f);
	if (found != 1)
		return -EINVAL;
	return give_back(syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC));
}

int trial__ringbuf(void)
{
	return give_back(bpf_map_create(BPF_MAP_TYPE_RINGBUF, "trial", 0, 0, sysconf(_SC_PAGESIZE), NULL));
}

int trial__array(size_t size)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);

	return give_back(bpf_map_create(BPF_MAP_TYPE_ARRAY, "trial", sizeof(uint32_t), 4096, size / 4096, &opts));
}

const char *trial__strerror(int err)
{
	enum { ENOTSUPP_ = 524 };	/* the kernel's own, which user space has no name for */

	return err == -ENOTSUPP_ ? "Operation not supported" : strerror(-err);
}
