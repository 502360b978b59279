/* SPDX-License-Identifier: MIT */
/* Where a thread runs and whether it is live, in each mode that the tests run in: the answers
 * against the kernel's, registrations by the C library, by this library and by another. */
#include <nearcpu/counter.h>

#include "kernel/area.h"
#include "kernel/hint.h"
#include "live.h"
#include "team.h"

extern const unsigned __rseq_size __attribute__((weak));

static bool setting(const char *text)
{
	const char *conf = getenv("NEAR_CONF");

	return conf && strstr(conf, text);
}

/* What the kernel offers, queried without the library. */
static bool kernel_can(void)
{
	return syscall(NEAR__SYS_RSEQ, NULL, 0, 0, 0) < 0 && errno != ENOSYS &&
	       syscall(NEAR__SYS_MEMBARRIER, 0, 0, 0) > 0 &&
	       syscall(NEAR__SYS_MEMBARRIER, 0, 0, 0) & 1 << 7;
}

static void status_tells_the_mode(void **state)
{
	struct near_rseq_status st = status_now();
	bool libc_registers = &__rseq_size && __rseq_size > 0;

	assert_int_equal(st.live, kernel_can() && !setting("rseq:off"));
	assert_int_equal(st.own_area, st.live && !libc_registers);
	assert_non_null(st.why);
	assert_true(strlen(st.why) > 10);
	assert_int_equal(st.area_size != 0, st.live);
	assert_int_equal(st.feature_size, getauxval(27));
	assert_int_equal(st.feature_align, getauxval(28));
	assert_int_equal(st.has_cid, st.live && getauxval(27) >= 28);
	assert_int_equal(st.has_node, st.has_cid);
	assert_int_equal(st.cpus, near_cpus());
	assert_int_equal(st.slots, near_slots());
	assert_true(st.nodes >= 1);
	assert_non_null(st.hint);
	assert_non_null(st.slot_why);
	if (st.live && libc_registers)
		assert_string_equal(st.why, "registered by the C library");
	if (!NEAR__HAS_SEQ)
		assert_string_equal(st.why, "this CPU has no sequences in this version");
	else if (setting("rseq:off"))
		assert_string_equal(st.why, "switched off by NEAR_CONF=rseq:off");
	if (setting("slot:cpu") || !st.has_cid)
		assert_int_equal(st.slot_kind, NEAR_SLOT_CPU);
	else
		assert_int_equal(st.slot_kind, st.nodes > 1 ? NEAR_SLOT_NODE_CID : NEAR_SLOT_CID);
	assert_int_equal(st.slots,
			 st.slot_kind == NEAR_SLOT_NODE_CID ? st.cpus * st.nodes : st.cpus);
}

static void reserved_grows_with_arenas(void **state)
{
	size_t before = status_now().reserved;
	void *p;

	assert_int_equal(near_percpu_alloc(200000, 8, &p), 0);
	assert_true(status_now().reserved >= before + near_slots() * ((size_t)1 << 20));
	near_percpu_free(p);
}

/* ---- where ---- */

static void check_place(unsigned cpu)
{
	unsigned kernel_cpu = 0, kernel_node = 0;

	errno = UNIT_ERRNO;
	assert_int_equal(near_cpu(), cpu);
	assert_true(near_cid() < near_cpus());
	assert_true(near_slot() < near_slots());
	near_node();
	assert_int_equal(errno, UNIT_ERRNO);
	assert_int_equal(near_cpu(), sched_getcpu());
	assert_int_equal(syscall(SYS_getcpu, &kernel_cpu, &kernel_node, NULL), 0);
	assert_int_equal(kernel_cpu, cpu);
	assert_int_equal(near_node(), kernel_node);
	assert_true(near__hint() < near_cpus());
	if (!near__process.usable || near__process.slot_kind == NEAR_SLOT_CPU)
		assert_int_equal(near_slot(), cpu);
}

static void a_pinned_thread_is_where_it_was_put(void **state)
{
	unsigned cpu;

	for (unsigned n = 0; unit_pin(n, &cpu); n++)
		for (int i = 0; i < 200; i++)
			check_place(cpu);
	unit_unpin();
}

/* The hash of a thread id is any number. */
static void check_hints_in_range(void)
{
	uint32_t preferred = near__process.hint;
	struct near__thread self = play_dead();

	near__process.hint = NEAR__HINT_TID;
	near__self.libc_area = NULL;
	for (int i = 0; i < 200; i++)
		assert_true(near__hint() < near_cpus());
	near__self = self;
	near__process.hint = preferred;
}

static void every_hint_source_agrees_with_the_kernel(void **state)
{
	uint32_t preferred, sources[8];
	unsigned cpu, where_cpu, where_node, node, n_sources = 0;

	near_slots();
	preferred = near__process.hint;
	assert_string_not_equal(near__hint_name(preferred), near__hint_name(NEAR__HINT_TID));
	sources[n_sources++] = preferred;
	sources[n_sources++] = NEAR__HINT_GETCPU;
	sources[n_sources++] = NEAR__HINT_TID;
#if NEAR__HAS_CPU_INSN
	if (!unit_emulated() && near__insn_has_rdpid())
		sources[n_sources++] = NEAR__HINT_RDPID;
	if (!unit_emulated())
		sources[n_sources++] = NEAR__HINT_LSL;
	if (!unit_emulated() && near__insn_has_rdtscp())
		sources[n_sources++] = NEAR__HINT_RDTSCP;
#endif
	for (unsigned n = 0; unit_pin(n, &cpu); n++) {
		syscall(SYS_getcpu, NULL, &node, NULL);
		for (unsigned s = 0; s < n_sources; s++) {
			near__process.hint = sources[s];
			near__where(&where_cpu, &where_node);
			assert_int_equal(where_cpu, cpu);
			assert_int_equal(where_node, node);
			near__kernel_thread_own()->uses = 0;
			if (near__self.state == NEAR__THREAD_LIVE || sources[s] != NEAR__HINT_TID)
				assert_int_equal(near__hint(), cpu);
			assert_true(near__hint() < near_cpus());
		}
	}
	near__process.hint = preferred;
	unit_unpin();
	check_hints_in_range();
	/* Instructions have twelve bits for the CPU. */
	assert_true(near__hint_choose(5000) >= NEAR__HINT_GETCPU);
}

/* ---- cids ---- */

static pthread_barrier_t both_start;
static struct {
	unsigned cid;
	bool undisturbed;
} readers[2];

static long switches(void)
{
	struct rusage usage;

	CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static int at_gate;

/* Waits until n arrivals; gives up when the other thread does not run. */
static void arrive(int n)
{
	__atomic_add_fetch(&at_gate, 1, __ATOMIC_ACQ_REL);
	for (int i = 0; __atomic_load_n(&at_gate, __ATOMIC_ACQUIRE) < n && i < 10000000; i++)
		;
}

/* Both threads run from before the gate to behind it if neither was switched out. */
static void read_cid(unsigned number)
{
	long before;

	CHECK(unit_pin(number, NULL));
	near_slot();
	pthread_barrier_wait(&both_start);
	before = switches();
	arrive(2);
	readers[number].cid = near_cid();
	arrive(4);
	readers[number].undisturbed = switches() == before;
}

static void running_threads_have_different_cids(void **state)
{
	int seen = 0;

	if (!is_live() || !unit_pin(1, NULL))
		skip();
	unit_unpin();
	pthread_barrier_init(&both_start, NULL, 2);
	for (int i = 0; i < 200 && seen < 20; i++) {
		at_gate = 0;
		team_run(2, read_cid);
		if (!readers[0].undisturbed || !readers[1].undisturbed || at_gate != 4)
			continue;
		seen++;
		assert_int_not_equal(readers[0].cid, readers[1].cid);
	}
	pthread_barrier_destroy(&both_start);
	if (!seen)
		skip(); /* the machine is too busy to run two threads at once */
}

/* ---- registrations ---- */

/* The raw registration of an area by another library, on a thread that the C library left alone. */
static struct near__area others_area __attribute__((aligned(32)));
#define OTHERS_SIGNATURE 0x12345678

static void *use_with_another_owner(void *count)
{
	struct near_rseq_status st;

	CHECK(syscall(NEAR__SYS_RSEQ, &others_area, 32, 0, OTHERS_SIGNATURE) == 0);
	st = status_now();
	CHECK(!st.live && !st.own_area && st.area_size == 0);
	CHECK(strstr(st.why, "another library holds this thread's registration"));
	for (int i = 0; i < 1000; i++)
		near_counter_add(count, 1);
	CHECK(near_cpu() < near_cpus() && near_slot() < near_slots());
	CHECK(others_area.cpu_id < near_cpus() && others_area.rseq_cs == 0);
	CHECK(syscall(NEAR__SYS_RSEQ, &others_area, 32, 1, OTHERS_SIGNATURE) == 0);
	/* Too late: a thread's kind does not change under its feet. */
	CHECK(!is_live());
	return NULL;
}

static void another_owner_is_respected(void **state)
{
	struct near_counter count;

	if (!kernel_can() || setting("rseq:off") || (&__rseq_size && __rseq_size))
		skip(); /* the mode own_area runs this */
	assert_int_equal(near_counter_init(&count), 0);
	unit_join(unit_start(use_with_another_owner, &count));
	assert_int_equal(near_counter_read(&count), 1000);
	assert_true(is_live()); /* this thread has nothing to do with it */
	near_counter_destroy(&count);
}

/* In the kernel's area nobody but the kernel writes, except rseq_cs. */
static void *watch_area(void *count)
{
	struct near__area *area, before, after;

	near_slot();
	if (near__self.state != NEAR__THREAD_LIVE)
		return NULL;
	area = near__self.area;
	CHECK(unit_pin(0, NULL));
	for (int i = 0; i < 1000; i++) {
		memcpy(&before, area, sizeof(before));
		for (int k = 0; k < 10; k++)
			near_counter_add(count, 1);
		memcpy(&after, area, sizeof(after));
		CHECK(before.cpu_id == after.cpu_id && before.cpu_id_start == after.cpu_id_start);
		CHECK(before.flags == after.flags && before.node_id == after.node_id);
	}
	return NULL;
}

static void the_kernels_fields_are_left_alone(void **state)
{
	struct near_counter count;

	assert_int_equal(near_counter_init(&count), 0);
	unit_join(unit_start(watch_area, &count));
	near_counter_destroy(&count);
}

/* A program of an older version knows less, one of a newer version more. */
static void status_of_other_sizes(void **state)
{
	struct near_rseq_status all = status_now();
	struct {
		struct near_rseq_status known;
		char more[40];
	} later;
	struct near_rseq_status earlier;
	size_t until = offsetof(struct near_rseq_status, slots);

	memset(&earlier, 0x5a, sizeof(earlier));
	assert_int_equal(near_rseq_status(&earlier, until), 0);
	assert_int_equal(earlier.live, all.live);
	assert_int_equal(earlier.slot_kind, all.slot_kind);
	assert_int_equal(earlier.slots, 0x5a5a5a5a);
	memset(&later, 0x5a, sizeof(later));
	assert_int_equal(near_rseq_status(&later.known, sizeof(later)), 0);
	assert_int_equal(later.known.slots, all.slots);
	for (size_t i = 0; i < sizeof(later.more); i++)
		assert_int_equal(later.more[i], 0);
	assert_int_equal(near_rseq_status(&earlier, 0), -EINVAL);
}

UNIT_MAIN(status_tells_the_mode, reserved_grows_with_arenas, a_pinned_thread_is_where_it_was_put,
	  every_hint_source_agrees_with_the_kernel, running_threads_have_different_cids,
	  another_owner_is_respected, the_kernels_fields_are_left_alone, status_of_other_sizes)
