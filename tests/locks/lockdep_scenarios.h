/* SPDX-License-Identifier: MIT */
/* Scenarios of the checker of lock order. Each runs in a child that reads NEAR_CONF again;
 * what it is reported is read back. */
#ifndef NEARCPU_TESTS_ORDERS_H
#define NEARCPU_TESTS_ORDERS_H

#include "waits.h"

#include <nearcpu/cond.h>
#include <nearcpu/mutex.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/sem.h>

#include "locks/lockdep.h"
#include "locks/owner.h"

#define IN_A_CIRCLE " locks form a cycle"

static struct near_mutex a, b, c;

static inline void in_order(struct near_mutex *first, struct near_mutex *second)
{
	near_mutex_lock(first);
	near_mutex_lock(second);
	near_mutex_unlock(second);
	near_mutex_unlock(first);
}

struct pair {
	struct near_mutex *first, *second;
};

static inline void *in_order_there(void *arg)
{
	const struct pair *p = arg;

	in_order(p->first, p->second);
	return NULL;
}

static inline void by_thread(struct near_mutex *first, struct near_mutex *second)
{
	struct pair p = {first, second};

	unit_join(unit_start(in_order_there, &p));
}

/* ---- what is reported ---- */

static char reported[65536];
static const char *conf = "lock_check:1";

struct scenario {
	void (*run)(void);
};

static inline void decide_and_run(void *arg)
{
	struct scenario *s = arg;
	const char *mode = getenv("NEAR_CONF");
	char text[256];

	snprintf(text, sizeof(text), "%s,%s", mode ? mode : "", conf);
	setenv("NEAR_CONF", text, 1);
	s->run();
}

static inline int play(void (*run)(void), int *signal)
{
	struct scenario s = {run};

	return unit_capture(decide_and_run, &s, reported, sizeof(reported), signal);
}

static inline unsigned count(const char *what)
{
	const char *at = reported;
	unsigned n = 0;

	while ((at = strstr(at, what))) {
		at += strlen(what);
		n++;
	}
	return n;
}

static inline void tells(void (*run)(void), unsigned circles)
{
	int status = play(run, NULL);

	if (status || count(IN_A_CIRCLE) != circles)
		fputs(reported, stderr);
	assert_int_equal(status, 0);
	assert_int_equal(count(IN_A_CIRCLE), circles);
	assert_int_equal(count("nearcpu: lock order: "), circles);
}

#endif
