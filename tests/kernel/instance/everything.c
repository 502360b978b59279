/* SPDX-License-Identifier: MIT */
/* A plugin that contains the whole static library; or, with SMALL, what counters need of it. */
#include <nearcpu/counter.h>
#include <nearcpu/rwlock.h>

int use(int n);

__attribute__((visibility("default"))) int use(int n)
{
	static struct near_counter c;

	if (near_counter_init(&c))
		return -1;
#ifndef SMALL
	static struct near_mutex m;
	static struct near_rwlock l;

	near_mutex_lock(&m);
	near_rwlock_read_lock(&l);
	near_counter_add(&c, 1);
	near_rwlock_read_unlock(&l);
	near_mutex_unlock(&m);
#endif
	near_counter_add(&c, n);
	return (int)near_counter_read(&c);
}
