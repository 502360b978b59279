/* SPDX-License-Identifier: MIT */
/* mallopt, with the meanings and answers of glibc's. What has no counterpart here (thresholds,
 * arenas) is accepted and changes nothing: programs that set it want speed or less memory. */
#define _GNU_SOURCE
#include <malloc.h>
#include <string.h>

#include "malloc/base/conf.h"
#include "malloc/api/fast.h"
#include "malloc/observe/hooks.h"

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
#define FILL_MAX ((size_t)4 << 20)

static uint8_t perturb_byte;

void *near__perturbed_alloc(size_t align, size_t n, bool *zero)
{
	bool wanted = *zero;
	void *p = near__plain_alloc(align, n, zero);

	if (!p || wanted)
		return p;
	*zero = false;
	return memset(p, perturb_byte ^ 0xff, n < FILL_MAX ? n : FILL_MAX);
}

void near__perturbed_free(void *p)
{
	size_t n = near__usable_size(p);

	memset(p, perturb_byte, n < FILL_MAX ? n : FILL_MAX);
	near__plain_free(p);
}

/* Where another mode looks at the calls it stays. */
static void perturb(int byte)
{
	if (!near__heap_ready() ||
	    (near__heap.hooks != NEAR__UNHOOKED && near__heap.hooks != NEAR__PERTURBED))
		return;
	perturb_byte = (uint8_t)byte;
	near__heap.hooks = byte ? NEAR__PERTURBED : NEAR__UNHOOKED;
	near__heap_publish((size_t)near__pages_used() << NEAR__GRANULE_SHIFT);
}

NEAR__ENTRY int mallopt(int param, int val)
{
	switch (param) {
	case M_MXFAST:
		return val >= 0 && val <= MOST_FAST;
	case M_TRIM_THRESHOLD:
		if (val == -1) /* nothing is given back but by malloc_trim */
			near__malloc_conf.age_ms = UINT64_MAX;
		return 1;
	case M_PERTURB:
		perturb(val);
		return 1;
	default:
		return 1;
	}
}
