/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a record says: total, stages, the slowest one, the direction. */
#ifndef SLOWPKT_JOURNEY_H
#define SLOWPKT_JOURNEY_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/types.h>

#include "record.h"
#include "config.h"

enum direction { DIR_UNKNOWN, DIR_RCV, DIR_SND, DIR_LOC, DIR_FWD };

struct journey_hop {
	const struct hop *hop;
	enum hop_id id;
	bool owner;		/* the current task owned the packet */
	unsigned int cpu;
	uint64_t since_start;	/* ns */
	uint64_t in_stage;	/* ns since the hop before; 0 at the first */
	uint32_t stages;	/* mask of enum stage that ends here; 0 at the first */
};

struct journey {
	const struct record *record;	/* borrowed */
	uint64_t number;		/* pkt=N */
	uint64_t start;			/* CLOCK_MONOTONIC, ns */
	uint64_t total;			/* ns, from the first hop to the end */
	enum direction direction;
	enum record_end end;
	unsigned int hops;
	struct journey_hop hop[RECORD_HOPS];
	/*
	 * The time after the last hop: the packet is still held, or no hop of the
	 * record shows its end (closed unread, evicted, torn, truncated).
	 */
	bool has_rest;
	uint64_t rest;			/* ns */
	uint32_t rest_stages;
	/*
	 * The slowest stage; hop index at which it ends; hops: it is the rest.
	 * slowest_stages is 0 where there is no stage: one hop and no rest.
	 */
	unsigned int slowest;
	uint64_t slowest_ns;
	uint32_t slowest_stages;
};

/*
 * Reads a record into *j, which borrows it. now: the time up to which a record
 * that is still held has waited (CLOCK_MONOTONIC, ns); used for END_WAITING only.
 * Returns 0, or -EBADMSG if the record was written by two packets at once (its
 * first hop is not of its generation, or time runs backwards): not to be shown.
 */
int journey__read(struct journey *j, const struct record *r, uint64_t number, uint64_t now);

/* The hop at which the slowest stage began; NULL where there is no stage. */
const struct journey_hop *journey__slowest_from(const struct journey *j);

/*
 * The hop that tells where the slowest stage held the packet: of its two hops the
 * first one with a device, because a hop into the next device carries that one's.
 * NULL where there is no stage.
 */
const struct journey_hop *journey__held_at(const struct journey *j);

/* Whether the packet's last tuple differs from its first. */
bool journey__translated(const struct journey *j);

enum again { AGAIN_UNKNOWN, AGAIN_NO, AGAIN_YES };

/* Whether TCP had sent the segment before. Not known of one that was not seen to leave a socket here. */
enum again journey__retrans(const struct journey *j);

/*
 * Whether the journey that was read reaches a threshold. The kernel side has said
 * so already, but from a record that another packet's hop may have touched.
 */
bool journey__is_slow(const struct journey *j, const struct config *cfg);

#endif
