/* SPDX-License-Identifier: MIT */
/* The system calls of the allocator once it has begun are those that near_malloc(3) lists: a filter
 * that ends the process at any other is installed in all threads. With NEAR_CONF=calls:few these
 * are few, and madvise has one advice. */
#include "unit.h"

#include <malloc.h>
#include <nearcpu/malloc.h>

#include "child.h"
#include "filter.h"
#include "base/topology.h"
#include "malloc/base/os.h"

int malloc_trim(size_t pad); /* musl does not declare it */

#define THREADS 2
#define BLOCKS 30000
#define MB ((size_t)1 << 20)

#ifdef SECCOMP_FILTER_FLAG_TSYNC

#define POPULATE_WRITE 23

static const long always[] = {
	SYS_mmap,           SYS_munmap, SYS_mprotect,      SYS_madvise, SYS_futex,
	SYS_sched_yield,    SYS_getcpu, SYS_clock_gettime, SYS_exit,    SYS_exit_group,
	SYS_rt_sigprocmask, SYS_getpid, SYS_gettid,        SYS_write, /* of a failed check */
};
static const long others[] = {SYS_membarrier, SYS_mremap,        SYS_process_vm_readv, SYS_rseq,
			      SYS_mbind,      SYS_get_mempolicy, SYS_openat,           SYS_read,
			      SYS_close,      SYS_mincore,       SYS_pread64};

static bool are_few(void)
{
	const char *conf = getenv("NEAR_CONF");

	return conf && strstr(conf, "calls:few");
}

static void add(struct sock_fprog *f, struct sock_filter instruction)
{
	f->filter[f->len++] = instruction;
}

/* Allows this, if the loaded word is `value`. */
static void allow(struct sock_fprog *f, long value)
{
	add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)value, 0, 1));
	add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

static void load(struct sock_fprog *f, size_t offset)
{
	add(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

#define ADVICE (offsetof(struct seccomp_data, args) + 2 * sizeof(uint64_t))

static bool install(void)
{
	struct sock_filter code[100];
	struct sock_fprog f = {0, code};

	load(&f, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < LENGTH(always); i++)
		if (always[i] != SYS_madvise)
			allow(&f, always[i]);
	for (size_t i = 0; i < LENGTH(others) && !are_few(); i++)
		allow(&f, others[i]);
	add(&f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 1, 0));
	add(&f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
	load(&f, ADVICE); /* the low half: all these machines are little-endian */
	allow(&f, MADV_DONTNEED);
	if (!are_few()) {
		allow(&f, POPULATE_WRITE);
		allow(&f, MADV_NOHUGEPAGE);
	}
	add(&f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &f) == 0;
}

/* ---- what the threads do ---- */

static void use_small(void)
{
	static __thread char *blocks[BLOCKS];

	for (size_t i = 0; i < BLOCKS; i++) {
		CHECK((blocks[i] = malloc(16 + i * 37 % 2000)));
		blocks[i][0] = 1;
	}
	for (size_t i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

static void use_large(void)
{
	char *p = malloc(MB), *q;

	for (size_t i = 1; i < 40; i++) {
		CHECK((p = realloc(p, i * MB)));
		CHECK((q = calloc(1, 3 * MB)));
		p[i * MB - 1] = 1;
		free(q);
	}
	free(p);
	CHECK((p = aligned_alloc(2 * MB, 2 * MB)));
	free(p);
}

static void use_all(void)
{
	struct near_malloc_stats s;

	for (int i = 0; i < 2; i++) {
		use_small();
		use_large();
		malloc_trim(0);
		CHECK(near_malloc_stats(&s, sizeof(s)) == 0);
	}
}

static pthread_barrier_t barrier;

static void *use_in_thread(void *unused)
{
	pthread_barrier_wait(&barrier); /* the thread has begun */
	pthread_barrier_wait(&barrier); /* the filter is there */
	use_all();
	pthread_barrier_wait(&barrier);
	for (;;) /* no end: the C library makes calls for it */
		pthread_barrier_wait(&barrier);
	return unused;
}

static void use_filtered(void *unused)
{
	free(malloc(1)); /* the heap begins */
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		unit_start(use_in_thread, NULL);
	pthread_barrier_wait(&barrier);
	if (!install())
		_exit(77);
	pthread_barrier_wait(&barrier);
	use_all();
	pthread_barrier_wait(&barrier);
	_exit(0);
}

static void no_other_calls_are_made(void **state)
{
	int signal = 0, status;

	if (unit_emulated()) /* it has calls of its own */
		skip();
	status = unit_wait(unit_fork(use_filtered, NULL), &signal);
	if (status == 77)
		skip();
	assert_int_equal(signal, 0);
	assert_int_equal(status, 0);
}

/* mincore is not asked where a filter is in force, which may end the process. */
static void ask_what_is_resident(void *unused)
{
	char *p = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	p[MB / 2] = 1;
	if (!filter_out(SYS_mincore, EPERM))
		_exit(77);
	CHECK(near__os_is_resident(p + MB / 2 + 5));
	CHECK(!near__os_is_resident(p + MB - 1));
	_exit(0);
}

static void what_is_resident_is_known(void **state)
{
	if (unit_emulated() || access("/proc/self/pagemap", R_OK) || near__topology_nodes() > 1)
		skip();
	unit_in_child(ask_what_is_resident, NULL);
}

UNIT_MAIN(no_other_calls_are_made, what_is_resident_is_known)

#else

int main(void)
{
	return 77;
}

#endif
