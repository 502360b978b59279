/* SPDX-License-Identifier: MIT */
/* Checks histories, by a search with memos. */
#include "history.h"

#include <string.h>

#define MEMOS 8192u /* a power of two; further states are checked again */

/* Where each thread is, and what the object holds. */
struct state {
	uint32_t value;
	unsigned char next[HISTORY_THREADS];
};

struct search {
	const struct history *history;
	struct state failed[MEMOS]; /* no order goes on from there; all 0xff: empty */
};

/* Whether the event may happen to this value; *after is what it leaves. */
static bool happens(const struct history *h, const struct event *e, uint32_t value, uint32_t *after)
{
	if (e->kind >= OP_GENERIC_KINDS)
		*after = (uint32_t)call_apply(operation_ops[e->kind], value, e->value) & h->mask;
	else if (e->kind == OP_LOAD || (e->kind == OP_CAS && !e->swapped))
		*after = value;
	else
		*after = e->value;
	if (e->kind == OP_STORE)
		return true;
	if (e->kind == OP_CAS && e->swapped != (e->expected == value))
		return false;
	return e->result == (e->kind == OP_ADD_FETCH ? *after : value);
}

/* The earliest end among the next events: what begins later cannot come first. */
static uint64_t earliest_end(const struct history *h, const struct state *s)
{
	uint64_t end = UINT64_MAX;

	for (unsigned t = 0; t < h->threads; t++)
		if (s->next[t] < h->n && h->events[t][s->next[t]].end < end)
			end = h->events[t][s->next[t]].end;
	return end;
}

static struct state *memo_of(struct search *search, const struct state *s)
{
	uint64_t hash = s->value * 2654435761u;

	for (unsigned t = 0; t < HISTORY_THREADS; t++)
		hash = (hash ^ s->next[t]) * 0x9e3779b97f4a7c15u;
	return &search->failed[hash >> 51];
}
_Static_assert(MEMOS == 1u << (64 - 51), "memo_of");

static bool goes_on(struct search *search, const struct state *s)
{
	const struct history *h = search->history;
	uint64_t end = earliest_end(h, s);
	struct state *memo = memo_of(search, s);

	if (end == UINT64_MAX)
		return s->value == h->last;
	if (memcmp(memo, s, sizeof(*s)) == 0)
		return false;
	for (unsigned t = 0; t < h->threads; t++) {
		const struct event *e = &h->events[t][s->next[t]];
		struct state after = *s;

		if (s->next[t] == h->n || e->begin > end || !happens(h, e, s->value, &after.value))
			continue;
		after.next[t]++;
		if (goes_on(search, &after))
			return true;
	}
	*memo = *s;
	return false;
}

bool history_is_linear(const struct history *h)
{
	static struct search search;
	struct state first = {.value = h->first};

	for (unsigned t = 0; t < h->threads; t++)
		for (unsigned i = 0; i < h->n; i++)
			if (h->events[t][i].torn)
				return false;
	search.history = h;
	memset(search.failed, 0xff, sizeof(search.failed));
	return goes_on(&search, &first);
}

bool history_overlaps(const struct history *h)
{
	for (unsigned t = 1; t < h->threads; t++)
		for (unsigned u = 0; u < t; u++)
			for (unsigned i = 0; i < h->n * h->n; i++) {
				const struct event *a = &h->events[t][i / h->n];
				const struct event *b = &h->events[u][i % h->n];

				if (a->begin <= b->end && b->begin <= a->end)
					return true;
			}
	return false;
}

void history_print(FILE *out, const struct history *h)
{
	fprintf(out, "  first %x, last %x\n", h->first, h->last);
	for (unsigned t = 0; t < h->threads; t++)
		for (unsigned i = 0; i < h->n; i++) {
			const struct event *e = &h->events[t][i];

			fprintf(out,
				"  thread %u: %llu to %llu: %s: value %x, expected %x, "
				"result %x%s%s\n",
				t, (unsigned long long)e->begin, (unsigned long long)e->end,
				operation_names[e->kind], e->value, e->expected, e->result,
				e->swapped ? ", swapped" : "", e->torn ? ", torn" : "");
		}
}
