/* SPDX-License-Identifier: MIT */
/* near_rcu_map: the process's maps, and fork, which takes all their locks.
 *
 * They are taken before those of near_rcu: a signal handler that reads may wait for one of these,
 * in a thread that holds one of ours. So these handlers are registered after those of fork.c. */
#include "map.h"
#include "rcu.h"

#include <pthread.h>
#include <signal.h>

static struct near__fork_turn turn;

static void visit_maps(near__fork_step *step)
{
	for (struct near_rcu_map *m = near__rcu.maps; m; m = m->next) {
		step(&m->resizing);
		for (unsigned i = 0; i < near__rcu_map_stripes(m); i++)
			step(&m->stripes[i].lock);
	}
}

/* The list is locked first and released last. */
static void visit_down(near__fork_step *step)
{
	step(&near__rcu.maps_lock);
	visit_maps(step);
}

static void visit_up(near__fork_step *step)
{
	visit_maps(step);
	step(&near__rcu.maps_lock);
}

static void fork_prepare(void)
{
	near__fork_prepare(&turn, visit_down);
}

static void fork_parent(void)
{
	near__fork_in_parent(&turn, visit_up);
}

static void fork_child(void)
{
	if (near__fork_is_mine(&turn))
		for (struct near_rcu_map *m = near__rcu.maps; m; m = m->next)
			m->starts = 0;
	near__fork_in_child(&turn, visit_up);
}

__attribute__((constructor)) static void watch_forks(void)
{
	near__rcu_watch_forks();
	near__fork_register(&near__rcu.watches_map_forks, fork_prepare, fork_parent, fork_child);
}

/* With signals blocked: a handler that forks takes the lock, too. */
static bool with_lock(bool (*change)(struct near_rcu_map *m), struct near_rcu_map *m)
{
	sigset_t all, old;
	bool changed;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	near_lock_lock(&near__rcu.maps_lock);
	changed = change(m);
	near_lock_unlock(&near__rcu.maps_lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return changed;
}

static bool add(struct near_rcu_map *m)
{
	m->next = near__rcu.maps;
	near__rcu.maps = m;
	return true;
}

static bool drop(struct near_rcu_map *m)
{
	struct near_rcu_map **at = &near__rcu.maps;

	while (*at && *at != m)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = m->next;
	return true;
}

void near__rcu_map_register(struct near_rcu_map *m)
{
	with_lock(add, m);
}

void near__rcu_map_unregister(struct near_rcu_map *m)
{
	if (!with_lock(drop, m)) /* without the lock: a handler of SIGABRT may fork */
		near__die("near_rcu_map_destroy: no map, or destroyed before");
}
