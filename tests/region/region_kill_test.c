/* SPDX-License-Identifier: MIT */
/* usage: region_kill_test [KILLS [SECONDS]]
 *
 * near_region: processes killed at any instruction, while others read and write. SECONDS end the
 * random kills before there were as many as KILLS. */
#include "regions.h"

#include <sys/prctl.h>

#include <nearcpu/histogram.h>

#include "single_step.h"

/* ---- every instruction ---- */

/* What the file has after an instruction is what it would have if the process had been killed
 * there: another process opens it whenever it has changed. */
struct watch {
	pid_t child;
	struct near_region region; /* as this process maps it, if the file exists */
	char *before;              /* up to the common copy */
	size_t size;
	unsigned steps, changes, objects;
	bool exists;
};

static void check_whole(struct watch *w)
{
	struct near_region r;
	struct near_region_object o;
	unsigned n = 0;
	int err = near_region_open(&r, path, NULL);

	if (err)
		fail_msg("%d: %s", err, near_region_error(&r));
	for (; near_region_object(&r, n, &o) == 0; n++) {
		assert_int_equal(strlen(o.name), 2);
		assert_int_equal(o.name[1], 'a' + n);
		assert_string_equal(o.labels, "kind=\"test\"");
		assert_true(o.kind == NEAR_REGION_COUNTERS || o.flags == NEAR_REGION_COMMON);
	}
	assert_in_range(n, w->objects, w->objects + 1);
	w->objects = n;
	for (unsigned slot = 0; near_region_next(&r, &slot); slot++)
		assert_int_equal(*near_region_at(&r, slot, r.size - 1), 0);
	near_region_close(&r);
}

static void begin_watch(struct watch *w)
{
	w->exists = true;
	w->region = opened_region(NULL);
	w->size = (size_t)(w->region.base - (char *)w->region.header);
	w->before = malloc(w->size);
	assert_non_null(w->before);
	memcpy(w->before, w->region.header, w->size);
	check_whole(w);
}

static void watch_step(struct watch *w)
{
	w->steps++;
	if (!w->exists) {
		if (access(path, F_OK) == 0)
			begin_watch(w);
	} else if (memcmp(w->before, w->region.header, w->size) != 0) {
		w->changes++;
		check_whole(w);
		memcpy(w->before, w->region.header, w->size);
	}
}

static void use_all(void)
{
	struct near_region r =
		opened_region(&(struct near_region_options){.size = 8192, .max_objects = 4});
	struct near_region_object o = {.name = "nb",
				       .labels = "kind=\"test\"",
				       .kind = NEAR_REGION_PRIVATE,
				       .flags = NEAR_REGION_COMMON,
				       .size = 8192};
	struct near_shared_counters s;

	CHECK(near_shared_counters_open(&s, &r, "na", "kind=\"test\"", NULL) == 0);
	CHECK(near_region_open_object(&r, &o) == 0);
	near_shared_counters_add(&s, 0, 1);
	near_region_close(&r);
}

static void every_instruction_leaves_it_whole(void **state)
{
	struct watch w = {0};
	bool ended = false;
	int status;

	/* An exclusive pair of another CPU never ends by single steps. */
	if (unit_emulated() || UNIT_THREAD_SANITIZER || strcmp(NEAR__ARCH, "x86_64") != 0)
		skip();
	unit_pin(0, NULL); /* each instruction takes two switches between the processes */
	w.child = unit_fork_here();
	if (w.child == 0)
		step_through(use_all);
	assert_int_equal(waitpid(w.child, &status, 0), w.child);
	while (WIFSTOPPED(status) && !ended && step_once(w.child, &ended))
		watch_step(&w);
	kill(w.child, SIGKILL);
	waitpid(w.child, NULL, 0);
	unit_unpin();
	if (w.steps < 2)
		skip(); /* not allowed, or a kernel without steps */
	assert_true(ended);
	assert_int_equal(w.objects, 2);
	print_message("%u instructions, %u changes\n", w.steps, w.changes);
	assert_in_range(w.changes, 5, w.steps);
	free(w.before);
	near_region_close(&w.region);
}

/* ---- random moments ---- */

#define WRITERS 3
#define PER_FILE 25
#define NAMES 1000 /* of each writer at most: a test that is stopped for long has room for all */

/* Of each writer, in memory of this process: what it was about to do, and what it has done. */
struct progress {
	uint64_t begun, done;
	uint64_t names; /* that it has defined */
};

static struct progress *progress;
static unsigned kills;
static time_t until; /* by CLOCK_MONOTONIC, if not 0 */

static const struct near_region_options wide = {.size = 300000,
						.max_objects = (WRITERS + 1) * NAMES};

/* The size makes the opening of a slot take a while. */
static void write_until_killed(unsigned number)
{
	struct progress *p = &progress[number];
	struct near_region r = opened_region(&wide);
	char labels[] = {'w', '=', '"', (char)('0' + number), '"', 0}, name[16];
	struct near_shared_counters s, one;
	struct near_histogram h;

	CHECK(near_shared_counters_open(&s, &r, "adds", labels, NULL) == 0);
	CHECK(near_histogram_open(&h, &r, "values", labels, NULL) == 0);
	for (unsigned i = 0;; i++) {
		if (i % 50 == 0)
			unit_pin(i / 50 % 2, NULL);
		if (i % 50 == 0 && p->names < NAMES) {
			snprintf(name, sizeof(name), "n%u_%u", number, (unsigned)p->names);
			CHECK(near_shared_counters_open(&one, &r, name, labels, NULL) == 0);
			near_shared_counters_add(&one, 0, 1);
			p->names++;
		}
		__atomic_store_n(&p->begun, p->begun + 1, __ATOMIC_SEQ_CST);
		near_shared_counters_add(&s, 0, 1);
		near_histogram_record(&h, i);
		__atomic_store_n(&p->done, p->done + 1, __ATOMIC_SEQ_CST);
	}
}

/* No count is ever less than before. */
static void read_until_killed(void)
{
	struct near_region r = opened_region(&wide);
	struct near_shared_counters s[WRITERS];
	int64_t seen[WRITERS] = {0};

	for (unsigned i = 0; i < WRITERS; i++) {
		char labels[] = {'w', '=', '"', (char)('0' + i), '"', 0};

		CHECK(near_shared_counters_open(&s[i], &r, "adds", labels, NULL) == 0);
	}
	for (unsigned i = 0;; i = (i + 1) % WRITERS) {
		int64_t n = near_shared_counters_read(&s[i], 0);

		CHECK(n >= seen[i]);
		seen[i] = n;
	}
}

/* Each add that was done is there, and at most the one that was begun besides. */
static void check_counts(struct near_region *r, unsigned number)
{
	uint64_t done = __atomic_load_n(&progress[number].done, __ATOMIC_SEQ_CST);
	char labels[] = {'w', '=', '"', (char)('0' + number), '"', 0};
	struct near_shared_counters s;
	struct near_histogram h;
	struct near_histogram_snapshot snapshot;
	uint64_t added;

	assert_int_equal(near_shared_counters_open(&s, r, "adds", labels, NULL), 0);
	assert_int_equal(near_histogram_open(&h, r, "values", labels, NULL), 0);
	assert_int_equal(near_histogram_read(&h, &snapshot), 0);
	added = (uint64_t)near_shared_counters_read(&s, 0);
	assert_in_range(added, done, progress[number].begun);
	assert_in_range(snapshot.count, done, progress[number].begun);
	/* The next one goes on from what is there. */
	if (snapshot.count < added)
		near_histogram_record(&h, 0);
	progress[number].begun = progress[number].done = added;
	near_histogram_snapshot_free(&snapshot);
	for (uint64_t i = 0; i < progress[number].names; i++) {
		char name[32];

		snprintf(name, sizeof(name), "n%u_%u", number, (unsigned)i);
		assert_int_equal(near_shared_counters_open(&s, r, name, labels, NULL), 0);
		assert_in_range(near_shared_counters_read(&s, 0), 1, kills);
	}
}

static void kill_one(pid_t child)
{
	int signal = 0;

	kill(child, SIGKILL);
	assert_int_equal(unit_wait(child, &signal), -1);
	assert_int_equal(signal, SIGKILL);
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static bool time_is_over(void)
{
	return until && now() >= until;
}

static pid_t begin(unsigned number)
{
	pid_t child = unit_fork_here();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (number < WRITERS)
		write_until_killed(number);
	read_until_killed();
	_exit(1);
}

static void kill_in_one_file(unsigned count, uint64_t *seed)
{
	pid_t children[WRITERS + 1];
	struct near_region r = opened_region(&wide);

	memset(progress, 0, WRITERS * sizeof(*progress));
	for (unsigned i = 0; i <= WRITERS; i++)
		children[i] = begin(i);
	for (unsigned k = 0; k < count && !time_is_over(); k++) {
		unsigned n = k % (WRITERS + 1);

		usleep(unit_random(seed) % 1500);
		kill_one(children[n]);
		if (n < WRITERS)
			check_counts(&r, n);
		children[n] = begin(n);
	}
	for (unsigned i = 0; i <= WRITERS; i++)
		kill_one(children[i]);
	near_region_close(&r);
	r = opened_region(NULL);
	for (unsigned i = 0; i < WRITERS; i++)
		check_counts(&r, i);
	near_region_close(&r);
	unlink(path);
}

static void killed_processes_lose_nothing(void **state)
{
	uint64_t seed = (uint64_t)getpid();

	progress = unit_shared(WRITERS * sizeof(*progress));
	for (unsigned k = 0; k < kills && !time_is_over(); k += PER_FILE)
		kill_in_one_file(kills - k < PER_FILE ? kills - k : PER_FILE, &seed);
	munmap(progress, WRITERS * sizeof(*progress));
}

int main(int argc, char **argv)
{
	kills = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : unit_scale(60);
	until = argc > 2 ? now() + atoi(argv[2]) : 0;
	return UNIT_GROUP(set_up, remove_files, tear_down, every_instruction_leaves_it_whole,
			  killed_processes_lose_nothing);
}
