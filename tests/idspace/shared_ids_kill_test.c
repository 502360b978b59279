/* SPDX-License-Identifier: MIT */
/* usage: shared_ids_kill_test [KILLS [SECONDS]]
 *
 * near_shared_ids: processes killed at any instruction, while others go on: all ids come back, none
 * twice, and it is reported which were in use. SECONDS end the random kills before there were as
 * many as KILLS. */
#include "shared.h"

#include <sys/prctl.h>

#include "single_step.h"
#include "team.h"

/* ---- every instruction ---- */

#define IDS 5u
#define DEAD 2u /* ids that a killed process has left, the lowest */

/* What the traced process has, and is about to do: written by it, read between its instructions. */
struct progress {
	bool acquiring, left[IDS]; /* it may have any free id; the id is to be repaired */
	bool has[IDS], maybe[IDS]; /* it has the id; it may have it */
};

/* What the file has after an instruction is what it would have if the process had been killed
 * there: whenever it has changed, it is copied, and the ids of the copy are counted. */
struct watch {
	pid_t child;
	struct near_region region;
	char *before;
	char copy[80];
	unsigned steps, changes;
};

static struct progress *progress;
static struct shared_view view;

static void write_copy(const struct watch *w)
{
	FILE *f = fopen(w->copy, "w");

	CHECK(f && fwrite(w->region.header, w->region.total, 1, f) == 1 && fclose(f) == 0);
}

/* Of the copy, whose processes have all ended. */
static void check_copy(const struct watch *w)
{
	struct near_region r;
	struct near_shared_ids ids;
	uint64_t repair;

	write_copy(w);
	CHECK(near_region_open(&r, w->copy, NULL) == 0);
	CHECK(shared_open(&ids, &r, NAME, NULL) == 0);
	repair = shared_all(&ids);
	for (unsigned i = 0; i < IDS; i++) {
		bool reported = repair >> i & 1, must = progress->has[i] || progress->left[i];

		if (reported ? !must && !progress->maybe[i] && !progress->acquiring
			     : must && !progress->maybe[i])
			fail_msg("step %u: id %u: must_repair is %d", w->steps, i, reported);
	}
	near_shared_ids_close(&ids);
	near_region_close(&r);
	unlink(w->copy);
}

static void watch_step(struct watch *w)
{
	w->steps++;
	if (memcmp(w->before, w->region.header, w->region.total) == 0)
		return;
	w->changes++;
	check_copy(w);
	memcpy(w->before, w->region.header, w->region.total);
}

static void acquire_noted(struct near_worker *w)
{
	int id;

	*(volatile bool *)&progress->acquiring = true;
	id = near_shared_ids_acquire(&view.ids, w);
	if (id >= 0) {
		CHECK(near_worker_must_repair(w) == progress->left[id]);
		*(volatile bool *)&progress->has[id] = true;
		*(volatile bool *)&progress->left[id] = false;
	}
	*(volatile bool *)&progress->acquiring = false;
}

static void release_noted(struct near_worker *w)
{
	int id = near_worker_id(w);

	*(volatile bool *)&progress->maybe[id] = true;
	near_shared_ids_release(&view.ids, w);
	*(volatile bool *)&progress->has[id] = false;
	*(volatile bool *)&progress->maybe[id] = false;
}

/* The seats of the killed process and of this one; a search; all paths of acquire and release. */
static void use_all(void)
{
	struct near_worker w[IDS + 1] = {0};

	shared_attach(&view, (struct near_shared_ids_options){0});
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i <= IDS; i++)
			acquire_noted(&w[i]);
		release_noted(&w[1]);
		acquire_noted(&w[1]); /* cached */
		release_noted(&w[1]);
		near_shared_ids_hand_over(&view.ids, &w[0], &w[1]);
		release_noted(&w[1]);
		for (unsigned i = 2; i < IDS; i++)
			release_noted(&w[i]);
	}
	near__shared_ids_renew(&view.ids, (acquire_noted(&w[0]), &w[0]));
}

static void leave_ids(void *unused)
{
	static struct near_worker w[DEAD];

	shared_attach(&view, (struct near_shared_ids_options){.ids = IDS, .seats = 3, .size = 8});
	for (unsigned i = 0; i < DEAD; i++)
		CHECK(shared_acquire(&view.ids, &w[i]) == (int)i);
}

/* `living`: the first seat has a process that lives, so that the dead one is found by a search. */
static void trace(bool living)
{
	struct watch w = {0};
	struct shared_view other;
	bool ended = false;
	int status;

	memset(progress, 0, sizeof(*progress));
	for (unsigned i = 0; i < DEAD; i++)
		progress->left[i] = true;
	shared_kill(shared_start(leave_ids, NULL));
	w.region = opened_region(NULL);
	w.before = malloc(w.region.total);
	snprintf(w.copy, sizeof(w.copy), "%s/copy", directory);
	memcpy(w.before, w.region.header, w.region.total);
	if (living) {
		/* It gets the dead seat, so another process leaves ids again. */
		shared_attach(&other, (struct near_shared_ids_options){0});
		shared_kill(shared_start(leave_ids, NULL));
	}
	w.child = unit_fork_here();
	if (w.child == 0)
		step_through(use_all);
	assert_int_equal(waitpid(w.child, &status, 0), w.child);
	while (WIFSTOPPED(status) && !ended && step_once(w.child, &ended))
		watch_step(&w);
	kill(w.child, SIGKILL);
	waitpid(w.child, NULL, 0);
	if (living)
		shared_detach(&other);
	print_message("%u instructions, %u changes\n", w.steps, w.changes);
	if (w.steps >= 2) {
		assert_true(ended);
		assert_in_range(w.changes, 30, w.steps);
	}
	free(w.before);
	near_region_close(&w.region);
	remove_files(NULL);
}

static void every_instruction_loses_nothing(void **state)
{
	/* An exclusive pair of another CPU never ends by single steps. */
	if (unit_emulated() || UNIT_SANITIZED || strcmp(NEAR__ARCH, "x86_64") != 0)
		skip();
	progress = unit_shared(sizeof(*progress));
	unit_pin(0, NULL); /* each instruction takes two switches between the processes */
	trace(false);
	trace(true);
	unit_unpin();
	munmap(progress, sizeof(*progress));
}

/* ---- random moments ---- */

#define PROCESSES 3u
#define THREADS 2u
#define EACH 2u /* workers of a thread */
#define MANY 9u /* ids: fewer than workers, so that searches are frequent */

/* Of an id. `a` and `b` are changed by plain instructions, one after the other. */
struct datum {
	uint64_t a, b;
	uint64_t busy; /* a worker uses it */
};

/* Of each thread, in memory of the first process: what it was about to do, and what it has done. */
struct count {
	uint64_t begun, done;
};

static struct count *counts;
static unsigned kills;
static time_t until; /* by CLOCK_MONOTONIC, if not 0 */
static unsigned own_number;

static struct datum *datum_of(const struct near_shared_ids *s, int id)
{
	return near_shared_ids_data(s, id);
}

/* What was reported to be half-changed is mended; nothing else is half-changed. */
static void check_datum(struct near_shared_ids *s, struct near_worker *w)
{
	struct datum *d = datum_of(s, near_worker_id(w));

	if (near_worker_must_repair(w)) {
		CHECK(d->a == d->b || d->a == d->b + 1);
		d->b = d->a;
		__atomic_store_n(&d->busy, 0, __ATOMIC_RELAXED);
	}
	CHECK(__atomic_exchange_n(&d->busy, 1, __ATOMIC_RELAXED) == 0);
	CHECK(d->a == d->b);
}

static void use_datum(struct datum *d, struct count *c)
{
	__atomic_store_n(&c->begun, c->begun + 1, __ATOMIC_SEQ_CST);
	d->a++;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	d->b++;
	__atomic_store_n(&c->done, c->done + 1, __ATOMIC_SEQ_CST);
}

static void end_datum(struct near_worker *w)
{
	struct datum *d = datum_of(&view.ids, near_worker_id(w));

	CHECK(d->a == d->b);
	CHECK(__atomic_exchange_n(&d->busy, 0, __ATOMIC_RELAXED) == 1);
	near_shared_ids_release(&view.ids, w);
}

static void work(struct near_worker *w, struct count *c, uint64_t *random)
{
	unsigned i = unit_random(random) % EACH;

	if (near_worker_id(&w[i]) >= 0) {
		if (unit_random(random) % 4 == 0 && near_worker_id(&w[1 - i]) < 0) {
			near_shared_ids_hand_over(&view.ids, &w[i], &w[1 - i]);
			i = 1 - i;
		}
		end_datum(&w[i]);
	} else if (near_shared_ids_acquire(&view.ids, &w[i]) >= 0) {
		check_datum(&view.ids, &w[i]);
		use_datum(datum_of(&view.ids, near_worker_id(&w[i])), c);
	}
}

static void work_until_killed(unsigned thread)
{
	struct near_worker w[EACH] = {0};
	struct count *c = &counts[own_number * THREADS + thread];
	uint64_t random = (uint64_t)getpid() * THREADS + thread;

	for (unsigned i = 0; team_continues(); i++) {
		work(w, c, &random);
		if (i % 64 == 0)
			unit_pin(unit_random(&random) % 2, NULL);
	}
}

static void be_killed(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	shared_attach(&view, (struct near_shared_ids_options){.ids = MANY,
							      .seats = PROCESSES + 1,
							      .size = sizeof(struct datum)});
	team_run(THREADS, work_until_killed);
	_exit(1);
}

static pid_t begin(unsigned number)
{
	pid_t child = unit_fork_here();

	own_number = number;
	if (child == 0)
		be_killed();
	return child;
}

static bool time_is_over(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return until && t.tv_sec >= until;
}

/* All ids are there, and what they counted. */
static void check_all(void)
{
	struct near_worker w[MANY] = {0}, one_more = {0};
	uint64_t total = 0, begun = 0, done = 0;
	unsigned seen = 0;

	shared_attach(&view, (struct near_shared_ids_options){0});
	for (unsigned i = 0; i < MANY; i++) {
		int id = shared_acquire(&view.ids, &w[i]);

		assert_in_range(id, 0, MANY - 1);
		assert_false(seen >> id & 1);
		seen |= 1u << id;
		if (datum_of(&view.ids, id)->busy)
			assert_true(near_worker_must_repair(&w[i]));
		check_datum(&view.ids, &w[i]);
		total += datum_of(&view.ids, id)->a;
	}
	/* Also the seats of processes that had no id when they were killed are searched for. */
	assert_int_equal(shared_acquire(&view.ids, &one_more), -EAGAIN);
	for (unsigned i = 0; i < MANY; i++)
		end_datum(&w[i]);
	for (unsigned i = 0; i < PROCESSES * THREADS; i++) {
		done += counts[i].done;
		begun += counts[i].begun;
	}
	assert_in_range(total, done, begun);
	print_message("%llu uses, %llu ids of killed processes\n", (unsigned long long)total,
		      (unsigned long long)shared_stats(&view.ids).exits);
	assert_int_equal(shared_stats(&view.ids).taken, 1);
	shared_detach(&view);
}

static void killed_processes_lose_nothing(void **state)
{
	uint64_t seed = (uint64_t)getpid();
	pid_t children[PROCESSES];

	counts = unit_shared(PROCESSES * THREADS * sizeof(*counts));
	for (unsigned i = 0; i < PROCESSES; i++)
		children[i] = begin(i);
	for (unsigned k = 0; k < kills && !time_is_over(); k++) {
		unsigned n = unit_random(&seed) % PROCESSES;

		usleep(unit_random(&seed) % 2000);
		shared_kill(children[n]);
		/* What it had begun and not done counts as both or none. */
		children[n] = begin(n);
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		shared_kill(children[i]);
	check_all();
	munmap(counts, PROCESSES * THREADS * sizeof(*counts));
}

int main(int argc, char **argv)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	kills = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : unit_scale(200);
	until = argc > 2 ? t.tv_sec + atoi(argv[2]) : 0;
	return UNIT_GROUP(set_up, remove_files, tear_down, every_instruction_loses_nothing,
			  killed_processes_lose_nothing);
}
