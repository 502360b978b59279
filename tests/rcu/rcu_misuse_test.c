/* SPDX-License-Identifier: MIT */
/* near_rcu: misuse stops the program. */
#include "rcus.h"

static struct near_rcu d, other;

static int make(void **state)
{
	assert_int_equal(near_rcu_init(&d, NULL), 0);
	assert_int_equal(near_rcu_init(&other, NULL), 0);
	return 0;
}

static int destroy(void **state)
{
	near_rcu_destroy(&other);
	near_rcu_destroy(&d);
	return 0;
}

/* The statement that follows, in a child, must stop it after a line that begins like this, and goes
 * on with an address. */
static bool is_dying_at(int end, const char *begins)
{
	char text[4096], expected[256];
	int signal = 0;

	if (end < 0)
		return true;
	snprintf(expected, sizeof(expected), "nearcpu: %s begun by 0x", begins);
	assert_int_equal(unit_wait_captured(end, text, sizeof(text), &signal), -1);
	assert_int_equal(signal, SIGABRT);
	text[strlen(expected) < sizeof(text) ? strlen(expected) : 0] = '\0';
	assert_string_equal(text, expected);
	return false;
}
#define DIES_AT(begins)                                                                            \
	for (int unit_end = unit_fork_captured(); is_dying_at(unit_end, begins); _exit(0))

/* In a child: as NEAR_CONF=rcu_check:1. */
static void check_tokens(void)
{
	near__process.conf.rcu_check = 1;
	CHECK(near_rcu_init(&d, NULL) == 0 && near_rcu_init(&other, NULL) == 0);
}

static void nothing(struct near_rcu_head *head)
{
}

static void an_unlock_without_a_lock(void **state)
{
	static const char line[] =
		"near_rcu_read_unlock: this thread is in no section of the domain";

	DIES(line)
		near_rcu_read_unlock(&d);
	DIES(line) {
		near_rcu_read_lock(&d);
		near_rcu_read_unlock(&d);
		near_rcu_read_unlock(&d);
	}
	DIES(line) {
		near_rcu_read_lock(&d);
		near_rcu_read_unlock(&other);
	}
}

#define WITHIN ": within a section of this domain,"

static void a_wait_within_a_section(void **state)
{
	struct near_rcu_head head;

	DIES_AT("near_rcu_synchronize" WITHIN)
	{
		near_rcu_read_lock(&d);
		near_rcu_synchronize(&d);
	}
	DIES_AT("near_rcu_synchronize_lazy" WITHIN)
	{
		near_rcu_read_lock(&d);
		near_rcu_read_lock(&d);
		near_rcu_read_unlock(&d);
		near_rcu_synchronize_lazy(&d);
	}
	DIES_AT("near_rcu_wait" WITHIN)
	{
		near_rcu_read_lock(&d);
		near_rcu_wait(&d, 0);
	}
	DIES_AT("near_rcu_barrier" WITHIN)
	{
		near_rcu_read_lock(&d);
		near_rcu_barrier(&d);
	}
	DIES_AT("near_rcu_call_bounded" WITHIN)
	{
		near_rcu_read_lock(&d);
		near_rcu_call_bounded(&d, &head, nothing, 1, 100);
	}
	DIES_AT("near_rcu_destroy" WITHIN)
	{
		near_rcu_read_lock(&d);
		near_rcu_destroy(&d);
	}
}

static void *end_within(void *unused)
{
	near_rcu_read_lock(&d);
	return unused;
}

static pthread_key_t key;

static void read_in_destructor(void *unused)
{
	near_rcu_read_lock(&d);
	near_rcu_read_unlock(&d);
}

static void *set_key(void *unused)
{
	near_rcu_read_lock(&d);
	near_rcu_read_unlock(&d);
	pthread_setspecific(key, &key);
	return unused;
}

/* Without the thread's number. */
static void a_thread_that_ends_within_a_section(void **state)
{
	char text[4096];
	int signal = 0, end = unit_fork_captured();
	unsigned tid;
	void *site;

	if (end < 0) {
		unit_join(unit_start(end_within, NULL));
		_exit(0);
	}
	assert_int_equal(unit_wait_captured(end, text, sizeof(text), &signal), -1);
	assert_int_equal(signal, SIGABRT);
	assert_int_equal(sscanf(text,
				"nearcpu: near_rcu: thread %u ends within a section, begun by %p",
				&tid, &site),
			 2);
	assert_true((uintptr_t)site - (uintptr_t)end_within < 256);
	/* Destructors may read. */
	assert_int_equal(pthread_key_create(&key, read_in_destructor), 0);
	unit_join(unit_start(set_key, NULL));
	pthread_key_delete(key);
	unit_join(unit_start(set_key, NULL));
}

static void a_section_that_ends_twice(void **state)
{
	static const char line[] = "near_rcu_exit: more sections have ended than begun";

	DIES(line) {
		near_rcu_token t = near_rcu_enter(&d);

		near_rcu_exit(&d, t);
		near_rcu_exit(&d, t); /* stops, if it was counted on a fallback slot */
		near_rcu_synchronize(&d);
		near_rcu_synchronize(&d);
	}
}

static void the_ninth_domain(void **state)
{
	DIES("near_rcu_read_lock: of more than eight domains; use near_rcu_enter") {
		struct near_rcu all[9];

		for (unsigned i = 0; i < 9; i++) {
			CHECK(near_rcu_init(&all[i], NULL) == 0);
			near_rcu_read_lock(&all[i]);
			near_rcu_read_unlock(&all[i]);
		}
	}
}

static void destroyed_twice(void **state)
{
	DIES("near_rcu_destroy: no domain, or destroyed before") {
		struct near_rcu copy = d;

		near_rcu_destroy(&d);
		d = copy;
		d.slots = other.slots;
		near_rcu_destroy(&d);
	}
}

static void barrier_of_callback(struct near_rcu_head *head)
{
	near_rcu_barrier(&d);
}

static void destroy_of_callback(struct near_rcu_head *head)
{
	near_rcu_destroy(&d);
}

static void callbacks_that_wait_for_callbacks(void **state)
{
	struct near_rcu_head head;

	DIES("near_rcu_barrier: called by a callback of the domain") {
		near_rcu_call(&d, &head, barrier_of_callback, 1);
		near_rcu_barrier(&d);
	}
	DIES("near_rcu_destroy: called by a callback of the domain") {
		near_rcu_call(&d, &head, destroy_of_callback, 1);
		near_rcu_barrier(&d);
	}
}

/* ---- with rcu_check:1 ---- */

static void *end_within_token(void *unused)
{
	near_rcu_enter(&d);
	near_rcu_read_lock(&other);
	near_rcu_read_unlock(&other);
	return unused;
}

static void checked_tokens(void **state)
{
	static const char ended[] = "near_rcu_exit: this section has ended before, or is one of "
				    "another domain";

	DIES(ended) {
		near_rcu_token t;

		check_tokens();
		t = near_rcu_enter(&d);
		near_rcu_exit(&d, t);
		near_rcu_exit(&d, t);
	}
	DIES(ended) {
		check_tokens();
		near_rcu_exit(&other, near_rcu_enter(&d));
	}
}

/* The line names function, thread and site. */
static void dies_in_section(void (*run)(void *), const char *function)
{
	char text[4096], format[256];
	unsigned tid;
	int signal = 0;
	void *site;

	assert_int_equal(unit_capture(run, NULL, text, sizeof(text), &signal), -1);
	assert_int_equal(signal, SIGABRT);
	snprintf(format, sizeof(format), "nearcpu: %s: thread %%u is in a section, begun by %%p",
		 function);
	assert_int_equal(sscanf(text, format, &tid, &site), 2);
}

static void synchronize_within_token(void *unused)
{
	check_tokens();
	near_rcu_enter(&d);
	near_rcu_synchronize(&d);
}

static void thread_within_token(void *unused)
{
	check_tokens();
	unit_join(unit_start(end_within_token, NULL));
}

static void checked_sections(void **state)
{
	dies_in_section(synchronize_within_token, "near_rcu_synchronize");
	dies_in_section(thread_within_token, "near_rcu: the end of a thread");
}

/* More than can be recorded. */
UNIT_CHILD(many_checked_sections, false)
{
	static near_rcu_token t[10100];

	check_tokens();
	for (unsigned i = 0; i < LENGTH(t); i++)
		t[i] = near_rcu_enter(&d);
	near_rcu_synchronize(&other);
	CHECK(rcu_now(&d).readers == LENGTH(t));
	for (unsigned i = 0; i < LENGTH(t); i++)
		near_rcu_exit(&d, t[i]);
	near_rcu_synchronize(&d);
	CHECK(rcu_now(&d).readers == 0);
	near_rcu_destroy(&d);
}

UNIT_MAIN_EACH(make, destroy, an_unlock_without_a_lock, a_wait_within_a_section,
	       a_thread_that_ends_within_a_section, a_section_that_ends_twice, the_ninth_domain,
	       destroyed_twice, callbacks_that_wait_for_callbacks, checked_tokens, checked_sections,
	       many_checked_sections)
