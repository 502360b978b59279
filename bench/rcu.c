/* SPDX-License-Identifier: MIT */
/* rcu: the read side, by near_rcu and by what programs use instead. rcu_sync.c and rcu_call.c have
 * what updaters do, and rcu/ the libraries. */
#include "bench.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rcu.h"

const struct rcu_impl *rcu_impl;

/* The C library loads modules with thread-local variables of this alignment, as liburcu has them,
 * if the program has one. */
static __thread char aligned __attribute__((aligned(128)));

static void *load(const char *file)
{
	char path[PATH_MAX + 32] = "";

	BENCH_USE(&aligned);
	if (readlink("/proc/self/exe", path, PATH_MAX - 1) > 0)
		strcpy(strrchr(path, '/') + 1, file);
	return dlopen(path, RTLD_NOW);
}

static bool find(const struct rcu_impl *const *impls, const char *name)
{
	for (; *impls; impls++)
		if (strcmp((*impls)->name, name) == 0) {
			rcu_impl = *impls;
			return true;
		}
	return false;
}

const char *rcu_choose(const char *name)
{
	char file[40];
	void *module, *impls;

	if (find(rcu_impls, name))
		return NULL;
	snprintf(file, sizeof(file), "nearcpu-rcu-%.*s.so", (int)strcspn(name, "-"), name);
	module = load(file);
	impls = module ? dlsym(module, "near_bench_rcu_impls") : NULL;
	if (impls && find(impls, name))
		return NULL;
	return "not installed: ./dev bench has it (packages liburcu-dev, libck-dev)";
}

void rcu_begin_thread(void)
{
	if (rcu_impl->begin)
		rcu_impl->begin();
}

void rcu_end_thread(void)
{
	if (rcu_impl->end)
		rcu_impl->end();
}

/* ---- rows ---- */

static int setup(struct bench_run *run)
{
	(void)run;
	return rcu_impl->init ? rcu_impl->init() : 0;
}

static void work(struct bench_thread *t)
{
	rcu_begin_thread();
	rcu_impl->read(t->iterations);
	rcu_end_thread();
}

/* The crates are another module. */
static const char *choose_crate(const char *name, const char *function)
{
	static struct rcu_impl impl;
	void *module = load("nearcpu-rcu-rust.so");

	if (!module)
		return "not installed: ./dev bench has it (package cargo-web, rustc 1.72 or newer)";
	impl.name = name;
	*(void **)&impl.read = dlsym(module, function);
	rcu_impl = &impl;
	return NULL;
}

static const char *choose_crossbeam(void)
{
	return choose_crate("crossbeam", "near_bench_crossbeam_read");
}

static const char *choose_seize(void)
{
	return choose_crate("seize", "near_bench_seize_read");
}

RCU_CHOOSE(near, "near")
RCU_CHOOSE(nested, "near-nested")
RCU_CHOOSE(near_rwlock, "near-rwlock")
RCU_CHOOSE(counter, "counter")
RCU_CHOOSE(rwlock, "rwlock")
RCU_CHOOSE(getcpu, "getcpu")
RCU_CHOOSE(memb, "memb")
RCU_CHOOSE(memb_call, "memb-call")
RCU_CHOOSE(bp, "bp")
RCU_CHOOSE(bp_call, "bp-call")
RCU_CHOOSE(qsbr, "qsbr")
RCU_CHOOSE(qsbr_call, "qsbr-call")
RCU_CHOOSE(mb, "mb")
RCU_CHOOSE(mb_call, "mb-call")
RCU_CHOOSE(ck, "ck")
RCU_CHOOSE(ck_section, "ck-section")

#define ROW(id, row, text, whose, ...)                                                             \
	{                                                                                          \
		.name = row, .label = text, .role = whose, .missing = choose_##id, .setup = setup, \
		.work = work, __VA_ARGS__                                                          \
	}
#define PEER(id, row, text) ROW(id, row, text, BENCH_PEER)
#define MODULE(id, row, text) ROW(id, row, text, BENCH_PEER, .tunables = RCU_TLS)

static const struct bench_row rows[] = {
	PEER(getcpu, "getcpu", "sched_getcpu, two atomics"),
	PEER(rwlock, "rwlock", "pthread_rwlock"),
	MODULE(memb, "memb", "liburcu memb, inline"),
	MODULE(memb_call, "memb-call", "liburcu memb, by call"),
	MODULE(bp, "bp", "liburcu bp, inline"),
	MODULE(bp_call, "bp-call", "liburcu bp, by call"),
	MODULE(qsbr, "qsbr", "liburcu qsbr, inline"),
	MODULE(qsbr_call, "qsbr-call", "liburcu qsbr, by call"),
	MODULE(mb, "mb", "liburcu mb, inline"),
	MODULE(mb_call, "mb-call", "liburcu mb, by call"),
	MODULE(ck, "ck", "ck_epoch"),
	MODULE(ck_section, "ck-section", "ck_epoch, with sections"),
	PEER(crossbeam, "crossbeam", "crossbeam-epoch, Rust"),
	PEER(seize, "seize", "seize, Rust"),
	ROW(near, "near", "near_rcu, token", BENCH_OURS),
	ROW(nested, "near-nested", "near_rcu, read_lock", BENCH_OURS),
	ROW(near, "near-off", "near_rcu, token, rseq off", BENCH_OURS, .conf = "rseq:off"),
	ROW(near_rwlock, "near-rwlock", "near_rwlock", BENCH_OURS),
	ROW(counter, "counter", "a nearcpu counter alone", BENCH_YARDSTICK),
};

static const struct bench_figure figures[] = {
	{"a section by token, in adds to a counter", "near", "counter", .goal = 2},
	{"a section by read_lock", "near-nested", .goal = 4},
	{"a section by token against sched_getcpu", "near", "getcpu", .goal = 1 / 2.5},
	{"against pthread_rwlock", "near", "rwlock", .goal = 1.0 / 3},
	{"against liburcu memb by call", "near", "memb-call", .goal = 1.0 / 5},
};

const struct bench bench_rcu_read = {
	.name = "rcu",
	.part = "read",
	.title = "RCU, readers",
	.text = "Each thread begins a section, loads a pointer and the word that it points to, and "
		"ends the section. Threads of liburcu and ck_epoch have registered before. In qsbr "
		"a section ends with a quiescent state. liburcu's inline functions need a suitable "
		"licence. ",
	.op = "a section",
	.rows = rows,
	.row_count = BENCH_COUNT(rows),
	.figures = figures,
	.figure_count = BENCH_COUNT(figures),
};
