/* SPDX-License-Identifier: MIT */
/* near_trace: the session's thread takes the snapshots of triggers. All of it with
 * near__trace.lock. */
#include "trace/trigger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/futex.h"

#define NAME_TRIES 1000u
#define INTERVAL (UINT64_C(100) * 1000000) /* an event's wake-up may come before the sleep */

/* SESSION.snapshot-N, there or in the trigger's folder. */
static bool make_name(char *path, const struct near__trace_run *t,
		      const struct near__trace_trigger *g, uint32_t number)
{
	const char *slash = strrchr(t->path, '/');
	int n;

	if (g->folder)
		n = snprintf(path, PATH_MAX, "%s/%s.snapshot-%u", g->folder,
			     slash ? slash + 1 : t->path, number);
	else
		n = snprintf(path, PATH_MAX, "%s.snapshot-%u", t->path, number);
	return n < PATH_MAX;
}

/* One number more, of which the oldest is removed if there are too many. */
static void keep_some(struct near__trace_run *t, struct near__trace_trigger *g, uint32_t number)
{
	char path[PATH_MAX];

	if (g->made_count == g->keep) {
		if (make_name(path, t, g, g->made[0]))
			unlink(path);
		memmove(&g->made[0], &g->made[1], --g->made_count * sizeof(g->made[0]));
	}
	g->made[g->made_count++] = number;
}

/* A number of which there is a file, as of another process with this one's number, is left out. */
static uint64_t *trigger_take(struct near__trace_run *t, struct near__trace_trigger *g,
			      uint64_t event)
{
	struct near__trace_triggers *all = near__trace.triggers;
	uint64_t since = g->before && event > g->before ? event - g->before : 0;
	char path[PATH_MAX] = "";
	int err = -EEXIST;

	for (unsigned i = 0; i < NAME_TRIES && err == -EEXIST; i++) {
		err = make_name(path, t, g, ++all->number) ? 0 : -ENAMETOOLONG;
		if (!err)
			err = near__trace_snapshot(path, since, NEAR__TRACE_IS_SNAPSHOT);
	}
	all->last = near__clock_ns(CLOCK_MONOTONIC);
	if (err)
		near__trace_set_flag(t, NEAR__TRACE_SNAPSHOT_FAILED);
	else
		keep_some(t, g, all->number);
	near__trace.note_snapshot(path, g->text, err);
	return err ? &all->failed : &all->snapshots;
}

/* Of the event that is pending. Returns what counts up, after the trigger is armed again. */
static uint64_t *trigger_end(struct near__trace_run *t, struct near__trace_trigger *g,
			     uint64_t event)
{
	struct near__trace_triggers *all = near__trace.triggers;

	__atomic_store_n(&g->pending, 0, __ATOMIC_RELAXED);
	if (all->last && near__clock_ns(CLOCK_MONOTONIC) < all->last + g->every)
		return &all->limited; /* another trigger was first */
	return trigger_take(t, g, event);
}

/* Returns ns until there is more to do. */
static uint64_t trigger_serve(struct near__trace_run *t, struct near__trace_trigger *g, bool ends)
{
	struct near__trace_triggers *all = near__trace.triggers;
	/* Acquire: pairs with the release of the event. */
	uint64_t event = __atomic_load_n(&g->pending, __ATOMIC_ACQUIRE);
	uint64_t now = near__clock_ns(CLOCK_MONOTONIC), due, *count = NULL;

	if (event && !ends && now < event + g->after)
		return event + g->after - now;
	if (event)
		count = trigger_end(t, g, event);
	now = near__clock_ns(CLOCK_MONOTONIC);
	due = all->last ? all->last + g->every : 0;
	/* Release: pairs with the acquire of an event, whose `pending` follows the store of 0. */
	if (event || __atomic_load_n(&g->state, __ATOMIC_RELAXED) == NEAR__TRACE_RESTS)
		__atomic_store_n(&g->state, now >= due ? NEAR__TRACE_ARMED : NEAR__TRACE_RESTS,
				 __ATOMIC_RELEASE);
	if (count)
		__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
	return now < due ? due - now : INTERVAL;
}

int64_t near__trace_serve_triggers(struct near__trace_run *t, bool ends)
{
	/* Acquire: pairs with the release that follows making it. */
	struct near__trace_triggers *all = __atomic_load_n(&near__trace.triggers, __ATOMIC_ACQUIRE);
	uint64_t least = INTERVAL;

	if (!all || !__atomic_load_n(&all->count, __ATOMIC_RELAXED))
		return NEAR__FOREVER;
	near_lock_lock(&near__trace.lock);
	for (uint32_t i = 0; i < all->count; i++) {
		uint64_t ns = trigger_serve(t, &all->list[i], ends);

		least = ns < least ? ns : least;
	}
	near_lock_unlock(&near__trace.lock);
	return (int64_t)least;
}
