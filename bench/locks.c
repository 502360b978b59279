/* SPDX-License-Identifier: MIT */
/* locks, sem, barrier, broadcast, park, rwlock: threads that wait for each other, on ours and on
 * what programs use instead.
 * The programs named here, in locks/, define what a row does. */
#include "bench.h"

static const struct bench_row lock_rows[] = {
	BENCH_ROW("pthread", "pthread_mutex", BENCH_PEER),
	BENCH_ROW("adaptive", "pthread_mutex, adaptive", BENCH_PEER),
	BENCH_ROW("recursive", "pthread_mutex, recursive", BENCH_PEER),
	BENCH_ROW("nsync", "nsync_mu", BENCH_PEER),
	BENCH_ROW("absl", "absl::Mutex", BENCH_PEER),
	BENCH_ROW("ck", "ck_spinlock_fas", BENCH_PEER),
	BENCH_ROW("parking_lot", "parking_lot, Rust", BENCH_PEER),
	BENCH_ROW("rust-std", "std::sync::Mutex, Rust", BENCH_PEER),
	BENCH_ROW("near-mutex", "near_mutex", BENCH_OURS),
	BENCH_ROW("near-off", "near_mutex, without rseq", BENCH_OFF, .program_row = "near-mutex"),
	BENCH_ROW("near-recursive", "near_recursive_mutex", BENCH_OURS),
	BENCH_ROW("near-lock", "near_lock", BENCH_OURS),
	BENCH_ROW("unlocked", "no lock", BENCH_YARDSTICK),
};

/* Times an acquisition; of throughput these are the inverse. */
#define OVER_PTHREAD(threads, at_most)                                                             \
	BENCH_BOUND("near_mutex over pthread_mutex", "near-mutex", "pthread", at_most,             \
		    .from = threads, .to = threads)
#define OVER_RUST                                                                                  \
	BENCH_BOUND("near_mutex over parking_lot", "near-mutex", "parking_lot", 1),                \
		BENCH_BOUND("near_mutex over Rust's std", "near-mutex", "rust-std", 1),            \
		BENCH_BOUND("unfairness, near_mutex over parking_lot", "near-mutex",               \
			    "parking_lot", 1, .measure = BENCH_UNFAIRNESS, .from = 2),             \
		BENCH_BOUND("p99.9 of waiting, near_mutex over parking_lot", "near-mutex",         \
			    "parking_lot", 1, .measure = BENCH_P999, .from = 2)

static const struct bench_figure figures_empty[] = {OVER_PTHREAD(1, 1 / 2.0), OVER_RUST};
static const struct bench_figure figures_1[] = {OVER_PTHREAD(2, 1 / 3.0), OVER_PTHREAD(4, 1 / 3.5),
						OVER_PTHREAD(8, 1 / 3.5), OVER_RUST};
static const struct bench_figure figures_10[] = {OVER_PTHREAD(2, 1 / 2.1), OVER_PTHREAD(4, 1 / 2.4),
						 OVER_PTHREAD(8, 1 / 2.7), OVER_RUST};
static const struct bench_figure figures_100[] = {
	OVER_PTHREAD(2, 1 / 1.2), OVER_PTHREAD(4, 1 / 1.2), OVER_PTHREAD(8, 1 / 1.2), OVER_RUST};

static const unsigned one_to_eight[] = {1, 2, 4, 8, 0};

#define LOCKS(word, what, ns, bounds, ...)                                                         \
	BENCH_TABLE("locks", word, "One lock, " what, "a section",                                 \
		    "Threads take the same lock, add one to what it guards, release it, "          \
		    "and do something else for twice as long as the section lasts. ",              \
		    lock_rows, BENCH_BOUNDS(bounds), .kind = BENCH_WAIT, .against = "pthread",     \
		    .program = "nearcpu-locks", .args = {"--inside", ns}, __VA_ARGS__)

/* One thread, and one for each CPU: what a lock costs uncontended and contended. */
const struct bench bench_locks_empty =
	LOCKS("empty", "nothing but the lock", "0", figures_empty, .core = true);
const struct bench bench_locks_1 =
	LOCKS("1ns", "sections of 1 ns", "1", figures_1, .thread_list = one_to_eight);
const struct bench bench_locks_10 =
	LOCKS("10ns", "sections of 10 ns", "10", figures_10, .thread_list = one_to_eight);
const struct bench bench_locks_100 =
	LOCKS("100ns", "sections of 100 ns", "100", figures_100, .thread_list = one_to_eight);

static const struct bench_row sem_rows[] = {
	BENCH_ROW("sem_t", "sem_t", BENCH_PEER),
	BENCH_ROW("near-sem", "near_sem", BENCH_OURS),
};

BENCH(bench_sem, "sem", "1ns", "A semaphore of one unit", "a wait and post",
      "Threads take the unit, hold it for 1 ns, add it again, and do something else for 10 ns. ",
      sem_rows,
      BENCH_FIGURES({"near_sem over sem_t", "near-sem", "sem_t", .goal = 1 / 0.9, .from = 2},
		    {"unfairness, near_sem over sem_t", "near-sem", "sem_t",
		     .measure = BENCH_UNFAIRNESS, .goal = 1, .from = 2}),
      .kind = BENCH_WAIT, .against = "sem_t", .program = "nearcpu-locks", .args = {"--inside", "1"},
      .thread_list = one_to_eight);

static const struct bench_row barrier_rows[] = {
	BENCH_ROW("pthread_barrier", "pthread_barrier", BENCH_PEER),
	BENCH_ROW("near-barrier", "near_barrier", BENCH_OURS),
};

static const struct bench_row cond_rows[] = {
	BENCH_ROW("pthread_cond", "pthread_cond", BENCH_PEER),
	BENCH_ROW("near-cond", "near_cond", BENCH_OURS),
};

static const struct bench_figure barrier_figures[] = {
	{"near_barrier over pthread_barrier", "near-barrier", "pthread_barrier", .goal = 1 / .95},
};

static const struct bench_figure cond_figures[] = {
	{"near_cond over pthread_cond", "near-cond", "pthread_cond", .goal = 1 / .95},
};

#define GROUP(what, which, heading, sentence, all, bounds, whose, ...)                             \
	BENCH_TABLE(what, which, heading, "a wait", sentence, all, BENCH_BOUNDS(bounds),           \
		    .kind = BENCH_WAIT, .against = whose, .program = "nearcpu-locks",              \
		    .args = {"--case", which}, .thread_list = (const unsigned[]){__VA_ARGS__, 0})
#define BARRIER(which, heading)                                                                    \
	GROUP("barrier", which, "A barrier" heading, "Threads meet over and over. ", barrier_rows, \
	      barrier_figures, "pthread_barrier", 8, 32)
#define BROADCAST(which, heading)                                                                  \
	GROUP("broadcast", which, "A condition variable" heading,                                  \
	      "A thread wakes all others, over and over, when all have woken up. ", cond_rows,     \
	      cond_figures, "pthread_cond", 9, 33)

const struct bench bench_barrier_free = BARRIER("free", "");
const struct bench bench_barrier_pinned = BARRIER("pinned", ", each thread bound to a CPU");
const struct bench bench_broadcast_free = BROADCAST("free", "");
const struct bench bench_broadcast_pinned = BROADCAST("pinned", ", each thread bound to a CPU");

static const struct bench_row signal_rows[] = {
	BENCH_ROW("pthread-signal", "pthread_cond", BENCH_PEER),
	BENCH_ROW("near-signal", "near_cond", BENCH_OURS),
};

static const struct bench_figure signal_figures[] = {
	{"near_cond over pthread_cond", "near-signal", "pthread-signal", .goal = 1},
};

#define SIGNAL(which, heading)                                                                     \
	GROUP("signal", which, "A bounded queue, signals " heading,                                \
	      "Half of the threads put elements, the others take them, and each signals a "        \
	      "condition variable after each element. ",                                           \
	      signal_rows, signal_figures, "pthread-signal", 2, 8, 32)

const struct bench bench_signal_locked = SIGNAL("locked", "with the mutex held");
const struct bench bench_signal_unlocked = SIGNAL("unlocked", "after the unlock");

static const struct bench_row park_rows[] = {
	BENCH_ROW("one-queue", "one queue, one lock", BENCH_PEER),
	BENCH_ROW("64-queues", "64 queues, a lock each", BENCH_PEER),
	BENCH_ROW("futex", "futex(2)", BENCH_PEER),
	BENCH_ROW("near-park", "near_park, near_unpark", BENCH_OURS),
};

static const struct bench_figure park_figures[] = {
	{"near_park over one queue", "near-park", "one-queue", .goal = 1 / 4.0},
	{"near_park over futex(2)", "near-park", "futex", .goal = 1 / 0.9},
};

#define PARK(word, what, n, ...)                                                                   \
	BENCH_TABLE("park", word, "Sleep and wake on unrelated addresses" what, "a wake-up",       \
		    "Pairs of threads wake each other by turns, each on an address of its "        \
		    "own, next to threads that sleep on others all the time. OpenBSD had one "     \
		    "queue with one lock for all of them until 2024, and has 64 since. ",          \
		    park_rows, BENCH_BOUNDS(park_figures), .kind = BENCH_WAIT,                     \
		    .against = "one-queue", .program = "nearcpu-parking",                          \
		    .args = {"--stand-by", n}, .threads = 8, __VA_ARGS__)

const struct bench bench_park_0 = PARK("0", "", "0", .core = true);
const struct bench bench_park_256 = PARK("256", ", beside 256 sleepers", "256");
const struct bench bench_park_1024 = PARK("1024", ", beside 1,024 sleepers", "1024");

static const struct bench_row rwlock_rows[] = {
	BENCH_ROW("pthread", "pthread_rwlock", BENCH_PEER),
	BENCH_ROW("pthread-writer", "pthread_rwlock, for writers", BENCH_PEER),
	BENCH_ROW("nsync", "nsync_mu", BENCH_PEER),
	BENCH_ROW("near-rwlock", "near_rwlock", BENCH_OURS),
	BENCH_ROW("near-writers", "near_rwlock, writers first", BENCH_OURS),
	BENCH_ROW("near-zero", "near_rwlock of zeros", BENCH_OURS),
	BENCH_ROW("near-off", "near_rwlock, without rseq", BENCH_OFF, .program_row = "near-rwlock"),
	BENCH_ROW("unlocked", "no lock", BENCH_YARDSTICK),
};

static const struct bench_figure rwlock_figures[] = {
	{"near_rwlock over pthread_rwlock", "near-rwlock", "pthread", .goal = 1 / 8.0, .from = 2,
	 .to = 2},
	{"near_rwlock, read lock and unlock", "near-rwlock", .goal = 3, .from = 1, .to = 1},
};

#define OVER_RWLOCK(threads, times)                                                                \
	BENCH_BOUND("near_rwlock over pthread_rwlock", "near-rwlock", "pthread", 1 / (times),      \
		    .from = threads, .to = threads)
#define RWLOCK_FIGURES(goal_2, goal_8)                                                             \
	{                                                                                          \
		OVER_RWLOCK(2, goal_2), OVER_RWLOCK(8, goal_8),                                    \
			BENCH_BOUND("unfairness, near_rwlock over pthread_rwlock", "near-rwlock",  \
				    "pthread", 1, .measure = BENCH_UNFAIRNESS, .from = 8, .to = 8) \
	}

static const struct bench_figure rwlock_figures_1[] = RWLOCK_FIGURES(1.2, 1.2);
static const struct bench_figure rwlock_figures_10[] = RWLOCK_FIGURES(1.2, .9);
static const struct bench_figure rwlock_figures_100[] = RWLOCK_FIGURES(1.2, .9);

#define RWLOCK(word, what, bounds, n, ...)                                                         \
	BENCH_TABLE("rwlock", word, "Readers" what, "a lock and unlock",                           \
		    "Threads take one lock for reading, now and then for writing, and do "         \
		    "nothing else. ",                                                              \
		    rwlock_rows, BENCH_BOUNDS(bounds), .kind = BENCH_WAIT, .against = "pthread",   \
		    .program = "nearcpu-rwlock", .args = {"--writes", n}, __VA_ARGS__)

const struct bench bench_rwlock_0 = RWLOCK("0", " only", rwlock_figures, "0", .core = true);
#define RWLOCK_WRITES(word, what, bounds)                                                          \
	RWLOCK(word, what, bounds, word, .thread_list = one_to_eight)

const struct bench bench_rwlock_1 = RWLOCK_WRITES("1", ", one write in 1,000", rwlock_figures_1);
const struct bench bench_rwlock_10 = RWLOCK_WRITES("10", ", 10 writes in 1,000", rwlock_figures_10);
const struct bench bench_rwlock_100 =
	RWLOCK_WRITES("100", ", 100 writes in 1,000", rwlock_figures_100);
