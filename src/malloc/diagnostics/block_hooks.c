/* SPDX-License-Identifier: MIT */
/* The two hooks that know nothing of a block. */
#include <string.h>

#include "base/tsan.h"
#include "malloc/diagnostics/hooks.h"
#include "malloc/pages/marks.h"

/* ---- mallopt's M_PERTURB: fills blocks when they are allocated and freed ---- */

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

void near__perturb_freed(struct near__place at)
{
	size_t n = near__plain_size(at);
	void *p = near__list_block(at.offset);

	if (!near__marks_on(at.offset, n)) /* it may be protected */
		memset(p, perturb_byte, n < FILL_MAX ? n : FILL_MAX);
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

/* ---- order ----
 *
 * A program with ThreadSanitizer, which does not see that a block which one thread frees reaches
 * another by this library: it would take two uses of the memory for a data race. So each call that
 * frees is reported as a release, and each that allocates as an acquire, of one address: the memory
 * of a block may become part of a block at another place. */

void near__ordered_init(void)
{
	if (!NEAR__TSAN && NEAR__TSAN_HERE)
		near__heap.hooks = NEAR__ORDERED;
}

void *near__ordered_alloc(size_t align, size_t n, bool *zero)
{
	void *p = near__plain_alloc(align, n, zero);

	NEAR__TSAN_ACQUIRE(&near__heap);
	return p;
}

void near__ordered_release(void)
{
	NEAR__TSAN_RELEASE(&near__heap);
}

/* Never in place: the block would get memory without an acquire. */
void *near__ordered_realloc(struct near__place at, size_t n)
{
	size_t had = near__plain_size(at);
	bool zero = false;
	void *q = near__ordered_alloc(1, n, &zero);

	if (!q)
		return NULL;
	memcpy(q, near__list_block(at.offset), had < n ? had : n);
	near__ordered_release();
	near__plain_free(at);
	return q;
}
