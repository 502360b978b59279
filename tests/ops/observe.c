/* SPDX-License-Identifier: MIT */
/* The state after the operations, read without any operation. */
#include "ops.h"

#include "percpu/internal.h"
#include "objects.h"
#include "locks/rwlock.h"
#include "queue/queue.h"

struct text {
	char *at, *end;
};

static void put(struct text *t, const char *s)
{
	while (*s && t->at < t->end)
		*t->at++ = *s++;
}

static void put_number(struct text *t, int64_t value)
{
	char digits[24], *p = digits + sizeof(digits);
	uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

	*--p = '\0';
	do
		*--p = (char)('0' + left % 10);
	while (left /= 10);
	if (value < 0)
		*--p = '-';
	put(t, p);
}

static void put_field(struct text *t, const char *name, int64_t value)
{
	put(t, name);
	put_number(t, value);
}

static int node_id(const void *node)
{
	const char *first = (const char *)OBJ.nodes, *p = node;

	if (p < first || p >= (const char *)(OBJ.nodes + OPS_NODES))
		return -1;
	return (int)((size_t)(p - first) / sizeof(*OBJ.nodes));
}

static uint64_t peak(void)
{
	uint64_t highest = 0;

	for (unsigned s = 0; near_percpu_next(OBJ.peak, &s); s++) {
		const uint64_t *copy = near_percpu_at(OBJ.peak, s);

		highest = *copy > highest ? *copy : highest;
	}
	return highest;
}

static int64_t refs(void)
{
	int64_t total = OBJ.refcount.exact;

	if (OBJ.refcount.mode == 0)
		total -= OBJ.bias;
	for (unsigned s = 0; near_percpu_next(OBJ.refcount.p, &s); s++) {
		const int64_t *count = near_percpu_at(OBJ.refcount.p, s);

		total += near_percpu_is_fallback(s) ? *count >> 2 : *count;
	}
	return total;
}

struct recorded {
	int64_t count, sum;
};

/* Of all histograms: how many values, and the sum of those whose sum is known. */
static struct recorded recorded(void)
{
	const struct near_histogram *all[] = {&OBJ.histogram, &OBJ.summed, &OBJ.regional,
					      &OBJ.regional_summed};
	struct recorded r = {0};

	for (unsigned i = 0; i < 4; i++) {
		struct near_snapshot s;

		if (near_histogram_read(all[i], &s))
			return (struct recorded){-1, -1};
		r.count += (int64_t)s.count;
		r.sum += (int64_t)s.exact_sum;
		near_snapshot_free(&s);
	}
	return r;
}

static const struct near_stack_node *list_of(unsigned slot)
{
	return *(struct near_stack_node **)near_percpu_at(OBJ.stack.p, slot);
}

static void put_stack(struct text *t)
{
	put(t, " stack");
	for (unsigned s = 0; near_percpu_next(OBJ.stack.p, &s); s++) {
		const struct near_stack_node *n = list_of(s);
		unsigned left = OPS_NODES + 1; /* a ring must end, too */

		if (!n)
			continue;
		put_field(t, " ", s);
		put(t, ":");
		for (; n && left; n = n->next, left--)
			put_field(t, ".", node_id(n));
	}
}

/* Calls see(element) for each in the rings. False: it returned false. */
static bool each_queued(bool (*see)(void *arg, unsigned slot, const void *element), void *arg)
{
	const struct near_queue *q = &OBJ.queue;

	for (unsigned s = 0; near_percpu_next(q->p, &s); s++) {
		const struct ring *r = ring_of(q, s);

		for (uint64_t i = r->head; i != r->tail; i++)
			if (i - r->head > q->mask || !see(arg, s, r->cells[i & q->mask]))
				return false;
	}
	return true;
}

static bool put_queued(void *t, unsigned slot, const void *element)
{
	put_field(t, " ", slot);
	put_field(t, ":", node_id(element));
	return true;
}

static void put_results(struct text *t, const char *name, const struct actor *a)
{
	put(t, name);
	for (unsigned i = 0; i < a->n; i++) {
		int id = node_id(a->results[i]);

		if (id >= 0)
			put_field(t, " node ", id);
		else
			put_field(t, " ", (intptr_t)a->results[i]);
	}
}

void ops_describe(char *out, size_t size, const struct actor *a, const struct actor *b)
{
	struct text t = {out, out + size - 1};
	struct recorded r = recorded();
	char events[64];

	put_field(&t, "counter ", near_counter_read(&OBJ.counter));
	put_field(&t, " shared ", near_shared_read(&OBJ.shared, OPS_SHARED_OFFSET));
	put_field(&t, " recorded ", r.count);
	put_field(&t, " summed ", r.sum);
	put_field(&t, " peak ", (int64_t)peak());
	put_field(&t, " refs ", refs());
	put_field(&t, " killed ", OBJ.refcount.mode);
	put_field(&t, " released ", OBJ.released);
	put_field(&t, " sections ", OBJ.sections);
	put_field(&t, " calls ", (int64_t)rcu_pending());
	put_field(&t, " ids ", (int64_t)ids_places());
	put_stack(&t);
	put(&t, " queue");
	each_queued(put_queued, &t);
	trace_list(events, sizeof(events), a, b);
	put(&t, " trace ");
	put(&t, events);
	put_results(&t, "; A", a);
	put_results(&t, "; B", b);
	*t.at = '\0';
}

uint64_t ops_digest(const struct actor *a, const struct actor *b)
{
	char text[512];
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	ops_describe(text, sizeof(text), a, b);
	for (const char *p = text; *p; p++)
		h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	return h;
}

/* Marks the nodes that are in lists; false if one is in them twice. */
static bool mark_lists(unsigned char *seen)
{
	for (unsigned s = 0; near_percpu_next(OBJ.stack.p, &s); s++)
		for (const struct near_stack_node *n = list_of(s); n; n = n->next)
			if (node_id(n) < 0 || seen[node_id(n)]++)
				return false;
	return true;
}

static bool mark_queued(void *seen, unsigned slot, const void *element)
{
	(void)slot;
	return node_id(element) >= 0 && !((unsigned char *)seen)[node_id(element)]++;
}

static bool mark_results(unsigned char *seen, const struct actor *a)
{
	for (unsigned i = 0; i < a->n; i++) {
		int id = node_id(a->results[i]);

		if (id >= 0 && seen[id]++)
			return false;
	}
	return true;
}

static void mark_unused(unsigned char *seen, const struct actor *a)
{
	for (unsigned i = a->pushed; i < OPS_OWN_NODES; i++)
		seen[OPS_FIRST_NODES + a->id * OPS_OWN_NODES + i]++;
}

static const char *stack_conserved(const struct actor *a, const struct actor *b)
{
	unsigned char seen[OPS_NODES] = {0};

	for (unsigned i = 0; i < OPS_FIRST_NODES && OBJ.setup == OPS_EMPTY; i++)
		seen[i]++;
	mark_unused(seen, a);
	mark_unused(seen, b);
	if (!mark_lists(seen) || !each_queued(mark_queued, seen) || !blocks_mark(seen) ||
	    !mark_results(seen, a) || !mark_results(seen, b))
		return "a node is in two places of stack, queue and blocks, or no node";
	for (unsigned i = 0; i < OPS_NODES; i++)
		if (!seen[i])
			return "a node of the stack or the queue is lost";
	return NULL;
}

static const char *refs_conserved(const struct actor *a, const struct actor *b)
{
	int64_t total = OPS_FIRST_REFS - (OBJ.setup == OPS_KILLED) + a->refs + b->refs;

	if (refs() != total)
		return "a reference is lost or was counted twice";
	if (OBJ.released > 1 || (OBJ.refcount.mode != 0 && (total == 0) != (OBJ.released == 1)))
		return "released while references are left, or not, or twice";
	return NULL;
}

/* Nobody is inside when both have come to their end. */
static const char *rwlock_conserved(const struct actor *a, const struct actor *b)
{
	const struct near_rwlock *l = &OBJ.rwlock;
	int64_t readers = readers_of(l->word) + near__rwlock_sum(l, false);

	if (OBJ.torn)
		return "a reader and a writer were inside together";
	if (OBJ.guarded[0] != OPS_FIRST_COUNT + a->written + b->written ||
	    OBJ.guarded[1] != OBJ.guarded[0])
		return "what a writer wrote is lost";
	if (readers || writers_of(l->word))
		return "a reader or a writer of the lock is left behind";
	return NULL;
}

static uint64_t highest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool is_held(const struct near_mutex *m)
{
	return m->word & NEAR__MUTEX_OWNER;
}

static const char *histograms_conserved(const struct actor *a, const struct actor *b)
{
	struct recorded r = recorded();

	if (r.count != 4 * OPS_FIRST_COUNT + a->recorded + b->recorded)
		return "a value of a histogram is lost or was counted twice";
	if (r.sum != 2 * OPS_VALUE * OPS_FIRST_COUNT + a->summed + b->summed)
		return "a value is missing from a histogram's sum, or is in it twice";
	return NULL;
}

const char *ops_conserved(const struct actor *a, const struct actor *b)
{
	const char *stack = stack_conserved(a, b), *rwlock = rwlock_conserved(a, b);
	const char *histograms = histograms_conserved(a, b), *rcu = rcu_conserved(a, b);
	const char *trace = trace_conserved(a, b);

	if (near_counter_read(&OBJ.counter) != OPS_FIRST_COUNT + a->counted + b->counted)
		return "an add to the counter is lost or was counted twice";
	if (near_shared_read(&OBJ.shared, OPS_SHARED_OFFSET) !=
	    OPS_FIRST_COUNT + a->shared + b->shared)
		return "an add to the shared region is lost or was counted twice";
	if (peak() != highest(OPS_FIRST_COUNT, highest(a->peak, b->peak)))
		return "the highest value is lost";
	if (OBJ.sections != a->sections + b->sections || is_held(ops_mutex) ||
	    is_held(&ops_mutex[1]) || is_held(&ops_mutex[2]))
		return "a section of the mutex is lost, or it is still held";
	if (histograms)
		return histograms;
	if (rwlock)
		return rwlock;
	if (rcu)
		return rcu;
	if (trace)
		return trace;
	if (!ids_conserved())
		return "an id is lost, or in two places";
	if (ops_fifo.count)
		return "an element of the fifo is left behind";
	return stack ? stack : refs_conserved(a, b);
}
