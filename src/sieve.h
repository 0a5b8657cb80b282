/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sieves in the configuration (include/config.h). */
#ifndef SLOWPKT_SIEVE_H
#define SLOWPKT_SIEVE_H

#include <linux/types.h>

#include "record.h"
#include "config.h"

/* Fills the sieves of all lists, which must be whole by now. */
void sieve__fill(struct config *config);

#endif
