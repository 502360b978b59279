/* SPDX-License-Identifier: MIT */
/* Signals that arrive while a fork waits for locks, or releases them; their handlers fork, too. And
 * while a signal handler within an operation waits for the lock of another object.
 *
 * Linked with --wrap=pthread_atfork: the library's handlers are called here as fork calls them, as
 * not every C library allows another fork within its own. */
#include "atfork.h"
#include "forks.h"

#include <nearcpu/detail/arch/arch.h>
#include NEAR__ARCH_TRAP

/* ---- the library's fork handlers ---- */

/* Sanitizers have handlers, too, before all others. */
static unsigned library;

__attribute__((constructor(101))) static void skip_sanitizers(void)
{
	library = atfork_n;
}

/* Glibc's lock of its list of streams is taken by two stores; a fork between them, within glibc's
 * own as within ours, waits for its own thread. fork_test.c has the list. */
void __wrap_near__streams_lock(void);
void __wrap_near__streams_unlock(void);
void __wrap_near__streams_reset_in_child(void);

void __wrap_near__streams_lock(void)
{
}

void __wrap_near__streams_unlock(void)
{
}

void __wrap_near__streams_reset_in_child(void)
{
}

/* ---- a signal comes while a fork waits ---- */

static bool served;

static void serve(int signal)
{
	add_one(NULL);
	__atomic_store_n(&served, true, SEQ_CST);
	fork_once();
}

/* in_section: as if a signal handler forked that interrupted one. */
static void *wait_as_fork(void *in_section)
{
	unsigned long seen = 0;

	if (in_section)
		seen = take(lock_of_object());
	atfork[library].prepare();
	atfork[library].parent();
	if (in_section)
		release(lock_of_object(), seen);
	return NULL;
}

static void signal_while_forking(void *in_section)
{
	unsigned long seen = take(last);
	pthread_t thread;

	signal(SIGUSR1, serve);
	thread = unit_start(wait_as_fork, in_section);
	wait_for_fork(last, 0);
	pthread_kill(thread, SIGUSR1);
	unit_await(&served);
	usleep(20000); /* the handler's fork, too, has to wait */
	release(last, seen);
	unit_join(thread);
	CHECK(object[0] == 1);
	fork_once();
}

static void signals_are_served(void **state)
{
	unit_in_child(signal_while_forking, NULL);
	unit_in_child(signal_while_forking, &served);
}

/* ---- a signal comes while a handler waits ---- */

static void note(int signal)
{
	__atomic_store_n(&served, true, SEQ_CST);
}

/* As if it were in a handler that interrupted a section. */
static void *wait_as_handler(void *unused)
{
	unsigned long seen = take(first);

	add_one(NULL);
	release(first, seen);
	return unused;
}

static void signal_while_waiting(void *unused)
{
	unsigned long seen = take(lock_of_object());
	pthread_t thread;

	signal(SIGUSR1, note);
	thread = unit_start(wait_as_handler, unused);
	wait_for_sleepers(1);
	pthread_kill(thread, SIGUSR1);
	unit_await(&served);
	release(lock_of_object(), seen);
	unit_join(thread);
	CHECK(object[0] == 1 && !(first->word & 1));
}

UNIT_TEST(waiting_handlers_are_interrupted, unit_in_child(signal_while_waiting, NULL))

/* ---- forks at any step of a fork's handlers ---- */

static unsigned steps, every, forks;
static bool begun, ended, stop;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	if (!begun || ended) {
		near__trap_set_step(context, !begun);
		begun = true;
	} else if (++steps % every == 0) {
		fork_once();
		forks++;
	}
}

static void fork_within(void (*handler)(void), unsigned forks_every)
{
	begun = ended = false;
	every = forks_every * (unit_slow() ? 8 : 1);
	near__trap_call_handler();
	handler();
	ended = true;
	near__trap_call_handler();
}

static void *add_always(void *unused)
{
	while (!__atomic_load_n(&stop, SEQ_CST))
		add_one(NULL);
	return unused;
}

static void fork_within_fork(void *unused)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	pthread_t thread = unit_start(add_always, unused);

	sigaction(SIGTRAP, &action, NULL);
	fork_within(atfork[library].prepare, 97);
	fork_within(atfork[library].parent, 53);
	fork_within(atfork[library].prepare, 101);
	fork_within(atfork[library].child, 59);
	__atomic_store_n(&stop, true, SEQ_CST);
	unit_join(thread);
	CHECK(forks > (unit_slow() ? 5 : 50));
	fork_once();
}

static void handlers_fork_within_fork(void **state)
{
	if (NEAR__TRAP_STEPS && !unit_emulated() && !UNIT_SANITIZED)
		unit_in_child(fork_within_fork, NULL);
}

int main(void)
{
	find_object();
	return UNIT_TESTS(signals_are_served, waiting_handlers_are_interrupted,
			  handlers_fork_within_fork);
}
