/* SPDX-License-Identifier: MIT */
/* What the C11 models share: sequences, the kernel that aborts them, and how a model is run.
 *
 * A sequence is a list of instructions. Other threads may run between two of them; after a fence
 * (membarrier) on the thread's CPU the next instruction does not run, and the sequence has failed:
 * the kernel makes the check for an abort and the commit one step. A sequence loads and stores by
 * relaxed atomics, so that a load may return an older value than an earlier load: this models a
 * load that is reordered before the gate's. relacy cannot show a store that is reordered before an
 * earlier load; a commit never is, since no CPU makes a store visible to others that an interrupt
 * can still undo.
 *
 * A fence has one point in time for each other thread, between its call and its return. What its
 * caller did before the call is visible to the thread after that point, and what the thread did
 * before that point is visible to the caller after the return. For a thread that is not running,
 * the scheduler does the same.
 *
 * Each slot has one thread here. Threads that share one take turns, ordered by the scheduler; the
 * Spin models have that. */
#ifndef NEAR_MODELS_RSEQ_H
#define NEAR_MODELS_RSEQ_H

#include <relacy/relacy.hpp>

#include <algorithm>

static const rl::memory_order relaxed = rl::mo_relaxed, acquire = rl::mo_acquire,
			      release = rl::mo_release, acq_rel = rl::mo_acq_rel;

/* Arguments of the command line: which thought of a protocol is undone, how much is tried. */
static char **arguments;

/* What follows -D and the name: NULL if it is not given. */
static const char *given(const char *name)
{
	size_t length = strlen(name);

	for (char **a = arguments; *a; a++)
		if (strncmp(*a, "-D", 2) == 0 && strncmp(*a + 2, name, length) == 0)
			return *a + 2 + length;
	return NULL;
}

static bool on(const char *name)
{
	const char *rest = given(name);

	return rest && !*rest;
}

/* What happened before what: for each thread, how many of its steps. */
struct clocks {
	enum { THREADS = 4 };
	rl::timestamp_t of[THREADS];
};

static void join(rl::timestamp_t *known, const rl::timestamp_t *learnt, int threads)
{
	for (int i = 0; i < threads; i++)
		known[i] = std::max(known[i], learnt[i]);
}

/* The kernel. */
static struct {
	int threads;
	rl::thread_info_base *thread[clocks::THREADS]; /* once it has begun */
	unsigned fences[clocks::THREADS];              /* that came to it */
	clocks fenced;                                 /* what it is to see that begins only now */
} kernel;

static void kernel_start(int threads)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.threads = threads;
}

static void thread_start()
{
	rl::thread_info_base *self = rl::ctx().threadx_;

	kernel.thread[self->index_] = self;
	join(self->acq_rel_order_, kernel.fenced.of, kernel.threads);
}

static unsigned fences_here()
{
	return kernel.fences[rl::thread_index()];
}

static void fence()
{
	rl::timestamp_t *own = rl::ctx().threadx_->acq_rel_order_;
	clocks before, seen = {};

	std::copy(own, own + kernel.threads, before.of);
	join(kernel.fenced.of, before.of, kernel.threads);
	for (int i = 0; i < kernel.threads; i++) {
		rl::thread_info_base *other = kernel.thread[i];

		if (!other || other->acq_rel_order_ == own)
			continue;
		rl::ctx().sched();
		if (!on("FENCE_ORDERS_NOTHING")) {
			join(seen.of, other->acq_rel_order_, kernel.threads);
			join(other->acq_rel_order_, before.of, kernel.threads);
		}
		kernel.fences[i] += !on("FENCE_ABORTS_NOBODY");
	}
	join(own, seen.of, kernel.threads);
}

/* Nothing happens between its construction and its end. */
class instruction
{
public:
	instruction()
	{
		rl::ctx().sched();
		rl::ctx().disable_preemption();
	}
	~instruction()
	{
		rl::ctx().enable_preemption();
	}
};

/* An instruction of the sequence that began when `began` fences had come. */
#define STEP(statement)                                                                            \
	do {                                                                                       \
		instruction now;                                                                   \
		if (began != fences_here())                                                        \
			goto failed;                                                               \
		statement;                                                                         \
	} while (0)

/* -DRUNS=n tries n executions at random; -DBOUND=n tries all that have at most n preemptions;
 * without these, all there are. Prints what models/run.sh expects, and the execution that went
 * wrong on standard error. */
template <typename model> void run()
{
	rl::ostringstream report, progress;
	rl::test_params params;

	params.output_stream = &report;
	params.progress_stream = &progress;
	params.execution_depth_limit = 100000;
	params.search_type = rl::fair_full_search_scheduler_type;
	if (given("RUNS=")) {
		params.search_type = rl::random_scheduler_type;
		params.iteration_count = strtoul(given("RUNS="), NULL, 10);
	} else if (given("BOUND=")) {
		params.search_type = rl::fair_context_bound_scheduler_type;
		params.context_bound = strtoul(given("BOUND="), NULL, 10);
	}
	if (rl::simulate<model>(params)) {
		std::cout << "pass: " << params.stop_iteration << " executions" << std::endl;
		return;
	}
	/* The first line is the model's name, the second the verdict. */
	rl::string text = report.str();
	size_t verdict = text.find('\n') + 1;
	std::cout << "violated: " << text.substr(verdict, text.find('\n', verdict) - verdict)
		  << ", execution " << params.stop_iteration << std::endl;
	std::cerr << text;
}

#endif
