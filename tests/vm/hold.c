// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * hold - keeps what a CPU has received waiting, for a time that is known
 *
 *	hold CPU MS
 *
 * A BPF program spins for MS milliseconds each time that this CPU begins to work off
 * what it has received (the NET_RX softirq): its backlog, and its devices' NAPI. Says
 * "ready", and ends when stdin does.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/bpf.h>

enum {
	NET_RX_SOFTIRQ = 3,
	/* copied between two looks at the clock, of which a verifier allows a few thousand */
	COPIED = 256 << 10,
	MAX_LOOKS = 4000,
};

#define INSN(code_, dst, src, off_, imm_) \
	((struct bpf_insn){ .code = (code_), .dst_reg = (dst), .src_reg = (src), .off = (off_), .imm = (imm_) })
#define MOV(dst, src)		INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define MOV_IMM(dst, imm)	INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm)
#define ADD(dst, src)		INSN(BPF_ALU64 | BPF_ADD | BPF_X, dst, src, 0, 0)
#define ADD_IMM(dst, imm)	INSN(BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, imm)
#define LOAD(dst, src, off)	INSN(BPF_LDX | BPF_MEM | BPF_DW, dst, src, off, 0)
#define IF_IMM(op, dst, imm, to) INSN(BPF_JMP | (op) | BPF_K, dst, 0, to, imm)
#define IF(op, dst, src, to)	INSN(BPF_JMP | (op) | BPF_X, dst, src, to, 0)
#define CALL(helper)		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_##helper)
#define EXIT			INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

static int bpf(int cmd, union bpf_attr *attr)
{
	int result = syscall(__NR_bpf, cmd, attr, sizeof(*attr));

	if (result < 0) {
		fprintf(stderr, "hold: bpf(%d): %s\n", cmd, strerror(errno));
		exit(1);
	}
	return result;
}

static int make_map(void)
{
	return bpf(BPF_MAP_CREATE, &(union bpf_attr){
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = COPIED, .max_entries = 1 });
}

static int load(int map, int cpu, uint32_t ns)
{
	const struct bpf_insn program[] = {
		LOAD(BPF_REG_6, BPF_REG_1, 0),		/* the softirq */
		IF_IMM(BPF_JNE, BPF_REG_6, NET_RX_SOFTIRQ, 16),
		CALL(get_smp_processor_id),
		IF_IMM(BPF_JNE, BPF_REG_0, cpu, 14),
		CALL(ktime_get_ns),
		MOV(BPF_REG_7, BPF_REG_0),
		ADD_IMM(BPF_REG_7, ns),			/* until then */
		MOV_IMM(BPF_REG_8, MAX_LOOKS),
		INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_9, BPF_PSEUDO_MAP_VALUE, 0, map),
		INSN(0, 0, 0, 0, 0),
		/* again: */
		MOV(BPF_REG_1, BPF_REG_9),
		MOV_IMM(BPF_REG_2, COPIED),
		MOV(BPF_REG_3, BPF_REG_9),
		CALL(probe_read_kernel),
		CALL(ktime_get_ns),
		IF(BPF_JGE, BPF_REG_0, BPF_REG_7, 2),
		ADD_IMM(BPF_REG_8, -1),
		IF_IMM(BPF_JNE, BPF_REG_8, 0, -8),
		MOV_IMM(BPF_REG_0, 0),
		EXIT,
	};

	return bpf(BPF_PROG_LOAD, &(union bpf_attr){
		.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT, .insns = (uintptr_t)program,
		.insn_cnt = sizeof(program) / sizeof(program[0]), .license = (uintptr_t)"Dual BSD/GPL" });
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: hold CPU MS\n");
		return 2;
	}
	/* before 5.11 BPF's memory counts as locked memory */
	setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY });
	bpf(BPF_RAW_TRACEPOINT_OPEN, &(union bpf_attr){
		.raw_tracepoint = { .name = (uintptr_t)"softirq_entry",
				    .prog_fd = load(make_map(), atoi(argv[1]), atoi(argv[2]) * 1000000) } });
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &(char){ 0 }, 1) == 1)
		;
	return 0;
}
