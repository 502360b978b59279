/* SPDX-License-Identifier: MIT */
/* rcu: the read side, by near_rcu and by what programs use instead. rcu_sync.c and rcu_call.c have
 * what updaters do, and rcu/ the libraries. */
#include "bench.h"
#include "clock.h"

#include <stdio.h>

#include "rcu.h"

const struct rcu_impl *rcu_impl;

/* The C library loads modules with thread-local variables of this alignment, as liburcu has them,
 * if the program has one. */
static __thread char aligned __attribute__((aligned(128)));

static bool impl_find(const struct rcu_impl *const *impls, const char *name)
{
	for (; *impls; impls++)
		if (strcmp((*impls)->name, name) == 0) {
			rcu_impl = *impls;
			return true;
		}
	return false;
}

/* The crates are another module. */
static const char *choose_crate(const char *name)
{
	static struct rcu_impl impl;
	char function[40];

	snprintf(function, sizeof(function), "near_bench_%s_read", name);
	impl.name = name;
	*(void **)&impl.read = symbol_beside("nearcpu-rcu-rust.so", function);
	rcu_impl = &impl;
	return impl.read ? NULL
			 : "not installed: ./dev bench has it (package cargo-web, rustc 1.72 "
			   "or newer)";
}

const char *rcu_choose(const char *name)
{
	char file[40];
	void *impls;

	BENCH_USE(&aligned);
	if (impl_find(rcu_impls, name))
		return NULL;
	if (strcmp(name, "crossbeam") == 0 || strcmp(name, "seize") == 0)
		return choose_crate(name);
	snprintf(file, sizeof(file), "nearcpu-rcu-%.*s.so", (int)strcspn(name, "-"), name);
	impls = symbol_beside(file, "near_bench_rcu_impls");
	if (impls && impl_find(impls, name))
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

int rcu_setup(struct bench_run *run)
{
	(void)run;
	return rcu_impl->init ? rcu_impl->init() : 0;
}

static void reader_work(struct bench_thread *t)
{
	rcu_begin_thread();
	rcu_impl->read(t->iterations);
	rcu_end_thread();
}

#define ROW(...) RCU_ROW(__VA_ARGS__, .work = reader_work)
#define PEER(id, row, text) ROW(id, row, text, BENCH_PEER)
#define MODULE(id, row, text) ROW(id, row, text, BENCH_PEER, .tunables = RCU_TLS)

static const struct bench_row rows[] = {
	PEER("getcpu", "getcpu", "sched_getcpu, two atomics"),
	PEER("rwlock", "rwlock", "pthread_rwlock"),
	MODULE("memb", "memb", "liburcu memb, inline"),
	MODULE("memb-call", "memb-call", "liburcu memb, by call"),
	MODULE("bp", "bp", "liburcu bp, inline"),
	MODULE("bp-call", "bp-call", "liburcu bp, by call"),
	MODULE("qsbr", "qsbr", "liburcu qsbr, inline"),
	MODULE("qsbr-call", "qsbr-call", "liburcu qsbr, by call"),
	MODULE("mb", "mb", "liburcu mb, inline"),
	MODULE("mb-call", "mb-call", "liburcu mb, by call"),
	MODULE("ck", "ck", "ck_epoch"),
	MODULE("ck-section", "ck-section", "ck_epoch, with sections"),
	PEER("crossbeam", "crossbeam", "crossbeam-epoch, Rust"),
	PEER("seize", "seize", "seize, Rust"),
	ROW("near", "near", "near_rcu, token", BENCH_OURS),
	ROW("near-nested", "near-nested", "near_rcu, read_lock", BENCH_OURS),
	ROW("near", "near-off", "near_rcu, token, rseq off", BENCH_OFF),
	ROW("near-rwlock", "near-rwlock", "near_rwlock", BENCH_OURS),
	ROW("counter", "counter", "a nearcpu counter alone", BENCH_YARDSTICK),
};

BENCH(bench_rcu_read, "rcu", "read", "RCU, readers", "a section",
      "Each thread begins a section, loads a pointer and the word that it points to, and ends "
      "the section. Threads of liburcu and ck_epoch have registered before. In qsbr a section "
      "ends with a quiescent state. liburcu's inline functions need a suitable licence. ",
      rows,
      BENCH_FIGURES({"a section by token, in adds to a counter", "near", "counter", .goal = 2},
		    {"a section by read_lock", "near-nested", .goal = 4},
		    {"a section by token against sched_getcpu", "near", "getcpu", .goal = 1 / 2.5},
		    {"against pthread_rwlock", "near", "rwlock", .goal = 1.0 / 3},
		    {"against liburcu memb by call", "near", "memb-call", .goal = 1.0 / 5}));
