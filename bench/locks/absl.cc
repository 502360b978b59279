/* SPDX-License-Identifier: MIT */
/* absl::Mutex. */
#include "rows.h"

#include <absl/synchronization/mutex.h>
#include <new>

namespace
{

void init_absl(absl::Mutex *m)
{
	new (m) absl::Mutex;
}

void take(absl::Mutex *m)
{
	m->Lock();
}

void let_go(absl::Mutex *m)
{
	m->Unlock();
}

} /* namespace */

LOCK_ROW(row_absl, "absl", absl::Mutex, init_absl, take, let_go)
