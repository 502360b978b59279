/* SPDX-License-Identifier: MIT */
/* The cases: where their objects are, and what these must contain at the end. */
#include "atomic/cases.h"

#include <stdlib.h>

#define CPU_LINE 64
#define PAGE 4096
#define MAX_SIZE ((size_t)1 << 20)

struct selected selected;
struct worker *workers;

static struct {
	char *first;
	unsigned shift; /* the distance is 1 << shift */
} objects;

static const char *const op_names[OPS] = {"load", "store",  "exchange", "cas",
					  "add",  "mostly", "list"};
static const char *const place_names[PLACES] = {"",       "apart",   "beside", "split",
						"malloc", "generic", "alone"};

/* Up to a '-' or the end. */
static bool is_word(const char *text, const char *word)
{
	size_t len = strcspn(text, "-");

	return strlen(word) == len && strncmp(text, word, len) == 0;
}

static bool find_kind(void)
{
	for (enum kind kind = 0; kind < KINDS; kind++) {
		bool is_sized = kind <= SIZED_16;

		if (call_size(kind, selected.size) == selected.size &&
		    !(is_sized && selected.place == AT_GENERIC)) {
			selected.kind = kind;
			return kind != GENERIC || (selected.size % 4 == 0 && selected.size > 8);
		}
	}
	return false;
}

bool cases_choose(const char *name)
{
	char *end;
	unsigned long size = strtoul(name, &end, 10);

	if (*name < '1' || *name > '9' || size > MAX_SIZE || *end != '-')
		return false;
	name = end + 1;
	selected.size = size;
	selected.op = OP_LOAD;
	selected.place = AT_LINE;
	while (selected.op < OPS && !is_word(name, op_names[selected.op]))
		selected.op++;
	name += strcspn(name, "-");
	if (*name == '-' && !*++name)
		return false;
	while (selected.place < PLACES && strcmp(name, place_names[selected.place]) != 0)
		selected.place++;
	if (selected.op == OPS || selected.place == PLACES || !find_kind())
		return false;
	selected.loops = selected.op == OP_LIST ? list_loops(selected.kind)
						: loops_of(selected.op, selected.kind);
	return selected.loops.work;
}

static bool is_apart(void) { return selected.place == AT_APART || selected.place == AT_BESIDE; }

static void *checked(void *memory)
{
	if (!memory)
		window_give_up("error", "not enough memory");
	return memory;
}

/* From the start of a line. */
static size_t offset(void)
{
	if (selected.place == AT_SPLIT)
		return CPU_LINE - 16;
	return selected.size == 3; /* the second to fourth byte of a word */
}

static void place_objects(unsigned count)
{
	size_t all;

	objects.shift = selected.place == AT_BESIDE ? 3 : 8;
	while ((size_t)1 << objects.shift < selected.size)
		objects.shift++;
	all = (((size_t)count << objects.shift) + CPU_LINE + PAGE - 1) / PAGE * PAGE;
	if (selected.place == AT_MALLOC) {
		objects.first = checked(malloc(selected.size));
		memset(objects.first, 0, selected.size);
	} else {
		objects.first = checked(aligned_alloc(PAGE, all));
		memset(objects.first, 0, all);
		objects.first += offset();
	}
}

static void make_room(struct worker *me)
{
	size_t bytes = (2 * selected.size + PAGE - 1) / PAGE * PAGE;

	me->in = checked(aligned_alloc(PAGE, bytes));
	me->out = me->in + selected.size;
	memset(me->in, 0, bytes);
}

/* The memory of the window before stays: this is done twice. */
void cases_begin(const struct window *w)
{
	unsigned count = is_apart() ? w->threads : 1;

	place_objects(count);
	library_set_mutexes(objects.first, objects.shift, count);
	workers = checked(aligned_alloc(LINE, w->threads * sizeof(*workers)));
	memset(workers, 0, w->threads * sizeof(*workers));
	for (unsigned i = 0; i < w->threads; i++) {
		struct worker *me = &workers[i];

		me->object = objects.first + (is_apart() ? (size_t)i << objects.shift : 0);
		me->first = i + 1;
		me->step = w->threads;
		me->until_store = i ? 0 : STORES_EVERY;
		if (selected.kind == GENERIC)
			make_room(me);
	}
	if (selected.op == OP_LIST)
		list_begin(objects.first, w->threads);
}

/* Of the threads from `first` to below `end`, which share an object. */
static bool is_right(unsigned first, unsigned end)
{
	const void *object = workers[first].object;
	uint32_t sum = 0, n = number_at(object, selected.size), mask = number_mask(selected.size);
	bool is_last = false, is_stored = false;

	for (unsigned i = first; i < end; i++) {
		const struct worker *me = &workers[i];

		sum += selected.op == OP_EXCHANGE ? me->put - me->taken : (uint32_t)me->done;
		is_stored |= me->turn != 0;
		is_last |= me->turn && n == (me->last & mask);
	}
	if (number_is_torn(object, selected.size))
		return false;
	switch (selected.op) {
	case OP_LOAD:
		return n == 0;
	case OP_STORE:
	case OP_MOSTLY:
		return is_stored ? is_last : n == 0;
	default:
		return n == (sum & mask);
	}
}

const char *cases_check(const struct window *w, const struct window_thread *threads)
{
	unsigned each = is_apart() ? 1 : w->threads;

	(void)threads;
	for (unsigned i = 0; i < w->threads; i++)
		if (workers[i].wrong)
			return "wrong result: a value was read that nobody wrote";
	if (selected.op == OP_LIST)
		return list_check(w->threads);
	for (unsigned i = 0; i < w->threads; i += each)
		if (!is_right(i, i + each))
			return "wrong result: an update was lost";
	return NULL;
}
