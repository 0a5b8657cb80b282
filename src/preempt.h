/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether the scheduler may take the CPU from a task in the midst of an fentry or fexit
 * program. Until that task goes on, the kernel skips the program for all others on that
 * CPU (__bpf_prog_enter_recur(), kernel/bpf/trampoline.c, 6.0). A kprobe's program runs
 * with preemption off (kprobe_ftrace_handler(), arch/x86/kernel/kprobes/ftrace.c).
 */
#ifndef SLOWPKT_PREEMPT_H
#define SLOWPKT_PREEMPT_H

#include <stdbool.h>

/*
 * release and version: as uname -r and -v; mode: what /sys/kernel/debug/sched/preempt
 * says, NULL: not known.
 */
bool preempt__in_programs(const char *release, const char *version, const char *mode);

/* The same of the running kernel. */
bool preempt__in_programs_now(void);

#endif
