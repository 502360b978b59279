/* SPDX-License-Identifier: MIT */
/* The reason as text is that of the calling thread's last failure: of regions, shared ids and
 * tracing. */
#include "region/regions.h"

#include <nearcpu/shared_ids.h>
#include <nearcpu/trace.h>

static struct near_region region;
static struct near_shared_ids ids;
static pthread_barrier_t both;

static void fails_by_name(struct near_region *r)
{
	struct near_region_object o = counter_named("no name", NULL);

	CHECK(define(r, &o) == -EINVAL);
}

static void fails_by_labels(struct near_region *r)
{
	struct near_region_object o = counter_named("name", "no labels");

	CHECK(define(r, &o) == -EINVAL);
}

static bool region_has(const struct near_region *r, const char *part)
{
	const char *reason;

	KEEPS_ERRNO(reason = near_region_error(r));
	return reason && strstr(reason, part);
}

/* ---- threads ---- */

static void wait_for_both(void)
{
	pthread_barrier_wait(&both);
}

/* Both threads fail before either of them reads its reason. */
static void in_two_threads(void *(*first)(void *), void *(*second)(void *))
{
	pthread_t thread;

	CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
	thread = unit_start(first, NULL);
	second(NULL);
	unit_join(thread);
	pthread_barrier_destroy(&both);
}

static void *opens_what_is_not_there(void *unused)
{
	struct near_region r;

	for (unsigned i = 0; i < unit_scale(200); i++) {
		CHECK(near_region_open(&r, "/nonexistent/region", NULL) == -ENOENT);
		wait_for_both();
		CHECK(region_has(&r, "No such file or directory"));
		wait_for_both();
	}
	return NULL;
}

static void *opens_what_is_no_region(void *unused)
{
	struct near_region r;

	for (unsigned i = 0; i < unit_scale(200); i++) {
		CHECK(near_region_open(&r, path, NULL) == -EBADMSG);
		wait_for_both();
		CHECK(region_has(&r, "no region"));
		wait_for_both();
	}
	return NULL;
}

static void opens_fail_in_two_threads(void **state)
{
	FILE *f = fopen(path, "w");

	CHECK(f && fputs("text", f) >= 0 && fclose(f) == 0);
	in_two_threads(opens_what_is_not_there, opens_what_is_no_region);
}

static void *has_no_name(void *unused)
{
	for (unsigned i = 0; i < unit_scale(200); i++) {
		fails_by_name(&region);
		wait_for_both();
		CHECK(region_has(&region, "a name has"));
		wait_for_both();
	}
	return NULL;
}

static void *has_no_labels(void *unused)
{
	for (unsigned i = 0; i < unit_scale(200); i++) {
		fails_by_labels(&region);
		wait_for_both();
		CHECK(region_has(&region, "labels are"));
		wait_for_both();
	}
	return NULL;
}

static void objects_of_one_region_fail_in_two_threads(void **state)
{
	region = opened_region(&defaults);
	in_two_threads(has_no_name, has_no_labels);
	near_region_close(&region);
}

static void *finds_no_id(void *unused)
{
	struct near_worker w = {0};

	CHECK(near_shared_ids_acquire(&ids, &w) == -EAGAIN);
	wait_for_both();
	CHECK(strcmp(near_shared_ids_error(&ids), "all ids are in use") == 0);
	CHECK(!near_region_error(&region) && !near_trace_error());
	return NULL;
}

static void *does_not_trace(void *unused)
{
	CHECK(near_trace_snapshot("/nonexistent/x") == -ENOENT);
	wait_for_both();
	CHECK(strcmp(near_trace_error(), "the process does not trace") == 0);
	CHECK(!near_region_error(&region) && !near_shared_ids_error(&ids));
	return NULL;
}

static void ids_and_tracing_fail_in_two_threads(void **state)
{
	const struct near_shared_ids_options one = {.ids = 1};
	struct near_worker w = {0};

	region = opened_region(&defaults);
	CHECK(near_shared_ids_open(&ids, &region, "ids", NULL, &one) == 0);
	CHECK(near_shared_ids_acquire(&ids, &w) == 0);
	in_two_threads(finds_no_id, does_not_trace);
	near_shared_ids_release(&ids, &w);
	near_shared_ids_close(&ids);
	near_region_close(&region);
}

static void *has_no_reason(void *unused)
{
	CHECK(!near_region_error(&region) && !near_trace_error());
	return NULL;
}

static void a_new_thread_has_none(void **state)
{
	region = opened_region(&defaults);
	fails_by_name(&region);
	unit_join(unit_start(has_no_reason, NULL));
	near_region_close(&region);
}

/* ---- one thread ---- */

static void success_keeps_the_reason(void **state)
{
	struct near_region_object o = counter_named("name", NULL);
	struct near_region another;

	region = opened_region(&defaults);
	fails_by_labels(&region);
	CHECK(define(&region, &o) == 0);
	CHECK(near_region_open(&another, path, NULL) == 0);
	CHECK(near_trace_enable("*", NEAR_TRACE_DEBUG) >= 0);
	CHECK(region_has(&region, "labels are"));
	CHECK(!near_region_error(&another));
	/* What the other one fails for replaces it. */
	fails_by_name(&another);
	CHECK(region_has(&another, "a name has"));
	CHECK(!near_region_error(&region));
	near_region_close(&another);
	near_region_close(&region);
}

static void a_snapshot_of_tracing_keeps_the_reason_of_an_option(void **state)
{
	const struct near_trace_options bad = {.path = "/nonexistent/x"};

	CHECK(near_trace_start(&bad) < 0);
	CHECK(strcmp(near_trace_error(), "No such file or directory") == 0);
	CHECK(near_trace_enable("*", NEAR_TRACE_DEBUG) >= 0);
	CHECK(strcmp(near_trace_error(), "No such file or directory") == 0);
}

/* ---- children ---- */

static void a_child_of_fork_has_its_own(void **state)
{
	region = opened_region(&defaults);
	fails_by_name(&region);
	IN_CHILD() {
		CHECK(region_has(&region, "a name has"));
		fails_by_labels(&region);
		CHECK(region_has(&region, "labels are"));
	}
	CHECK(region_has(&region, "a name has"));
	near_region_close(&region);
}

static void a_child_of_vfork_leaves_its_parent_s(void **state)
{
	struct near_region_object o = counter_named("name", "no labels");
	int status;
	pid_t pid;

	if (!NEAR__HAS_SEQ)
		skip(); /* vfork is the C library's */
	region = opened_region(&defaults);
	fails_by_name(&region);
	pid = vfork();
	if (pid == 0)
		_exit(near_region_open_object(&region, &o) == -EINVAL ? 0 : 1);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(region_has(&region, "a name has"));
	near_region_close(&region);
}

REGION_MAIN(opens_fail_in_two_threads, objects_of_one_region_fail_in_two_threads,
	    ids_and_tracing_fail_in_two_threads, a_new_thread_has_none, success_keeps_the_reason,
	    a_snapshot_of_tracing_keeps_the_reason_of_an_option, a_child_of_fork_has_its_own,
	    a_child_of_vfork_leaves_its_parent_s)
