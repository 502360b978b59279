/* SPDX-License-Identifier: MIT */
/* Several threads find a session for each request while another one logs users in and out.
 * The map grows and shrinks. At last a sweeper ends what is old, and all the others are cleared. */
#include <nearcpu/rcu_map.h>

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 3
#define REQUESTS 20000
#define STAYING 100 /* sessions that are always there */
#define PASSING 5000

struct session {
	struct near_rcu_map_entry entry; /* the first member */
	struct near_rcu_head rcu;
	uint64_t id;
};

static struct near_rcu rcu;
static struct near_rcu_map sessions;
static uint64_t answered;

static uint64_t hash(const void *key)
{
	return *(const uint64_t *)key;
}

static bool is(const struct near_rcu_map_entry *e, const void *key)
{
	return ((const struct session *)e)->id == *(const uint64_t *)key;
}

static void log_in(uint64_t id)
{
	struct session *s = (struct session *)malloc(sizeof(*s));

	if (!s)
		abort();
	s->id = id;
	if (near_rcu_map_insert_unique(&sessions, &s->entry, &id, NULL))
		abort();
}

static void free_session(struct near_rcu_head *head)
{
	free((char *)head - offsetof(struct session, rcu));
}

static void free_later(struct near_rcu_map_entry *e, void *unused)
{
	(void)unused;
	near_rcu_call(&rcu, &((struct session *)e)->rcu, free_session, sizeof(struct session));
}

static void log_out(uint64_t id)
{
	struct near_rcu_map_entry *e = near_rcu_map_remove_key(&sessions, &id);

	if (e)
		free_later(e, NULL);
}

static void expire(struct near_rcu_map_entry *e, void *unused)
{
	if (((struct session *)e)->id >= STAYING && near_rcu_map_remove(&sessions, e) == 0)
		free_later(e, unused);
}

static void *answer(void *arg)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < REQUESTS; i++) {
		uint64_t id = i % STAYING;
		near_rcu_token t = near_rcu_enter(&rcu);

		n += near_rcu_map_find(&sessions, hash(&id), &id, is) != NULL;
		near_rcu_exit(&rcu, t);
	}
	__atomic_fetch_add(&answered, n, __ATOMIC_RELAXED);
	return arg;
}

int main(void)
{
	struct near_rcu_map_options options;
	pthread_t threads[THREADS];
	uint64_t cursor = 0;

	memset(&options, 0, sizeof(options));
	options.entries = STAYING;
	if (near_rcu_init(&rcu, NULL) || near_rcu_map_init(&sessions, &rcu, hash, is, &options))
		return 1;
	for (uint64_t id = 0; id < STAYING; id++)
		log_in(id);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, answer, NULL))
			return 1;
	for (uint64_t id = STAYING; id < PASSING; id++)
		log_in(id);
	for (uint64_t id = STAYING; id < PASSING / 2; id++)
		log_out(id);
	do /* a part with each tick of a clock, say */
		cursor = near_rcu_map_sweep(&sessions, cursor, 100, expire, NULL);
	while (cursor);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%llu requests answered\n", (unsigned long long)answered);
	printf("%llu sessions left\n", (unsigned long long)near_rcu_map_count(&sessions));
	near_rcu_map_clear(&sessions, free_later, NULL);
	near_rcu_map_destroy(&sessions);
	near_rcu_destroy(&rcu);
	return 0;
}
