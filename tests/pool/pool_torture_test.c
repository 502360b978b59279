/* SPDX-License-Identifier: MIT */
/* The sequences of near_pool, aborted at each instruction while other operations get, put, drain
 * and close on the same slot: each object must be in exactly one place. */
#include "things.h"

#include "pool/pool.h"

#include "tortured.h"

#define OBJECTS 400u

static struct things all;
static struct near_pool pool;
static struct thing *held[OBJECTS];
static unsigned n_held;
static uint64_t closed[OBJECTS]; /* objects that a closer holds */
static unsigned n_closed;

/* The slot has n objects and room for others; the center has `center`. Others are in use. */
struct state {
	unsigned in_slot, room, center;
	bool unused, closed, full; /* full: the center has no room */
};

static struct near__pool_slot *own_slot(void)
{
	return near__pool_slot(pool.rest, near_slot());
}

static void take_from_setup(uint64_t *to, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		to[i] = (uintptr_t)held[--n_held];
}

static void setup(void *state)
{
	const struct state *s = state;
	const struct near_pool_options o = {THINGS(&all), .batch = 20,
					    .max_idle = 160 * near_slots()};
	struct near__pool *p;
	struct near__pool_slot *own;

	if (pool.rest)
		near_pool_destroy(&pool);
	memset(&all, 0, sizeof(all));
	n_held = n_closed = 0;
	if (near_pool_init(&pool, sizeof(struct thing), &o))
		abort();
	p = pool.rest;
	while (n_held < OBJECTS)
		held[n_held++] = near_pool_get(&pool);
	near_pool_drain(&pool);
	if (s->in_slot + s->room > p->room)
		abort();
	p->room = s->in_slot + s->room;
	p->count = s->center;
	p->center = s->full ? s->center : p->center;
	take_from_setup(p->idle, s->center);
	own = own_slot();
	take_from_setup(own->objects, s->in_slot);
	own->array.position = NEAR__EMPTY_LIST + s->in_slot * sizeof(uint64_t);
	own->array.end = own->array.position + s->room * sizeof(uint64_t);
	if (s->unused)
		own->array.position = NEAR__UNUSED_LIST;
	if (s->closed)
		own->array.position = NEAR__CLOSED_LIST;
}

/* Interferers run between any two instructions of a function that contains a sequence: what changes
 * the variables above must not be inlined there. */
#define OUT_OF_LINE __attribute__((noinline))

OUT_OF_LINE static void *get_one(void)
{
	return near_pool_get(&pool);
}

OUT_OF_LINE static void put_one(void *object)
{
	near_pool_put(&pool, object);
}

static void get(void *unused)
{
	void *object = get_one();

	held[n_held++] = object;
}

static void put(void *unused)
{
	put_one(held[--n_held]);
}

static void get_16(void *unused)
{
	void *objects[16];
	unsigned n = (unsigned)near_pool_get_many(&pool, objects, LENGTH(objects));

	for (unsigned i = 0; i < n; i++)
		held[n_held++] = objects[i];
}

static void put_16(void *unused)
{
	void *objects[16];

	for (unsigned i = 0; i < LENGTH(objects); i++)
		objects[i] = held[--n_held];
	near_pool_put_many(&pool, objects, LENGTH(objects));
}

static void gather(void *unused)
{
	near__pool_gather(pool.rest);
}

/* The first half of a drain that is never finished. */
static void close_own(void *unused)
{
	struct near__pool_slot *own = own_slot();
	uint64_t was =
		__atomic_exchange_n(&own->array.position, NEAR__CLOSED_LIST, __ATOMIC_ACQ_REL);

	for (uint32_t i = 0; i < near__pool_count(was); i++)
		closed[n_closed++] = own->objects[i];
}

/* ---- each object in one place ---- */

static unsigned found[2 * OBJECTS];

static void see(uint64_t object)
{
	const struct thing *t = (const struct thing *)(uintptr_t)object;

	found[t->lives == THING_LIVES && t->serial < LENGTH(found) ? t->serial : 0]++;
}

static void see_idle(const struct near__pool *p)
{
	for (unsigned i = 0; i < p->count; i++)
		see(p->idle[i]);
	for (uint64_t word = p->returned; word; word = *near__pool_link(p, word))
		if (!(word & NEAR__POOL_RAW))
			see(word);
	for (unsigned s = 0; near_percpu_next(p->slots, &s); s++) {
		const struct near__pool_slot *slot = near__pool_slot(p, s);

		for (uint32_t i = 0; i < near__pool_count(slot->array.position); i++)
			see(slot->objects[i]);
	}
}

static const char *check(void *unused)
{
	const struct near__pool *p = pool.rest;

	memset(found, 0, sizeof(found));
	see_idle(p);
	for (unsigned i = 0; i < n_closed; i++)
		see(closed[i]);
	for (unsigned i = 0; i < n_held; i++)
		see((uintptr_t)held[i]);
	for (unsigned i = 1; i <= all.made && i < LENGTH(found); i++)
		if (found[i] > 1)
			return "an object is in two places";
	if (found[0])
		return "what is no object is in a list";
	for (unsigned i = 1, n = 0; i <= all.made && i < LENGTH(found); i++)
		if ((n += !found[i]) > all.ended)
			return "an object is lost";
	return p->count > p->center ? "the center has more than its part of the cap" : NULL;
}

static const void *slot(void *unused, size_t *size)
{
	*size = sizeof(uint64_t);
	return &own_slot()->array.position;
}

static const struct near_torture_rival rivals[] = {
	{"get", get, NULL, 0},
	{"put", put, NULL, 0},
	{"gather", gather, NULL, 0},
	{"close", close_own, NULL, NEAR_TORTURE_CLOSES},
};

static void torture(void (*run)(void *), struct state state, unsigned sequences)
{
	const struct near_torture t = {
		.setup = setup,
		.run = run,
		.rivals = rivals,
		.n_rivals = LENGTH(rivals) - state.unused,
		.check = check,
		.slot = state.unused ? NULL : slot,
		.arg = &state,
	};

	if (!near__thread_live())
		skip();
	expect_tortured(&t, sequences);
}

#define TORTURE(name, run, sequences, ...)                                                         \
	UNIT_TEST(name, torture(run, (struct state){__VA_ARGS__}, sequences))

/* pop; push */
TORTURE(an_object_of_the_slot, get, 1, .in_slot = 3, .room = 5, .center = 30)
TORTURE(room_in_the_slot, put, 1, .in_slot = 3, .room = 5, .center = 30)
/* pop, put16, push */
TORTURE(objects_of_the_center, get, 2, .room = 20, .center = 60)
TORTURE(few_objects_of_the_center, get, 1, .room = 20, .center = 2)
/* take16, push */
TORTURE(no_room_in_the_slot, put, 2, .in_slot = 77, .center = 3)
/* pop, push */
TORTURE(no_room_in_a_short_array, put, 2, .in_slot = 2, .center = 1, .full = true)
TORTURE(sixteen_of_the_slot, get_16, 1, .in_slot = 18, .room = 3)
TORTURE(sixteen_into_the_slot, put_16, 1, .in_slot = 2, .room = 20)
TORTURE(a_fresh_slot, put, 1, .center = 5, .room = 20, .unused = true)

/* No operation changes a closed slot. */
static void a_closed_slot(void **state)
{
	struct state closed_state = {.center = 30, .room = 5, .closed = true};

	if (!near__thread_live())
		skip();
	setup(&closed_state);
	put(NULL);
	get(NULL);
	put_16(NULL);
	get_16(NULL);
	assert_null(check(NULL));
	assert_true(own_slot()->array.position == NEAR__CLOSED_LIST);
}

UNIT_MAIN(an_object_of_the_slot, room_in_the_slot, objects_of_the_center, few_objects_of_the_center,
	  no_room_in_the_slot, no_room_in_a_short_array, sixteen_of_the_slot, sixteen_into_the_slot,
	  a_fresh_slot, a_closed_slot)
