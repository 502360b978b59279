/* SPDX-License-Identifier: MIT */
/* The first use of the library in a process: in which context. Each test runs in
 * a child, since the main process must stay one that has not used the library. */
#include "use_all.h"

#include "counters.h"
#include "filter.h"
#include "live.h"
#include "team.h"

/* ---- the decision, stopped half-way ---- */

static struct {
	bool hold;   /* the next decision waits */
	bool inside; /* it does */
} decision;

unsigned __real_near__topology_cpus(void);
unsigned __wrap_near__topology_cpus(void);

/* Called while the library decides what the process does. */
unsigned __wrap_near__topology_cpus(void)
{
	while (__atomic_load_n(&decision.hold, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&decision.inside, true, __ATOMIC_RELEASE);
		sched_yield();
	}
	return __real_near__topology_cpus();
}

static void *decide(void *unused)
{
	CHECK(near_slots() > 0);
	return NULL;
}

static pthread_t start_decision(void)
{
	pthread_t thread;

	decision.hold = true;
	thread = unit_start(decide, NULL);
	while (!__atomic_load_n(&decision.inside, __ATOMIC_ACQUIRE))
		sched_yield();
	return thread;
}

static void *end_decision_soon(void *unused)
{
	usleep(20000);
	__atomic_store_n(&decision.hold, false, __ATOMIC_RELEASE);
	return NULL;
}

/* Later, with more threads, it would take 20 ms. */
static void the_process_is_registered_before(void **state)
{
	long commands = syscall(SYS_membarrier, 0, 0, 0);

	if (!NEAR__HAS_SEQ || commands < 0 || !(commands & 1 << 7))
		skip();
	assert_int_equal(syscall(SYS_membarrier, 1 << 7, 0, 0), 0); /* EPERM without */
}

static void the_first_use_may_be_any(void **state)
{
	unit_in_child(use_all, NULL);
}

/* ---- errno ---- */

#define CALL(name, ...)                                                                            \
	static void call_##name(void)                                                              \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}
CALL(cpu, CHECK(near_cpu() < near_cpus()))
CALL(cid, CHECK(near_cid() < near_cpus()))
CALL(node, near_node())
CALL(slot, CHECK(near_slot() < near_slots()))
CALL(slots, CHECK(near_slots() > 0))
CALL(cpus, CHECK(near_cpus() > 0))
CALL(status, status_now())
CALL(alloc, void *p; CHECK(near_percpu_alloc(8, 8, &p) == 0))
CALL(init, struct near_counter c; CHECK(near_counter_init(&c) == 0); near_counter_add(&c, 1))
CALL(create, struct near_shared_counters s; CHECK(counters_open(&s, 1) == 0);
     near_shared_counters_add(&s, 0, 1))

static void errno_is_left_alone(void **state)
{
	static void (*calls[])(void) = {call_cpu,  call_cid,    call_node,  call_slot, call_slots,
					call_cpus, call_status, call_alloc, call_init, call_create};

	for (size_t i = 0; i < LENGTH(calls); i++)
		IN_CHILD() {
			/* Nothing in /sys, to make the decision fail. */
			if (!unit_emulated())
				filter_out(SYS_openat, ENOENT);
			KEEPS_ERRNO(calls[i]());
		}
}

/* ---- signal handlers ---- */

static volatile sig_atomic_t handled;

static void handle(int signal)
{
	int saved = errno;

	errno = UNIT_ERRNO;
	call_cpu();
	call_slot();
	near_cid();
	near_node();
	CHECK(errno == UNIT_ERRNO);
	errno = saved;
	handled++;
}

UNIT_CHILD(the_first_use_may_be_in_a_handler, false)
{
	unit_on_signal(SIGUSR1, handle);
	raise(SIGUSR1);
	CHECK(handled == 1);
	use_all(unused);
}

static void *interrupt(void *arg)
{
	pthread_t decider = *(pthread_t *)arg;

	for (int i = 0; i < 20; i++) {
		CHECK(pthread_kill(decider, SIGUSR1) == 0);
		usleep(500);
	}
	return end_decision_soon(NULL);
}

/* The handler must neither hang nor see a number that changes later. */
UNIT_CHILD(a_handler_may_interrupt_the_decision, false)
{
	pthread_t decider, interrupter;

	unit_on_signal(SIGUSR1, handle);
	decider = start_decision();
	interrupter = unit_start(interrupt, &decider);
	unit_join(decider);
	unit_join(interrupter);
	CHECK(handled > 0);
	use_all(unused);
}

static void signals_may_come_at_any_time(void **state)
{
	for (unsigned i = 0; i < unit_scale(60); i++)
		IN_CHILD() {
			unit_timer(50, handle);
			use_all(NULL);
			unit_timer(0, NULL);
		}
}

/* ---- threads and children ---- */

#define THREADS 32
static unsigned seen_slots[THREADS];

static void note_slots(unsigned number)
{
	seen_slots[number] = near_slots();
	near_slot();
}

static void threads_agree(void **state)
{
	for (unsigned i = 0; i < unit_scale(20); i++)
		IN_CHILD() {
			team_run(THREADS, note_slots);
			for (size_t k = 0; k < THREADS; k++)
				CHECK(seen_slots[k] == near_slots());
		}
}

/* The thread that decides does not exist in the child. */
UNIT_CHILD(fork_may_come_during_the_decision, UNIT_THREAD_SANITIZER)
{
	pthread_t decider = start_decision(), ender = unit_start(end_decision_soon, NULL);
	pid_t child = fork();

	if (child == 0) {
		decision.hold = false;
		use_all(unused);
		_exit(0);
	}
	unit_join(ender);
	unit_join(decider);
	CHECK(unit_wait(child, NULL) == 0);
	use_all(unused);
}

UNIT_CHILD(the_first_use_may_be_in_a_vfork_child, false)
{
	int status;
	pid_t child = vfork();

	if (child == 0) {
		unsigned slots = near_slots();

		_exit(slots > 0 && near_slot() < slots ? 0 : 1);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	use_all(unused);
}

UNIT_MAIN(the_process_is_registered_before, the_first_use_may_be_any, errno_is_left_alone,
	  the_first_use_may_be_in_a_handler, a_handler_may_interrupt_the_decision,
	  signals_may_come_at_any_time, threads_agree, fork_may_come_during_the_decision,
	  the_first_use_may_be_in_a_vfork_child)
