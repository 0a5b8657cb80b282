/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Values of the command line. Every parser reads its text to the end and leaves
 * its result alone where it fails, with the errors named here.
 */
#ifndef SLOWPKT_PARSE_H
#define SLOWPKT_PARSE_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/types.h>

#include "record.h"
#include "config.h"

#define NS_PER_US	1000ull
#define NS_PER_MS	1000000ull
#define NS_PER_S	1000000000ull

/* A decimal number from min to max. -EINVAL: not a number; -ERANGE: not in range. */
int parse__number(const char *text, uint64_t min, uint64_t max, uint64_t *number);

/*
 * A time: a decimal number, with a fraction if need be, and ns, us, ms or s; bare
 * is the unit (ns) of one without. -EINVAL: not a time, or finer than a
 * nanosecond; -ERANGE: above INT64_MAX ns (292 years), so that a sum of two fits.
 */
int parse__time(const char *text, uint64_t bare, uint64_t *ns);

/* A part of a text, for messages. */
struct part {
	const char *at;
	int len;
};

/*
 * Adds PORT[,PORT|LO-HI…] to ports. -EINVAL: not a list of ports; -ERANGE: a port
 * above 65535, or LO above HI; *bad is the item that is wrong.
 */
int parse__ports(const char *text, struct ports *ports, struct part *bad);

/*
 * ADDR[/LEN], IPv4 or IPv6. -EINVAL: not an address; -ERANGE: LEN beyond the
 * address; -EDOM: bits are set behind LEN, *prefix is what LEN leaves of it.
 */
int parse__prefix(const char *text, struct prefix *prefix);

/* Matches IPv4 addresses only. */
bool prefix__is_ipv4(const struct prefix *prefix);
/* Matches IPv4 addresses among others: ::/0 and the like. */
bool prefix__covers_ipv4(const struct prefix *prefix);

enum { PREFIX_TEXT = 64 };
/* Writes ADDR[/LEN]. Returns buf. */
char *prefix__format(const struct prefix *prefix, char buf[PREFIX_TEXT]);

#endif
