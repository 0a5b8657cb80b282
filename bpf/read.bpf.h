/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a hook reads kernel memory. Every hook is compiled twice from one source:
 * DIRECT for tp_btf and fentry, whose arguments are BTF pointers that the
 * verifier lets a program load through, and else for raw_tp and kprobe, whose
 * arguments are mere numbers and need a probe read for each step.
 */
#ifndef SLOWPKT_READ_BPF_H
#define SLOWPKT_READ_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#ifdef DIRECT
#define READ(p, field) ((p)->field)
#define READ_BITFIELD(p, field) BPF_CORE_READ_BITFIELD(p, field)
#define TP_AS(name, target, args...) SEC("tp_btf/" #target) int BPF_PROG(btf_##name, args)
#define FN_AS(name, target, args...) SEC("fentry/" #target) int BPF_PROG(btf_##name, args)
#else
#define READ(p, field) BPF_CORE_READ(p, field)
#define READ_BITFIELD(p, field) BPF_CORE_READ_BITFIELD_PROBED(p, field)
#define TP_AS(name, target, args...) SEC("raw_tp/" #target) int BPF_PROG(probe_##name, args)
#define FN_AS(name, target, args...) SEC("kprobe/" #target) int BPF_KPROBE(probe_##name, args)
#endif

/* A program at a target, a tracepoint or a function's entry, is named after it. */
#define TP(target, args...) TP_AS(target, target, args)
#define FN(target, args...) FN_AS(target, target, args)

/*
 * Masks a number that the compiler knows to be small enough, and so would not mask,
 * but the verifier does not: it forgets the bounds of what was spilled to the stack.
 */
#define BOUND(x, mask) asm volatile("%0 &= %1" : "+r"(x) : "i"(mask))

/*
 * The address that lies so many bytes behind base, added up once and where the
 * offset was: left to itself the compiler adds it up anew for each field, or spills.
 */
static __always_inline void *at_offset(void *base, u64 offset)
{
	asm volatile("%0 += %1" : "+r"(offset) : "r"(base));
	return (void *)offset;
}

/*
 * Whether x is not 0, as 1 or 0, in plain arithmetic: of a branch the verifier
 * would follow both ways, through all that comes behind it.
 */
static __always_inline u64 nonzero(u64 x)
{
	x |= -x;
	asm volatile("" : "+r"(x));
	return x >> 63;
}

/* The same: whether a >= b, for numbers below 2^62. */
static __always_inline u64 at_least(s64 a, s64 b)
{
	if (__builtin_constant_p(a))
		return a >= b;
	a -= b;
	asm volatile("" : "+r"(a));
	return ~(u64)a >> 63;
}

/*
 * The low half of a pointer as a number. A verifier that would refuse arithmetic
 * on a BTF pointer takes a 32-bit one for a scalar; the compiler must not see it,
 * or it would copy the pointer with a 32-bit move first, which is refused.
 */
static __always_inline u32 ptr_low(const void *p)
{
	u64 low;

	asm volatile("r1 = %1; w1 -= 0; %0 = r1" : "=r"(low) : "r"(p) : "r1");
	return low;
}

#endif
