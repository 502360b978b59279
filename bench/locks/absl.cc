/* SPDX-License-Identifier: MIT */
/* The row of absl::Mutex, a module of nearcpu-locks. */
#include "window.h"

#include <absl/synchronization/mutex.h>
#include <new>

namespace
{

void init_absl(absl::Mutex *m)
{
	new (m) absl::Mutex;
}

void acquire(absl::Mutex *m)
{
	m->Lock();
}

void release(absl::Mutex *m)
{
	m->Unlock();
}

} /* namespace */

extern "C" {
extern const struct window_row window_row;
}
LOCK_ROW(window_row, "absl", absl::Mutex, init_absl, acquire, release)
