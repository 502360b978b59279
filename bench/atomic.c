/* SPDX-License-Identifier: MIT */
/* atomic: objects wider than a register, in this library and in others. atomic/cases.h explains the
 * names of the parts. */
#include "bench.h"

static const struct bench_row rows[] = {
	{"gcc", "GCC's libatomic.so.1", .role = BENCH_PEER},
	{"compiler-rt", "compiler-rt, an imitation", .role = BENCH_PEER},
	{"near-atomic", "near-atomic", .role = BENCH_OURS},
	{"mutex", "a pthread_mutex each", .role = BENCH_YARDSTICK},
};

/* The goal as a bound on the cost: 1 / how many times as fast. */
#define FIGURE(times, threads)                                                                     \
	BENCH_BOUND("near-atomic over GCC's", "near-atomic", "gcc", 1.0 / (times),                 \
		    .from = (threads), .to = (threads))
#define NOT_SLOWER .95

static const unsigned one_and_two[] = {1, 2, 0}, only_one[] = {1, 0}, only_two[] = {2, 0},
		      one_to_four[] = {1, 2, 4, 0};

#define CASE(word, what, ...)                                                                      \
	BENCH_TABLE("atomic", word, what, "an operation",                                          \
		    "The functions that compilers call for atomic objects, in the library of "     \
		    "GCC and in others. ",                                                         \
		    rows, .kind = BENCH_WAIT, .against = "gcc", .program = "nearcpu-atomics",      \
		    .args = {"--case", word}, .together = true, .window_ms = 40, __VA_ARGS__)

/* On one object by one thread and by two, and by two on an object each; how many times as fast with
 * one thread, and with two on one object. */
#define THREE(size, op, one, two, ...)                                                             \
	CASE(size "-" op, size "-byte " op, .thread_list = one_and_two,                            \
	     BENCH_FIGURES(FIGURE(one, 1), FIGURE(two, 2)), __VA_ARGS__),                          \
		CASE(size "-" op "-apart", size "-byte " op ", objects apart",                     \
		     .thread_list = only_two, BENCH_FIGURES(FIGURE(NOT_SLOWER, 2)))

/* Where losses would show: one thread, one object. */
#define ONE(size, op, where, what)                                                                 \
	CASE(size "-" op where, size "-byte " op what, .thread_list = only_one,                    \
	     BENCH_FIGURES(FIGURE(NOT_SLOWER, 1)))
#define FOUR(size, where, what)                                                                    \
	ONE(size, "load", where, what), ONE(size, "store", where, what),                           \
		ONE(size, "exchange", where, what), ONE(size, "cas", where, what)
#define COPIES(size, where, what)                                                                  \
	ONE(size, "load", where, what), ONE(size, "store", where, what),                           \
		ONE(size, "exchange", where, what)

#define BESIDE(size, op)                                                                           \
	CASE(size "-" op "-beside", size "-byte " op ", objects in one line",                      \
	     .thread_list = only_two, BENCH_FIGURES(FIGURE(NOT_SLOWER, 2)))
#define ALONE_OP(size, op)                                                                         \
	CASE(size "-" op "-alone", size "-byte " op " in a process of one thread", .threads = 1,   \
	     .fixed_threads = true, BENCH_FIGURES(FIGURE(NOT_SLOWER, 1)))
#define ALONE(size)                                                                                \
	ALONE_OP(size, "load"), ALONE_OP(size, "store"), ALONE_OP(size, "exchange"),               \
		ALONE_OP(size, "cas")
#define MOSTLY(size, two)                                                                          \
	CASE(size "-mostly", "mostly loads of " size " bytes", .thread_list = only_two,            \
	     BENCH_FIGURES(FIGURE(two, 2)))
#define LIST(size, one, two, four, ...)                                                            \
	CASE(size "-list", "a list with a head of " size " bytes", .thread_list = one_to_four,     \
	     BENCH_FIGURES(FIGURE(one, 1), FIGURE(two, 2), FIGURE(four, 4)), __VA_ARGS__)

const struct bench bench_atomic[BENCH_ATOMIC_CASES] = {
	THREE("16", "load", 1.5, NOT_SLOWER, .core = false),
	THREE("16", "store", 1.5, NOT_SLOWER, .core = false),
	THREE("16", "exchange", NOT_SLOWER, NOT_SLOWER, .core = false),
	THREE("16", "cas", NOT_SLOWER, NOT_SLOWER, .core = false),
	THREE("24", "load", 2.2, NOT_SLOWER, .core = true),
	THREE("24", "store", 2.2, 4, .core = false),
	THREE("24", "exchange", 2.2, 4, .core = false),
	THREE("24", "cas", NOT_SLOWER, 3, .core = true),
	THREE("64", "load", 2.2, NOT_SLOWER, .core = false),
	THREE("64", "store", 2.2, 4, .core = false),
	THREE("64", "exchange", 2.2, 4, .core = false),
	THREE("64", "cas", NOT_SLOWER, 3, .core = false),
	BESIDE("24", "store"),
	BESIDE("24", "cas"),
	MOSTLY("16", NOT_SLOWER),
	MOSTLY("24", 10),
	MOSTLY("64", NOT_SLOWER),
	LIST("16", NOT_SLOWER, NOT_SLOWER, NOT_SLOWER, .core = false),
	LIST("24", 1.5, 2.8, 2.8, .core = false),
	ALONE("16"),
	ALONE("24"),
	FOUR("24", "-split", " over two lines"),
	FOUR("64", "-split", " over two lines"),
	FOUR("24", "-malloc", " where malloc puts them"),
	FOUR("64", "-malloc", " where malloc puts them"),
	FOUR("16", "-generic", " by the generic call"),
	FOUR("12", "", ""),
	COPIES("3", "", " inside a word"),
	COPIES("1", "", ""),
	ONE("1", "add", "", ""),
	COPIES("4", "", ""),
	ONE("4", "add", "", ""),
	COPIES("8", "", ""),
	ONE("8", "add", "", ""),
	COPIES("4096", "", ""),
	COPIES("65536", "", ""),
};
