/* SPDX-License-Identifier: MIT */
/* Makes the objects of a setup. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "percpu/internal.h"
#include "queue/queue.h"

static void destroy(void)
{
	if (!OBJ.made)
		return;
	near_counter_destroy(&OBJ.counter);
	near_stack_destroy(&OBJ.stack);
	near_refcount_destroy(&OBJ.refcount);
	near_percpu_free(OBJ.peak);
	near_percpu_free(OBJ.blocks);
	near_rwlock_destroy(&OBJ.rwlock);
	near_histogram_destroy(&OBJ.histogram);
	near_histogram_destroy(&OBJ.summed);
	near_queue_destroy(&OBJ.queue);
	near_fifo_destroy(&ops_fifo);
	rcu_destroy();
}

static void released(struct near_refcount *r)
{
	OBJ.released++;
}

/* Opens the slot of this CPU, where the thread has one. False: there is no memory. */
static bool open_slot(const struct near_region *r)
{
	return near__region_open_cpu(r) || !near__thread_live();
}

/* To make a file and map it takes longer than all else here, and to allocate the blocks of a slot
 * longer than most: what a region holds when it is new, but for the slot of this thread, is copied
 * from one that nobody changes. */
static bool fresh_shared(void)
{
	struct near_shared *s = &OBJ.shared, *untouched = &OBJ.untouched;

	if (!OBJ.made && (near_shared_create(s, 64) || near_shared_create(untouched, 64) ||
			  !open_slot(&untouched->region)))
		return false;
	memcpy(s->region.header, untouched->region.header, s->region.total);
	return true;
}

static const struct near_histogram_options small = {.precision = 1, .max = 3};
static const struct near_histogram_options with_sum = {.precision = 1, .max = 3, .exact_sum = true};

static int define_histograms(struct near_region *r)
{
	int err = near_region_create(
		r, &(struct near_region_options){.size = 256, .objects = 2, .once = 8});

	if (!err)
		err = near_histogram_define(&OBJ.regional, r, "regional", NULL, &small);
	if (!err)
		err = near_histogram_define(&OBJ.regional_summed, r, "summed", NULL, &with_sum);
	return err;
}

/* As fresh_shared. */
static bool fresh_histograms(void)
{
	struct near_region *r = &OBJ.region, *untouched = &OBJ.untouched_region;

	if (!OBJ.made &&
	    (define_histograms(untouched) || define_histograms(r) || !open_slot(untouched)))
		return false;
	memcpy(r->header, untouched->header, r->total);
	return !near_histogram_init(&OBJ.histogram, &small) &&
	       !near_histogram_init(&OBJ.summed, &with_sum);
}

static void record_in_each(uint64_t n)
{
	call_record(&OBJ.histogram, OPS_VALUE, n);
	call_record(&OBJ.summed, OPS_VALUE, n);
	call_record(&OBJ.regional, OPS_VALUE, n);
	call_record(&OBJ.regional_summed, OPS_VALUE, n);
}

static void create(void)
{
	void *peak, *blocks;

	if (near_percpu_alloc(&peak, sizeof(*OBJ.peak), sizeof(*OBJ.peak)) ||
	    near_percpu_alloc(&blocks, sizeof(*OBJ.blocks), sizeof(uint64_t)) ||
	    near_counter_init(&OBJ.counter) || near_stack_init(&OBJ.stack) ||
	    near_refcount_init(&OBJ.refcount, released) || near_rwlock_init(&OBJ.rwlock) ||
	    near_queue_init(&OBJ.queue, OPS_QUEUED + 1) || near_fifo_init(&ops_fifo, 2) ||
	    !rcu_create() || !fresh_shared() || !fresh_histograms())
		abort();
	ids_create();
	OBJ.guarded[0] = OBJ.guarded[1] = OPS_FIRST_COUNT;
	OBJ.torn = false;
	OBJ.peak = peak;
	OBJ.blocks = blocks;
	OBJ.bias = OBJ.refcount.exact - 1;
	ops_cells[0].at = (uintptr_t)((struct ring *)OBJ.queue.p)->cells;
	ops_cells[0].bytes = (OBJ.queue.mask + 1) * sizeof(void *);
	ops_cells[1].at = (uintptr_t)OBJ.blocks->words;
	ops_cells[1].bytes = sizeof(OBJ.blocks->words);
	OBJ.made = true;
	OBJ.released = 0;
	for (unsigned i = 0; i < 3; i++)
		ops_mutex[i] = (struct near_mutex)NEAR_MUTEX_INIT;
	OBJ.sections = 0;
}

static void fill(struct actor *unused)
{
	struct actor nobody = {0};

	call_add(OPS_FIRST_COUNT);
	call_add_shared(OPS_FIRST_COUNT);
	record_in_each(OPS_FIRST_COUNT);
	call_raise_to(&nobody, OPS_FIRST_COUNT);
	for (unsigned i = 1; i < OPS_FIRST_REFS; i++)
		call_get();
	for (unsigned i = 0; i < OPS_FIRST_NODES && OBJ.setup != OPS_EMPTY; i++)
		call_push(&OBJ.nodes[i]);
	for (unsigned i = 0; i < OPS_QUEUED; i++)
		call_queue_put(&OBJ.nodes[OPS_FIRST_QUEUED + i]);
	blocks_fill();
	ids_fill();
}

void ops_enter(void)
{
	struct near_stack_node node;
	struct actor nobody = {0};

	if (OBJ.setup == OPS_FALLBACK) {
		rcu_enter_closed();
		return;
	}
	call_add(0);
	call_add_shared(0);
	record_in_each(0);
	call_raise_to(&nobody, 1);
	if (!call_try_read_lock())
		abort();
	call_read_unlock();
	if (OBJ.setup != OPS_KILLED) {
		call_get();
		call_put();
	}
	call_push(&node);
	if (call_pop() != &node)
		abort();
	blocks_enter();
	rcu_enter_slots();
	ids_enter();
	trace_enter();
}

void ops_reset_to(enum ops_setup setup)
{
	destroy();
	create();
	OBJ.setup = setup;
	near_slot(); /* the thread is live from here on, where it can be */
	if (setup == OPS_FALLBACK)
		not_live(fill, NULL);
	else
		fill(NULL);
	if (setup == OPS_KILLED)
		near_refcount_kill(&OBJ.refcount);
	trace_create(setup);
	ops_enter();
}

void ops_reset(void)
{
	ops_reset_to(OPS_OPEN);
}

/* In two setups the session has another clock, which few operations need. A time that is read
 * before the sequence may belong to a session that has ended by then. */
static bool trace_pair_is_valid(enum ops_setup setup, const struct op *a, const struct op *b)
{
	if (setup == OPS_FALLBACK)
		return !(a->flags & OPS_LONG) && b->flags & (OPS_SIGNAL_SAFE | OPS_FENCES);
	if (setup == OPS_EMPTY || setup == OPS_KILLED)
		return (a == b || b->flags & OPS_FENCES) && a->flags & OPS_SIGNAL_SAFE &&
		       !(a->flags & OPS_NOT_LIVE) && !(setup == OPS_KILLED && a->flags & OPS_LONG);
	return true;
}

bool ops_pair_is_valid(enum ops_setup setup, const struct op *a, const struct op *b)
{
	unsigned either = a->flags | b->flags, both = a->flags & b->flags;

	if (a->object == OPS_TRACE && b->object == OPS_TRACE && !trace_pair_is_valid(setup, a, b))
		return false;
	if (both & (OPS_KILLS | OPS_REVIVES))
		return false;
	return !(either & (setup == OPS_KILLED ? OPS_KILLS : OPS_REVIVES));
}

/* Callbacks wait for the sections of the same domain. */
static bool is_waited_for(const struct op *a, const struct op *b)
{
	return b->flags & OPS_WAITS &&
	       (a->object == b->object || (a->object == OPS_RCU && b->object == OPS_CALLBACKS));
}

bool ops_pair_does_not_wait(enum ops_setup setup, const struct op *a, const struct op *b)
{
	if ((a->flags | b->flags) & OPS_STOPPED_INSIDE)
		return false;
	return ops_pair_is_valid(setup, a, b) && !is_waited_for(a, b);
}

/* If the slot's list is empty, a pop takes other lists and puts them elsewhere. From which of two
 * rings a get takes depends on the gets of its thread before. An array is closed only
 * once it is in use. An event whose clock is read outside of its sequence has two. */
bool ops_is_one_step(enum ops_setup setup, const struct op *a)
{
	if (a->flags & OPS_COMPOSITE)
		return false;
	if (a->object == OPS_QUEUE || a->object == OPS_ARRAY || a->object == OPS_IDS)
		return setup != OPS_FALLBACK;
	if (a->object == OPS_TRACE)
		return setup == OPS_OPEN || setup == OPS_KILLED;
	return a->object != OPS_STACK || setup == OPS_OPEN || setup == OPS_KILLED;
}
