// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <linux/capability.h>

#include "kernel_btf.h"
#include "surroundings.h"
#include "trial.h"

/* The line of a file that begins with prefix, without it; false: no such line or file. */
static bool line_of(const char *path, const char *prefix, char *line, size_t size)
{
	FILE *f = fopen(path, "re");
	bool found = false;

	if (!f)
		return false;
	while (!found && fgets(line, size, f)) {
		if (strncmp(line, prefix, strlen(prefix)))
			continue;
		memmove(line, line + strlen(prefix), strlen(line) - strlen(prefix) + 1);
		line[strcspn(line, "\n")] = '\0';
		found = true;
	}
	fclose(f);
	return found;
}

static bool has_capability(unsigned int which)
{
	unsigned long long caps = ~0ull;
	char line[128];

	if (line_of("/proc/self/status", "CapEff:", line, sizeof(line)))
		sscanf(line, "%llx", &caps);
	return caps >> which & 1;
}

static enum judgement judge_capabilities(const struct options *o, char *why, size_t size)
{
	bool bpf = has_capability(CAP_BPF), perfmon = has_capability(CAP_PERFMON);

	(void)o;
	if (has_capability(CAP_SYS_ADMIN)) {
		snprintf(why, size, "CAP_SYS_ADMIN");
		return GOOD;
	}
	if (bpf && perfmon) {
		snprintf(why, size, "CAP_BPF and CAP_PERFMON");
		return GOOD;
	}
	if (geteuid())
		snprintf(why, size, "not root: run it as root (sudo slowpkt …), or with CAP_BPF and CAP_PERFMON");
	else
		snprintf(why, size, "root without %s%s%s: a container took the capability away; run it on the host, or start the container with --privileged",
			 bpf ? "" : "CAP_BPF", !bpf && !perfmon ? " and " : "", perfmon ? "" : "CAP_PERFMON");
	return FORBIDS;
}

/* "confidentiality" forbids reading kernel memory, "integrity" does not. */
static enum judgement judge_lockdown(const struct options *o, char *why, size_t size)
{
	static const char path[] = "/sys/kernel/security/lockdown";
	char line[128];

	(void)o;
	if (!line_of(path, "", line, sizeof(line))) {
		snprintf(why, size, "none (no %s)", path);
		return GOOD;
	}
	snprintf(why, size, "%s", line);
	if (!strstr(line, "[confidentiality]"))
		return GOOD;
	snprintf(why, size, "the kernel is locked down (confidentiality), which forbids tracing: boot it with lockdown=integrity or lockdown=none");
	return FORBIDS;
}

static enum judgement judge_btf(const struct options *o, char *why, size_t size)
{
	if (o->btf)
		return kernel_btf__check(o->btf, why, size) ? FORBIDS : GOOD;
	snprintf(why, size, "%s", KERNEL_BTF);
	if (!access(KERNEL_BTF, R_OK))
		return GOOD;
	snprintf(why, size, "the kernel has no BTF (" KERNEL_BTF "), as it is built without CONFIG_DEBUG_INFO_BTF: give --btf=FILE, " KERNEL_BTF_REMEDY);
	return FORBIDS;
}

/* The ring buffer is the youngest thing that slowpkt cannot do without: 5.8. */
static enum judgement judge_ringbuf(const struct options *o, char *why, size_t size)
{
	int err = trial__ringbuf();
	struct utsname u;

	(void)o;
	if (err == -EINVAL) {
		uname(&u);
		snprintf(why, size, "kernel %s is too old: it has no BPF ring buffer; 5.8 or later is needed", u.release);
		return FORBIDS;
	}
	snprintf(why, size, "%s", err == -EPERM ? "not allowed to make one" : "the kernel has it");
	return GOOD;
}

/*
 * Before 5.11 BPF memory counts as locked memory, whose limit libbpf raises if it
 * may. Whether this kernel does it, only an attempt can tell.
 */
static enum judgement judge_memory(const struct options *o, char *why, size_t size)
{
	size_t table = sizeof(struct set) * o->config.sets;
	struct rlimit limit;

	snprintf(why, size, "no limit for BPF");
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY || has_capability(CAP_SYS_RESOURCE) ||
	    trial__array(table) != -EPERM)
		return GOOD;
	snprintf(why, size, "this kernel counts BPF memory as locked memory, %llu KB at the most (ulimit -l): raise it (ulimit -l unlimited; systemd: LimitMEMLOCK=infinity), or add CAP_SYS_RESOURCE",
		 (unsigned long long)limit.rlim_cur / 1024);
	return FORBIDS;
}

static enum judgement judge_jit(const struct options *o, char *why, size_t size)
{
	static const char path[] = "/proc/sys/net/core/bpf_jit_enable";
	char line[32];

	(void)o;
	if (!line_of(path, "", line, sizeof(line))) {
		snprintf(why, size, "not known (no %s)", path);
		return GOOD;
	}
	if (strcmp(line, "0")) {
		snprintf(why, size, "on");
		return GOOD;
	}
	snprintf(why, size, "off, so each hook costs several times as much: sysctl net.core.bpf_jit_enable=1");
	return IMPAIRS;
}

/* A function that the kernel has whatever its configuration, as long as it has a network. */
#define ANY_FUNCTION "tcp_v4_rcv"

static enum judgement judge_fentry(const struct btf *btf, char *why, size_t size)
{
	int err = btf ? trial__fentry(btf, ANY_FUNCTION) : -ENOENT;

	if (!err)
		snprintf(why, size, "works");
	else if (!btf)
		snprintf(why, size, "it needs the kernel's own BTF: kprobes do its work, at twice the cost");
	else if (err == -EPERM)
		snprintf(why, size, "not permitted, though the capabilities are there: look for a seccomp filter or a security module");
	else
		snprintf(why, size, "%s (CONFIG_BPF_JIT, CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS): kprobes do its work, at twice the cost",
			 trial__strerror(err));
	return err ? IMPAIRS : GOOD;
}

static enum judgement judge_kprobe(char *why, size_t size)
{
	static const char path[] = "/proc/sys/kernel/perf_event_paranoid";
	int err = trial__kprobe(ANY_FUNCTION);
	char paranoid[32];

	if (!err)
		snprintf(why, size, "work");
	else if (err == -ENOENT)
		snprintf(why, size, "the kernel has none: boot one with CONFIG_KPROBES and CONFIG_KPROBE_EVENTS");
	/* Debian and Ubuntu know levels above 2, which take a kprobe from who has not CAP_SYS_ADMIN */
	else if (err == -EACCES && line_of(path, "", paranoid, sizeof(paranoid)) && strcmp(paranoid, "2") > 0)
		snprintf(why, size, "not allowed: add CAP_SYS_ADMIN, or sysctl kernel.perf_event_paranoid=2 (it is %s)", paranoid);
	else
		snprintf(why, size, "%s", trial__strerror(err));
	return err ? IMPAIRS : GOOD;
}

/* In the order in which a cause hides those behind it. */
static const struct {
	const char *name;
	enum judgement (*judge)(const struct options *o, char *why, size_t size);
} things[] = {
	{ "capabilities", judge_capabilities },
	{ "lockdown", judge_lockdown },
	{ "BTF", judge_btf },
	{ "ring buffer", judge_ringbuf },
	{ "memory", judge_memory },
	{ "JIT", judge_jit },
};

enum { THINGS = sizeof(things) / sizeof(things[0]) };

_Static_assert(THINGS + 2 == SURROUNDINGS, "fentry and kprobes come on top");

bool surroundings__forbid(const struct options *o, char *why, size_t size)
{
	for (size_t i = 0; i < THINGS; i++)
		if (things[i].judge(o, why, size) == FORBIDS)
			return true;
	return false;
}

void surroundings__judge(const struct options *o, const struct btf *btf, struct verdict verdicts[SURROUNDINGS])
{
	struct verdict *fentry = &verdicts[THINGS], *kprobe = fentry + 1;

	for (size_t i = 0; i < THINGS; i++) {
		struct verdict *v = &verdicts[i];

		v->name = things[i].name;
		v->judgement = things[i].judge(o, v->why, sizeof(v->why));
	}
	fentry->name = "fentry";
	fentry->judgement = judge_fentry(btf, fentry->why, sizeof(fentry->why));
	kprobe->name = "kprobes";
	kprobe->judgement = judge_kprobe(kprobe->why, sizeof(kprobe->why));
}

bool surroundings__blame(const struct options *o, const struct btf *btf, char *why, size_t size)
{
	struct verdict verdicts[SURROUNDINGS];
	const struct verdict *fentry = &verdicts[THINGS], *kprobe = fentry + 1;

	surroundings__judge(o, btf, verdicts);
	for (const struct verdict *v = verdicts; v < fentry; v++) {
		if (v->judgement == FORBIDS) {
			snprintf(why, size, "%s", v->why);
			return true;
		}
	}
	if (fentry->judgement == GOOD || kprobe->judgement == GOOD)
		return false;
	snprintf(why, size, "no function can be traced here: fentry: %s; kprobes: %s", fentry->why, kprobe->why);
	return true;
}
