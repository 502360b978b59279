/* SPDX-License-Identifier: MIT */
/* Liveness: whether the kernel watches this thread's sequences. See struct near__thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <errno.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/known.h"
#include "kernel/area.h"
#include "kernel/hint.h"
#include "kernel/kernel.h"

/* near__thread.state and the offsets in the assembly of vfork. */
_Static_assert(offsetof(struct near__thread, area) == 0, "vfork's assembly");
_Static_assert(!NEAR__HAS_SEQ || offsetof(struct near__thread, state) == 12, "vfork's assembly");
_Static_assert(NEAR__VFORKED == 3, "vfork's assembly");
#ifdef NEAR__VFORK_ASM
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, %function\n" NEAR__VFORK_MARK "vfork:\n"
	".cfi_startproc\n" NEAR__VFORK_ASM ".cfi_endproc\n"
	".size vfork, . - vfork\n"
	".weak __vfork\n"
	".set __vfork, vfork\n");
#endif

/* The parent's way back from vfork. */
__attribute__((visibility("hidden"), used)) long near__vfork_parent(long pid)
{
	if (pid >= 0)
		return pid;
	errno = (int)-pid;
	return -1;
}

static void enter_live(struct near__area *area)
{
	struct near__thread *t = &near__self;

	t->index_mode = near__process.index_mode;
	t->area = area;
	*(volatile uint32_t *)&t->state = NEAR__THREAD_LIVE;
}

static void start_thread(void)
{
	struct near__area *area = near__area_of_libc();

	near__self.libc_area = area;
	if (!near__process.usable) {
		near__enter_dead();
	} else if (area) {
		enter_live(area);
	} else {
		/* Where the C library registers, another component has taken that away. */
		area = near__process.libc_registers ? NULL : near__area_register();
		if (area)
			enter_live(area);
		else
			near__enter_dead();
	}
}

bool near__thread_live_slow(void)
{
	if (near__self.state == NEAR__NEW && near__process_init())
		start_thread();
	if (near__self.state != NEAR__THREAD_LIVE)
		return false;
	if (NEAR__LIKELY(near__area_cpu(near__self.area) >= 0))
		return true;
	near__area_refuse(NEAR__AREA_TAKEN);
	near__enter_dead();
	return false;
}

/* Weak: a static program need not have them. */
#pragma weak dladdr
#pragma weak dlsym

typedef int clone_function(int (*)(void *), void *, int, void *, ...);

#ifdef __GLIBC__
/* clone() under the name that glibc exports for itself; a static program gets it by this
 * reference. */
extern clone_function __clone;

static clone_function *libc_clone(void)
{
	return __clone;
}
#else
/* musl hides its __clone in the shared library. In its archive the name is visible, and posix_spawn
 * brings it along: clone() itself is not taken from there, as ours is found first. */
extern clone_function __clone __attribute__((weak));
static __typeof__(posix_spawn) *const brings_clone __attribute__((used)) = posix_spawn;

static clone_function *libc_clone(void)
{
	clone_function *next = __clone;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "clone");
	return next;
}
#endif

/* `state` is set before `area` and unset after it, as in vfork. The locks' hook: threads that run
 * on one storage at the same time own their mutexes by two numbers, so that none is kept there. */
static void lend_storage(struct near__thread *t, uint32_t state)
{
	void (*hook)(void) = __atomic_load_n(&near__process.storage_is_shared, __ATOMIC_RELAXED);

	*(volatile uint32_t *)&t->state = state;
	t->area = &near__dead;
	if (state == NEAR__CLONED && hook)
		hook();
}

extern char __libc_single_threaded __attribute__((weak));

/* Before clone() starts a thread that the C library does not know: near_mutex_lock must not take
 * this one for the only thread. */
static void note_thread(void)
{
	/* Relaxed: clone() orders it before all that the child does. */
	if (&__libc_single_threaded)
		__atomic_store_n(&__libc_single_threaded, 0, __ATOMIC_RELAXED);
}

/* clone(): a child with the parent's memory (CLONE_VM) and no thread-local storage of its own
 * (CLONE_SETTLS) runs on the storage of this thread, where it finds a registration that is not its
 * own. With CLONE_VFORK this thread waits until the child is gone from its memory, as after
 * vfork(): the words are restored then. Without CLONE_VFORK parent and child use the words at the
 * same time, and neither of the two can know which it is: the thread is not live any more, unless
 * there is no child.
 *
 * C suffices: the child has a stack of its own, and does not return from here. Whether the caller
 * passed the last three arguments only the C library's clone() knows, which reads them as well.
 * Weak: in a program that has a function of this name, that is its own. */
__attribute__((visibility("default"), weak)) int clone(int (*fn)(void *), void *stack, int flags,
						       void *arg, ...)
{
	bool shares = NEAR__HAS_SEQ && flags & CLONE_VM && !(flags & CLONE_SETTLS);
	struct near__thread *t = &near__self, before = *t;
	void *parent_tid, *tls, *child_tid;
	va_list rest;
	int r;

	va_start(rest, arg);
	parent_tid = va_arg(rest, void *);
	tls = va_arg(rest, void *);
	child_tid = va_arg(rest, void *);
	va_end(rest);
	if (flags & CLONE_VM && !(flags & CLONE_VFORK))
		note_thread();
	if (shares)
		lend_storage(t, flags & CLONE_VFORK ? NEAR__VFORKED : NEAR__CLONED);
	r = libc_clone()(fn, stack, flags, arg, parent_tid, tls, child_tid);
	if (shares && (flags & CLONE_VFORK || r < 0)) {
		t->area = before.area;
		*(volatile uint32_t *)&t->state = before.state;
	}
	return r;
}

#pragma weak _DYNAMIC
extern ElfW(Dyn) _DYNAMIC[]; /* NOLINT: musl's <link.h> has no declaration */

/* Linked with -z nodelete, as our own shared libraries are. */
static bool stays_by_itself(void)
{
	for (const ElfW(Dyn) *d = _DYNAMIC; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_FLAGS_1)
			return d->d_un.d_val & DF_1_NODELETE;
	return false;
}

/* The kernel reads the descriptor of a thread's last sequence when it resumes the thread, however
 * long ago that sequence ended, and ends the process if it is gone. So an object with sequences is
 * opened once more, for good. dlopen() is not named, for linkers warn of it in static programs. */
void near__stay_loaded(const void *code)
{
	void *(*open)(const char *, int) = NULL;
	Dl_info here;

	/* The program itself has its headers at AT_PHDR. */
	if (!dladdr || !dlsym || !dladdr(code, &here) ||
	    getauxval(AT_PHDR) - (uintptr_t)here.dli_fbase <= 4096)
		return;
	*(void **)&open = dlsym(RTLD_DEFAULT, "dlopen");
	if (open)
		open(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Besides sequences, the object with this library in it can have destructors that threads call, and
 * the reserve of blocks, in which threads can have their areas. */
__attribute__((constructor)) static void stay_loaded(void)
{
	if (!stays_by_itself())
		near__stay_loaded((const void *)(uintptr_t)stay_loaded);
}

static const char *why_dead(void)
{
	if (!near__process.usable)
		return near__process.why;
	if (near__self.state == NEAR__VFORKED)
		return "this is the child of a vfork";
	if (near__self.state == NEAR__CLONED)
		return "a child of clone(CLONE_VM) got no thread-local storage of its own, "
		       "and shares this thread's";
	if (near__kernel_thread_peek()->refusal == NEAR__AREA_TAKEN)
		return "another part of the program took this thread's registration away "
		       "(another allocator or runtime?)";
	if (near__kernel_thread_peek()->refusal == -EINVAL)
		return "another library holds this thread's registration "
		       "(another allocator or runtime?)";
	if (near__kernel_thread_peek()->refusal)
		return "rseq was denied to this thread, "
		       "perhaps by a system call filter (seccomp) of a container or sandbox";
	return "there was no memory for the thread's area";
}

static void status_of_registration(struct near_rseq_status *out)
{
	out->live = near__thread_live();
	if (!out->live) {
		out->why = why_dead();
		return;
	}
	out->own_area = near__self.area != near__self.libc_area;
	if (out->own_area) {
		out->why = "registered by this library, since the C library did not";
		out->area_size = near__area_own_size();
	} else {
		out->why = "registered by the C library";
		out->area_size = near__area_size_of_libc();
	}
	/* A kernel that was built without the extension has room for it in the area all the
	 * same. */
	out->has_slice = out->area_size > NEAR__LEGACY_SIZE &&
			 near__self.area->flags & NEAR__SLICE_AVAILABLE;
}

static void thread_status(struct near_rseq_status *out)
{
	const struct near__process *p = &near__process;

	memset(out, 0, sizeof(*out));
	near__process_init();
	near__thread_live();
	status_of_registration(out);
	out->has_cid = p->has_cid;
	out->has_node = p->has_node;
	out->feature_size = p->feature_size;
	out->feature_align = p->feature_align;
	out->membarrier = p->membarrier;
	out->slot_kind = p->slot_kind;
	out->slot_why = p->slot_why;
	out->slots = p->slots;
	out->cpus = p->cpus;
	out->nodes = p->nodes;
	out->hint = near__hint_name(p->hint);
	out->reserved = (size_t)__atomic_load_n(&p->reserved, __ATOMIC_RELAXED);
}

/* Programs that know fewer fields, and more, are served. */
int near_rseq_status(struct near_rseq_status *out, size_t size)
{
	struct near_rseq_status all;

	thread_status(&all);
	return near__copy_known(out, size, &all, sizeof(all));
}
