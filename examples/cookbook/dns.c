/* SPDX-License-Identifier: MIT */
/* A cache of names: lookups take no lock, a miss resolves, a sweeper removes what has expired, and
 * the number of entries is bounded. The clock is a variable, so that each run is the same. */
#include <nearcpu/rcu_map.h>

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 3
#define LOOKUPS 20000 /* of each thread */
#define BOUND 400     /* entries */
#define TTL 60        /* seconds */

/* [entry] */
struct entry {
	struct near_rcu_map_entry map; /* the first member */
	struct near_rcu_head rcu;
	uint64_t expires;
	uint32_t address;
	char name[64];
};

static uint64_t hash(const void *name) /* FNV-1a */
{
	uint64_t h = 0xcbf29ce484222325;

	for (const char *p = (const char *)name; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3;
	return h;
}

static bool is(const struct near_rcu_map_entry *e, const void *name)
{
	return strcmp(((const struct entry *)e)->name, (const char *)name) == 0;
}
/* [/entry] */

static struct near_rcu rcu;
static struct near_rcu_map cache;
static uint64_t now = 1000, used, right;

static uint32_t resolve(const char *name) /* the network */
{
	return (uint32_t)hash(name);
}

/* [free] */
static void entry_free(struct near_rcu_head *head)
{
	free((char *)head - offsetof(struct entry, rcu));
}

/* Of an entry that is in the map no more. Readers may use it until a grace period has ended. */
static void entry_remove(struct near_rcu_map_entry *e, void *unused)
{
	(void)unused;
	__atomic_fetch_sub(&used, 1, __ATOMIC_RELAXED);
	near_rcu_call(&rcu, &((struct entry *)e)->rcu, entry_free, sizeof(struct entry));
}
/* [/free] */

/* [lookup] */
static bool find(const char *name, uint32_t *address)
{
	near_rcu_token t = near_rcu_enter(&rcu);
	const struct entry *e = (const struct entry *)near_rcu_map_lookup(&cache, name);
	bool valid = e && e->expires > __atomic_load_n(&now, __ATOMIC_RELAXED);

	if (valid)
		*address = e->address; /* a copy: e may be freed after the exit */
	near_rcu_exit(&rcu, t);
	return valid;
}

static uint32_t lookup(const char *name)
{
	struct near_rcu_map_entry *old = NULL;
	struct entry *e = NULL;
	uint32_t address;

	if (find(name, &address))
		return address;
	address = resolve(name);
	if (__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED) < BOUND && strlen(name) < 64)
		e = (struct entry *)calloc(1, sizeof(*e));
	if (e) {
		strcpy(e->name, name);
		e->address = address;
		e->expires = __atomic_load_n(&now, __ATOMIC_RELAXED) + TTL;
	}
	if (!e || near_rcu_map_put(&cache, &e->map, name, &old)) {
		__atomic_fetch_sub(&used, 1, __ATOMIC_RELAXED); /* an answer that is not kept */
		free(e);
	} else if (old) {
		entry_remove(old, NULL);
	}
	return address;
}
/* [/lookup] */

/* [sweep] */
static void expire(struct near_rcu_map_entry *e, void *unused)
{
	if (((struct entry *)e)->expires <= __atomic_load_n(&now, __ATOMIC_RELAXED) &&
	    near_rcu_map_remove(&cache, e) == 0)
		entry_remove(e, unused);
}

static void sweep(void)
{
	uint64_t cursor = 0;

	do /* in a server: a part with each tick of a timer */
		cursor = near_rcu_map_sweep(&cache, cursor, 100, expire, NULL);
	while (cursor);
}
/* [/sweep] */

static void use_names(int lookups, int names)
{
	char name[64];

	for (int i = 0; i < lookups; i++) {
		snprintf(name, sizeof(name), "host%d.example", i % names);
		if (lookup(name) == resolve(name))
			__atomic_fetch_add(&right, 1, __ATOMIC_RELAXED);
	}
}

static void *serve(void *unused)
{
	use_names(LOOKUPS, 300);
	return unused;
}

static void report(const char *when)
{
	printf("%s: %zu entries\n", when, near_rcu_map_count(&cache));
}

int main(void)
{
	pthread_t threads[THREADS];

	if (near_rcu_init(&rcu, NULL) || near_rcu_map_init(&cache, &rcu, hash, is, NULL))
		return 1;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, serve, NULL))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	report("filled");
	now += TTL;
	use_names(10, 10);
	sweep();
	report("a minute later");
	use_names(1000, 1000);
	report("bounded");
	/* [end] */
	near_rcu_map_clear(&cache, entry_remove, NULL);
	near_rcu_map_destroy(&cache);
	near_rcu_destroy(&rcu); /* waits for callbacks */
	/* [/end] */
	printf("%llu right answers\n", (unsigned long long)right);
	return 0;
}
