/* SPDX-License-Identifier: MIT */
/* The blocks of threads (base/block.h): that each has one of its own, and what becomes of it when
 * the thread ends, forks, has a child of vfork(), or finds no memory. */
#include <nearcpu/queue.h>
#include <nearcpu/rcu.h>
#include <nearcpu/sem.h>

#include "filter.h"
#include "base/block.h"
#include "live.h"
#include "locks/locks_state.h"
#include "namespaces.h"
#include "parking/lot.h"
#include "team.h"

#define MARK 0x5a5a5a5au

/* ---- threads that end ---- */

#define ENDED 2000
#define MOST_BLOCKS 400 /* of few threads at a time; a mapping has 100 */

static struct {
	const struct near__block *all[ENDED];
	unsigned n;
} seen;

static void note(const struct near__block *b)
{
	unsigned i = 0;

	while (i < seen.n && seen.all[i] != b)
		i++;
	seen.all[i] = b;
	seen.n += i == seen.n;
}

/* A new block has zeros. */
static void *take(void *unused)
{
	CHECK(near__block() && near__locks_thread_peek()->posts == 0);
	near__locks_thread_own()->posts = MARK;
	note(near__block());
	return NULL;
}

static void end_threads(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		unit_join(unit_start(take, NULL));
}

static void ended_threads_give_their_blocks_back(void **state)
{
	if (UNIT_THREAD_SANITIZER)
		skip(); /* each thread has its own */
	seen.n = 0;
	end_threads(ENDED);
	assert_in_range(seen.n, 1, MOST_BLOCKS);
}

#define THREADS 250 /* at the same time */
static const struct near__block *blocks[THREADS];
static pthread_barrier_t together;

static void *own_block(void *number)
{
	unsigned i = (unsigned)(uintptr_t)number;

	blocks[i] = near__block();
	CHECK(blocks[i] && near__locks_thread_peek()->posts == 0);
	near__locks_thread_own()->posts = i + 1;
	pthread_barrier_wait(&together);
	CHECK(near__locks_thread_peek()->posts == i + 1);
	return NULL;
}

static void threads_have_blocks_of_their_own(void **state)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&together, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		threads[i] = unit_start(own_block, (void *)i);
	for (uintptr_t i = 0; i < THREADS; i++)
		unit_join(threads[i]);
	pthread_barrier_destroy(&together);
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned k = 0; k < i; k++)
			assert_ptr_not_equal(blocks[i], blocks[k]);
}

/* ---- children ---- */

static void *fork_with_block(void *unused)
{
	const struct near__block *mine = near__block();

	near__locks_thread_own()->posts = MARK;
	IN_CHILD() {
		end_threads(300);
		CHECK(near__block() == mine && near__locks_thread_peek()->posts == MARK);
	}
	return NULL;
}

static void a_forked_child_keeps_the_block_of_its_thread(void **state)
{
	if (UNIT_THREAD_SANITIZER)
		skip(); /* such a child cannot start threads */
	unit_join(unit_start(fork_with_block, NULL));
}

static void count_block(const struct near__block *b, void *n)
{
	++*(unsigned *)n;
}

/* The child has none of the other threads, which have blocks. */
static void fork_among_others(unsigned i)
{
	unsigned n = 0;

	near__block();
	pthread_barrier_wait(&together);
	if (i == 0)
		IN_CHILD() {
			near__blocks_visit(count_block, &n);
			CHECK(n == 1);
		}
	pthread_barrier_wait(&together);
}

static void a_forked_child_has_one_block(void **state)
{
	pthread_barrier_init(&together, NULL, 4);
	team_run(4, fork_among_others);
	pthread_barrier_destroy(&together);
}

/* The thread finds the block that its child took, and other threads do not take it. */
static void *vfork_first(void *unused)
{
	const struct near__block *mine;
	int status;
	pid_t child = vfork();

	if (child == 0)
		_exit(near__block() && (near__locks_thread_own()->posts = MARK) ? 0 : 1);
	CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	mine = near__self.block;
	CHECK(mine != &near__no_block && near__locks_thread_peek()->posts == MARK);
	end_threads(300);
	CHECK(near__block() == mine && near__locks_thread_peek()->posts == MARK);
	return NULL;
}

static void a_vfork_child_may_take_the_block(void **state)
{
	if (unit_emulated()) /* its vfork is a fork */
		skip();
	unit_join(unit_start(vfork_first, NULL));
}

/* The copy's thread uses the block of a thread that does not exist there. */
static int take_many(void)
{
	struct near__block *mine = near__self.block;

	for (int i = 0; i < 2 * MOST_BLOCKS; i++) {
		near__self.block = (struct near__block *)(uintptr_t)&near__no_block;
		if (near__block() == mine)
			return 1;
	}
	return 0;
}

static void *copy_with_block(void *unused)
{
	CHECK(near__block() && in_copy(take_many) == 0);
	return NULL;
}

static void copy_from_thread(void)
{
	unit_join(unit_start(copy_with_block, NULL));
}

static void the_copy_of_a_first_process_keeps_its_block(void **state)
{
	if (unit_emulated() || UNIT_SANITIZED)
		skip();
	IN_CHILD()
		be_first_process(copy_from_thread);
}

/* ---- handlers ---- */

static void take_in_handler(int signal)
{
	CHECK(near__block());
	near__locks_thread_own()->posts = MARK;
}

static void *take_under_signals(void *unused)
{
	raise(SIGUSR1);
	CHECK(near__locks_thread_peek()->posts == MARK);
	return NULL;
}

static void a_handler_may_take_the_block(void **state)
{
	unit_on_signal(SIGUSR1, take_in_handler);
	unit_join(unit_start(take_under_signals, NULL));
	unit_on_signal(SIGUSR1, SIG_DFL);
}

/* ---- no memory ---- */

#define POOR 140 /* more than a mapping and the reserve have room for */
#define STACK ((size_t)128 << 10)

static struct {
	pthread_t threads[POOR];
	pthread_attr_t attrs[POOR];
	struct near_counter count;
	struct near_rwlock locks[6];
	struct near_mutex mutex;
	struct near_sem sem;
	struct near_queue queue;
	struct near_rcu rcu;
	unsigned without; /* threads that have no block */
	unsigned value;
} poor;

/* Within a section of the parking lot the post is deferred, without a block that of all. */
static void post_within_section(void)
{
	struct near__bucket *b = near__lot_lock(&poor);

	near_sem_post(&poor.sem);
	near__lot_unlock(b);
	near_sem_wait(&poor.sem);
}

static void read_locks(void)
{
	struct near_rwlock *l = poor.locks;

	for (size_t i = 0; i < LENGTH(poor.locks); i++)
		near_rwlock_read_lock(&l[i]);
	near_rwlock_read_lock(&l[1]);
	for (size_t i = 0; i < LENGTH(poor.locks); i++)
		near_rwlock_read_unlock(&l[i]);
	near_rwlock_read_unlock(&l[1]);
}

static void use_locks(void)
{
	void *element = &poor;

	near_counter_add(&poor.count, 1);
	read_locks();
	near_rwlock_write_lock(&poor.locks[0]);
	poor.value++;
	near_rwlock_write_unlock(&poor.locks[0]);
	near_mutex_lock(&poor.mutex);
	near_mutex_unlock(&poor.mutex);
	CHECK(near_queue_put(&poor.queue, element) == 0);
	CHECK(near_queue_get(&poor.queue, &element) == 0);
	near_rcu_exit(&poor.rcu, near_rcu_enter(&poor.rcu));
	post_within_section();
}

static void *be_poor(void *unused)
{
	struct near_rseq_status status = status_now();
	bool has_block = near__block();

	pthread_barrier_wait(&together);
	if (!has_block) {
		__atomic_fetch_add(&poor.without, 1, __ATOMIC_RELAXED);
		CHECK(status.live || !near__process.usable || strstr(status.why, "no memory"));
	}
	for (int i = 0; i < 20; i++)
		use_locks();
	CHECK(has_block || !near__block());
	pthread_barrier_wait(&together);
	return NULL;
}

static void *read_poorly(void *unused)
{
	bool has_block = near__block();

	pthread_barrier_wait(&together);
	if (!has_block && __atomic_fetch_add(&poor.without, 1, __ATOMIC_RELAXED) == 0)
		near_rcu_read_lock(&poor.rcu);
	pthread_barrier_wait(&together);
	return NULL;
}

static void make_all(void)
{
	CHECK(near_counter_init(&poor.count) == 0 && near_rcu_init(&poor.rcu, NULL) == 0);
	CHECK(near_queue_init(&poor.queue, 1000) == 0);
	near_sem_init(&poor.sem, 0);
	for (size_t i = 0; i < LENGTH(poor.locks); i++)
		CHECK(near_rwlock_init(&poor.locks[i], NULL) == 0);
	near_counter_add(&poor.count, 0);
	pthread_barrier_init(&together, NULL, POOR);
}

/* The stacks exist before there is no more memory. */
static void run_without_memory(void *(*function)(void *))
{
	char *stacks = mmap(NULL, POOR * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	make_all();
	CHECK(stacks != MAP_FAILED);
	for (unsigned i = 0; i < POOR; i++) {
		pthread_attr_init(&poor.attrs[i]);
		CHECK(!pthread_attr_setstack(&poor.attrs[i], stacks + i * STACK, STACK));
	}
	if (!filter_out(FILTER_MMAP, ENOMEM))
		_exit(77);
	for (unsigned i = 0; i < POOR; i++)
		CHECK(!pthread_create(&poor.threads[i], &poor.attrs[i], function, NULL));
	for (unsigned i = 0; i < POOR; i++)
		pthread_join(poor.threads[i], NULL);
}

UNIT_CHILD(threads_without_memory_take_the_portable_path, unit_emulated() || UNIT_SANITIZED)
{
	run_without_memory(be_poor);
	CHECK(poor.without > 0 && poor.value == POOR * 20);
	CHECK(near_counter_read(&poor.count) == POOR * 20);
}

static void read_without_memory(void *unused)
{
	run_without_memory(read_poorly);
}

static void sections_that_cannot_be_recorded_stop_the_program(void **state)
{
	if (unit_emulated() || UNIT_SANITIZED)
		skip();
	unit_dies(read_without_memory, NULL,
		  "near_rcu_read_lock: no memory to record the section; near_rcu_enter needs none");
}

UNIT_MAIN(threads_without_memory_take_the_portable_path,
	  sections_that_cannot_be_recorded_stop_the_program, ended_threads_give_their_blocks_back,
	  threads_have_blocks_of_their_own, a_forked_child_keeps_the_block_of_its_thread,
	  a_forked_child_has_one_block, a_vfork_child_may_take_the_block,
	  the_copy_of_a_first_process_keeps_its_block, a_handler_may_take_the_block)
