/* SPDX-License-Identifier: MIT */
/* near_torture: passes what is right, finds what is wrong and says what it is, and leaves the
 * process as it was. */
#define _GNU_SOURCE
#include "unit.h"

#include <nearcpu/counter.h>
#include <nearcpu/stack.h>
#include <nearcpu/torture.h>
#include <sys/prctl.h>

#include "../examples/sequence.h"
#include "trap/mutants.h"

static bool is_live(void)
{
	struct near_rseq_status st;

	near_rseq_status(&st);
	return st.live;
}

/* Cross builds run their tests where nothing is live, and say so. */
static void need_live(void)
{
	if (!is_live())
		skip();
}

static bool has_two_cpus(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) > 1;
}

/* ---- what is right ---- */

static void *peak;
static uint64_t highest;

static void peak_setup(void *arg)
{
	(void)arg;
	near_percpu_free(peak);
	if (near_percpu_alloc(&peak, sizeof(uint64_t), sizeof(uint64_t)))
		abort();
	highest = 0;
}

static void report_peak(void *value)
{
	uint64_t n = *(uint64_t *)value;

	highest = n > highest ? n : highest;
	peak_raise(peak, n);
}

static uint64_t peak_now(void)
{
	uint64_t found = 0, *copy;

	for (unsigned s = 0; near_percpu_next(peak, &s); s++) {
		copy = near_percpu_at(peak, s);
		found = *copy > found ? *copy : found;
	}
	return found;
}

static const char *peak_check(void *arg)
{
	(void)arg;
	return peak_now() == highest ? NULL : "the highest value is lost";
}

static uint64_t peak_digest(void *arg)
{
	(void)arg;
	return peak_now();
}

static const void *peak_slot(void *arg, size_t *size)
{
	(void)arg;
	*size = sizeof(uint64_t);
	return near_percpu_at(peak, near_slot());
}

static uint64_t values[] = {5, 3, 9};
static const struct near_torture_rival peak_rivals[] = {{"lower", report_peak, &values[1], 0},
							{"higher", report_peak, &values[2], 0}};
static const struct near_torture peak_torture = {
	.setup = peak_setup,
	.run = report_peak,
	.rivals = peak_rivals,
	.n_rivals = LENGTH(peak_rivals),
	.check = peak_check,
	.digest = peak_digest,
	.slot = peak_slot,
	.arg = &values[0],
};

static void sequence_of_near_seq(void **state)
{
	struct near_torture_result r, again;

	(void)state;
	need_live();
	assert_int_equal(near_torture(&peak_torture, &r), 0);
	print_message("%u sequence, %u boundaries, %lu runs, %lu aborts, %lu migrated\n",
		      r.sequences, r.boundaries, r.runs, r.aborts, r.migrated);
	assert_string_equal(r.text, "");
	assert_int_equal(r.sequences, 1);
	assert_true(r.boundaries >= 8);
	/* Alone, again, four rivals; and each migration is an abort. */
	assert_true(r.aborts >= (r.boundaries - 1) * 6);
	assert_int_equal(r.most_aborts, NEAR_SEQ_TRIES);
	assert_int_equal(r.uncommitted, 0);
	assert_true(!has_two_cpus() || r.migrated > 0);
	assert_int_equal(near_torture(&peak_torture, &again), 0);
	assert_int_equal(again.boundaries, r.boundaries);
	assert_int_equal(again.runs, r.runs);
}

static struct near_counter counter;
static int64_t counted;

static void counter_setup(void *arg)
{
	(void)arg;
	if (near_counter_init(&counter))
		abort();
	counted = 0;
}

static void counter_run(void *n)
{
	counted += *(int64_t *)n;
	near_counter_add(&counter, *(int64_t *)n);
}

static const char *counter_check(void *arg)
{
	int64_t total = near_counter_read(&counter);

	(void)arg;
	near_counter_destroy(&counter);
	return total == counted ? NULL : "miscounted";
}

static void counter_of_the_library(void **state)
{
	static int64_t three = 3, five = -5;
	static const struct near_torture_rival rivals[] = {{"add", counter_run, &five, 0}};
	static const struct near_torture t = {
		.setup = counter_setup,
		.run = counter_run,
		.rivals = rivals,
		.n_rivals = 1,
		.check = counter_check,
		.arg = &three,
	};
	struct near_torture_result r;

	(void)state;
	need_live();
	assert_int_equal(near_torture(&t, &r), 0);
	assert_true(r.aborts > 0);
}

static struct near_stack stack;
static struct near_stack_node nodes[4], *taken[2];

static void stack_setup(void *arg)
{
	(void)arg;
	if (near_stack_init(&stack))
		abort();
	near_stack_push(&stack, &nodes[0]);
	near_stack_push(&stack, &nodes[1]);
	taken[0] = taken[1] = NULL;
}

static void stack_take(void *to)
{
	*(struct near_stack_node **)to = near_stack_pop(&stack);
}

static void stack_put(void *node)
{
	near_stack_push(&stack, node);
}

/* Two nodes, and the third one if it was pushed: each is taken once. */
static const char *stack_check(void *arg)
{
	unsigned found[LENGTH(nodes)] = {0};
	struct near_stack_node *n;

	(void)arg;
	for (unsigned i = 0; i < LENGTH(taken); i++)
		if (taken[i])
			found[taken[i] - nodes]++;
	while ((n = near_stack_pop(&stack)))
		found[n - nodes]++;
	near_stack_destroy(&stack);
	return found[0] == 1 && found[1] == 1 && found[2] <= 1 && !found[3] ? NULL
									    : "not each once";
}

static void stack_of_the_library(void **state)
{
	static const struct near_torture_rival rivals[] = {{"pop", stack_take, &taken[1], 0},
							   {"push", stack_put, &nodes[2], 0}};
	static const struct near_torture t = {
		.setup = stack_setup,
		.run = stack_take,
		.rivals = rivals,
		.n_rivals = LENGTH(rivals),
		.check = stack_check,
		.arg = &taken[0],
	};
	struct near_torture_result r;

	(void)state;
	need_live();
	assert_int_equal(near_torture(&t, &r), 0);
	assert_true(r.sequences >= 1);
}

/* ---- what is wrong ---- */

static struct {
	const struct mutant *mutant;
	const char *words;
	unsigned told; /* failures with these words */
	uint64_t added, seen;
} world;

/* By cpu, a migration certainly leads to another slot. */
static void mutant_setup(void *arg)
{
	(void)arg;
	near_slot();
	near__self.general = 1;
	mutant_object();
	world.added = world.seen = 0;
}

static void mutant_run(void *arg)
{
	(void)arg;
	world.added++;
	world.mutant->add(mutant_current());
}

static void sums(uint64_t *count, uint64_t *total)
{
	const struct mutant_copy *p = mutant_current();

	*count = *total = 0;
	for (unsigned s = 0; near_percpu_next(p, &s); s++) {
		*count += ((struct mutant_copy *)near_percpu_at(p, s))->count;
		*total += ((struct mutant_copy *)near_percpu_at(p, s))->total;
	}
}

static const char *mutant_check(void *arg)
{
	uint64_t count, total;

	(void)arg;
	sums(&count, &total);
	if (world.mutant == &mutant_two_stores && total != world.added)
		return "miscounted";
	return count == world.added ? NULL : "miscounted";
}

static void look(void *arg)
{
	uint64_t count, total;

	(void)arg;
	sums(&count, &total);
	world.seen = 1 + count + (total << 32);
}

static uint64_t mutant_digest(void *arg)
{
	uint64_t count, total;

	(void)arg;
	sums(&count, &total);
	return world.seen * 1000 + count;
}

static void close_gate(void *arg)
{
	struct mutant_copy *own = near_percpu_at(mutant_current(), near_slot());

	(void)arg;
	own->gate = NEAR__CLOSED;
}

static const void *mutant_slot(void *arg, size_t *size)
{
	(void)arg;
	*size = sizeof(struct mutant_copy);
	return near_percpu_at(mutant_current(), near_slot());
}

static void listen(void *arg, const char *failure)
{
	(void)arg;
	world.told += world.words && strstr(failure, world.words) != NULL;
}

static int torture_mutant(const struct mutant *m, const struct near_torture_rival *rivals,
			  unsigned n, bool with_digest, struct near_torture_result *r)
{
	struct near_torture t = {
		.setup = mutant_setup,
		.run = mutant_run,
		.rivals = rivals,
		.n_rivals = n,
		.check = mutant_check,
		.digest = with_digest ? mutant_digest : NULL,
		.slot = mutant_slot,
		.report = listen,
		.max_aborts = 200,
	};

	world.mutant = m;
	world.told = 0;
	return near_torture(&t, r);
}

static const struct near_torture_rival adds[] = {{"add", mutant_run, NULL, 0}};
static const struct near_torture_rival looks[] = {{"look", look, NULL, 0}};
static const struct near_torture_rival closers[] = {
	{"close", close_gate, NULL, NEAR_TORTURE_CLOSES}};

static void faults_are_named(void **state)
{
	static const struct {
		const struct mutant *mutant;
		const struct near_torture_rival *rival;
		const char *words;
	} faults[] = {
		{&mutant_two_stores, adds, "miscounted"},
		{&mutant_commit_not_last, adds, "miscounted"},
		{&mutant_commit_outside, adds, "miscounted"},
		{&mutant_early_store, looks, "neither order"},
		{&mutant_no_state_check, closers, "changed a slot that was closed"},
		{&mutant_index_outside, adds, "changed the slot that the thread had left"},
		{&mutant_unarmed, adds, "was not aborted, and went on to its commit"},
		{&mutant_unbounded, NULL, "tried without end"},
		{&mutant_fallback_in_slot, NULL, "the fallback changed the slot"},
	};
	struct near_torture_result r;

	(void)state;
	need_live();
	for (size_t i = 0; i < LENGTH(faults); i++) {
		if (faults[i].mutant == &mutant_index_outside && !has_two_cpus())
			continue;
		world.words = faults[i].words;
		assert_true(torture_mutant(faults[i].mutant, faults[i].rival,
					   faults[i].rival != NULL, faults[i].rival == looks,
					   &r) > 0);
		if (!world.told)
			print_error("%s: not found, but: %s\n", faults[i].words, r.text);
		assert_true(world.told > 0);
		assert_true(strncmp(r.text, "the sequence in ", 16) == 0 ||
			    strncmp(r.text, "all sequences aborted", 21) == 0);
	}
}

static void sound_one_passes_the_same(void **state)
{
	static const struct near_torture_rival all[] = {
		{"add", mutant_run, NULL, 0},
		{"close", close_gate, NULL, NEAR_TORTURE_CLOSES},
		{"add on a thread", mutant_run, NULL, NEAR_TORTURE_NOT_IN_HANDLER}};
	struct near_torture_result r;

	(void)state;
	need_live();
	assert_int_equal(torture_mutant(&mutant_sound, all, LENGTH(all), false, &r), 0);
	assert_int_equal(torture_mutant(&mutant_sound, looks, 1, true, &r), 0);
	assert_true(r.aborts > 0);
}

/* ---- what could not be tried ---- */

static void high_setup(void *arg)
{
	peak_setup(arg);
	report_peak(&values[2]);
}

/* What is never raised is never committed. */
static void sequence_that_is_left(void **state)
{
	struct near_torture t = peak_torture;
	struct near_torture_result r;
	int failures;

	(void)state;
	need_live();
	t.setup = high_setup;
	t.n_rivals = 0;
	t.slot = NULL;
	failures = near_torture(&t, &r);
	if (r.uncommitted) { /* where instructions must be seen to be known */
		assert_int_equal(failures, -ENOENT);
		assert_int_equal(r.uncommitted, 1);
	} else {
		assert_int_equal(failures, 0);
		assert_true(r.unreached > 0);
	}
}

/* at[0] += 1 commits, after far too much. */
static bool add_slowly(uint64_t *p, uint64_t one)
{
	uint64_t at, tmp;

	if (!NEAR_HAS_SEQ)
		return false;
	/* clang-format off */
	__asm__ volatile goto(
		NEAR_SEQ_BEGIN
		NEAR_SLOT(at, p)
		".rept 300\n\tnop\n\t.endr\n\t"
		NEAR_COMMIT_ADD8(one, at, 0)
		: NEAR_SEQ_OUT(tmp), [at] "=&r"(at)
		: NEAR_SEQ_IN, NEAR_SEQ_OBJECT(p, p), [one] "r"(one)
		: NEAR_SEQ_CLOBBER
		: near_failed);
	/* clang-format on */
	NEAR_SEQ_EDGE;
	return true;
near_failed:
	NEAR_SEQ_EDGE;
	return false;
}

static void run_slowly(void *arg)
{
	(void)arg;
	for (int i = 0; i < NEAR_SEQ_TRIES; i++)
		if (add_slowly(peak, 1))
			break;
}

static const char *fine(void *arg)
{
	(void)arg;
	return NULL;
}

static void sequence_that_is_too_long(void **state)
{
	const struct near_torture t = {
		.setup = peak_setup, .run = run_slowly, .check = fine, .report = listen};
	struct near_torture_result r;

	(void)state;
	need_live();
	assert_int_equal(near_torture(&t, &r), 1);
	assert_non_null(strstr(r.text, "too many instructions"));
}

static pid_t runs_in;
static unsigned in_thread, in_handler;

static void note_thread(void *arg)
{
	if (syscall(SYS_gettid) == runs_in)
		in_handler++;
	else
		in_thread++;
	report_peak(arg);
}

static void rivals_run_where_they_may(void **state)
{
	struct near_torture_rival rival = {"noted", note_thread, &values[1], 0};
	struct near_torture t = peak_torture;

	(void)state;
	need_live();
	runs_in = (pid_t)syscall(SYS_gettid);
	t.rivals = &rival;
	t.n_rivals = 1;
	t.digest = NULL;
	in_thread = in_handler = 0;
	assert_int_equal(near_torture(&t, NULL), 0);
	assert_true(in_thread > 0);
	assert_int_equal(in_handler, in_thread);
	in_thread = in_handler = 0;
	rival.flags = NEAR_TORTURE_NOT_IN_HANDLER;
	assert_int_equal(near_torture(&t, NULL), 0);
	assert_true(in_thread > 0);
	assert_int_equal(in_handler, 0);
	in_thread = in_handler = 0;
	rival.flags = NEAR_TORTURE_CLOSES;
	near_torture(&t, NULL);
	assert_int_equal(in_thread, 0);
	assert_true(in_handler > 0);
}

static void forgets_one(void *value)
{
	highest = *(uint64_t *)value + 1;
	peak_raise(peak, *(uint64_t *)value);
}

static void run_without_a_listener(void *unused)
{
	struct near_torture t = peak_torture;

	(void)unused;
	t.run = forgets_one;
	t.digest = NULL;
	CHECK(near_torture(&t, NULL) > 11);
}

static void ten_failures_are_shown(void **state)
{
	char text[8192];
	unsigned lines = 0;

	(void)state;
	need_live();
	assert_int_equal(unit_capture(run_without_a_listener, NULL, text, sizeof(text), NULL), 0);
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	assert_int_equal(lines, 11);
	assert_non_null(strstr(text, "near_torture: the sequence in "));
	assert_non_null(strstr(text, ": the highest value is lost\n"));
	assert_non_null(strstr(text, "\nnear_torture: and more\n"));
}

/* ---- errors ---- */

static void without_rseq(void **state)
{
	struct near_torture_result r;

	(void)state;
	if (is_live())
		skip();
	assert_int_equal(near_torture(&peak_torture, &r), -ENOSYS);
	assert_non_null(strstr(r.text, "no sequence is aborted here"));
	assert_int_equal(near_torture(&peak_torture, NULL), -ENOSYS);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void without_a_sequence(void **state)
{
	const struct near_torture t = {.setup = nothing, .run = nothing, .check = fine};
	struct near_torture_result r;

	(void)state;
	need_live();
	assert_int_equal(near_torture(&t, &r), -ENOENT);
	assert_non_null(strstr(r.text, "goes through no restartable sequence"));
}

static void incomplete(void **state)
{
	struct near_torture_rival odd = {"odd", report_peak, &values[0], 4};
	struct near_torture t = peak_torture;

	(void)state;
	t.setup = NULL;
	assert_int_equal(near_torture(&t, NULL), -EINVAL);
	t = peak_torture;
	t.run = NULL;
	assert_int_equal(near_torture(&t, NULL), -EINVAL);
	t = peak_torture;
	t.check = NULL;
	assert_int_equal(near_torture(&t, NULL), -EINVAL);
	t = peak_torture;
	t.rivals = NULL;
	assert_int_equal(near_torture(&t, NULL), -EINVAL);
	t = peak_torture;
	t.rivals = closers;
	t.n_rivals = 1;
	t.slot = NULL;
	assert_int_equal(near_torture(&t, NULL), -EINVAL);
	t = peak_torture;
	t.rivals = &odd;
	t.n_rivals = 1;
	assert_int_equal(near_torture(&t, NULL), -EINVAL);
	odd.flags = NEAR_TORTURE_CLOSES | NEAR_TORTURE_NOT_IN_HANDLER;
	assert_int_equal(near_torture(&t, NULL), -EINVAL);
	odd.flags = 0;
	odd.run = NULL;
	assert_int_equal(near_torture(&t, NULL), -EINVAL);
}

static void call_again(void *result)
{
	*(int *)result = near_torture(&peak_torture, NULL);
}

static void called_while_it_runs(void **state)
{
	int result = 0;
	const struct near_torture_rival rival = {"again", call_again, &result, 0};
	struct near_torture t = peak_torture;

	(void)state;
	need_live();
	t.rivals = &rival;
	t.n_rivals = 1;
	assert_int_equal(near_torture(&t, NULL), 0);
	assert_int_equal(result, -EBUSY);
}

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
#define CANNOT_FORBID 9

static void with_text_that_stays(void *unused)
{
	struct near_torture_result r;

	(void)unused;
	if (prctl(PR_SET_MDWE, 1, 0, 0, 0))
		_exit(CANNOT_FORBID);
	CHECK(near_torture(&peak_torture, &r) == -EACCES);
	CHECK(strstr(r.text, "cannot be made writable"));
	/* And nothing is left that would trap. */
	peak_setup(NULL);
	report_peak(&values[0]);
	CHECK(peak_now() == 5);
}

static void text_that_cannot_be_written(void **state)
{
	int status;

	(void)state;
	need_live();
	status = unit_wait(unit_fork(with_text_that_stays, NULL), NULL);
	if (status == CANNOT_FORBID)
		skip(); /* before Linux 6.3 */
	assert_int_equal(status, 0);
}

/* ---- nothing is left behind ---- */

static unsigned writable_text(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, " rwxp ") != NULL;
	if (maps)
		fclose(maps);
	return n;
}

static unsigned writable_meanwhile;

static void setup_and_look(void *arg)
{
	peak_setup(arg);
	if (!writable_meanwhile)
		writable_meanwhile = writable_text();
}

static void my_handler(int signal)
{
	(void)signal;
}

static void process_is_as_before(void **state)
{
	struct sigaction mine = {.sa_handler = my_handler}, after;
	struct near_torture t = peak_torture;
	unsigned writable = writable_text();
	sigset_t trap, mask;
	cpu_set_t cpus, cpus_after;

	(void)state;
	need_live();
	t.setup = setup_and_look;
	sigaction(SIGTRAP, &mine, NULL);
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &trap, NULL);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	errno = UNIT_ERRNO;
	assert_int_equal(near_torture(&t, NULL), 0);
	assert_int_equal(errno, UNIT_ERRNO);
	sched_getaffinity(0, sizeof(cpus_after), &cpus_after);
	assert_true(CPU_EQUAL(&cpus, &cpus_after));
	sigaction(SIGTRAP, NULL, &after);
	assert_ptr_equal(after.sa_handler, my_handler);
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_true(sigismember(&mask, SIGTRAP));
	assert_true(writable_meanwhile > writable);
	assert_int_equal(writable_text(), writable);
	pthread_sigmask(SIG_UNBLOCK, &trap, NULL);
	signal(SIGTRAP, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sequence_of_near_seq),
		cmocka_unit_test(counter_of_the_library),
		cmocka_unit_test(stack_of_the_library),
		cmocka_unit_test(faults_are_named),
		cmocka_unit_test(sound_one_passes_the_same),
		cmocka_unit_test(sequence_that_is_left),
		cmocka_unit_test(sequence_that_is_too_long),
		cmocka_unit_test(rivals_run_where_they_may),
		cmocka_unit_test(ten_failures_are_shown),
		cmocka_unit_test(without_rseq),
		cmocka_unit_test(without_a_sequence),
		cmocka_unit_test(incomplete),
		cmocka_unit_test(called_while_it_runs),
		cmocka_unit_test(text_that_cannot_be_written),
		cmocka_unit_test(process_is_as_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
