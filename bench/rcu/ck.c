/* SPDX-License-Identifier: MIT */
/* The implementation by ck_epoch. It has no thread that runs callbacks. */
#include <ck_epoch.h>

#include "rcu.h"

RCU_POINTER(ck)

static ck_epoch_t epoch;
static __thread ck_epoch_record_t *record;

static int ck_init(void)
{
	ck_hide();
	ck_epoch_init(&epoch);
	return 0;
}

/* A record of a thread that has ended is used again, and none is ever freed. */
static void begin_thread(void)
{
	record = ck_epoch_recycle(&epoch, NULL);
	if (record)
		return;
	if (posix_memalign((void **)&record, 128, sizeof(*record)))
		abort();
	ck_epoch_register(&epoch, record, NULL);
}

static void end_thread(void) { ck_epoch_unregister(record); }

RCU_READ(ck, ck_epoch_begin(record, NULL), ck_pr_load_ptr(&ck_pointer), ck_epoch_end(record, NULL))

/* With a section, readers may nest, and hold up reclamation for less long. */
RCU_READ(ck_section, ck_epoch_section_t section; ck_epoch_begin(record, &section),
						 ck_pr_load_ptr(&ck_pointer),
						 ck_epoch_end(record, &section))

static void ck_synchronize(void) { ck_epoch_synchronize(record); }

static const struct rcu_impl ck_impl = {.name = "ck",
					.init = ck_init,
					.begin = begin_thread,
					.end = end_thread,
					.read = ck_read,
					.synchronize = ck_synchronize};
static const struct rcu_impl ck_section_impl = {.name = "ck-section",
						.init = ck_init,
						.begin = begin_thread,
						.end = end_thread,
						.read = ck_section_read};

const struct rcu_impl *const near_bench_rcu_impls[] = {&ck_impl, &ck_section_impl, NULL};
