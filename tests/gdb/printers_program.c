/* SPDX-License-Identifier: MIT */
/* usage: printers_program [abort]
 * One of each structure that packaging/gdb.py shows, with known content. Prints a line for each,
 * its name and what gdb is to print, where T<tid> stands for a thread; then calls show, or aborts
 * there. */
#define _GNU_SOURCE
#include <nearcpu/fifo.h>
#include <nearcpu/gauge.h>
#include <nearcpu/histogram.h>
#include <nearcpu/mutex.h>
#include <nearcpu/pool.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu.h>
#include <nearcpu/recursive_mutex.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/stack.h>

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct near_counter counter_type;

/* Not static: the compiler must not know that nothing reads them. */
struct near_counter hits, unmade_counter, reset_counter;
const volatile counter_type *hits_pointer = &hits;
struct near_gauge depth;
struct near_histogram sizes, bounded, unmade_histogram, empty_histogram, garbage_histogram;
struct near_stack_node items[3], cycle[2];
struct near_stack free_items, empty_stack, cyclic, garbage_stack;
struct near_pool objects, new_pool;
struct near_queue ring, closed_ring;
struct near_fifo line, unmade_fifo, garbage_fifo;
struct near_mutex free_mutex, held, dead, lost, of_parent;
struct near_recursive_mutex nested;
struct near_rwlock read_often, read_by_two, written, word_only;
struct near_rcu domain;
struct near_rcu_head heads[2];
uint32_t tid_of_holder, tid_of_writer;

#define CHECK(call)                                                                                \
	do                                                                                         \
		if ((call) != 0) {                                                                 \
			fprintf(stderr, "line %d: %s\n", __LINE__, #call);                         \
			exit(1);                                                                   \
		}                                                                                  \
	while (0)
#define UNTIL(condition)                                                                           \
	while (!(condition))                                                                       \
	usleep(1000)

static void *element(uintptr_t n)
{
	return (void *)n;
}

/* The slots are then the same for all that this thread does. */
static void stay_here(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* ---- with one thread ---- */

static void print_histogram(const char *name, const struct near_histogram *h)
{
	struct near_histogram_snapshot s;
	char text[300], *mean, *end;

	CHECK(near_histogram_read(h, &s));
	near_histogram_snapshot_text(&s, text, sizeof(text));
	mean = strstr(text, "mean");
	end = strstr(text, "min");
	memmove(mean, end, strlen(end) + 1);
	printf("%s %s\n", name, text);
	near_histogram_snapshot_free(&s);
}

static void make_counts(void)
{
	struct near_histogram_options options = {.max = 1000, .exact_sum = true, .precision = 3};

	CHECK(near_counter_init(&hits));
	CHECK(near_counter_init(&reset_counter));
	near_counter_add(&reset_counter, 10);
	near_counter_reset(&reset_counter);
	near_counter_add(&reset_counter, -3);
	near_gauge_set(&depth, -7);
	CHECK(near_histogram_init(&sizes, NULL));
	near_histogram_record_n(&sizes, 3, 100);
	CHECK(near_histogram_reset(&sizes, &(struct near_histogram_snapshot){0}));
	for (unsigned i = 0; i < 2000; i++)
		near_histogram_record(&sizes, (uint64_t)i * i);
	near_histogram_record(&sizes, UINT64_MAX);
	CHECK(near_histogram_init(&bounded, &options));
	near_histogram_record(&bounded, 17);
	near_histogram_record_n(&bounded, 5000, 3);
	CHECK(near_histogram_init(&empty_histogram, NULL));
	print_histogram("sizes", &sizes);
	print_histogram("bounded", &bounded);
	print_histogram("empty_histogram", &empty_histogram);
	memset(&garbage_histogram, 0x5a, sizeof(garbage_histogram));
	puts("garbage_histogram <not initialised, or destroyed>");
	puts("reset_counter -3\nunmade_counter <not initialised, or destroyed>\ndepth -7\n"
	     "unmade_histogram <not initialised, or destroyed>");
}

static void make_lists(void)
{
	CHECK(near_stack_init(&free_items));
	CHECK(near_stack_init(&empty_stack));
	CHECK(near_stack_init(&cyclic));
	for (int i = 0; i < 3; i++)
		near_stack_push(&free_items, &items[i]);
	near_stack_push(&cyclic, &cycle[0]);
	near_stack_push(&cyclic, &cycle[1]);
	cycle[0].next = &cycle[1];
	garbage_stack.p = element(0x1234560);
	puts("free_items near_stack of 3 = {slot[0] = <items+16>, slot[1] = <items+8>, "
	     "slot[2] = <items>}");
	puts("empty_stack near_stack of 0\ngarbage_stack <no per-CPU memory at 0x1234560>");
	printf("cyclic <a list has a cycle at %p> = {slot[0] = <cycle+8>, slot[1] = <cycle>}\n",
	       (void *)&cycle[1]);
}

static void make_pools(void)
{
	/* gdb writes all that is reserved into a core file: by default 16 GiB for each pool. */
	struct near_pool_options options = {.max_objects = 100};
	struct near_pool_stats s;
	void *some[5];

	CHECK(near_pool_init(&objects, 40, &options));
	CHECK(near_pool_init(&new_pool, 8, &options));
	near_pool_get_many(&objects, some, 5);
	near_pool_put_many(&objects, some, 3);
	CHECK(near_pool_stats(&objects, &s, sizeof(s)));
	printf("objects %" PRIu64 " objects of 40 bytes: %" PRIu64 " idle, 2 in use\n", s.objects,
	       s.idle);
	puts("new_pool 0 objects of 8 bytes: 0 idle, 0 in use");
}

static void make_queues(void)
{
	void *out;

	CHECK(near_queue_init(&ring, 3));
	CHECK(near_queue_init(&closed_ring, 2));
	CHECK(near_fifo_init(&line, 3));
	for (uintptr_t i = 0x11; i < 0x16; i++) {
		CHECK(near_queue_put(&ring, element(i)));
		CHECK(near_fifo_put(&line, element(i)));
		if (i < 0x14) {
			CHECK(near_queue_get(&ring, &out));
			CHECK(near_fifo_get(&line, &out));
		}
	}
	CHECK(near_queue_put(&closed_ring, element(0x21)));
	near_queue_close(&closed_ring);
	garbage_fifo.cells = element(16);
	garbage_fifo.count = 1;
	near_fifo_close(&line);
	puts("ring near_queue of 2, capacity 3 per slot = {slot[0] = 0x14, slot[1] = 0x15}\n"
	     "closed_ring near_queue of 1, capacity 2 per slot, closed = {slot[0] = 0x21}\n"
	     "line near_fifo of 2, capacity 3, closed = {[0] = 0x14, [1] = 0x15}\n"
	     "unmade_fifo <not initialised, or destroyed>\n"
	     "garbage_fifo <not initialised, or destroyed>");
}

/* ---- with more threads ---- */

static void *hold(void *unused)
{
	(void)unused;
	near_counter_add(&hits, 5);
	near_mutex_lock(&held);
	near_recursive_mutex_lock(&nested);
	near_recursive_mutex_lock(&nested);
	near_rwlock_read_lock(&read_by_two);
	near_rwlock_write_lock(&written);
	__atomic_store_n(&tid_of_holder, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	pause();
	return NULL;
}

static void *wait_for_mutex(void *unused)
{
	near_counter_add(&hits, 6);
	near_mutex_lock(&held);
	return unused;
}

static void *wait_to_write(void *unused)
{
	__atomic_store_n(&tid_of_writer, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	near_rwlock_write_lock(&read_by_two);
	return unused;
}

static void *wait_for_readers(void *unused)
{
	near_rcu_synchronize(&domain);
	return unused;
}

static void begin(void *(*function)(void *unused))
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, function, NULL));
}

static void make_locks(void)
{
	CHECK(near_rwlock_init(&read_often, NULL));
	CHECK(near_rwlock_init(&read_by_two, NULL));
	CHECK(near_rwlock_init(&written, NULL));
	near_rwlock_read_lock(&read_often);
	near_rwlock_read_lock(&read_by_two);
	near_rwlock_read_lock(&word_only);
	begin(hold);
	UNTIL(__atomic_load_n(&tid_of_holder, __ATOMIC_ACQUIRE));
	begin(wait_for_mutex);
	begin(wait_to_write);
	UNTIL(__atomic_load_n(&held.word, __ATOMIC_RELAXED) & 1);
	UNTIL(__atomic_load_n(&read_by_two.word, __ATOMIC_RELAXED) & 2);
	near_mutex_destroy(&dead);
	lost.word = UINT32_C(0x3ffffe) << 10;
	of_parent.word = 5u << 5 | 1;
	puts("free_mutex free\ndead <destroyed>\nread_often readers: 1\nword_only readers: 1\n"
	     "of_parent free\nlost held by tid 4194302 (no thread of this process)");
	printf("held held by T%" PRIu32 ", threads wait\nnested held by T%" PRIu32 ", 2 times\n"
	       "written held for writing by T%" PRIu32 "\n"
	       "read_by_two readers: 2, T%" PRIu32 " waits to write\n",
	       tid_of_holder, tid_of_holder, tid_of_holder, tid_of_writer);
}

static void make_domain(void)
{
	struct near_rcu_options options = {.flags = NEAR_RCU_NO_THREAD};

	CHECK(near_rcu_init(&domain, &options));
	near_rcu_synchronize(&domain);
	near_rcu_synchronize(&domain);
	near_rcu_enter(&domain);
	begin(wait_for_readers);
	UNTIL(__atomic_load_n(&domain.waits_since, __ATOMIC_ACQUIRE));
	for (int i = 0; i < 2; i++) {
		near_rcu_enter(&domain);
		near_rcu_exit(&domain, near_rcu_enter(&domain));
		near_rcu_call(&domain, &heads[i], NULL, 50);
	}
	puts("domain grace periods: 3 begun, 2 done; sections: 2 of this phase, 1 of the one "
	     "before; callbacks: 2 pending, of 100 bytes");
}

__attribute__((noinline)) static void show(bool by_abort)
{
	if (by_abort)
		abort();
	__asm__ volatile("" : : "r"(hits_pointer) : "memory");
}

int main(int argc, char **argv)
{
	(void)argv;
	stay_here();
	make_counts();
	make_lists();
	make_pools();
	make_queues();
	make_locks();
	make_domain();
	near_counter_add(&hits, 1000);
	puts("hits 1011\n*hits_pointer 1011");
	fflush(stdout);
	show(argc > 1);
	return 0;
}
