// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "preempt.h"

/* "none voluntary full (lazy)": the one in brackets. Not there without debugfs, nor where lockdown hides it. */
static const char mode_path[] = "/sys/kernel/debug/sched/preempt";

bool preempt__in_programs(const char *release, const char *version, const char *mode)
{
	/* else rcu_read_lock(), in which they run, turns preemption off */
	if (!strstr(version, "PREEMPT"))
		return false;
	/* the mode of any other one was chosen when it was built */
	if (!strstr(version, "PREEMPT_DYNAMIC"))
		return true;
	if (mode)
		return strstr(mode, "(full)") || strstr(mode, "(lazy)");
	/* since 7.0 (7dadeaa6e851) there is no other mode on x86; before, "voluntary" was the usual one */
	return strtol(release, NULL, 10) >= 7;
}

bool preempt__in_programs_now(void)
{
	FILE *f = fopen(mode_path, "re");
	struct utsname u;
	char mode[64];
	bool known = f && fgets(mode, sizeof(mode), f);

	if (f)
		fclose(f);
	uname(&u);
	return preempt__in_programs(u.release, u.version, known ? mode : NULL);
}
