/* SPDX-License-Identifier: MIT */
/* mallopt and malloc_trim, with glibc's parameters and results. Parameters that have no counterpart
 * here (thresholds, arenas) are accepted and change nothing: programs that set them want speed or
 * less memory. */
#define _GNU_SOURCE
#include <malloc.h>

#include "malloc/api/fast.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/central/central.h"
#include "malloc/diagnostics/hooks.h"
#include "malloc/pages/pages.h"

/* musl has none of them. */
#ifndef M_MXFAST
#define M_MXFAST 1
#endif
#ifndef M_TRIM_THRESHOLD
#define M_TRIM_THRESHOLD -1
#endif
#ifndef M_PERTURB
#define M_PERTURB -6
#endif

#define MOST_FAST ((int)(80 * sizeof(size_t) / 4)) /* of glibc's fast bins */

NEAR__ENTRY int mallopt(int param, int val)
{
	switch (param) {
	case M_MXFAST:
		return val >= 0 && val <= MOST_FAST;
	case M_TRIM_THRESHOLD:
		if (val == -1) /* nothing is given back but by malloc_trim */
			near__malloc_conf.decay_ms = UINT64_MAX;
		return 1;
	case M_PERTURB:
		if (near__heap_ready())
			near__perturb(val);
		return 1;
	default:
		return 1;
	}
}

NEAR__ENTRY int malloc_trim(size_t pad)
{
	size_t discarded;

	(void)pad;
	if (!near__heap_has_begun())
		return 0;
	near__reclaim();
	discarded = near__central_discard();
	discarded += near__pages_purge(0, SIZE_MAX);
	near__pages_purge_clean();
	return discarded > 0;
}
