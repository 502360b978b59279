/* SPDX-License-Identifier: MIT */
/* The chain of sources for a thread that is not live: rdpid, lsl, rdtscp, the C library's
 * sched_getcpu, a hash of the thread id. Each is believed only if it agrees with the system call:
 * an emulator may run the instruction and answer nonsense. */
#define _GNU_SOURCE
#include "kernel/hint.h"

#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/area.h"
#include "kernel/kernel.h"

/* How often a costly source is used before it is queried again. */
#define USES 64

static int where_by_syscall(unsigned *cpu, unsigned *node)
{
	return (int)syscall(SYS_getcpu, cpu, node, NULL);
}

static uint32_t by_insn(uint32_t source)
{
	switch (source) {
#if NEAR__HAS_CPU_INSN
	case NEAR__HINT_RDPID:
		return near__insn_rdpid();
	case NEAR__HINT_LSL:
		return near__insn_lsl();
	case NEAR__HINT_RDTSCP:
		return near__insn_rdtscp();
#endif
	default:
		return UINT32_MAX;
	}
}

static bool insn_is_there(uint32_t source)
{
	switch (source) {
#if NEAR__HAS_CPU_INSN
	case NEAR__HINT_RDPID:
		return near__insn_has_rdpid();
	/* Valgrind cannot run lsl; it hides the vDSO, which uses lsl itself. */
	case NEAR__HINT_LSL:
		return getauxval(AT_SYSINFO_EHDR) != 0;
	case NEAR__HINT_RDTSCP:
		return near__insn_has_rdtscp();
#endif
	default:
		return false;
	}
}

/* The thread may migrate between the two readings: three tries. */
static bool source_agrees(uint32_t source)
{
	unsigned cpu = 0, node = 0;

	for (int i = 0; i < 3; i++)
		if (!where_by_syscall(&cpu, &node) && by_insn(source) == (node << 12 | cpu))
			return true;
	return false;
}

uint32_t near__hint_choose(unsigned cpus)
{
	int cpu;

	/* Twelve bits hold the CPU. */
	for (uint32_t s = NEAR__HINT_RDPID; s <= NEAR__HINT_RDTSCP && cpus <= 4096; s++)
		if (insn_is_there(s) && source_agrees(s))
			return s;
	cpu = sched_getcpu();
	return cpu >= 0 && (unsigned)cpu < cpus ? NEAR__HINT_GETCPU : NEAR__HINT_TID;
}

const char *near__hint_name(uint32_t source)
{
	switch (source) {
	case NEAR__HINT_RDPID:
		return "rdpid";
	case NEAR__HINT_LSL:
		return "lsl";
	case NEAR__HINT_RDTSCP:
		return "rdtscp";
	case NEAR__HINT_GETCPU:
		return "sched_getcpu";
	default:
		return "hash of the thread id";
	}
}

void near__where(unsigned *cpu, unsigned *node)
{
	uint32_t v = by_insn(near__process.hint);

	if (v != UINT32_MAX) {
		*cpu = v & 0xfff;
		*node = v >> 12;
	} else if (where_by_syscall(cpu, node)) {
		*cpu = *node = 0;
	}
}

/* A number that differs between threads, for machines where nothing else is known. */
static uint32_t hash_of_tid(void)
{
	return (uint32_t)syscall(SYS_gettid) * 2654435769u >> 8;
}

/* Without a block it is queried each time. */
static uint32_t hint_costly(void)
{
	struct near__kernel_thread here = {0}, *t = near__kernel_thread_own();

	t = t ? t : &here;
	if (t->uses++ % USES == 0)
		t->hint = near__process.hint == NEAR__HINT_GETCPU ? (uint32_t)sched_getcpu()
								  : hash_of_tid();
	return t->hint;
}

unsigned near__hint(void)
{
	struct near__thread *t = &near__self;
	/* In the child of a vfork the C library's area is the parent's: good enough for a hint. */
	const struct near__area *area = t->state == NEAR__THREAD_LIVE ? t->area : t->libc_area;
	int32_t cpu = area ? near__area_cpu(area) : -1;
	uint32_t cpus = near__process.cpus, v;

	if (NEAR__LIKELY(cpu >= 0)) {
		v = (uint32_t)cpu;
	} else if (near__process.hint <= NEAR__HINT_RDTSCP) {
		v = by_insn(near__process.hint) & 0xfff;
	} else {
		v = hint_costly();
	}
	return NEAR__LIKELY(v < cpus) ? v : v % cpus;
}
