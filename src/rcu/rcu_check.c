/* SPDX-License-Identifier: MIT */
/* NEAR_CONF=rcu_check:1: sections of near_rcu_enter are recorded.
 *
 * Inline readers then find no slot that is open, and make a call, which counts on a fallback slot:
 * near__rcu_count_in opens none. The token of a record is an address in memory that is zero on all
 * slots, so that the sequence of near_rcu_exit fails. */
#include "rcu/rcu.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RECORDS 10000

struct near__rcu_record {
	uint64_t token;                /* of the section */
	const struct near_rcu *domain; /* NULL: free */
	const void *site;
	uint32_t tid;
};

static uint32_t rcu_this_thread(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static void *records_map(size_t size, int protection)
{
	void *p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Called with near__rcu.lock. */
bool near__rcu_has_records(void)
{
	if (!near__rcu.unopened)
		near__rcu.unopened = (uintptr_t)records_map(
			(size_t)(near__process.slots + 2) << NEAR_STRIDE_SHIFT, PROT_READ);
	if (!near__rcu.records && near__rcu.unopened)
		near__rcu.records = records_map(sizeof(struct near__rcu_record) * RECORDS,
						PROT_READ | PROT_WRITE);
	return near__rcu.records;
}

/* Without a free record the section is not recorded. */
uint64_t near__rcu_record(struct near_rcu *d, uint64_t token, const void *site)
{
	uint32_t tid = rcu_this_thread();

	for (unsigned i = 0; i < RECORDS; i++) {
		struct near__rcu_record *r = &near__rcu.records[(tid + i) % RECORDS];
		const struct near_rcu *none = NULL;

		if (!__atomic_load_n(&r->domain, __ATOMIC_RELAXED) &&
		    __atomic_compare_exchange_n(&r->domain, &none, d, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED)) {
			r->token = token;
			__atomic_store_n(&r->site, site, __ATOMIC_RELAXED);
			__atomic_store_n(&r->tid, tid, __ATOMIC_RELAXED);
			return near__rcu.unopened + (uint64_t)(r - near__rcu.records);
		}
	}
	return token;
}

static bool is_record(uint64_t token)
{
	return token - near__rcu.unopened < RECORDS;
}

uint64_t near__rcu_unrecord(struct near_rcu *d, uint64_t token)
{
	struct near__rcu_record *r;

	if (!is_record(token))
		return token;
	r = &near__rcu.records[token - near__rcu.unopened];
	if (__atomic_load_n(&r->domain, __ATOMIC_RELAXED) != d)
		near__die("near_rcu_exit: this section has ended before, or is one of another "
			  "domain");
	token = r->token;
	__atomic_store_n(&r->tid, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&r->domain, NULL, __ATOMIC_RELEASE);
	return token;
}

static void section_report(const struct near__rcu_record *r, const char *what, bool stop)
{
	char line[200];

	snprintf(line, sizeof(line), "%s: thread %u is in a section, begun by %p", what,
		 __atomic_load_n(&r->tid, __ATOMIC_RELAXED),
		 __atomic_load_n(&r->site, __ATOMIC_RELAXED));
	if (stop)
		near__die(line);
	near__warn(line);
}

/* d: NULL for all domains. tid: 0 for all threads. */
static void section_find(const struct near_rcu *d, uint32_t tid, const char *what, bool stop)
{
	for (unsigned i = 0; near__rcu.records && i < RECORDS; i++) {
		const struct near__rcu_record *r = &near__rcu.records[i];
		const struct near_rcu *domain = __atomic_load_n(&r->domain, __ATOMIC_ACQUIRE);

		if (domain && (!d || domain == d) &&
		    (!tid || __atomic_load_n(&r->tid, __ATOMIC_RELAXED) == tid))
			section_report(r, what, stop);
	}
}

void near__rcu_check_records(const struct near_rcu *d, const char *what)
{
	if (near__rcu_checks())
		section_find(d, rcu_this_thread(), what, true);
}

void near__rcu_report_records(const struct near_rcu *d)
{
	section_find(d, 0, "near_rcu: a grace period waits", false);
}

void near__rcu_drop_records(void)
{
	for (unsigned i = 0; near__rcu.records && i < RECORDS; i++)
		near__rcu.records[i].domain = NULL;
}
