/* SPDX-License-Identifier: MIT */
#ifndef NEARCPU_TESTS_FREED_LOCKS_H
#define NEARCPU_TESTS_FREED_LOCKS_H

struct locks {
	void (*lock)(void *m);
	void (*unlock)(void *m);
};
extern const struct locks near_test_locks;

#endif
