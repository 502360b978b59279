/* SPDX-License-Identifier: MIT */
/* near_trace: triggers, and what their tracepoints' events do. trigger.h has the argument. */
#define _GNU_SOURCE
#include "trace/context.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/futex.h"
#include "region/region.h"

#define BEGINS 4096u /* of a table */
#define PROBES 8u    /* entries where a key may be */
#define FREE 0u
#define BUSY 1u
#define OWN "near_trace:" /* what this library's own events begin with: no trigger has them */

struct near__trace_begun {
	uint64_t key, ns;
};

/* ---- latencies ---- */

/* A bijection, so that keys differ, except for the two that would be FREE and BUSY. */
static uint64_t key_of(uint64_t value)
{
	value = (value ^ value >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	value ^= value >> 29;
	return value > BUSY ? value : value + 2;
}

static struct near__trace_begun *entry_at(struct near__trace_begun *table, uint64_t key, unsigned i)
{
	return &table[((uint32_t)(key >> 40) + i) % BEGINS];
}

static uint64_t key_in(const struct near__trace_begun *e)
{
	return __atomic_load_n(&e->key, __ATOMIC_RELAXED);
}

/* Acquire: pairs with the release of the one that had it. */
static bool entry_claim(struct near__trace_begun *e, uint64_t key)
{
	return __atomic_compare_exchange_n(&e->key, &key, BUSY, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* That of the key; or a free one; or the oldest one, whose end has not come for longest. */
static struct near__trace_begun *entry_for(struct near__trace_begun *table, uint64_t key)
{
	struct near__trace_begun *best = NULL;

	for (unsigned i = 0; i < PROBES; i++) {
		struct near__trace_begun *e = entry_at(table, key, i);
		uint64_t is = key_in(e);

		if (is == key)
			return e;
		if (is == BUSY || (best && key_in(best) == FREE))
			continue;
		if (!best || is == FREE ||
		    __atomic_load_n(&e->ns, __ATOMIC_RELAXED) <
			    __atomic_load_n(&best->ns, __ATOMIC_RELAXED))
			best = e;
	}
	return best;
}

static void latency_begin(struct near__trace_begun *table, uint64_t key, uint64_t now)
{
	struct near__trace_begun *e = entry_for(table, key);

	if (!e || !entry_claim(e, key_in(e)))
		return;
	__atomic_store_n(&e->ns, now, __ATOMIC_RELAXED);
	__atomic_store_n(&e->key, key, __ATOMIC_RELEASE);
}

/* The time since the begin of this key, which is removed; 0: there was none. */
static uint64_t latency_end(struct near__trace_begun *table, uint64_t key, uint64_t now)
{
	for (unsigned i = 0; i < PROBES; i++) {
		struct near__trace_begun *e = entry_at(table, key, i);
		uint64_t ns;

		if (key_in(e) != key || !entry_claim(e, key))
			continue;
		ns = __atomic_load_n(&e->ns, __ATOMIC_RELAXED);
		__atomic_store_n(&e->key, FREE, __ATOMIC_RELEASE);
		return now > ns ? now - ns : 0;
	}
	return 0;
}

/* ---- events ---- */

static uint64_t now_ns(void)
{
	return near__clock_ns(CLOCK_MONOTONIC);
}

static void count_up(uint64_t *n)
{
	__atomic_fetch_add(n, 1, __ATOMIC_RELAXED);
}

/* The thread may be about to sleep: then it finds `pending` a tenth of a second later. */
static void trigger_fire(struct near__trace_trigger *g, uint64_t latency)
{
	struct near__trace_triggers *all = near__trace.triggers;
	uint32_t *wakes = __atomic_load_n(&near__trace.wakes, __ATOMIC_RELAXED);
	uint32_t armed = NEAR__TRACE_ARMED;

	count_up(&all->triggered);
	if (!__atomic_compare_exchange_n(&g->state, &armed, NEAR__TRACE_FIRED, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		count_up(&all->limited);
		return;
	}
	near__trace.note_trigger((uint32_t)(g - all->list) + 1, latency);
	/* Release: pairs with the acquire of the thread, which copies the event. */
	__atomic_store_n(&g->pending, now_ns(), __ATOMIC_RELEASE);
	if (wakes) /* else the session ends, and its thread checks `pending` last */
		near__futex_wake(wakes, 1, true);
}

static void role_play(struct near__trace_trigger *g, const struct near__trace_role *role,
		      const void *payload, const struct near__trace_piece *pieces)
{
	struct near__trace_begun *table = __atomic_load_n(&g->begun, __ATOMIC_ACQUIRE);
	bool is_true = !(role->is & NEAR__TRACE_IF) ||
		       near__trace_is_true(&role->condition, payload, pieces);
	uint64_t key, ns;

	if (role->is & NEAR__TRACE_FIRES && is_true)
		trigger_fire(g, 0);
	if (!(role->is & (NEAR__TRACE_BEGINS | NEAR__TRACE_ENDS)) || !table)
		return;
	key = key_of(role->key ? near__trace_value(role->key, payload, pieces) : near__trace_tid());
	if (role->is & NEAR__TRACE_ENDS) {
		ns = latency_end(table, key, now_ns());
		if (ns && ns >= __atomic_load_n(&g->longest, __ATOMIC_RELAXED))
			trigger_fire(g, ns);
	}
	if (role->is & NEAR__TRACE_BEGINS && is_true)
		latency_begin(table, key, now_ns());
}

/* False: it changes. */
static bool bound_copy(struct near__trace_bound *to, const struct near__trace_bound *from)
{
	uint32_t changes = __atomic_load_n(&from->changes, __ATOMIC_ACQUIRE);

	near__trace_copy((uint64_t *)to, (const uint64_t *)from, sizeof(*to) / sizeof(uint64_t));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return changes % 2 == 0 && changes == __atomic_load_n(&from->changes, __ATOMIC_RELAXED);
}

static uint64_t id_of(const struct near_trace_point *p)
{
	return p->head >> NEAR__TRACE_ID_SHIFT & (NEAR__TRACE_IDS - 1);
}

/* Acquire: pairs with the release in bound_make. */
static struct near__trace_bound *bound_of(const struct near_trace_point *p)
{
	return __atomic_load_n(&near__trace.triggers->bound[id_of(p)], __ATOMIC_ACQUIRE);
}

/* What changes counts as nothing. */
static void play_triggers(struct near_trace_point *p, const void *payload,
			  const struct near__trace_piece *pieces, unsigned n, const void *frame)
{
	struct near__trace_bound *from = bound_of(p), b;

	if (!from || !bound_copy(&b, from))
		memset(&b, 0, sizeof(b));
	if (b.is_filtered && !near__trace_is_true(&b.filter, payload, pieces)) {
		if (__atomic_load_n(&p->enabled, __ATOMIC_RELAXED) & NEAR__TRACE_WATCHED)
			near__trace_watch();
	} else if (b.what) {
		near__trace_write_context(&b, payload, pieces, frame);
	} else {
		near__trace_record(p, payload, pieces, n);
	}
	/* The first event of a child of fork is one, too. */
	if (!near__trace_is_own() || !__atomic_load_n(&near__trace.wakes, __ATOMIC_RELAXED))
		return;
	for (unsigned i = 0; i < NEAR__TRACE_TRIGGERS; i++)
		if (b.role[i].is)
			role_play(&near__trace.triggers->list[i], &b.role[i], payload, pieces);
}

/* ---- tracepoints ---- */

static void role_find(struct near__trace_role *role, const struct near__trace_trigger *g,
		      const struct near_trace_point *p)
{
	bool is_first = near__trace_match(g->event, p->name);
	bool is_last = g->end && near__trace_match(g->end, p->name);

	*role = (struct near__trace_role){0};
	role->key = g->by ? near__trace_field_code(p, g->by) : 0;
	if (strncmp(p->name, OWN, strlen(OWN)) == 0 || (g->by && !role->key))
		return;
	if (is_first && g->condition)
		is_first = near__trace_compile(&role->condition, p, g->condition);
	role->is = (is_first ? g->end ? NEAR__TRACE_BEGINS : NEAR__TRACE_FIRES : 0) |
		   (is_last ? NEAR__TRACE_ENDS : 0);
	role->is |= role->is && is_first && g->condition ? NEAR__TRACE_IF : 0;
}

static struct near__trace_bound *bound_make(const struct near_trace_point *p)
{
	struct near__trace_triggers *all = near__trace.triggers;
	struct near__trace_bound *b = bound_of(p);

	if (!b)
		b = near__trace_room(sizeof(*b));
	if (!b || bound_of(p))
		return b;
	near__trace_count_fields(p, &b->fields, &b->bytes);
	/* Release: pairs with the acquire in bound_of. */
	__atomic_store_n(&all->bound[id_of(p)], b, __ATOMIC_RELEASE);
	return b;
}

/* Triggers are for a process with a thread. `is_on`: the tracepoint is on without them. */
static bool trigger_bind(struct near_trace_point *p, const struct near__trace_filter *filter,
			 bool is_on)
{
	struct near__trace_triggers *all = near__trace.triggers;
	struct near__trace_bound next = {.is_filtered = filter != NULL}, *b;
	bool has_thread = near__trace_has_thread(near__trace.current), found = false;

	if (!id_of(p))
		return false;
	for (unsigned i = 0; has_thread && i < all->count; i++) {
		role_find(&next.role[i], &all->list[i], p);
		found |= next.role[i].is != 0;
	}
	if (is_on || found)
		next.what = near__trace_context_of(p);
	if (next.what)
		next.variant = near__trace_variant_of(p, (uint32_t)next.what);
	next.what = next.variant ? next.what : 0;
	found |= next.what != 0;
	b = found ? bound_make(p) : NULL;
	if (!b)
		return false;
	next.filter = filter ? *filter : next.filter;
	next.fields = b->fields;
	next.bytes = b->bytes;
	next.changes = b->changes + 1;
	/* The words are stored after `changes` is odd, and it is even after them. */
	__atomic_store_n(&b->changes, next.changes, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	near__trace_copy((uint64_t *)b, (const uint64_t *)&next, sizeof(next) / sizeof(uint64_t));
	__atomic_store_n(&b->changes, next.changes + 1, __ATOMIC_RELEASE);
	return true;
}

/* ---- triggers ---- */

static int count_matches(const struct near__trace_trigger *g)
{
	struct near__trace_role role;
	int n = 0;

	for (struct near_trace_point *p = near__trace.first; p; p = p->next) {
		role_find(&role, g, p);
		n += role.is != 0;
	}
	return n;
}

/* The table of a trigger that was removed stays for the next one in its place. */
static int table_make(struct near__trace_trigger *g)
{
	size_t size = BEGINS * sizeof(struct near__trace_begun);
	void *table = g->end && !g->begun ? near__trace_map(size) : g->begun;

	if (!table)
		return g->end ? -ENOMEM : 0;
	madvise(table, size, MADV_WIPEONFORK);
	madvise(table, size, MADV_DONTNEED); /* the begins of the trigger that had it */
	/* Release: pairs with the acquire of an event, which finds zeros there. */
	__atomic_store_n(&g->begun, table, __ATOMIC_RELEASE);
	return 0;
}

/* A trigger that is given again counts once. */
static struct near__trace_trigger *find_same(const char *text)
{
	struct near__trace_triggers *all = near__trace.triggers;

	for (unsigned i = 0; i < all->count; i++)
		if (strcmp(all->list[i].text, text) == 0)
			return &all->list[i];
	return NULL;
}

static void trigger_arm(struct near__trace_trigger *g)
{
	__atomic_store_n(&g->pending, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&g->state, NEAR__TRACE_ARMED, __ATOMIC_RELEASE);
}

static int trigger_add(const char *text)
{
	struct near__trace_triggers *all = near__trace.triggers;
	struct near__trace_trigger *g = find_same(text);
	int err;

	if (g)
		return count_matches(g);
	if (all->count == NEAR__TRACE_TRIGGERS)
		return near__trace_fail(-E2BIG, "there are 8 triggers");
	g = &all->list[all->count];
	err = near__trace_trigger_parse(g, text);
	if (!err)
		err = table_make(g);
	if (err)
		return err;
	__atomic_store_n(&g->longest, g->over, __ATOMIC_RELAXED);
	trigger_arm(g);
	__atomic_store_n(&all->count, all->count + 1, __ATOMIC_RELAXED);
	return count_matches(g);
}

static void remove_all(struct near__trace_triggers *all)
{
	__atomic_store_n(&all->count, 0, __ATOMIC_RELAXED);
}

static struct near__trace_triggers *make_all(void)
{
	struct near__trace_triggers *all = near__trace_map(sizeof(*all));

	near__trace.play_triggers = play_triggers;
	near__trace.bind = trigger_bind;
	/* Release: pairs with the acquire of `enabled`, which a later store switches on. */
	__atomic_store_n(&near__trace.triggers, all, __ATOMIC_RELEASE);
	return all;
}

void near__trace_forget_triggers(void)
{
	struct near__trace_triggers *all = near__trace.triggers;

	if (!all)
		return;
	remove_all(all);
	all->contexts = 0;
	all->number = 0;
	all->last = 0;
	all->triggered = all->limited = all->snapshots = all->failed = 0;
}

void near__trace_leave_triggers(void)
{
	struct near__trace_triggers *all = near__trace.triggers;
	uint32_t count = all ? all->count : 0, contexts = all ? all->contexts : 0;

	near__trace.wakes = NULL;
	near__trace_forget_triggers();
	for (uint32_t i = 0; i < count; i++) {
		all->list[i].made_count = 0;
		trigger_arm(&all->list[i]);
	}
	if (!all)
		return;
	all->count = count;
	all->contexts = contexts;
	if (contexts) /* the first event, which makes the session, has the child's */
		near__trace_context_read();
}

int near__trace_change_triggers(const char *text)
{
	struct near__trace_triggers *all = near__trace.triggers;
	int n = 0;

	if (!near__trace.current)
		return near__trace_fail(-ENOENT, "the process does not trace");
	if (near__trace.current->mode != NEAR_TRACE_OVERWRITE)
		return near__trace_fail(-EINVAL, "triggers are for NEAR_TRACE_OVERWRITE");
	if (!near__trace_has_thread(near__trace.current))
		return near__trace_fail(-EAGAIN, "the process has no thread near_trace");
	if (!all)
		all = make_all();
	if (!all)
		return -ENOMEM;
	if (*text)
		n = trigger_add(text);
	else
		remove_all(all);
	if (n >= 0)
		near__trace_apply(near__trace.current->clock);
	return n;
}

int near_trace_trigger(const char *text)
{
	struct region_caller c = near__region_enter();
	int n;

	near__trace_lock();
	if (near__trace.current && !near__trace.is_ending)
		near__trace.start_thread(near__trace.current);
	n = near__trace_change_triggers(text ? text : "");
	near_lock_unlock(&near__trace.lock);
	return near__region_leave(c, n);
}

static int context_change(const char *pattern, unsigned what)
{
	int n = 0, err;

	if (!near__trace.current && !near__trace.is_child)
		return near__trace_fail(-ENOENT, "the process does not trace");
	if (!near__trace.triggers && !make_all())
		return -ENOMEM;
	near__trace_context_read();
	err = near__trace_context_add(pattern, what);
	if (err)
		return err;
	for (struct near_trace_point *p = near__trace.first; p; p = p->next)
		n += near__trace_match(pattern, p->name);
	if (near__trace.current)
		near__trace_apply(near__trace.current->clock);
	return n;
}

int near_trace_context(const char *pattern, unsigned what)
{
	struct region_caller c = near__region_enter();
	int n;

	near__trace_lock();
	n = context_change(pattern, what);
	near_lock_unlock(&near__trace.lock);
	near__trace_find_objects();
	return near__region_leave(c, n);
}
