/* SPDX-License-Identifier: MIT */
/* near_trace: orders of other processes (format.h). The session's thread carries them out. Where
 * there is none, as in a child of fork, the next event does that checks for them:
 *
 * - one whose sequence fails, after its record: the other process stores `request`, fences, and
 *   then stores 0 to `end` of the rings, where each sequence fails. An event that stores `end`
 *   itself fences, and then loads `request`: if the 0 is lost, the event finds the order.
 *   models/trace_order.cc has this.
 * - each event of a tracepoint that is off, or whose condition is false (NEAR__TRACE_WATCHED).
 *
 * So an order has effect at the first event after it, and costs nothing for what is recorded. An
 * event may be in a signal handler or in malloc: what follows allocates nothing, and takes no
 * lock that is held. */
#include "trace/trace.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/futex.h"
#include "region/region.h"

/* ---- orders ---- */

/* The next word; it ends in `line`. */
static char *order_word(char **line)
{
	char *word = *line + strspn(*line, " ");
	size_t n = strcspn(word, " ");

	*line = word + n + (word[n] != 0);
	word[n] = 0;
	return word;
}

/* "PATTERN [LEVEL [CONDITION]]" */
static int order_enable(char *line, bool enables)
{
	char *pattern = order_word(&line), *level = order_word(&line), *end;
	long n = *level ? strtol(level, &end, 10) : NEAR_TRACE_DEBUG;
	int err;

	line += strspn(line, " ");
	if (!*pattern || (*level && *end) || n < INT_MIN || n > INT_MAX)
		return near__trace_fail(-EINVAL, "the order has no pattern");
	if (!enables)
		return near__trace_change(pattern, 0, "");
	err = near__trace_change(pattern, n ? (enum near_trace_level)n : NEAR_TRACE_DEBUG, line);
	if (!*line)
		return err;
	return err ? err : near__trace_fail(-ENOENT, "no tracepoint of that name has such a field");
}

static int order_trigger(const char *text)
{
	int n = near__trace_change_triggers(text);

	return n || !*text
		       ? n
		       : near__trace_fail(-ENOENT, "no tracepoint of that name has such a field");
}

static int carry_out(char *line, bool locked)
{
	bool enables = strncmp(line, "enable ", 7) == 0;
	bool triggers = strncmp(line, "trigger ", 8) == 0;
	int err;

	if (enables || triggers || strncmp(line, "disable ", 8) == 0) {
		if (!locked)
			near_lock_lock(&near__trace.lock);
		err = triggers ? order_trigger(line + 8)
			       : order_enable(line + (enables ? 7 : 8), enables);
		if (!locked)
			near_lock_unlock(&near__trace.lock);
		return err;
	}
	if (strncmp(line, "snapshot ", 9) == 0 && !locked)
		return near_trace_snapshot(line + 9);
	if (strcmp(line, "flush") == 0)
		return 0; /* the thread streams before each order */
	return near__trace_fail(-EINVAL, "there is no such order");
}

/* A name of a file may have any character. */
static char *next_line(char *line)
{
	char *end = strncmp(line, "snapshot ", 9) == 0 ? NULL : strchr(line, '\n');

	if (end)
		*end++ = 0;
	return end;
}

/* The order is copied: another process can write it at any time. */
void near__trace_obey(struct near__trace_run *t, uint32_t request, bool locked)
{
	struct near__trace_control *c = t->control;
	char order[sizeof(c->order)], *line = order, *next;
	const char *answer = "";

	memcpy(order, c->order, sizeof(order));
	order[sizeof(order) - 1] = 0;
	for (bool is_mine = near__trace_claim(c, request); is_mine && line; line = next) {
		int err;

		next = next_line(line);
		near__reason_exchange((struct near__reason){0});
		err = carry_out(line, locked);
		if (err < 0)
			answer = near_trace_error() ? near_trace_error() : "the order is wrong";
	}
	snprintf(c->answer, sizeof(c->answer), "%s", answer);
	/* Release: pairs with the acquire of the process that waits. */
	__atomic_store_n(&c->done, request, __ATOMIC_RELEASE);
	near__futex_wake(&c->done, INT_MAX, true);
}

/* ---- by events ---- */

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* One mapping for all sessions, which is never without memory: an event may load it at any time,
 * and finds at worst words that make it check. */
static void *map_at_order(int flags, int fd, size_t offset)
{
	uintptr_t at = (uintptr_t)near__trace.order & ~(page_size() - 1);

	return mmap((void *)at, page_size(), PROT_READ, flags | (at ? MAP_FIXED : 0), fd,
		    (off_t)offset);
}

/* Release: pairs with the acquire in near__trace_watch. */
void near__trace_map_order(const struct near__trace_run *t)
{
	size_t at = (size_t)((char *)t->control - (char *)t->file.region.header);
	char *page = map_at_order(MAP_SHARED, t->file.region.fd, at & ~(page_size() - 1));

	if (page != MAP_FAILED)
		__atomic_store_n(&near__trace.order,
				 (const uint32_t *)(page + (at & (page_size() - 1))),
				 __ATOMIC_RELEASE);
}

void near__trace_unmap_order(void)
{
	if (near__trace.order)
		map_at_order(MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* The next event of each slot finds the order. An `end` of 0 is no more than an earlier one. */
static void leave_order(struct near__trace_run *t)
{
	for (unsigned i = 0; i < t->slots; i++)
		if (near__trace_is_used(t->file.session, i))
			__atomic_store_n(&near__trace_ring_at(t, i)->end, 0, __ATOMIC_RELAXED);
}

/* A child of vfork leaves it: it may be killed. The thread's reason stays (near__region_leave). */
void near__trace_find_order(struct near__trace_run *t)
{
	struct region_caller c = near__region_enter();
	sigset_t signals;

	if (near__storage_is_own() && near__trace_try_lock(&near__trace.lock, &signals)) {
		if (near__trace.current == t && !near__trace_has_thread(t) &&
		    near__trace_has_order(t))
			near__trace_obey(t, __atomic_load_n(&t->control->request, __ATOMIC_ACQUIRE),
					 true);
		near__trace_unlock(&near__trace.lock, &signals);
	} else {
		leave_order(t);
	}
	near__region_leave(c, 0);
}
