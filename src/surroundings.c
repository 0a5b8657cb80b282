// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/utsname.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/capability.h>

#include "surroundings.h"

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

static uint64_t capabilities(void)
{
	unsigned long long caps = ~0ull;
	char line[128];

	if (line_of("/proc/self/status", "CapEff:", line, sizeof(line)))
		sscanf(line, "%llx", &caps);
	return caps;
}

static bool lacks_capability(char *why, size_t size)
{
	uint64_t caps = capabilities();
	bool admin = caps >> CAP_SYS_ADMIN & 1;
	bool bpf = caps >> CAP_BPF & 1, perfmon = caps >> CAP_PERFMON & 1;

	if (admin || (bpf && perfmon))
		return false;
	if (geteuid())
		snprintf(why, size, "not root: run it as root (sudo slowpkt …), or with CAP_BPF and CAP_PERFMON");
	else
		snprintf(why, size, "root without %s%s%s: a container took the capability away; run it on the host, or start the container with --privileged",
			 bpf ? "" : "CAP_BPF", !bpf && !perfmon ? " and " : "", perfmon ? "" : "CAP_PERFMON");
	return true;
}

/* "confidentiality" forbids reading kernel memory, "integrity" does not. */
static bool is_locked_down(char *why, size_t size)
{
	char line[128];

	if (!line_of("/sys/kernel/security/lockdown", "", line, sizeof(line)) ||
	    !strstr(line, "[confidentiality]"))
		return false;
	snprintf(why, size, "the kernel is locked down (confidentiality), which forbids tracing: boot it with lockdown=integrity or lockdown=none");
	return true;
}

static bool lacks_btf(char *why, size_t size)
{
	if (!access("/sys/kernel/btf/vmlinux", R_OK))
		return false;
	snprintf(why, size, "the kernel has no BTF (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF=y, as distributions' kernels have since 2020");
	return true;
}

/* The ring buffer is the youngest thing that slowpkt cannot do without: 5.8. */
static bool is_too_old(char *why, size_t size)
{
	struct utsname u;

	if (libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) != 0)
		return false;
	uname(&u);
	snprintf(why, size, "kernel %s is too old: it has no BPF ring buffer; 5.8 or later is needed", u.release);
	return true;
}

static bool lacks_tracing(char *why, size_t size)
{
	if (libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_TRACING, NULL) != 0 ||
	    !access("/sys/bus/event_source/devices/kprobe/type", F_OK))
		return false;
	snprintf(why, size, "this kernel can attach BPF programs to no function: neither to BTF trampolines (CONFIG_FUNCTION_TRACER, CONFIG_BPF_JIT) nor to kprobes (CONFIG_KPROBES); boot a kernel that has one of them");
	return true;
}

bool surroundings__forbid(char *why, size_t size)
{
	*why = '\0';
	return lacks_capability(why, size) || is_locked_down(why, size) || lacks_btf(why, size) ||
	       is_too_old(why, size) || lacks_tracing(why, size);
}
