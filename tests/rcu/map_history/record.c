/* SPDX-License-Identifier: MIT */
/* Prints histories of a map that threads change while another one resizes it; check/main.go has the
 * form.
 *
 * usage: record map64|rcu_map HISTORIES
 *
 * Of near_rcu_map an entry is changed by replace_if and removed by remove, in the section that
 * found it. As no two entries have one value, either is a compare and swap. */
#include <nearcpu/rcu_map64.h>

#include "team.h"

#define KEYS 2u
#define THREADS 3u
#define OPERATIONS 14u /* of a thread, in each history */

struct operation {
	const char *name;
	uint64_t key, call, end, expected, value;
	int64_t result;
};

struct item {
	struct near_rcu_map_entry entry; /* the first member */
	struct near_rcu_head rcu;
	uint64_t key, value;
};

static struct near_rcu rcu;
static struct near_rcu_map map;
static struct near_rcu_map64 map64;
static bool is_map64;
static unsigned histories;
static uint64_t clock_now; /* numbers calls and returns */
static pthread_barrier_t barrier;
static struct operation done[THREADS][2 * OPERATIONS]; /* two, if it finds and then replaces */
static unsigned logged[THREADS];

static uint64_t tick(void)
{
	return 1 + __atomic_fetch_add(&clock_now, 1, __ATOMIC_SEQ_CST);
}

static struct operation *begin(unsigned thread, const char *name, uint64_t key)
{
	struct operation *o = &done[thread][logged[thread]++];

	*o = (struct operation){.name = name, .key = key, .call = tick()};
	return o;
}

static void end(struct operation *o, int64_t result)
{
	o->end = tick();
	o->result = result;
}

/* Of a compare and swap; -1: not known. */
static void end_cas(struct operation *o, int r, int64_t result)
{
	o->name = r ? "cas_fails" : "cas";
	end(o, r ? result : (int64_t)o->expected);
}

/* ---- near_rcu_map64 ---- */

static void operate64(unsigned thread, unsigned kind, uint64_t key, uint64_t value, uint64_t *last)
{
	static const char *const names[] = {"get", "put", "insert", "put", "cas", "cas"};
	struct operation *o = begin(thread, names[kind], key);
	uint64_t old = 0;
	int r;

	if (kind == 0) {
		old = near_rcu_map64_get(&map64, key);
	} else if (kind == 1) {
		CHECK(near_rcu_map64_put(&map64, key, value, &old) == 0);
	} else if (kind == 2) {
		r = near_rcu_map64_insert(&map64, key, value, &old);
		CHECK(r == 0 || r == -EEXIST);
	} else if (kind == 3) {
		old = near_rcu_map64_remove(&map64, key);
	} else {
		o->expected = old = *last ? *last : 1;
		r = kind == 4 ? near_rcu_map64_replace(&map64, key, &old, value)
			      : near_rcu_map64_remove_if(&map64, key, old);
		end_cas(o, r, kind == 4 ? (int64_t)old : -1);
	}
	o->value = kind == 3 || kind == 5 ? 0 : value;
	if (kind < 4)
		end(o, (int64_t)old);
	*last = kind == 1 || kind == 2 ? value : old;
}

/* ---- near_rcu_map ---- */

static uint64_t item_hash(const void *key)
{
	return *(const uint64_t *)key;
}

static bool item_is(const struct near_rcu_map_entry *e, const void *key)
{
	return ((const struct item *)e)->key == *(const uint64_t *)key;
}

static struct item *item_of(struct near_rcu_map_entry *e)
{
	return (struct item *)e;
}

static uint64_t value_in(struct near_rcu_map_entry *e)
{
	return e ? item_of(e)->value : 0;
}

static void item_free(struct near_rcu_head *head)
{
	free((char *)head - offsetof(struct item, rcu));
}

static void give_up(struct near_rcu_map_entry *e)
{
	if (e)
		near_rcu_call(&rcu, &item_of(e)->rcu, item_free, sizeof(struct item));
}

/* Finds the entry, and replaces it, or with `new` NULL removes it. */
static bool find_and_change(unsigned thread, uint64_t key, struct item *new)
{
	struct operation *o = begin(thread, "get", key);
	struct near_rcu_map_entry *e = near_rcu_map_lookup(&map, &key);
	int r;

	end(o, (int64_t)value_in(e));
	if (!e)
		return false;
	o = begin(thread, "cas", key);
	o->expected = value_in(e);
	o->value = new ? new->value : 0;
	r = new ? near_rcu_map_replace_if(&map, e, &new->entry) : near_rcu_map_remove(&map, e);
	end_cas(o, r, -1);
	if (!r)
		give_up(e);
	return !r;
}

/* In a section. False: `i` is not in the map. */
static bool operate_with(unsigned thread, unsigned kind, uint64_t key, struct item *i)
{
	struct near_rcu_map_entry *e = NULL;
	struct operation *o;
	int r = 0;

	if (kind > 3)
		return find_and_change(thread, key, kind == 4 ? i : NULL) && kind == 4;
	o = begin(thread, kind == 0 ? "get" : kind == 2 ? "insert" : "put", key);
	o->value = kind == 3 ? 0 : i->value;
	if (kind == 0)
		e = near_rcu_map_lookup(&map, &key);
	else if (kind == 1)
		r = near_rcu_map_put(&map, &i->entry, &key, &e);
	else if (kind == 2)
		r = near_rcu_map_insert_unique(&map, &i->entry, &key, &e);
	else
		e = near_rcu_map_remove_key(&map, &key);
	CHECK(r == 0 || (kind == 2 && r == -EEXIST));
	end(o, kind == 2 && !r ? 0 : (int64_t)value_in(e));
	if (kind == 1 || kind == 3)
		give_up(e);
	return (kind == 1 || kind == 2) && !r;
}

static void operate(unsigned thread, unsigned kind, uint64_t key, uint64_t value)
{
	struct item *i = malloc(sizeof(*i));
	near_rcu_token t;

	CHECK(i);
	i->key = key;
	i->value = value;
	t = near_rcu_enter(&rcu);
	if (!operate_with(thread, kind, key, i))
		free(i);
	near_rcu_exit(&rcu, t);
}

/* ---- threads ---- */

static void work(unsigned number)
{
	uint64_t random = number + 1, value = number + 2;

	for (unsigned h = 0; h < histories; h++) {
		uint64_t last[KEYS] = {0};

		pthread_barrier_wait(&barrier);
		for (unsigned n = 0; n < OPERATIONS; n++, value += THREADS) {
			uint64_t key = unit_random(&random) % KEYS;
			unsigned kind = unit_random(&random) % 6;

			if (is_map64)
				operate64(number, kind, key + 1, value, &last[key]);
			else
				operate(number, kind, key + 1, value);
		}
		pthread_barrier_wait(&barrier);
	}
}

static void *resize(void *unused)
{
	while (team_continues()) {
		if (is_map64) {
			CHECK(near_rcu_map64_resize(&map64, 100) == 0);
			CHECK(near_rcu_map64_resize(&map64, 1) == 0);
		} else {
			CHECK(near_rcu_map_resize(&map, 500) == 0);
			CHECK(near_rcu_map_resize(&map, 1) == 0);
		}
	}
	return unused;
}

/* Prints the history, and begins the next one without a key. */
static void next_history(unsigned history)
{
	for (unsigned t = 0; t < THREADS; t++) {
		for (const struct operation *o = done[t]; o < done[t] + logged[t]; o++)
			printf("%u %llu %llu %llu %s %lld %lld %lld\n", history,
			       (unsigned long long)o->key, (unsigned long long)o->call,
			       (unsigned long long)o->end, o->name, (long long)o->expected,
			       (long long)o->value, (long long)o->result);
		logged[t] = 0;
	}
	clock_now = 0;
	for (uint64_t key = 1; key <= KEYS; key++) {
		near_rcu_map64_remove(&map64, key);
		give_up(near_rcu_map_remove_key(&map, &key));
	}
}

int main(int count, char **words)
{
	struct team team;
	pthread_t resizer;

	if (count != 3)
		return 2;
	is_map64 = strcmp(words[1], "map64") == 0;
	histories = (unsigned)atoi(words[2]);
	CHECK(near_rcu_init(&rcu, NULL) == 0 && near_rcu_map64_init(&map64, &rcu, NULL) == 0 &&
	      near_rcu_map_init(&map, &rcu, item_hash, item_is, NULL) == 0);
	CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
	team_start(&team, THREADS, work);
	resizer = unit_start(resize, NULL);
	for (unsigned h = 0; h < histories; h++) {
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
		next_history(h);
	}
	team_join(&team);
	__atomic_store_n(&team_ends, true, __ATOMIC_RELEASE);
	unit_join(resizer);
	near_rcu_map_destroy(&map);
	near_rcu_map64_destroy(&map64);
	near_rcu_destroy(&rcu);
	return 0;
}
