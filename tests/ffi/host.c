/* SPDX-License-Identifier: MIT */
/* usage: host FILE
 * A program with the inline functions opens libnearcpu-ffi.so: both change one counter, hold one
 * mutex, and have one state of the library. */
#include <dlfcn.h>
#include <nearcpu/counter.h>
#include <nearcpu/mutex.h>
#include <nearcpu/rseq.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 50000

static struct near_counter counter;
static struct near_mutex mutex;
static void (*add)(struct near_counter *counter, int64_t n);
static bool (*try_lock)(struct near_mutex *mutex);
static void (*unlock)(struct near_mutex *mutex);
static int (*status)(struct near_rseq_status *out, size_t size);

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void *find(void *library, const char *name)
{
	void *p = dlsym(library, name);

	check(p != NULL, name);
	return p;
}

/* One thread begins with a function of the plugin, the other with an inline one. */
static void *count(void *plugin_first)
{
	struct near_rseq_status mine, its;

	if (plugin_first)
		add(&counter, 1);
	for (int i = 0; i < ROUNDS; i++) {
		near_counter_add(&counter, 1);
		add(&counter, 1);
	}
	if (!plugin_first)
		near_counter_add(&counter, 1);
	near_rseq_status(&mine, sizeof(mine));
	status(&its, sizeof(its));
	check(mine.live == its.live && strcmp(mine.why, its.why) == 0, "one is live alone");
	return NULL;
}

static void count_by_both(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		check(!pthread_create(&threads[i], NULL, count, i ? &counter : NULL), "no thread");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	check(near_counter_read(&counter) == 4 * ROUNDS + 2, "the count is wrong");
}

static void lock_by_both(void)
{
	near_mutex_lock(&mutex);
	check(!try_lock(&mutex), "two hold the mutex");
	unlock(&mutex);
	check(try_lock(&mutex), "the mutex is still held");
	near_mutex_unlock(&mutex);
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

	check(library != NULL, argc > 1 ? dlerror() : "usage: host FILE");
	*(void **)&add = find(library, "near_counter_add");
	*(void **)&try_lock = find(library, "near_mutex_try_lock");
	*(void **)&unlock = find(library, "near_mutex_unlock");
	*(void **)&status = find(library, "near_rseq_status");
	check(find(library, NEAR__STATE_NAME("near__self")) == (void *)&near__self,
	      "two words of a thread");
	check(!near_counter_init(&counter), "no counter");
	count_by_both();
	lock_by_both();
	near_counter_destroy(&counter);
	return 0;
}
