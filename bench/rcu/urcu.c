/* SPDX-License-Identifier: MIT */
/* One of liburcu's flavours. It is compiled for each flavour, named by HEADER and
 * FLAVOUR_..., twice: with INLINE its readers are inline functions, which their header offers to
 * programs with a suitable licence, else calls. */
#ifdef INLINE
#define _LGPL_SOURCE
#define URCU_INLINE_SMALL_FUNCTIONS
#endif
#define URCU_API_MAP /* rcu_read_lock is that of the header */
#include HEADER

#include "rcu.h"

RCU_POINTER(urcu)

static int urcu_init(void)
{
	urcu_hide();
	return 0;
}

#ifdef FLAVOUR_bp
#define begin_thread NULL
#define end_thread NULL
#else
static void begin_thread(void) { rcu_register_thread(); }
static void end_thread(void) { rcu_unregister_thread(); }
#endif

#ifdef FLAVOUR_qsbr
static void sleeps(void) { rcu_thread_offline(); }
static void wakes(void) { rcu_thread_online(); }

/* Where no section is, a thread reports that. */
#define UNLOCK                                                                                     \
	rcu_read_unlock();                                                                         \
	rcu_quiescent_state()
#else
#define sleeps NULL
#define wakes NULL
#define UNLOCK rcu_read_unlock()
#endif

RCU_READ(urcu, rcu_read_lock(), rcu_dereference(urcu_pointer), UNLOCK)
RCU_CALL(urcu, struct rcu_head, call_rcu(&o->head, urcu_callback))

static void urcu_synchronize(void) { synchronize_rcu(); }
static void urcu_barrier(void) { rcu_barrier(); }

extern const struct rcu_impl IMPL;
const struct rcu_impl IMPL = {.name = NAME,
			      .init = urcu_init,
			      .begin = begin_thread,
			      .end = end_thread,
			      .sleep = sleeps,
			      .wake = wakes,
			      .read = urcu_read,
			      .synchronize = urcu_synchronize,
			      .call = urcu_call,
			      .barrier = urcu_barrier};
