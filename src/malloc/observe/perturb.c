/* SPDX-License-Identifier: MIT */
/* mallopt's M_PERTURB: fills blocks when they are allocated and freed. */
#include <string.h>

#include "malloc/cache/plain.h"
#include "malloc/observe/hooks.h"
#include "malloc/pages/marks.h"

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
	size_t n = near__plain_size(p);

	if (!near__marks_on(p, n)) /* it may be protected */
		memset(p, perturb_byte, n < FILL_MAX ? n : FILL_MAX);
	near__plain_free(p);
}

/* Another mode that hooks the calls stays. */
void near__perturb(int byte)
{
	if (near__heap.hooks != NEAR__UNHOOKED && near__heap.hooks != NEAR__PERTURBED)
		return;
	perturb_byte = (uint8_t)byte;
	near__heap.hooks = byte ? NEAR__PERTURBED : NEAR__UNHOOKED;
	near__heap_set_limits();
}
