/* SPDX-License-Identifier: MIT */
/* The waits of one process. Sites with the same kind and call stack become one place, with all the
 * locks that were waited for there: a mutex in each of many objects has one line. */
#include "locks/locks.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/symbols.h"
#include "common/text.h"

const char *const locks_kinds[] = {"mutex", "read", "write", "cond", "sem", "park", "held"};

/* ---- symbols ---- */

/* C++'s names as people write them, if its library is there. */
static json_t *demangle(const char *text)
{
	char *(*function)(const char *, char *, size_t *, int *) = NULL;
	void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
	char *copy = copy_text(text), *plus = strchr(copy, '+'), *full = NULL;
	json_t *json;

	if (library)
		function = dlsym(library, "__cxa_demangle");
	*plus = '\0';
	if (function && strncmp(copy, "_Z", 2) == 0)
		full = function(copy, NULL, NULL, NULL);
	json = full ? json_sprintf("%s+%s", full, plus + 1) : json_string(text);
	free(full);
	free(copy);
	return json;
}

static json_t *symbol(const struct near__waits *f, uint64_t address)
{
	char line[4096];
	const char *at = f->maps, *end;

	for (; (end = strchr(at, '\n')); at = end + 1) {
		snprintf(line, sizeof(line), "%.*s", (int)(end - at), at);
		if (symbols_find(line, address))
			return demangle(symbols_name(f->head.begin_realtime));
	}
	return json_sprintf("0x%" PRIx64, address);
}

static json_t *stack_json(const struct near__waits *f, const struct near__waits_site *s,
			  json_t *symbols)
{
	json_t *stack = json_array();

	for (uint32_t i = 0; i < s->depth; i++) {
		struct word key = word("%" PRIx64, s->stack[i]);

		if (!json_object_get(symbols, key.text))
			json_object_set_new(symbols, key.text, symbol(f, s->stack[i]));
		json_array_append(stack, json_object_get(symbols, key.text));
	}
	return stack;
}

/* ---- places ---- */

struct place {
	const struct near__waits_site *first;
	uint64_t count, failed, total, longest, longest_end;
	uint64_t buckets[NEAR__WAITS_BUCKETS];
	json_t *locks, *holders;
};

static int compare_sites(const void *a, const void *b)
{
	const struct near__waits_site *s = *(void *const *)a, *t = *(void *const *)b;

	if (s->kind != t->kind)
		return s->kind < t->kind ? -1 : 1;
	if (s->depth != t->depth)
		return s->depth < t->depth ? -1 : 1;
	return memcmp(s->stack, t->stack, s->depth * sizeof(*s->stack));
}

static void place_add(struct place *p, const struct near__waits_site *s)
{
	p->count += s->count;
	p->failed += s->failed;
	p->total += s->total;
	if (s->longest > p->longest) {
		p->longest = s->longest;
		p->longest_end = s->longest_end;
	}
	for (unsigned i = 0; i < NEAR__WAITS_BUCKETS; i++)
		p->buckets[i] += s->buckets[i];
	json_array_append_new(p->locks,
			      json_pack("{s:o, s:I, s:I}", "lock",
					json_sprintf("0x%" PRIx64, s->lock), "count",
					(json_int_t)s->count, "total_ns", (json_int_t)s->total));
}

/* The time that `share` of the waits have not exceeded, rounded up to the end of its bucket. */
static json_int_t place_quantile(const struct place *p, double share)
{
	uint64_t sum = 0, all = 0, bound;
	unsigned i = 0;

	for (i = 0; i < NEAR__WAITS_BUCKETS; i++)
		all += p->buckets[i];
	for (i = 0; i < NEAR__WAITS_BUCKETS - 1; i++) {
		sum += p->buckets[i];
		if ((double)sum >= share * (double)all)
			break;
	}
	bound = near__waits_bound(i);
	return (json_int_t)(bound < p->longest ? bound : p->longest);
}

static json_t *place_json(const struct near__waits *f, const struct place *p, json_t *symbols)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "kind",
			 locks_kinds[p->first->kind], "count", (json_int_t)p->count, "failed",
			 (json_int_t)p->failed, "total_ns", (json_int_t)p->total, "p50_ns",
			 place_quantile(p, .5), "p99_ns", place_quantile(p, .99), "longest_ns",
			 (json_int_t)p->longest, "longest_at_ns",
			 (json_int_t)(p->longest_end - p->longest - f->head.begin), "stack",
			 stack_json(f, p->first, symbols), "locks", p->locks, "holders",
			 p->holders);
}

/* ---- all of a process ---- */

struct all {
	struct near__waits *f;
	struct place *places;
	size_t count;
	uint32_t of[NEAR__WAITS_SITES]; /* a site's place plus one; 0: it is not complete */
};

static void find_places(struct all *a)
{
	struct near__waits_site **order = allocate_zeros(NEAR__WAITS_SITES, sizeof(*order));
	size_t n = 0;

	for (unsigned i = 0; i < NEAR__WAITS_SITES; i++) {
		struct near__waits_site *s = &a->f->sites[i];

		if (s->is_complete && s->count && s->depth <= NEAR__WAITS_FRAMES &&
		    s->kind < NEAR__WAIT_KINDS)
			order[n++] = s;
	}
	qsort(order, n, sizeof(*order), compare_sites);
	for (size_t i = 0; i < n; i++) {
		if (!i || compare_sites(&order[i - 1], &order[i]))
			APPEND(a->places, a->count,
			       (struct place){.first = order[i],
					      .locks = json_array(),
					      .holders = json_object()});
		place_add(&a->places[a->count - 1], order[i]);
		a->of[order[i] - a->f->sites] = (uint32_t)a->count;
	}
	free(order);
}

/* The newest events, as [begin_ns, ns, place, thread, holder, held_ns, is_since]; and the
 * holders during the waits of each place. */
static json_t *events_json(struct all *a)
{
	uint64_t last = a->f->head.events,
		 i = last < NEAR__WAITS_EVENTS ? 0 : last - NEAR__WAITS_EVENTS;
	json_t *events = json_array();

	while (++i <= last) {
		const struct near__waits_event *e = &a->f->ring[i % NEAR__WAITS_EVENTS];
		struct word holder = word("%" PRIu32, e->holder);
		json_t *holders;

		if (e->number != i || e->site >= NEAR__WAITS_SITES || !a->of[e->site])
			continue;
		holders = a->places[a->of[e->site] - 1].holders;
		if (e->holder)
			json_object_set_new(holders, holder.text,
					    json_integer(json_integer_value(json_object_get(
								 holders, holder.text)) +
							 1));
		json_array_append_new(events,
				      json_pack("[I, I, i, I, I, I, b]",
						(json_int_t)(e->begin - a->f->head.begin),
						(json_int_t)e->ns, (int)a->of[e->site] - 1,
						(json_int_t)e->thread, (json_int_t)e->holder,
						(json_int_t)e->held_ns, (int)e->is_since));
	}
	return events;
}

static json_t *threads_json(struct near__waits *f)
{
	json_t *threads = json_array();

	for (unsigned i = 0; i < NEAR__WAITS_THREADS; i++) {
		struct near__waits_thread *t = &f->threads[i];
		json_t *one;

		if (!t->is_complete)
			continue;
		t->name[sizeof(t->name) - 1] = '\0';
		make_printable(t->name, "");
		one = json_pack("{s:i, s:I, s:s}", "index", (int)i, "tid", (json_int_t)t->tid,
				"name", t->name);
		for (int k = 0; k < NEAR__WAIT_KINDS; k++)
			if (t->count[k])
				json_object_set_new(one, locks_kinds[k],
						    json_pack("{s:I, s:I}", "count",
							      (json_int_t)t->count[k], "total_ns",
							      (json_int_t)t->total[k]));
		json_array_append_new(threads, one);
	}
	return threads;
}

static json_t *process_json(struct all *a)
{
	struct near__waits *f = a->f;
	json_t *symbols = json_object(), *places = json_array(), *events = events_json(a);

	for (size_t i = 0; i < a->count; i++)
		json_array_append_new(places, place_json(f, &a->places[i], symbols));
	json_decref(symbols);
	f->head.program[sizeof(f->head.program) - 1] = '\0';
	make_printable(f->head.program, "");
	return json_pack("{s:I, s:s, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o}", "pid",
			 (json_int_t)f->head.pid, "program", f->head.program, "is_on",
			 (int)f->head.is_on, "is_fork", (int)f->head.is_fork, "exited",
			 f->head.end != 0, "begin_ms",
			 (json_int_t)(f->head.begin_realtime / 1000000), "events_ever",
			 (json_int_t)f->head.events, "without_lock", (json_int_t)f->head.merged,
			 "lost", (json_int_t)f->head.lost, "error",
			 f->head.allocated > 1 ? (int)f->head.allocated - 1 : 0, "threads",
			 threads_json(f), "places", places, "events", events);
}

json_t *locks_json(int fd)
{
	struct all a = {.f = allocate_zeros(1, sizeof(*a.f))};
	json_t *json = NULL;

	if (pread(fd, a.f, sizeof(*a.f), 0) == (ssize_t)sizeof(*a.f) &&
	    a.f->head.magic == NEAR__WAITS_MAGIC && a.f->head.size == sizeof(*a.f)) {
		a.f->maps[sizeof(a.f->maps) - 1] = '\0';
		find_places(&a);
		json = process_json(&a);
		if (!json)
			out_of_memory();
	}
	free(a.places);
	free(a.f);
	return json;
}
