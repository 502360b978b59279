/* SPDX-License-Identifier: MIT */
/* The row of absl::Mutex, a module of nearcpu-locks. */
#include "locks/window.h"

#include <absl/synchronization/mutex.h>
#include <new>

namespace
{

void acquire(absl::Mutex *m) { m->Lock(); }

void release(absl::Mutex *m) { m->Unlock(); }

} /* namespace */

extern "C" {
extern const struct window_row window_row;
}
LOCK_ROW(window_row, "absl", absl::Mutex, new (lock) absl::Mutex, acquire, release)
