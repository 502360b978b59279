/* SPDX-License-Identifier: MIT */
/* lab_nodes: every page of every slot is on the slot's node, whichever threads read, free and
 * allocate. If the node has no memory, pages are on nodes that have some. */
#define _GNU_SOURCE
#include "lab.h"

#include <errno.h>
#include <nearcpu/percpu.h>
#include <pthread.h>
#include <time.h>

#define PAGE 4096u
#define STRIDE ((size_t)1 << NEAR_STRIDE_SHIFT)
#define PAGES (STRIDE / PAGE)
#define SECONDS 6

#define THREADS 12u
/* Five large ones fill an arena: with many of them, slots are opened all the time. */
#define LARGE 200000u
#define LARGES 60u

static const size_t sizes[] = {8, 64, 1024, 16384, 100000, 200000};
#define OBJECTS (sizeof(sizes) / sizeof(sizes[0]))

static char *objects[OBJECTS], *larges[LARGES];
static unsigned with_memory[LAB_NODES], memory_nodes;
static struct near_rseq_status st;

/* ---- the node of a page ---- */

static unsigned node_of_slot(unsigned slot)
{
	return st.slot_kind == NEAR_SLOT_CPU ? lab_node_of(slot) : slot / st.cpus;
}

static bool right_node(int found, unsigned wanted)
{
	if (lab_has(with_memory, memory_nodes, wanted))
		return found == (int)wanted;
	return lab_has(with_memory, memory_nodes, (unsigned)found);
}

/* Counts the pages of a slot that are there. */
static unsigned check_slot(const char *base, unsigned slot, unsigned *wrong)
{
	static void *pages[PAGES];
	static int status[PAGES];
	unsigned present = 0;

	for (size_t i = 0; i < PAGES; i++)
		pages[i] = (void *)(uintptr_t)(base + i * PAGE);
	LAB_CHECK(syscall(SYS_move_pages, 0, PAGES, pages, NULL, status, 0) == 0);
	for (size_t i = 0; i < PAGES; i++) {
		/* -EFAULT: read, but never written. */
		if (status[i] == -ENOENT || status[i] == -EFAULT)
			continue;
		LAB_CHECK(status[i] >= 0);
		present++;
		if (right_node(status[i], node_of_slot(slot)))
			continue;
		printf("page %zu of slot %u is on node %d, not %u\n", i, slot, status[i],
		       node_of_slot(slot));
		++*wrong;
	}
	return present;
}

/* Objects in the same arena have the same pages. */
static void check_all(const char *when, char *const *of, size_t n)
{
	unsigned present = 0, wrong = 0, slots = 0, seen[LAB_NODES] = {0}, nodes = 0;
	uintptr_t base = 0;

	for (size_t k = 0; k < n; k++) {
		if (((uintptr_t)of[k] & ~(STRIDE - 1)) == base)
			continue;
		base = (uintptr_t)of[k] & ~(STRIDE - 1);
		for (unsigned s = 0; near_percpu_next(of[k], &s); s++) {
			if (near_percpu_is_fallback(s))
				continue;
			present += check_slot(near_percpu_at((void *)base, s), s, &wrong);
			slots++;
			seen[node_of_slot(s)]++;
		}
	}
	for (unsigned i = 0; i < LAB_NODES; i++)
		nodes += seen[i] > 0;
	printf("%s: %u pages in %u slots on %u nodes, %u on a wrong node\n", when, present, slots,
	       nodes, wrong);
	LAB_CHECK(present >= slots && slots > 0);
	if (wrong)
		LAB_FAIL("%s: %u of %u pages are on a wrong node", when, wrong, present);
}

/* ---- writing everywhere ---- */

/* Writes to every page of the thread's copy. The caller is pinned: its node does not change, and no
 * other thread has its cid while it runs. */
static void fill(void *p, size_t size)
{
	LAB_CHECK(near_slot_open(p));
	for (size_t at = 0; at < size; at += 512) {
		char *copy = near_percpu_at(p, near_slot());

		LAB_CHECK(near_slot_open(p));
		__atomic_store_n(copy + at, 1, __ATOMIC_RELAXED);
	}
}

static void *fill_from(void *cpu)
{
	LAB_CHECK(lab_pin(*(unsigned *)cpu));
	for (size_t k = 0; k < OBJECTS; k++)
		fill(objects[k], sizes[k]);
	return cpu;
}

static void fill_from_all_cpus(void)
{
	static unsigned cpus[LAB_CPUS];
	unsigned n = lab_online(cpus);
	pthread_t thread;

	for (unsigned i = 0; i < n; i++) {
		LAB_CHECK(pthread_create(&thread, NULL, fill_from, &cpus[i]) == 0);
		pthread_join(thread, NULL);
	}
}

static void allocate(char **out, size_t n)
{
	void *p;

	for (size_t k = 0; k < n; k++) {
		LAB_CHECK(near_percpu_alloc(n == OBJECTS ? sizes[k] : LARGE, 8, &p) == 0);
		out[k] = p;
	}
}

/* Opens the slots of all CPUs from one of them, as a thread does that has moved since it read the
 * number of its slot. */
static void open_from_afar(void)
{
	static unsigned cpus[LAB_CPUS];
	unsigned n = lab_online(cpus);
	struct near__area *own, seen;

	LAB_CHECK(lab_pin(cpus[0]) && near_slot() == cpus[0]);
	own = near__self.area;
	for (unsigned i = 0; i < n; i++) {
		seen = *own;
		seen.cpu_id = seen.cpu_id_start = cpus[i];
		near__self.area = &seen;
		for (size_t k = 0; k < LARGES; k++)
			LAB_CHECK(near_slot() == cpus[i] && near_slot_open(larges[k]));
		near__self.area = own;
	}
}

/* Frees and allocates from here what was filled from everywhere. */
static void renew(void)
{
	for (size_t k = 0; k < OBJECTS; k++)
		near_percpu_free(objects[k]);
	allocate(objects, OBJECTS);
}

/* ---- stress ---- */

static bool stop;

/* at[0]++ in the thread's slot; the page may be allocated inside of the sequence. */
static bool bump(void *p)
{
	uint64_t at, v;

	return NEAR_SEQ(
		NEAR_SLOT(at, p)
		NEAR_LOAD8(v, at, 0)
		NEAR_ADD_CONST(v, 1)
		NEAR_COMMIT8(v, at, 0),
		NEAR_OUT(at, v), NEAR_IN(NEAR_OBJECT(p)));
}

/* Goes from CPU to CPU as the kernel likes, and now and then where it is sent. */
static void *storm_thread(void *seed)
{
	unsigned cpus[LAB_CPUS], n = lab_online(cpus);
	uint64_t r = (uintptr_t)seed;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		char *p;

		r = r * UINT64_C(6364136223846793005) + 1442695040888963407;
		if (r >> 33 & 1)
			lab_pin(cpus[(r >> 40) % n]);
		p = larges[(r >> 50) % LARGES] + (r >> 20) % (LARGE / PAGE) * PAGE;
		while (!bump(p))
			LAB_CHECK(near_slot_open(p));
	}
	return seed;
}

static void storm(void)
{
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		LAB_CHECK(pthread_create(&threads[i], NULL, storm_thread, (void *)(i + 1)) == 0);
	sleep(SECONDS);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	near_rseq_status(&st, sizeof(st));
	memory_nodes = lab_list("/sys/devices/system/node/has_memory", with_memory, LAB_NODES);
	LAB_CHECK(st.live && memory_nodes > 0);
	printf("%u nodes, %u with memory\n", st.nodes, memory_nodes);
	allocate(objects, OBJECTS);
	fill_from_all_cpus();
	check_all("filled from each cpu", objects, OBJECTS);
	renew();
	check_all("freed and allocated from one cpu", objects, OBJECTS);
	fill_from_all_cpus();
	check_all("filled again", objects, OBJECTS);
	allocate(larges, LARGES);
	if (st.slot_kind == NEAR_SLOT_CPU) {
		open_from_afar();
		check_all("opened from afar", larges, LARGES);
	}
	storm();
	check_all("after a storm", larges, LARGES);
	return 0;
}
