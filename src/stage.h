/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stages: what holds a packet between two neighbouring hops. */
#ifndef SLOWPKT_STAGE_H
#define SLOWPKT_STAGE_H

#include <stddef.h>
#include <stdint.h>

#include "hops.h"

enum stage {
	STAGE_OUTPUT,
	STAGE_NEIGH,
	STAGE_QDISC,
	STAGE_DEVICE,
	STAGE_NAPI,
	STAGE_GRO,
	STAGE_RPS,
	STAGE_BACKLOG,
	STAGE_BRIDGE,
	STAGE_LINK,
	STAGE_FORWARD,
	STAGE_INPUT,
	STAGE_TCPLOCK,
	STAGE_SOCKET,
	STAGE_DROP,
	STAGE_OTHER,
	STAGES
};

/*
 * The stages between two hops that follow each other in a record, as a mask
 * (1 << enum stage). More than one bit: hops are missing between them, and the
 * time is that of all these stages together. Never 0: an unknown pair is OTHER.
 */
uint32_t stage__between(enum place from, enum place to);

/* The places (mask, 1 << enum place) whose hops are needed to judge a stage. */
uint32_t stage__places(enum stage stage);

/* The stages (mask) that end at a place, and those that begin there; 0: none. */
uint32_t stage__into(enum place place);
uint32_t stage__out_of(enum place place);

/* A stage's name; the stage of a name, or -EINVAL. */
const char *stage__name(enum stage stage);
int stage__parse(const char *name);

enum { STAGE_TEXT = 64 };
/* Writes the names of a mask, in the order of a packet's way, joined by '+'. Returns buf. */
char *stage__format(uint32_t mask, char buf[STAGE_TEXT]);

/* The same with another character between them, for stages that are not joined. */
char *stage__list(uint32_t mask, char between, char buf[STAGE_TEXT]);

#endif
