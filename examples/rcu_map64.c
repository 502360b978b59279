/* SPDX-License-Identifier: MIT */
/* Sessions by their id: threads find one for each request, others log users in and out. Hits of a
 * page are numbers in a map of their own, which each thread counts up. */
#include <nearcpu/rcu_map64.h>

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 3
#define REQUESTS 20000
#define STAYING 100 /* sessions that are always there: 1 to 100 */
#define PASSING 5000
#define PAGES 7

struct session {
	struct near_rcu_head rcu;
	uint64_t id;
};

static struct near_rcu rcu;
static struct near_rcu_map64 sessions, hits;

static void log_in(uint64_t id)
{
	struct session *s = (struct session *)malloc(sizeof(*s));

	if (!s)
		abort();
	s->id = id;
	if (near_rcu_map64_insert(&sessions, id, (uintptr_t)s, NULL))
		abort();
}

static void free_session(struct near_rcu_head *head)
{
	free((char *)head - offsetof(struct session, rcu));
}

static void end_session(uint64_t id, uint64_t value, void *unused)
{
	struct session *s = (struct session *)(uintptr_t)value;

	(void)unused;
	if (s->id != id)
		abort();
	near_rcu_call(&rcu, &s->rcu, free_session, sizeof(*s));
}

static void log_out(uint64_t id)
{
	uint64_t value = near_rcu_map64_remove(&sessions, id);

	if (value)
		end_session(id, value, NULL);
}

static void count_hit(uint64_t page)
{
	uint64_t n = 0;

	if (near_rcu_map64_insert(&hits, page, 1, &n) == 0)
		return;
	while (near_rcu_map64_replace(&hits, page, &n, n + 1))
		;
}

static void *answer(void *arg)
{
	for (uint64_t i = 0; i < REQUESTS; i++) {
		uint64_t id = 1 + i % STAYING;
		near_rcu_token t = near_rcu_enter(&rcu); /* the session stays until its end */
		struct session *s = (struct session *)(uintptr_t)near_rcu_map64_find(&sessions, id);

		if (s && s->id == id)
			count_hit(1 + i % PAGES);
		near_rcu_exit(&rcu, t);
	}
	return arg;
}

static void add(uint64_t page, uint64_t n, void *sum)
{
	(void)page;
	*(uint64_t *)sum += n;
}

int main(void)
{
	pthread_t threads[THREADS];
	uint64_t sum = 0;

	if (near_rcu_init(&rcu, NULL) || near_rcu_map64_init(&sessions, &rcu, NULL) ||
	    near_rcu_map64_init(&hits, &rcu, NULL))
		return 1;
	for (uint64_t id = 1; id <= STAYING; id++)
		log_in(id);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, answer, NULL))
			return 1;
	for (uint64_t id = STAYING + 1; id <= PASSING; id++)
		log_in(id);
	for (uint64_t id = STAYING + 1; id <= PASSING; id++)
		log_out(id);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	near_rcu_map64_sweep(&hits, 0, SIZE_MAX, add, &sum);
	printf("%llu requests for %u pages answered\n", (unsigned long long)sum,
	       (unsigned)near_rcu_map64_count(&hits));
	printf("%u sessions left\n", (unsigned)near_rcu_map64_count(&sessions));
	near_rcu_map64_clear(&sessions, end_session, NULL);
	near_rcu_map64_destroy(&sessions);
	near_rcu_map64_destroy(&hits);
	near_rcu_destroy(&rcu);
	return 0;
}
