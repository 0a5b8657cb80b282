// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stddef.h>

#include "hop.h"

#define HOP_INFO(id, kind_, target_, place_, shown_, article_)		\
	[HOP_##id] = {							\
		.kind = HOP_##kind_,					\
		.place = PLACE_##place_,				\
		.target = #target_,					\
		.shown = shown_,					\
		.article = article_,					\
	},

const struct hop_info hop_infos[HOP_IDS] = { HOPS(HOP_INFO) };

uint32_t hop__at(uint32_t places)
{
	uint32_t hops = 0;

	for (int id = 0; id < HOP_IDS; id++)
		if (places >> hop_infos[id].place & 1)
			hops |= 1u << id;
	return hops;
}

const char *hop__module(enum hop_id id)
{
#define HOP_MODULE(id, module) [HOP_##id] = module,
	static const char *const modules[HOP_IDS] = { HOP_MODULES(HOP_MODULE) };

	return modules[id];
}
