// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * programs - the BPF programs in the kernel, a line each: NAME INSTRUCTIONS RUNS
 *
 * INSTRUCTIONS is what the verifier went through, which bpftool does not tell. RUNS
 * are counted while sysctl kernel.bpf_stats_enabled=1.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <linux/btf.h>

/* The whole name, which only the program's BTF has: the kernel keeps 15 characters. */
static void name_of(int fd, const struct bpf_prog_info *short_info, char *name, size_t size)
{
	struct bpf_func_info function = {};
	struct bpf_prog_info info = { .nr_func_info = 1, .func_info_rec_size = sizeof(function),
				      .func_info = (__u64)(unsigned long)&function };
	__u32 info_size = sizeof(info);
	const struct btf_type *type;
	struct btf *btf;

	snprintf(name, size, "%s", short_info->name);
	if (!short_info->btf_id || bpf_obj_get_info_by_fd(fd, &info, &info_size))
		return;
	btf = btf__load_from_kernel_by_id(short_info->btf_id);
	type = btf ? btf__type_by_id(btf, function.type_id) : NULL;
	if (type)
		snprintf(name, size, "%s", btf__name_by_offset(btf, type->name_off));
	btf__free(btf);
}

int main(void)
{
	__u32 id = 0;

	while (!bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = {};
		__u32 size = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);
		char name[128];

		/* gone meanwhile */
		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &size)) {
			fprintf(stderr, "programs: program %u: %s\n", id, strerror(errno));
			return 1;
		}
		name_of(fd, &info, name, sizeof(name));
		printf("%s %u %llu\n", name, info.verified_insns, (unsigned long long)info.run_cnt);
		close(fd);
	}
	return 0;
}
