/* SPDX-License-Identifier: MIT */
/* What a thread does before it sleeps: it pauses, in case the holder of a lock runs; then
 * NEAR__YIELD_UNTIL, in case the holder was preempted. Both are bounded, since a waiter of higher
 * real-time priority must give the CPU to the holder. The lock's word is not loaded during the
 * first pause, as each load takes the cache line from the threads that make progress: three loads,
 * after 20, 60 and 140 ns, cost two fifths of the throughput of near_lock with sections of 1 ns
 * (AMD, Zen 4 class). Some locks then load the word often, by NEAR__SPIN_UNTIL.
 *
 * A pause takes 10 ns on some CPUs, 40 on others: so waits are given as times, and the length of a
 * pause is measured at the first one. */
#ifndef NEARCPU_SPIN_H
#define NEARCPU_SPIN_H

#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEAR__SPIN_NS 160 /* the first pause of most locks */
#define NEAR__SPIN_YIELDS 7

/* Executes pauses (near__pauses) for about `ns`. Async-signal-safe. Only the first call in a
 * process reads the clock. */
void near__pause_for(unsigned ns);

/* Pauses until `condition`, which it evaluates after each pause, is true. Returns false if it is
 * not after NEAR__SPIN_TRIES pauses, about 1 us. Each is longer than the one before: pauses of one
 * length can fall into step with the thread that is waited for, so that all tries fail. With pauses
 * of 75 ns, one of 1,000 waits for a near_mutex took 260 us instead of 1.5 us, with sections of 30
 * ns and 8 threads (Intel Xeon, Granite Rapids class). */
#define NEAR__SPIN_TRIES 12
#define NEAR__SPIN_LONGER_NS 12
#define NEAR__SPIN_UNTIL(condition)                                                                \
	({                                                                                         \
		bool near__is = false;                                                             \
                                                                                                   \
		for (unsigned near__i = 1; near__i <= NEAR__SPIN_TRIES && !near__is; near__i++) {  \
			near__pause_for(near__i *NEAR__SPIN_LONGER_NS);                            \
			near__is = (condition);                                                    \
		}                                                                                  \
		near__is;                                                                          \
	})

/* Yields until `condition`, which it evaluates after each yield, is true. Returns false if it is
 * not after NEAR__SPIN_YIELDS of them. */
#define NEAR__YIELD_UNTIL(condition)                                                               \
	({                                                                                         \
		bool near__is = false;                                                             \
                                                                                                   \
		for (int near__i = 0; near__i < NEAR__SPIN_YIELDS && !near__is; near__i++) {       \
			syscall(SYS_sched_yield);                                                  \
			near__is = (condition);                                                    \
		}                                                                                  \
		near__is;                                                                          \
	})

#endif
