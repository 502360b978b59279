/* SPDX-License-Identifier: MIT */
/* Signal handlers that use atomic objects while the code they interrupt, and other threads, use the
 * same ones, others in the same line, wider and narrower ones, under signals from timers and from
 * another thread, with handlers in handlers. No update is lost, and every thread ends. Where
 * several threads have handlers, these use one object: two that wait for each other's thread would
 * wait for ever (near_atomic(7), LIMITS). */
#include "team.h"
#include "words.h"
#include "atomic/table.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define THREADS 3u
#define DEPTH 6
#define ENOUGH 100 /* handlers */

call_value library_fetch_add_16(void *object, call_value value,
				int order) __asm__("__atomic_fetch_add_16");

/* All in the first four lines of a page, but `far`. */
static struct {
	uint64_t line[5];
	uint64_t head[3]; /* the wide object: from here to the end of the tail */
	uint64_t narrow[3];
	uint64_t tail[7];
	uint64_t beside[3]; /* shares the line of the tail */
	uint64_t token[5];
	call_value sixteen;
	unsigned char gap[1024];
	uint64_t far[8];
} all __attribute__((aligned(4096)));

enum { WIDE = sizeof(all.head) + sizeof(all.narrow) + sizeof(all.tail) };
_Static_assert(WIDE == 104, "no padding");

/* ---- what code and handlers do ---- */

enum { NARROW, WIDER, BESIDE, TOKEN, SIXTEEN, FAR, JOBS };

static uint64_t counts[JOBS]; /* how often each was done */
static uint64_t given, taken;

/* Leaves the narrow one in the middle as it is. */
static void add_to_wide(void)
{
	uint64_t old[WIDE / 8], new[WIDE / 8], value;

	call_load(WIDE, all.head, old, SEQ_CST);
	do {
		value = words_get(old, 3);
		words_get(old + 3, 3);
		CHECK(words_get(old + 6, 7) == value);
		words_set(new, WIDE / 8, value + 1);
		memcpy(new + 3, old + 3, sizeof(all.narrow));
	} while (!call_compare_exchange(WIDE, all.head, old, new, SEQ_CST, SEQ_CST));
}

static void exchange_token(void)
{
	static uint64_t last;
	uint64_t next = __atomic_add_fetch(&last, 1, SEQ_CST);

	__atomic_fetch_add(&taken, words_exchange(all.token, 5, next), SEQ_CST);
	__atomic_fetch_add(&given, next, SEQ_CST);
}

static void do_job(unsigned job)
{
	static const struct {
		uint64_t *object;
		size_t words;
	} plain[JOBS] = {
		[NARROW] = {all.narrow, 3}, [BESIDE] = {all.beside, 3}, [FAR] = {all.far, 8}};

	if (job == WIDER)
		add_to_wide();
	else if (job == TOKEN)
		exchange_token();
	else if (job == SIXTEEN)
		library_fetch_add_16(&all.sixteen, 1, SEQ_CST);
	else
		words_add(plain[job].object, plain[job].words);
	__atomic_fetch_add(&counts[job], 1, SEQ_CST);
}

static void check_sums(void)
{
	CHECK(words_get(all.narrow, 3) == counts[NARROW]);
	CHECK(words_get(all.head, 3) == counts[WIDER] && words_get(all.tail, 7) == counts[WIDER]);
	CHECK(words_get(all.beside, 3) == counts[BESIDE]);
	CHECK(words_get(all.token, 5) + taken == given);
	CHECK(all.sixteen == counts[SIXTEEN]);
	CHECK(words_get(all.far, 8) == counts[FAR]);
	CHECK(all.line[0] == 0 && all.line[4] == 0);
}

/* ---- signals ---- */

/* No real-time signal: these queue, and their handlers would fill the stack. */
static const int signals[] = {SIGUSR1, SIGUSR2, SIGVTALRM};
static struct team team;
static struct {
	bool done;
	bool struck; /* signals are sent to it */
	uint64_t random;
} workers[THREADS];

static __thread uint64_t *my_random;
static __thread int depth;
static unsigned rounds, jobs, handler_jobs;
static unsigned long handled, nested;

static void handle(int signal)
{
	int saved_errno = errno;

	if (depth == DEPTH || !my_random)
		return;
	depth++;
	do_job(unit_random(my_random) % handler_jobs);
	__atomic_fetch_add(&handled, 1, SEQ_CST);
	if (depth > 1)
		__atomic_fetch_add(&nested, 1, SEQ_CST);
	depth--;
	errno = saved_errno;
}

/* Signals for the calling thread, each at its own pace. */
static void start_timers(timer_t *timers)
{
	for (unsigned i = 0; i < LENGTH(signals); i++) {
		struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
					 .sigev_signo = signals[i]};
		long ns = (70000 + 33000 * (long)i) * (unit_emulated() ? 100
						       : unit_slow()   ? 30
								       : 1);
		struct itimerspec often = {{0, ns}, {0, ns}};

		event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
		CHECK(timer_create(CLOCK_MONOTONIC, &event, &timers[i]) == 0);
		timer_settime(timers[i], 0, &often, NULL);
	}
}

/* ThreadSanitizer holds signals back, and runs their handlers later with all signals blocked. Where
 * it does so within a handler, it takes that state for the thread's own, and leaves it so. */
static void unblock_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
}

static void work(unsigned me)
{
	uint64_t random = me;
	timer_t timers[3];

	my_random = &workers[me].random;
	*my_random = me + 100;
	pin(me);
	if (workers[me].struck)
		start_timers(timers);
	for (unsigned i = 0; i < rounds || __atomic_load_n(&handled, SEQ_CST) < ENOUGH; i++) {
		do_job(unit_random(&random) % jobs);
		if (UNIT_SANITIZED && workers[me].struck)
			unblock_signals();
	}
	__atomic_store_n(&workers[me].done, true, SEQ_CST);
	for (unsigned i = 0; workers[me].struck && i < LENGTH(signals); i++)
		timer_delete(timers[i]);
}

/* Strikes those that live, from outside. */
static void strike(void)
{
	uint64_t random = 9;
	unsigned living;

	do {
		living = 0;
		for (unsigned t = 0; t < THREADS; t++) {
			if (__atomic_load_n(&workers[t].done, SEQ_CST))
				continue;
			living++;
			if (workers[t].struck)
				pthread_kill(team.members[t].thread,
					     signals[unit_random(&random) % LENGTH(signals)]);
		}
		usleep(unit_slow() ? 5000 : 20);
	} while (living);
}

static unsigned long nested_operations(void)
{
	unsigned long n = 0;

	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++)
		n += near__atomic_locks.locks[i].nested;
	return n;
}

static void run_all(void *unused)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_NODEFER | SA_RESTART};

	for (unsigned i = 0; i < LENGTH(signals); i++)
		sigaction(signals[i], &action, NULL);
	team_start(&team, THREADS, work);
	strike();
	team_join(&team);
	check_sums();
	printf("%lu handlers, %lu of them in others, %lu within sections\n", handled, nested,
	       nested_operations());
	fflush(stdout);
	/* Short runs may not have any. */
	CHECK(nested_operations() > 0 || unit_slow() || UNIT_SANITIZED);
}

static void run_signals(bool all_struck, unsigned n_jobs, unsigned n_handler_jobs)
{
	for (unsigned t = 0; t < THREADS; t++)
		workers[t].struck = all_struck || t == 0;
	jobs = n_jobs;
	handler_jobs = n_handler_jobs;
	rounds = unit_scale(400000);
	unit_in_child(run_all, NULL);
}

UNIT_TEST(handlers_of_one_thread, run_signals(false, JOBS, JOBS))
UNIT_TEST(handlers_of_all_threads_on_one_object, run_signals(true, 1, 1))
UNIT_TEST(handlers_of_all_threads, run_signals(true, JOBS, 1))

int main(void)
{
	/* A thread that did not run for a while runs all its handlers, one within the other. */
	pthread_attr_t stack;

	pthread_attr_init(&stack);
	pthread_attr_setstacksize(&stack, 8 << 20);
	pthread_setattr_default_np(&stack);
	return UNIT_TESTS(handlers_of_one_thread, handlers_of_all_threads_on_one_object,
			  handlers_of_all_threads);
}
