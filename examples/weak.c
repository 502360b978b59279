/* SPDX-License-Identifier: MIT */
/* Weak references: a pointer finds a session while it is in service, and keeps none alive. */
#include <nearcpu/rcu.h>
#include <nearcpu/refcount.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define SESSIONS 300
#define READERS 3

struct session {
	struct near_refcount users; /* first, so that the callback finds the session */
	struct near_rcu_head head;
	int in_service;
};

static struct near_rcu rcu;
static struct session *current; /* weak */
static int ended, started;      /* readers that have used a session */

static void session_free(struct near_rcu_head *head)
{
	struct session *s = (struct session *)((char *)head - offsetof(struct session, head));

	near_refcount_destroy(&s->users);
	free(s);
}

/* A reader may be about to try to take a reference, in vain: the count must be there for that. */
static void session_end(struct near_refcount *users)
{
	struct session *s = (struct session *)users;

	s->in_service = 0;
	near_rcu_call(&rcu, &s->head, session_free, sizeof(*s));
}

/* NULL: the session is out of service. */
static struct session *session_get(void)
{
	near_rcu_token t = near_rcu_enter(&rcu);
	struct session *s = near_rcu_dereference(current);

	if (s && !near_refcount_try_get_live(&s->users))
		s = NULL;
	near_rcu_exit(&rcu, t);
	return s;
}

static void *use(void *wrong)
{
	int uses = 0;

	while (!__atomic_load_n(&ended, __ATOMIC_RELAXED)) {
		struct session *s = session_get();

		if (!s)
			continue;
		if (!uses++)
			__atomic_fetch_add(&started, 1, __ATOMIC_RELAXED);
		*(long *)wrong += !s->in_service;
		near_refcount_put(&s->users);
	}
	return NULL;
}

static void session_replace(struct session *s)
{
	struct session *old = current;

	near_rcu_assign(current, s);
	if (old)
		near_refcount_kill(&old->users); /* session_end() runs with the last user's put */
}

int main(void)
{
	pthread_t threads[READERS];
	long wrong[READERS] = {0};
	int i;

	if (near_rcu_init(&rcu, NULL))
		return 1;
	for (i = 0; i < READERS; i++)
		if (pthread_create(&threads[i], NULL, use, &wrong[i]))
			abort();
	for (i = 0; i < SESSIONS; i++) {
		struct session *s = (struct session *)malloc(sizeof(*s));

		if (!s || near_refcount_init(&s->users, session_end))
			abort();
		s->in_service = 1;
		session_replace(s);
		while (i == 0 && __atomic_load_n(&started, __ATOMIC_RELAXED) < READERS)
			sched_yield();
	}
	session_replace(NULL);
	__atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
	for (i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	near_rcu_barrier(&rcu);
	printf("%d sessions, %ld used after their end\n", SESSIONS, wrong[0] + wrong[1] + wrong[2]);
	near_rcu_destroy(&rcu);
	return 0;
}
