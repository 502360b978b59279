/* SPDX-License-Identifier: MIT */
/* interpreter: what a script does. Values are counted references to boxes and strings; a dictionary
 * that grows by rehashing holds them under names; calls have frames; results are temporary. */
#include "malloc/pattern.h"

#include <stdio.h>

#define FRAME_LOCALS 24
#define LIVE_NAMES 20000

struct value {
	uint32_t refs, size; /* size: of the text; 0: a number */
	union {
		double number;
		char text[8];
	};
};

struct entry {
	struct value *name, *value;
	uint32_t hash;
};

struct dictionary {
	struct entry *entries;
	uint32_t room, used; /* used: once; a power of two */
};

struct frame {
	struct frame *back;
	struct value *local[FRAME_LOCALS];
	char stack[256];
};

static void value_put(struct worker *w, struct value *v)
{
	if (v && --v->refs == 0)
		w_free(w, v);
}

static struct value *number_new(struct worker *w, double number)
{
	struct value *v = w_malloc(w, sizeof(*v));

	*v = (struct value){.refs = 1, .number = number};
	return v;
}

static struct value *string_new(struct worker *w, const char *text, size_t n)
{
	struct value *v = w_malloc(w, offsetof(struct value, text) + n + 1);

	v->refs = 1;
	v->size = (uint32_t)n;
	memcpy(v->text, text, n);
	v->text[n] = 0;
	return v;
}

static struct value *joined(struct worker *w, const struct value *a, const struct value *b)
{
	struct value *v = w_malloc(w, offsetof(struct value, text) + a->size + b->size + 1);

	v->refs = 1;
	v->size = a->size + b->size;
	memcpy(v->text, a->text, a->size);
	memcpy(v->text + a->size, b->text, b->size);
	v->text[v->size] = 0;
	return v;
}

static uint32_t hash_of(const struct value *v)
{
	uint32_t hash = 2166136261u;

	for (uint32_t i = 0; i < v->size; i++)
		hash = (hash ^ (uint8_t)v->text[i]) * 16777619u;
	return hash;
}

static struct entry *dictionary_find(struct dictionary *d, const struct value *name, uint32_t hash)
{
	for (uint32_t i = hash;; i++) {
		struct entry *e = &d->entries[i & (d->room - 1)];

		if (!e->name || (e->hash == hash && e->name->size == name->size &&
				 memcmp(e->name->text, name->text, name->size) == 0))
			return e;
	}
}

static void rehash(struct worker *w, struct dictionary *d)
{
	struct dictionary with = {.room = d->room ? 2 * d->room : 8};

	with.entries = w_calloc(w, with.room * sizeof(*with.entries));
	for (uint32_t i = 0; i < d->room; i++) {
		struct entry *e = &d->entries[i];

		if (e->name && e->value) {
			*dictionary_find(&with, e->name, e->hash) = *e;
			with.used++;
		} else {
			value_put(w, e->name);
		}
	}
	if (d->entries)
		w_free(w, d->entries);
	*d = with;
}

/* Takes over both references; without a value the name is deleted. */
static void set(struct worker *w, struct dictionary *d, struct value *name, struct value *value)
{
	struct entry *e;

	if (d->used * 3 >= d->room * 2)
		rehash(w, d);
	e = dictionary_find(d, name, hash_of(name));
	value_put(w, e->value);
	e->value = value;
	if (e->name) {
		value_put(w, name);
		return;
	}
	e->name = name;
	e->hash = hash_of(name);
	d->used++;
}

static void clear(struct worker *w, struct dictionary *d)
{
	for (uint32_t i = 0; i < d->room; i++) {
		value_put(w, d->entries[i].name);
		value_put(w, d->entries[i].value);
	}
	if (d->entries)
		w_free(w, d->entries);
	*d = (struct dictionary){0};
}

static struct value *some_name(struct worker *w)
{
	char text[64];
	uint32_t i = random_below(w, LIVE_NAMES);
	int n = snprintf(text, sizeof(text), "%.*sname_%u", (int)(i % 20), "a_rather_long_prefix_",
			 i);

	return string_new(w, text, (size_t)n);
}

/* Takes over the reference to what it makes longer. */
static struct value *doubled(struct worker *w, struct value *text)
{
	struct value *with = text->size > 200 ? some_name(w) : joined(w, text, text);

	value_put(w, text);
	return with;
}

/* A call: a frame, some sums, some text, an object with fields. */
static struct value *call(struct worker *w, struct frame *back)
{
	struct frame *f = w_malloc(w, sizeof(*f));
	struct dictionary fields = {0};
	struct value *text = some_name(w);

	memset(f, 0, sizeof(*f));
	f->back = back;
	for (unsigned i = 0; i < FRAME_LOCALS; i++) { /* NOLINT: f holds them */
		f->local[i] = number_new(w, i);
		if (i % 4 == 0)
			text = doubled(w, text);
		if (i % 6 == 0) /* NOLINT: text is returned */
			set(w, &fields, some_name(w), number_new(w, i));
	}
	for (unsigned i = 0; i < FRAME_LOCALS; i++)
		value_put(w, f->local[i]);
	clear(w, &fields);
	w_free(w, f);
	return text;
}

static void interpreter_work(struct worker *w)
{
	struct dictionary globals = {0};

	for (uint64_t i = 0; i < w->rounds; i++) {
		struct value *result = call(w, NULL);

		if (random_below(w, 4) == 0) {
			value_put(w, result);
			result = NULL;
		}
		set(w, &globals, some_name(w), result);
	}
	clear(w, &globals);
}

PATTERN(interpreter, "interpreter", 200000, interpreter_work);
