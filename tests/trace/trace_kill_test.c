/* SPDX-License-Identifier: MIT */
/* usage: trace_kill_test [KILLS [SECONDS [NEARCPU]]]
 *
 * near_trace: processes that trace to one folder and are killed at random moments; and snapshots of
 * those that run. SECONDS end the kills before there were as many as KILLS. NEARCPU is the command:
 * its `trace recover` must find the same events. */
#include <inttypes.h>
#include <sys/prctl.h>

#include "writers.h"

#define AT_ONCE 2u /* processes */

static unsigned kills;
static uint64_t until; /* in us of CLOCK_MONOTONIC, if not 0 */
static struct {
	uint64_t processes, files, events, discarded;
} totals;
static const char *command;

/* ---- kills ---- */

static void write_until_killed(struct progress *p, unsigned kind)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	mine = p;
	block_alarms(SIG_BLOCK);
	start(kind);
	unit_start(write_in_thread, NULL);
	write_with_handler(NULL);
	for (;;)
		pause();
}

static void check_command(void)
{
	static char line[MOST_FILES * 100];
	size_t at = (size_t)snprintf(line, sizeof(line), "'%s' trace recover", command);
	unsigned long events = 0, n;
	FILE *out;

	for (unsigned i = 0; i < found.count; i++)
		at += (size_t)snprintf(line + at, sizeof(line) - at, " %s", found.paths[i]);
	out = popen(line, "r");
	assert_non_null(out);
	assert_int_equal(fscanf(out, "%lu", &events), 1);
	assert_int_equal(events, found.events);
	while (fgets(line, sizeof(line), out))
		if (sscanf(line, "%lu", &n) == 1 &&
		    (strstr(line, "damaged") || strstr(line, "missing") || strstr(line, "have")))
			assert_int_equal(n, 0);
	assert_int_equal(pclose(out), 0);
}

static void check_process(pid_t pid, const struct progress *p, unsigned kind)
{
	found.pid = pid;
	found.progress = p;
	found.removes = kind == STREAM_AND_REMOVE;
	found.count = 0;
	traces_each_file(add_file, NULL);
	CHECK(found.count || !p->started);
	sort_files();
	if (found.count) {
		check_events(p->done);
		CHECK(!found.files[found.count - 1].session->ended);
		totals.processes++;
		totals.files += found.count;
		totals.events += found.events;
		totals.discarded += traces_discarded(&found.files[found.count - 1]);
		if (command)
			check_command();
	}
	for (unsigned i = 0; i < found.count; i++)
		traces_close(&found.files[i]);
}

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Microseconds until a new process traces; at most what it takes where nothing else runs. */
static unsigned time_to_start(struct progress *p)
{
	uint64_t most = unit_slow() ? 2000000 : UNIT_SANITIZED ? 10000 : 500;
	uint64_t begin = now_us(), time;
	pid_t child = unit_fork_here();

	if (child == 0)
		write_until_killed(p, OVERWRITE);
	UNTIL(__atomic_load_n(&p->started, __ATOMIC_ACQUIRE));
	time = now_us() - begin;
	kill(child, SIGKILL);
	assert_int_equal(unit_wait(child, NULL), -1);
	traces_each_file(traces_unlink, NULL);
	return (unsigned)(time < most ? time : most);
}

static void kill_some(struct progress *progress, unsigned kind, unsigned longest, uint64_t *seed)
{
	pid_t children[AT_ONCE];

	memset(progress, 0, AT_ONCE * sizeof(*progress));
	for (unsigned i = 0; i < AT_ONCE; i++) {
		children[i] = unit_fork_here();
		if (children[i] == 0)
			write_until_killed(&progress[i], kind);
	}
	for (unsigned i = 0; i < AT_ONCE; i++) {
		usleep(unit_random(seed) % longest);
		kill(children[i], SIGKILL);
		assert_int_equal(unit_wait(children[i], NULL), -1);
	}
	for (unsigned i = 0; i < AT_ONCE; i++)
		check_process(children[i], &progress[i], kind);
	traces_each_file(traces_unlink, NULL);
}

static void killed_processes_leave_whole_files(void **state)
{
	struct progress *progress = unit_shared(AT_ONCE * sizeof(*progress));
	unsigned longest = 500 + 2 * time_to_start(progress);
	uint64_t seed = (uint64_t)getpid();

	for (unsigned k = 0; k < kills && !(until && now_us() >= until); k += AT_ONCE)
		kill_some(progress, k / AT_ONCE % KINDS, longest, &seed);
	munmap(progress, AT_ONCE * sizeof(*progress));
	print_message("%" PRIu64 " processes had made %" PRIu64 " files with %" PRIu64
		      " events, %" PRIu64 " were discarded\n",
		      totals.processes, totals.files, totals.events, totals.discarded);
	assert_true(totals.events > 0);
}

/* ---- snapshots ---- */

#define RINGS 64

static struct progress progress_now(void)
{
	struct progress p = {.started = 1};

	for (unsigned i = 0; i < WRITERS; i++) {
		p.done[i] = __atomic_load_n(&mine->done[i], __ATOMIC_ACQUIRE);
		p.begun[i] = __atomic_load_n(&mine->begun[i], __ATOMIC_RELAXED);
		p.tids[i] = __atomic_load_n(&mine->tids[i], __ATOMIC_RELAXED);
	}
	return p;
}

/* What was written before is in it, and nothing that was written after. Rings of which nothing
 * could be copied are there, too: positions[] has those of the snapshot before. */
static void check_snapshot(const char *path, uint64_t positions[RINGS])
{
	struct progress before = progress_now(), after;

	assert_int_equal(near_trace_snapshot(path), 0);
	after = progress_now();
	found.progress = &after;
	found.files[0] = traces_open(path);
	found.count = 1;
	check_events(before.done);
	for (unsigned i = 0; i < found.files[0].count && i < RINGS; i++)
		if (traces_ring(&found.files[0], i)) {
			assert_true(traces_ring(&found.files[0], i)->position >= positions[i]);
			positions[i] = traces_ring(&found.files[0], i)->position;
		}
	traces_close(&found.files[0]);
	unlink(path);
}

static void snapshots_are_whole(unsigned kind)
{
	uint64_t positions[RINGS] = {0};
	pthread_t threads[2];
	char path[100];

	memset(mine, 0, sizeof(*mine));
	ends = false;
	start(kind);
	snprintf(path, sizeof(path), "%s/snapshot", traces_folder);
	threads[0] = unit_start(write_with_handler, NULL);
	threads[1] = unit_start(write_in_thread, NULL);
	for (unsigned i = 0; i < unit_scale(8); i++) {
		usleep(200);
		check_snapshot(path, positions);
	}
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	unit_join(threads[0]);
	unit_join(threads[1]);
	assert_int_equal(near_trace_stop(), 0);
	traces_each_file(traces_unlink, NULL);
}

static void snapshots_of_writers_are_whole(void **state)
{
	static struct progress progress;

	mine = &progress;
	found.is_snapshot = true;
	block_alarms(SIG_BLOCK);
	for (unsigned kind = 0; kind < KINDS; kind++)
		snapshots_are_whole(kind);
	block_alarms(SIG_UNBLOCK);
	found.is_snapshot = false;
}

int main(int argc, char **argv)
{
	kills = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : unit_scale(252);
	until = argc > 2 ? now_us() + strtoul(argv[2], NULL, 10) * 1000000 : 0;
	command = argc > 3 ? argv[3] : NULL;
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		killed_processes_leave_whole_files, snapshots_of_writers_are_whole);
}
