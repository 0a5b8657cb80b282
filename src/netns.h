/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Network namespaces and interfaces, as the command line names them. */
#ifndef SLOWPKT_NETNS_H
#define SLOWPKT_NETNS_H

#include <stddef.h>
#include <stdint.h>

/*
 * The inum of the netns that ref names: an inum (4026531840 or net:[4026531840]),
 * a /path, an `ip netns` name, or pid:N.
 * Returns 0; 1 if it is an inum that was not found, but may be in a place that
 * this process is not allowed to see; or
 *	-EINVAL	ref is none of these
 *	-ENOENT	there is no such netns
 *	-ESRCH	pid:N: there is no such process
 *	-EBADF	it is there, but is no netns
 *	-EACCES, -EPERM and others: it cannot be looked at
 */
int netns__find(const char *ref, uint32_t *inum);

/* Whether the kernel would take these len bytes as an interface name: 0, or -EINVAL. */
int netns__check_iface(const char *name, size_t len);

#endif
