/* SPDX-License-Identifier: MIT */
/* What holds for the whole process: decided once, on the first need, and constant from then on. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/signals.h"
#include "base/topology.h"
#include "base/valgrind.h"
#include "kernel/area.h"
#include "kernel/hint.h"
#include "kernel/kernel.h"

#define MEMBARRIER_QUERY 0
#define MEMBARRIER_RSEQ (1 << 7)
#define MEMBARRIER_REGISTER_RSEQ (1 << 8)
#define AUXV_RSEQ_FEATURE_SIZE 27
#define AUXV_RSEQ_ALIGN 28
#define FEATURES_WITH_CID 28 /* offset after mm_cid */

/* More slots than this would reserve too much address space for each arena; a machine that
 * reports that many possible nodes has far fewer. */
#define MAX_PAIRED_SLOTS 16384

/* A negative errno, or what the call returns; errno is left alone. */
static long process_membarrier(int command)
{
	int saved = errno;
	long r = syscall(NEAR__SYS_MEMBARRIER, command, 0, 0);

	r = r < 0 ? -errno : r;
	errno = saved;
	return r;
}

/* A full barrier on every CPU that runs a thread of this process, and an abort of every sequence
 * there. With slots by cid it cannot be aimed at one CPU: a cid does not name one. Where no thread
 * is ever live there is nothing to fence. */
void near__fence(void)
{
	long r;

	if (!near__process.usable)
		return;
	r = process_membarrier(MEMBARRIER_RSEQ);
	if (r == -EPERM) { /* an exec-like change of the address space forgot the registration */
		process_membarrier(MEMBARRIER_REGISTER_RSEQ);
		r = process_membarrier(MEMBARRIER_RSEQ);
	}
	if (r < 0)
		near__die("membarrier stopped working (a filter installed after start?); "
			  "start the program with NEAR_CONF=rseq:off");
}

static unsigned kernel_version(void)
{
	struct utsname u;
	unsigned part[3] = {0, 0, 0};
	const char *p = u.release;

	if (syscall(SYS_uname, &u))
		return 0;
	for (int i = 0; i < 3 && *p >= '0' && *p <= '9'; i++) {
		while (*p >= '0' && *p <= '9')
			part[i] = part[i] * 10 + (unsigned)(*p++ - '0');
		p += *p == '.';
	}
	return part[0] << 16 | part[1] << 8 | (part[2] > 255 ? 255 : part[2]);
}

/* Why this process cannot run sequences, or NULL. */
static const char *process_unusable(struct near__process *p)
{
	if (!NEAR__HAS_SEQ)
		return "this CPU has no sequences in this version";
	if (p->conf.rseq_off)
		return "switched off by NEAR_CONF=rseq:off";
	if (p->conf.few_calls)
		return "membarrier is forbidden by NEAR_CONF=calls:few";
	if (p->conf.fence_off)
		return "interrupts to other CPUs are forbidden by NEAR_CONF=fence:off";
	if (near__why_other_copy())
		return near__why_other_copy();
	if (NEAR__BROKEN_KERNEL(kernel_version()))
		return NEAR__BROKEN_WHY;
	if (near__syscall_rseq(NULL, 0, 0) == -ENOSYS)
		return "the kernel has no rseq (before 4.18), "
		       "or an emulator or a system call filter (seccomp) hides it";
	if (!(p->membarrier & MEMBARRIER_RSEQ) || process_membarrier(MEMBARRIER_REGISTER_RSEQ) < 0)
		return "the kernel has no membarrier for rseq (before 5.10), "
		       "or a system call filter (seccomp) hides it";
	if (!near__is_first_version())
		return "another version of this library is in this process, and comes first";
	return NULL;
}

static void choose_slots(struct near__process *p)
{
	p->slots = p->cpus;
	p->index_mode = 1;
	p->slot_kind = NEAR_SLOT_CPU;
	if (!p->usable) {
		p->slot_why = "the portable path is indexed by the cpu";
		return;
	}
	if (p->conf.slot == NEAR__SLOT_BY_CPU || !p->has_cid) {
		p->slot_why = p->has_cid ? "chosen by NEAR_CONF=slot:cpu"
					 : "the kernel has no concurrency ids (before 6.3)";
		return;
	}
	p->slot_kind = NEAR_SLOT_CID;
	p->index_mode = 0;
	p->slot_why = "one node: memory follows the number of threads that run together";
	if (p->conf.slot == NEAR__SLOT_BY_CID) {
		p->slot_why = "chosen by NEAR_CONF=slot:cid";
	} else if (p->nodes > 1 && p->nodes * p->cpus > MAX_PAIRED_SLOTS) {
		p->slot_why = "too many possible nodes to give each its slots";
	} else if (p->nodes > 1) {
		p->slot_kind = NEAR_SLOT_NODE_CID;
		p->slot_why = "several nodes: each has slots of its own, so that memory is local";
		p->index_mode = p->cpus;
		p->slots = p->cpus * p->nodes;
	}
}

static struct near__fork_turn turn;

static void visit_lock(near__fork_step *step)
{
	step(&near__process.decision);
}

static void process_is_child(void)
{
	near__blocks_fork_child();
	__atomic_fetch_add(&near__process.forks, 1, __ATOMIC_RELAXED);
}

NEAR__FORK_HANDLERS(process, &turn, visit_lock, visit_lock, process_is_child)

static void process_decide(struct near__process *p)
{
	long commands = process_membarrier(MEMBARRIER_QUERY);

	near__conf_read(&p->conf);
	p->cpus = near__topology_cpus();
	p->nodes = p->conf.few_calls ? 1 : near__topology_nodes(); /* no mbind */
	p->membarrier = commands > 0 ? (unsigned)commands : 0;
	p->feature_size = (unsigned)getauxval(AUXV_RSEQ_FEATURE_SIZE);
	p->feature_align = (unsigned)getauxval(AUXV_RSEQ_ALIGN);
	p->why = process_unusable(p);
	p->usable = !p->why;
	p->has_cid = p->has_node = p->usable && p->feature_size >= FEATURES_WITH_CID;
	choose_slots(p);
	near__dead.cpu_id = p->cpus;
	near__dead.mm_cid = p->slots;
	p->hint = near__hint_choose(p->cpus);
	p->libc_registers = near__area_of_libc() != NULL;
}

/* With one thread a registration takes a microsecond and interrupts no CPU; with several it takes
 * some 20 ms, as the kernel waits for all CPUs. So it is made here if there is one thread, and else
 * when it is needed. If it fails, process_unusable() reports why. */
__attribute__((constructor)) static void register_early(void)
{
	if (NEAR__HAS_SEQ && near__is_one_thread())
		process_membarrier(MEMBARRIER_REGISTER_RSEQ);
}

/* Runs before the first decision: a child could otherwise wait forever for a deciding thread, which
 * it does not have. One of several copies of the library in a process registers the handlers. */
__attribute__((constructor)) static void process_watch_forks(void)
{
	near__blocks_begin();
	NEAR__FORK_REGISTER(process, &near__process.watches_forks);
}

NEAR__BEFORE_PROGRAM static void process_ignore_races(void)
{
	near__valgrind_ignore(&near__process, sizeof(near__process));
	near__valgrind_ignore(&near__dead, sizeof(near__dead)); /* all that are not live share it */
}

bool near__process_init(void)
{
	struct near__process *p = &near__process;
	int saved = errno;
	sigset_t old;

	/* Pairs with the release below: a thread that sees it decided sees all that was decided. */
	if (NEAR__LIKELY(__atomic_load_n(&p->decided, __ATOMIC_ACQUIRE)))
		return true;
	/* Relaxed: only this thread stores its own address. */
	if (__atomic_load_n(&p->decider, __ATOMIC_RELAXED) == (uintptr_t)&near__self)
		return false;
	/* A signal handler could find the state incomplete, or wait for its own thread. */
	near__signals_block(&old);
	near_lock_lock(&p->decision);
	if (!__atomic_load_n(&p->decided, __ATOMIC_RELAXED)) {
		__atomic_store_n(&p->decider, (uintptr_t)&near__self, __ATOMIC_RELAXED);
		process_decide(p);
		__atomic_store_n(&p->decider, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&p->decided, 1, __ATOMIC_RELEASE);
	}
	near_lock_unlock(&p->decision);
	near__signals_restore(&old);
	errno = saved;
	return true;
}
