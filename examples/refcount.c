/* SPDX-License-Identifier: MIT */
/* A connection that threads use until its owner closes it; the last user frees it. */
#include <nearcpu/refcount.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4

struct connection {
	struct near_refcount users; /* first, so that the callback finds the connection */
	char name[16];
};

static void connection_free(struct near_refcount *users)
{
	struct connection *c = (struct connection *)users;

	printf("nobody uses %s any more\n", c->name);
	near_refcount_destroy(users);
	free(c);
}

/* Each thread was given a reference, so `c` is there until it puts it. */
static void *use(void *arg)
{
	struct connection *c = (struct connection *)arg;
	long requests = 0;

	while (near_refcount_try_get_live(&c->users)) {
		requests += c->name[0] != '\0';
		near_refcount_put(&c->users);
	}
	near_refcount_put(&c->users);
	return requests > 0 ? arg : NULL;
}

int main(void)
{
	struct connection *c = (struct connection *)calloc(1, sizeof(*c));
	pthread_t threads[THREADS];

	if (!c || near_refcount_init(&c->users, connection_free))
		return 1;
	snprintf(c->name, sizeof(c->name), "db-1");
	for (int i = 0; i < THREADS; i++) {
		near_refcount_get(&c->users);
		if (pthread_create(&threads[i], NULL, use, c))
			abort();
	}
	near_refcount_kill(&c->users); /* no thread starts another request; ours is put */
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("closed\n");
	return 0;
}
