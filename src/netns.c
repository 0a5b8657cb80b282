// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE 1	/* O_PATH, CLONE_NEWNET */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "netns.h"
#include "parse.h"

/*
 * The kernel numbers namespaces from 0xF0000000 up (PROC_DYNAMIC_FIRST) and the
 * initial ones, since 6.18 also the netns, just below.
 */
#define FIRST_INUM 0xEFFFFFF0u

/* Where netns without a process are kept alive: by `ip netns`, and by docker. */
static const char *const name_dirs[] = { "/run/netns", "/var/run/netns" };
static const char docker_dir[] = "/run/docker/netns";

/* The inum of the netns that the file at path is. */
static int inspect(const char *path, uint32_t *inum)
{
	struct statfs fs;
	struct stat st;
	/* O_PATH looks without touching: path may be a FIFO, or a tape */
	int fd = open(path, O_PATH | O_CLOEXEC), nsfd, rc = 0;

	if (fd < 0)
		return -errno;
	if (fstatfs(fd, &fs) || fstat(fd, &st)) {
		rc = -errno;
		goto out;
	}
	if (fs.f_type != NSFS_MAGIC) {
		rc = -EBADF;
		goto out;
	}
	nsfd = open(path, O_RDONLY | O_CLOEXEC);
	if (nsfd < 0) {
		rc = -errno;
		goto out;
	}
	if (ioctl(nsfd, NS_GET_NSTYPE) != CLONE_NEWNET)
		rc = -EBADF;
	else
		*inum = (uint32_t)st.st_ino;
	close(nsfd);
out:
	close(fd);
	return rc;
}

static bool is_denied(int rc)
{
	return rc == -EACCES || rc == -EPERM;
}

/* Looks for inum in the netns of all processes. As search_inum(). */
static int search_proc(uint32_t inum)
{
	DIR *proc = opendir("/proc");
	bool denied = false, found = false;
	struct dirent *e;

	if (!proc)
		return 1;
	while (!found && (e = readdir(proc))) {
		char path[sizeof(e->d_name) + sizeof("/ns/net")];
		struct stat st;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/ns/net", e->d_name);
		if (fstatat(dirfd(proc), path, &st, 0))
			denied |= is_denied(-errno);
		else
			found = st.st_ino == inum;
	}
	closedir(proc);
	return found ? 0 : denied ? 1 : -ENOENT;
}

/* Looks for inum in a directory of netns files. As search_inum(). */
static int search_dir(const char *name, uint32_t inum)
{
	DIR *dir = opendir(name);
	bool denied = false, found = false;
	struct dirent *e;

	if (!dir)
		return is_denied(-errno) ? 1 : -ENOENT;
	while (!found && (e = readdir(dir))) {
		char path[PATH_MAX];
		uint32_t other;
		int rc;

		snprintf(path, sizeof(path), "%s/%s", name, e->d_name);
		rc = inspect(path, &other);
		denied |= is_denied(rc);
		found = !rc && other == inum;
	}
	closedir(dir);
	return found ? 0 : denied ? 1 : -ENOENT;
}

/* 0: found; 1: not found, but not all may be looked at; -ENOENT: not there. */
static int search_inum(uint32_t inum)
{
	int rc[] = {
		search_proc(inum), search_dir(name_dirs[0], inum),
		search_dir(name_dirs[1], inum), search_dir(docker_dir, inum),
	};
	int sum = -ENOENT;

	for (size_t i = 0; i < sizeof(rc) / sizeof(rc[0]); i++) {
		if (!rc[i])
			return 0;
		if (rc[i] > 0)
			sum = 1;
	}
	return sum == 1 && inum < FIRST_INUM ? -ENOENT : sum;
}

static int find_inum(const char *digits, uint32_t *inum)
{
	uint64_t number;
	int rc = parse__number(digits, 1, UINT32_MAX, &number);

	if (rc)
		return rc == -ERANGE ? -ENOENT : rc;
	rc = search_inum((uint32_t)number);
	if (rc >= 0)
		*inum = (uint32_t)number;
	return rc;
}

static int find_pid(const char *digits, uint32_t *inum)
{
	char path[sizeof("/proc/2147483647/ns/net")];
	uint64_t pid;
	int rc = parse__number(digits, 1, INT_MAX, &pid);

	if (rc)
		return rc == -ERANGE ? -ESRCH : rc;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	rc = inspect(path, inum);
	return rc == -ENOENT ? -ESRCH : rc;
}

static int find_name(const char *name, uint32_t *inum)
{
	char path[PATH_MAX];
	int rc = -ENOENT;

	if (!*name || strlen(name) > NAME_MAX || strchr(name, '/') || !strcmp(name, ".") ||
	    !strcmp(name, ".."))
		return -EINVAL;
	for (size_t i = 0; i < sizeof(name_dirs) / sizeof(name_dirs[0]) && rc == -ENOENT; i++) {
		snprintf(path, sizeof(path), "%s/%s", name_dirs[i], name);
		rc = inspect(path, inum);
		if (rc == -ENOTDIR)
			rc = -ENOENT;
	}
	return rc;
}

int netns__find(const char *ref, uint32_t *inum)
{
	static const char pid[] = "pid:", net[] = "net:[";
	size_t len = strlen(ref);
	int rc;

	if (*ref == '/')
		return inspect(ref, inum);
	if (!strncmp(ref, pid, strlen(pid)))
		return find_pid(ref + strlen(pid), inum);
	if (!strncmp(ref, net, strlen(net)) && ref[len - 1] == ']') {
		char digits[sizeof("4294967295")];
		int n = snprintf(digits, sizeof(digits), "%.*s", (int)(len - strlen(net) - 1),
				 ref + strlen(net));

		return n < (int)sizeof(digits) ? find_inum(digits, inum) : -ENOENT;
	}
	/* `ip netns` lets a name be a number, too */
	rc = find_inum(ref, inum);
	if (rc >= 0)
		return rc;
	return find_name(ref, inum);
}

int netns__check_iface(const char *name, size_t len)
{
	if (!len || len >= DEV_NAME_LEN)
		return -EINVAL;
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (name[i] == '/' || name[i] == ':' || isspace((unsigned char)name[i]))
			return -EINVAL;
	return 0;
}
