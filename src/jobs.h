/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the hops that are attached are good for, and what is lost with one that is not. */
#ifndef SLOWPKT_JOBS_H
#define SLOWPKT_JOBS_H

#include "options.h"

/* Whether these hops (mask of enum hop_id) tell how long a datagram waits in its socket. */
bool jobs__udp(uint32_t attached);

/* Whether they follow a TCP segment from the NIC to its socket's state machine, and back. */
bool jobs__tcp(uint32_t attached);

/* Whether with these hops anything of what the options ask for can be told. */
bool jobs__any(const struct options *o, uint32_t attached);

enum { LOSS_TEXT = 160 };

/* What is lost without this hop; the text may lie in buf. */
const char *jobs__loss(enum hop_id id, char buf[LOSS_TEXT]);

#endif
