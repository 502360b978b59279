/* SPDX-License-Identifier: MIT */
/* The kernel counts its aborts (tracepoint rseq:rseq_ip_fixup, by perf); the program counts how
 * often it arrived at an abort handler. The two agree: no abort goes unseen, and none is made
 * up. */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include <nearcpu/percpu.h>

#include "live.h"
#include "team.h"

#define THREADS 6
#define TRACING "/sys/kernel/tracing"

/* ---- the kernel's count ---- */

static int read_id(void)
{
	FILE *f = fopen(TRACING "/events/rseq/rseq_ip_fixup/id", "re");
	int id = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%d", &id) != 1)
		id = -1;
	fclose(f);
	return id;
}

/* Where tracefs is not mounted: a child mounts it for itself alone, in a mount namespace of its
 * own. */
static int read_id_in_child(void)
{
	int ends[2], id = -1;
	pid_t child;

	if (pipe(ends))
		return -1;
	child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWNS) == 0 &&
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		    mount("tracefs", TRACING, "tracefs", 0, NULL) == 0)
			id = read_id();
		_exit(write(ends[1], &id, sizeof(id)) != sizeof(id));
	}
	close(ends[1]);
	if (read(ends[0], &id, sizeof(id)) != sizeof(id))
		id = -1;
	close(ends[0]);
	unit_wait(child, NULL);
	return id;
}

/* Counts for this thread and those that it starts. */
static int counter;

static int open_counter(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr), .inherit = 1, .disabled = 1};
	int id = read_id();

	id = id > 0 ? id : read_id_in_child();
	if (id <= 0)
		return -1;
	attr.config = (uint64_t)id;
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* ---- the program's count ---- */

enum tried { ABORTED = NEAR_SEQ_FAILED, DONE = NEAR_SEQ_COMMITTED, CLOSED };

/* Long, so that aborts often hit it. Only an abort leads to near_failed. */
__attribute__((noinline)) static enum tried try_add(uint64_t *p)
{
	uint64_t at, v;

	return NEAR_SEQ(
		NEAR_OFFSET_UNCHECKED(at)
		NEAR__BRANCH_MEM4X_NE(p_arena, at, 1, CLOSED)
		NEAR_ADD(at, p)
		NEAR_LOAD8(v, at, 0)
		NEAR_ADD_CONST(v, 1)
		NEAR_MUL(v, one) NEAR_MUL(v, one) NEAR_MUL(v, one) NEAR_MUL(v, one)
		NEAR_MUL(v, one) NEAR_MUL(v, one) NEAR_MUL(v, one) NEAR_MUL(v, one)
		NEAR_MUL(v, one) NEAR_MUL(v, one) NEAR_MUL(v, one) NEAR_MUL(v, one)
		NEAR_COMMIT8(v, at, 0),
		NEAR_OUT(at, v), NEAR_IN(NEAR_OBJECT(p), (one, 1)), CLOSED);
}

#define ENOUGH 1000 /* aborts */

static struct {
	void *p;
	uint64_t added, aborted;
} all;

static void add(unsigned number)
{
	uint64_t added = 0, aborted = 0;

	near_slot(); /* live from here on */
	while (team_continues()) {
		enum tried tried = try_add(all.p);

		if (tried == CLOSED)
			near_slot_open(all.p);
		added += tried == DONE;
		aborted += tried == ABORTED;
		if (aborted % 64 == 63) {
			__atomic_fetch_add(&all.aborted, aborted, __ATOMIC_RELAXED);
			aborted = 0;
		}
	}
	__atomic_fetch_add(&all.added, added, __ATOMIC_RELAXED);
	__atomic_fetch_add(&all.aborted, aborted, __ATOMIC_RELAXED);
}

static uint64_t sum(void)
{
	uint64_t total = 0;

	for (unsigned s = 0; near_percpu_next(all.p, &s); s++)
		total += *(uint64_t *)near_percpu_at(all.p, s);
	return total;
}

/* ---- both ---- */

static void on_alarm(int signal)
{
}

/* Signals go to the threads that run, since this one blocks them. */
static void run_threads(void)
{
	struct team team;
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	ioctl(counter, PERF_EVENT_IOC_ENABLE, 0);
	team_start(&team, THREADS, add);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	unit_timer(100, on_alarm);
	while (__atomic_load_n(&all.aborted, __ATOMIC_RELAXED) < ENOUGH)
		usleep(1000);
	unit_timer(0, NULL);
	team_stop(&team);
	ioctl(counter, PERF_EVENT_IOC_DISABLE, 0);
}

static void the_kernel_and_the_program_agree(void **state)
{
	uint64_t aborts;

	assert_int_equal(near_percpu_alloc(sizeof(uint64_t), sizeof(uint64_t), &all.p), 0);
	run_threads();
	assert_int_equal(read(counter, &aborts, sizeof(aborts)), sizeof(aborts));
	print_message("%llu aborts in %llu adds\n", (unsigned long long)aborts,
		      (unsigned long long)all.added);
	assert_int_equal(aborts, all.aborted);
	assert_int_equal(sum(), all.added);
	near_percpu_free(all.p);
}

static const char *nothing_to_count(void)
{
	counter = open_counter();
	if (!is_live())
		return "no sequences";
	return counter < 0 ? "the kernel's count cannot be read" : NULL;
}

UNIT_MAIN_UNLESS(nothing_to_count(), the_kernel_and_the_program_agree)
