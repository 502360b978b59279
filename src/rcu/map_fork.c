/* SPDX-License-Identifier: MIT */
/* near_rcu_map, near_rcu_map64: the process's maps, and fork, which takes all their locks.
 *
 * They are taken before those of near_rcu: a signal handler that reads may wait for one of these,
 * in a thread that holds one of ours. So these handlers are registered after those of
 * rcu_fork.c. */
#include <nearcpu/rcu_map64.h>

#include "rcu/map.h"
#include "rcu/rcu.h"

static struct near__fork_turn turn;

static void visit_maps(near__fork_step *step)
{
	for (struct near_rcu_map *m = near__rcu.maps; m; m = m->next) {
		step(&m->resizing);
		for (unsigned i = 0; i < near__rcu_map_stripes(m); i++)
			step(&m->stripes[i].lock);
	}
	for (struct near_rcu_map64 *m = near__rcu.maps64; m; m = m->next)
		step(&m->moving);
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

static void rcu_map_reset_child(void)
{
	if (near__fork_is_mine(&turn))
		for (struct near_rcu_map *m = near__rcu.maps; m; m = m->next)
			m->starts = 0;
}

NEAR__FORK_HANDLERS(rcu_map, &turn, visit_down, visit_up, rcu_map_reset_child)

__attribute__((constructor)) static void maps_watch_forks(void)
{
	near__rcu_watch_forks();
	NEAR__FORK_REGISTER(rcu_map, &near__rcu.watches_map_forks);
}

/* For maps of both types: adds one to its list; or removes it, and without it stops the program. */
#define MAPS_OF(type, list)                                                                        \
	static void type##_add(void *map)                                                          \
	{                                                                                          \
		struct near_rcu_##type *m = map;                                                   \
                                                                                                   \
		m->next = near__rcu.list;                                                          \
		near__rcu.list = m;                                                                \
	}                                                                                          \
                                                                                                   \
	/* *map becomes NULL if it is none. */                                                     \
	static void type##_drop(void *map)                                                         \
	{                                                                                          \
		struct near_rcu_##type **m = map, **at = &near__rcu.list;                          \
                                                                                                   \
		while (*at && *at != *m)                                                           \
			at = &(*at)->next;                                                         \
		if (*at)                                                                           \
			*at = (*m)->next;                                                          \
		else                                                                               \
			*m = NULL;                                                                 \
	}                                                                                          \
                                                                                                   \
	void near__rcu_##type##_register(struct near_rcu_##type *m)                                \
	{                                                                                          \
		near__rcu_with_lock(&near__rcu.maps_lock, type##_add, m);                          \
	}                                                                                          \
                                                                                                   \
	void near__rcu_##type##_unregister(struct near_rcu_##type *m)                              \
	{                                                                                          \
		near__rcu_with_lock(&near__rcu.maps_lock, type##_drop, &m);                        \
		if (!m) /* without the lock: a handler of SIGABRT may fork */                      \
			near__die("near_rcu_" #type "_destroy: no map, or destroyed before");      \
	}

MAPS_OF(map, maps)
MAPS_OF(map64, maps64)
