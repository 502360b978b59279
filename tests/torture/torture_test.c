/* SPDX-License-Identifier: MIT */
/* near_torture: passes what is right, finds and names what is wrong (right.c, wrong.c), reports
 * what it could not try, and leaves the process as it was. */
#include "cases.h"

#include <sys/prctl.h>

#include "../examples/sequence.h"
#include "torture/names.h"

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

	need_live();
	t.setup = high_setup;
	t.n_rivals = 0;
	t.slot = NULL;
	failures = prove(&t, &r);
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
	uint64_t at;

	return NEAR_SEQ(
		NEAR_SLOT(at, p)
		".rept 300\n\tnop\n\t.endr\n\t"
		NEAR_COMMIT_ADD8(one, at, 0),
		NEAR_OUT(at), NEAR_IN(NEAR_OBJECT(p), one));
}

static void ignore(void *arg, const char *failure)
{
}

/* Repeated until it succeeds: a busy machine interrupts this long sequence many times. */
static void run_slowly(void *arg)
{
	for (int i = 0; i < 50 * NEAR_SEQ_TRIES; i++)
		if (add_slowly(peak, 1))
			break;
}

static const char *fine(void *arg)
{
	return NULL;
}

static void sequence_that_is_too_long(void **state)
{
	const struct near_torture t = {
		.setup = peak_setup, .run = run_slowly, .check = fine, .report = ignore};
	struct near_torture_result r;

	need_live();
	assert_int_equal(prove(&t, &r), 1);
	assert_non_null(strstr(r.text, "too many instructions"));
}

/* What a disassembler can find in a stripped file. */
static void address_without_a_name(void **state)
{
	struct names none;
	uintptr_t offset;

	near__names_open(&none, "/dev/null", 0x1000);
	assert_string_equal(near__name_of(&none, 0x1234, &offset), "?");
	assert_int_equal(offset, 0x234);
	near__names_close(&none);
}

static struct near_torture with_rival(const struct near_torture_rival *rival)
{
	struct near_torture t = peak_torture;

	t.rivals = rival;
	t.n_rivals = 1;
	return t;
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

static void competing_operations_run_where_allowed(void **state)
{
	struct near_torture_rival other = {"noted", note_thread, &values[1], 0};
	struct near_torture t = with_rival(&other);

	need_live();
	runs_in = (pid_t)syscall(SYS_gettid);
	t.digest = NULL;
	in_thread = in_handler = 0;
	assert_int_equal(prove(&t, NULL), 0);
	assert_true(in_thread > 0);
	assert_int_equal(in_handler, in_thread);
	in_thread = in_handler = 0;
	other.flags = NEAR_TORTURE_NOT_IN_HANDLER;
	assert_int_equal(prove(&t, NULL), 0);
	assert_true(in_thread > 0);
	assert_int_equal(in_handler, 0);
	in_thread = in_handler = 0;
	other.flags = NEAR_TORTURE_CLOSES;
	t.report = ignore; /* it closes nothing */
	prove(&t, NULL);
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

	t.run = forgets_one;
	t.digest = NULL;
	CHECK(prove(&t, NULL) > 11);
}

static void ten_failures_are_shown(void **state)
{
	char text[8192];
	unsigned lines = 0;

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

	if (is_live())
		skip();
	assert_int_equal(prove(&peak_torture, &r), -ENOSYS);
	assert_non_null(strstr(r.text, "no sequence is aborted here"));
	assert_int_equal(prove(&peak_torture, NULL), -ENOSYS);
}

static void nothing(void *arg)
{
}

static void without_a_sequence(void **state)
{
	const struct near_torture t = {.setup = nothing, .run = nothing, .check = fine};
	struct near_torture_result r;

	need_live();
	assert_int_equal(prove(&t, &r), -ENOENT);
	assert_non_null(strstr(r.text, "goes through no restartable sequence"));
}

static void refuses(struct near_torture t)
{
	assert_int_equal(prove(&t, NULL), -EINVAL);
}

static void refuses_rival(struct near_torture_rival rival)
{
	refuses(with_rival(&rival));
}

static void incomplete(void **state)
{
	const struct near_torture_rival closer = {"close", nothing, NULL, NEAR_TORTURE_CLOSES};
	const unsigned both = NEAR_TORTURE_CLOSES | NEAR_TORTURE_NOT_IN_HANDLER;
	struct near_torture no_setup = peak_torture, no_run = peak_torture;
	struct near_torture no_check = peak_torture, no_rivals = peak_torture;
	struct near_torture no_slot = with_rival(&closer);

	no_setup.setup = NULL;
	no_run.run = NULL;
	no_check.check = NULL;
	no_rivals.rivals = NULL;
	no_slot.slot = NULL;
	refuses(no_setup);
	refuses(no_run);
	refuses(no_check);
	refuses(no_rivals);
	refuses(no_slot);
	refuses_rival((struct near_torture_rival){"odd", report_peak, &values[0], 8});
	refuses_rival((struct near_torture_rival){"odd", report_peak, &values[0], both});
	refuses_rival((struct near_torture_rival){"odd", NULL, &values[0], 0});
}

/* Programs that know fewer fields, and more. Whether rseq is there does not matter. */
static void other_sizes(void **state)
{
	struct {
		struct near_torture known;
		char more[16];
	} later = {.known = {.setup = nothing, .run = nothing}};
	struct near_torture_result r, larger[2];

	assert_int_equal(near_torture(&later.known, sizeof(later), larger, sizeof(larger)),
			 -EINVAL);
	assert_non_null(strstr(larger[0].text, "setup, run and check"));
	assert_int_equal(larger[1].sequences, 0);
	later.known.check = fine; /* which comes behind these */
	assert_int_equal(near_torture(&later.known, offsetof(struct near_torture, check), NULL, 0),
			 -EINVAL);
	later.more[15] = 1;
	memset(&r, 0x5a, sizeof(r));
	assert_int_equal(near_torture(&later.known, sizeof(later), &r,
				      offsetof(struct near_torture_result, runs)),
			 -E2BIG);
	assert_int_equal(r.sequences, 0);
	assert_int_equal(r.failures, 0x5a5a5a5a);
}

static void call_again(void *result)
{
	*(int *)result = prove(&peak_torture, NULL);
}

static void called_while_it_runs(void **state)
{
	int result = 0;
	const struct near_torture_rival other = {"again", call_again, &result, 0};
	const struct near_torture t = with_rival(&other);

	need_live();
	assert_int_equal(prove(&t, NULL), 0);
	assert_int_equal(result, -EBUSY);
}

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

UNIT_CHILD(text_that_cannot_be_written, !is_live())
{
	struct near_torture_result r;

	if (prctl(PR_SET_MDWE, 1, 0, 0, 0))
		_exit(77); /* before Linux 6.3 */
	CHECK(prove(&peak_torture, &r) == -EACCES);
	CHECK(strstr(r.text, "cannot be made writable"));
	/* And nothing is left that would trap. */
	peak_setup(NULL);
	report_peak(&values[0]);
	CHECK(peak_now() == 5);
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

static void setup_and_observe(void *arg)
{
	peak_setup(arg);
	if (!writable_meanwhile)
		writable_meanwhile = writable_text();
}

static void my_handler(int signal)
{
}

static void process_is_as_before(void **state)
{
	struct sigaction after;
	struct near_torture t = peak_torture;
	unsigned writable = writable_text();
	sigset_t trap, mask;
	cpu_set_t cpus, cpus_after;

	need_live();
	t.setup = setup_and_observe;
	unit_on_signal(SIGTRAP, my_handler);
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &trap, NULL);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	KEEPS_ERRNO(assert_int_equal(prove(&t, NULL), 0));
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

UNIT_MAIN(sequence_of_near_seq, counter_of_the_library, stack_of_the_library, queue_of_the_library,
	  faults_are_named, registration_that_is_taken_away, operation_that_stays_in_sequences,
	  sound_one_passes_the_same, sequence_that_is_left, sequence_that_is_too_long,
	  address_without_a_name, competing_operations_run_where_allowed, ten_failures_are_shown,
	  without_rseq, without_a_sequence, incomplete, other_sizes, called_while_it_runs,
	  text_that_cannot_be_written, process_is_as_before)
