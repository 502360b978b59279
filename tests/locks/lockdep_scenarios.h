/* SPDX-License-Identifier: MIT */
/* Scenarios of the lock-order checker. Each runs in a child that reads NEAR_CONF again; what the
 * checker reports is read back. */
#ifndef NEARCPU_TESTS_LOCKDEP_SCENARIOS_H
#define NEARCPU_TESTS_LOCKDEP_SCENARIOS_H

#include "waiters.h"

#include "locks/lockdep.h"
#include "locks/owner.h"

#define IN_A_CYCLE " locks form a cycle"

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

static inline void *in_both_orders(void *arg)
{
	const struct pair *p = arg;

	in_order(p->first, p->second);
	in_order(p->second, p->first);
	return NULL;
}

/* ---- what is reported ---- */

static char reported[65536];
static const char *conf = "lock_check:1";

static int status, ended_by; /* of the child */

static inline int fork_checked(void)
{
	int end = unit_fork_captured();
	const char *mode = getenv("NEAR_CONF");
	char text[256];

	if (end >= 0)
		return end;
	snprintf(text, sizeof(text), "%s,%s", mode ? mode : "", conf);
	setenv("NEAR_CONF", text, 1);
	return end;
}

static inline bool is_checked(int end)
{
	if (end < 0)
		return true;
	status = unit_wait_captured(end, reported, sizeof(reported), &ended_by);
	return false;
}

/* The statement that follows is checked, in a child. */
#define CHECKED() for (int report_end = fork_checked(); is_checked(report_end); _exit(0))

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

#define BY_ONE_THREAD " locks form a cycle by one thread; two would deadlock\n"
#define IN_DEADLOCK " locks form a cycle, in which threads can deadlock\n"

static inline void expect_cycles(unsigned n)
{
	if (status || count(IN_A_CYCLE) != n)
		fputs(reported, stderr);
	assert_int_equal(status, 0);
	assert_int_equal(count(IN_A_CYCLE), n);
	assert_int_equal(count("nearcpu: lock order: "), n);
}

#endif
