/* SPDX-License-Identifier: MIT */
/* What can be missing: system calls, files, keys, address space. The library reports what, and
 * works. Each test runs in a child that has not used the library yet. */
#include "filter.h"
#include "ground/topology.h"
#include "live.h"
#include "use_all.h"

static void use_with_reason(const char *why)
{
	struct near_rseq_status status = status_now();

	CHECK(!status.live && (!NEAR__HAS_SEQ || strstr(status.why, why)));
	use_all(NULL);
}

static void use_without_rseq(void *unused)
{
	if (!filter_out(NEAR__SYS_RSEQ, ENOSYS))
		_exit(77);
	use_with_reason("no rseq");
}

/* As containers do it: the filter is there before the program, so that the C library cannot
 * register its threads either. */
static void use_where_rseq_is_denied(void *unused)
{
	if (!filter_out(NEAR__SYS_RSEQ, EPERM))
		_exit(77);
	execl("/proc/self/exe", "missing_test", "denied", NULL);
	CHECK(!"exec");
}

static void use_without_membarrier(void *unused)
{
	if (!filter_out(NEAR__SYS_MEMBARRIER, ENOSYS))
		_exit(77);
	use_with_reason("no membarrier");
}

/* The vDSO still answers; the raw system call does not. */
static void use_without_getcpu(void *unused)
{
	if (!filter_out(SYS_getcpu, ENOSYS))
		_exit(77);
	use_all(unused);
}

/* A kernel list cannot be read: the size of the kernel's masks is taken. */
static void use_without_files(void *unused)
{
	struct rlimit none = {0, 0};

	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	CHECK(near_cpus() >= near__topology_cpus());
	CHECK(near_cpus() > 0);
	use_all(unused);
}

/* Threads that the library registers need a pthread key; without one they are not live. */
static void use_without_keys(void *unused)
{
	struct near_rseq_status status;
	pthread_key_t key;

	while (pthread_key_create(&key, NULL) == 0)
		;
	status = status_now();
	CHECK(!status.own_area);
	if (!near__process.usable || !status.live)
		CHECK(!strstr(status.why, "somebody else"));
	use_all(unused);
}

static void what_is_missing_is_named(void **state)
{
	static void (*const uses[])(void *) = {use_without_rseq,       use_where_rseq_is_denied,
					       use_without_membarrier, use_without_getcpu,
					       use_without_files,      use_without_keys};

	if (unit_emulated())
		skip();
	unsetenv("NEAR_CONF");
	for (size_t i = 0; i < LENGTH(uses); i++) {
		int status = unit_wait(unit_fork(uses[i], NULL), NULL);

		if (status != 77)
			assert_int_equal(status, 0);
	}
}

UNIT_CHILD(without_address_space_the_error_is_enomem, unit_emulated() || UNIT_THREAD_SANITIZER)
{
	struct rlimit limit, none = {0, 0};
	struct near_counter c;

	CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
	none.rlim_max = limit.rlim_max;
	CHECK(setrlimit(RLIMIT_AS, &none) == 0);
	KEEPS_ERRNO(CHECK(near_counter_init(&c) == -ENOMEM));
	CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	use_all(unused);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "denied") == 0) {
		use_with_reason("filter (seccomp)");
		return 0;
	}
	return UNIT_TESTS(what_is_missing_is_named, without_address_space_the_error_is_enomem);
}
