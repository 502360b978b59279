/* SPDX-License-Identifier: MIT */
/* The fork handlers that have been registered. For programs linked with --wrap=pthread_atfork. */
#ifndef NEARCPU_TESTS_ATFORK_H
#define NEARCPU_TESTS_ATFORK_H

#define ATFORK_MOST 8u

static struct {
	void (*prepare)(void), (*parent)(void), (*child)(void);
} atfork[ATFORK_MOST];
static unsigned atfork_n;

int __real_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	if (prepare && atfork_n < ATFORK_MOST) {
		atfork[atfork_n].prepare = prepare;
		atfork[atfork_n].parent = parent;
		atfork[atfork_n++].child = child;
	}
	return __real_pthread_atfork(prepare, parent, child);
}

#endif
