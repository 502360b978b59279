/* SPDX-License-Identifier: MIT */
/* near_trace: call stacks, by frame pointers.
 *
 * Where a stack begins: a tracepoint calls near__trace_one, near__trace_words or
 * near__trace_pieces. This library is compiled without frame pointers, and may have anything in
 * that register. But when one of these three calls word_choose, words_choose or pieces_choose, it
 * has nothing of its own in the registers that belong to its caller, and it calls it last, by a
 * jump. So the frame that these make has the program's frame pointer, and the address in the
 * function with the tracepoint. Without that optimization, as with sanitizers, there are frame
 * pointers everywhere, and a function of the library is first. No event without a condition or
 * context executes an instruction for that.
 *
 * What is read: a function without a frame pointer may leave any number in the register. Only
 * frames are followed that are above the one before, and on the thread's own stack, below its top:
 * the C library's descriptor of the thread, which glibc and musl have above the stack, in its
 * mapping; or, of the first thread, what the kernel has put above its stack. From `stack_low` up to
 * the top all memory can be read: where an event is below that, the kernel is asked for each page
 * in between, by a futex(2) that does not wait, and answers EFAULT for the guard where the stack
 * ends, which is remembered. So this takes a system call for each page of stack that a thread uses,
 * once, and none for a frame. (pthread_getattr_np(3) allocates memory, and an event may be in
 * malloc; /proc/self/maps does not show the guards that glibc makes from 2.42 on, and joins what is
 * beside them; process_vm_readv(2) would be a system call for each event, with the lock of the
 * process's memory.)
 *
 * There is no stack of an event on another stack, as of sigaltstack(2) or of a fiber: the guard is
 * between that and `stack_low`, or it is above the top. (What is below a stack without a guard may
 * be taken for a part of it.) In the child of fork the thread has its parent's stack, and block. If
 * the thread was not the first one of its process, and has its first event of this kind in the
 * child, there is no stack: it is taken for the first one. */
#include "trace/context.h"

#include <errno.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/futex.h"

#define PAGE ((uintptr_t)4096)        /* or a part of one */
#define DEEPEST ((uintptr_t)64 << 20) /* below the top: what is deeper, or above, is another */
#define ANY UINT32_C(0x9e3779b9)      /* where a word is that, the futex waits for 0 ns */
#define ADDRESS (UINT64_MAX >> 16)    /* without aarch64's signature of it */

/* `stack_low` is stored before the top, for a handler. A handler that has interrupted this may
 * store a lower one, which is then lost, and is found again. */
static bool stack_is_own(struct near__trace_thread *mine, uintptr_t at)
{
	uintptr_t low = mine->stack_low, top = mine->stack_top;

	if (!top) {
		top = near__trace_tid() == (uint32_t)getpid() ? getauxval(AT_RANDOM)
							      : (uintptr_t)pthread_self();
		mine->stack_low = low = top & ~(PAGE - 1);
		mine->stack_top = top;
	}
	if (top - at > DEEPEST || at < mine->stack_least)
		return false;
	while (low > at &&
	       near__futex((const uint32_t *)low - 1, NEAR__FUTEX_WAIT_PRIVATE, ANY, 0) != -EFAULT)
		low -= PAGE;
	if (low > at)
		mine->stack_least = low;
	else
		mine->stack_low = low;
	return low <= at;
}

/* The sanitizers do not know of such loads. */
__attribute__((no_sanitize("address", "thread"))) size_t
near__trace_stack(uint64_t *to, size_t most, const void *frame)
{
	struct near__trace_thread *mine = near__trace_thread_own();
	const uintptr_t *at = NEAR__FRAME(frame);
	uintptr_t least = (uintptr_t)at, next = least;
	size_t n = 0;

	if (!at || !mine || !stack_is_own(mine, least))
		return 0;
	while (n < most && next >= least && next <= mine->stack_top - 2 * sizeof(*at) &&
	       next % sizeof(*at) == 0) {
		at = (const uintptr_t *)next;
		to[n++] = at[1] & ADDRESS;
		least = next + 1;
		next = (uintptr_t)NEAR__FRAME(at[0]);
	}
	return n;
}
