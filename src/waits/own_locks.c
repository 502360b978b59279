/* SPDX-License-Identifier: MIT */
/* The locks of this library, in a program that is linked with the shared one or exports its state:
 * their slow paths have two probes. A near_mutex that parks is one wait, although the lot has the
 * same probes. What a waiter of the lot waits for is not known here: its call stack is. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "base/probe.h"
#include "waits/record.h"

static __thread struct {
	struct near__wait wait;
	unsigned depth;
} own __attribute__((tls_model("initial-exec")));

static void own_wait(const void *lock, uint64_t holder)
{
	if (own.depth++)
		return;
	own.wait = (struct near__wait){.kind = lock ? NEAR__WAIT_MUTEX : NEAR__WAIT_PARK,
				       .lock = lock,
				       .caller = __builtin_return_address(0),
				       .holder = (uint32_t)holder};
	near__wait_begin(&own.wait);
}

/* The release is not seen: no holder is recorded that would never cease to be one. */
static void own_end(const void *lock, uint64_t error)
{
	(void)lock;
	if (own.depth && !--own.depth)
		near__wait_end(&own.wait, error ? NEAR__WAIT_FAILED : NEAR__WAIT_HAS);
}

__attribute__((constructor)) static void own_connect(void)
{
	struct near__probe *probes = dlsym(RTLD_DEFAULT, NEAR__STATE_NAME("near__probes"));

	if (!probes)
		return;
	probes[NEAR__PROBE_LOCK_WAIT].hit = own_wait;
	probes[NEAR__PROBE_LOCK_END].hit = own_end;
	/* Pairs with the load of near__probe. */
	__atomic_store_n(&probes[NEAR__PROBE_LOCK_END].enabled, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&probes[NEAR__PROBE_LOCK_WAIT].enabled, 1, __ATOMIC_RELEASE);
}
