// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <string.h>

#include "sieve.h"

static void fill_prefixes(struct prefixes *list)
{
	memset(list->common, 0xff, sizeof(list->common));
	for (unsigned int i = 0; i < list->n; i++)
		for (unsigned int half = 0; half < 2; half++)
			list->common[half] &= list->p[i].mask[half];
	for (unsigned int i = 0; i < list->n; i++)
		list->sieve.may[sieve_slot(prefixes_key(list, list->p[i].addr))] = 1;
}

void sieve__fill(struct config *config)
{
	fill_prefixes(&config->host);
	fill_prefixes(&config->src);
	fill_prefixes(&config->dst);
	for (unsigned int i = 0; i < config->n_netns; i++)
		config->netns_sieve.may[sieve_slot(config->netns[i])] = 1;
	for (unsigned int i = 0; i < config->n_ifaces; i++) {
		__u64 name[2];

		memcpy(name, config->iface[i].name, sizeof(name));
		config->iface_sieve.may[sieve_slot(name[0] ^ name[1])] = 1;
	}
}
