/* SPDX-License-Identifier: MIT */
/* seq: restartable sequences, written once for all CPUs. near_seq(7) teaches how to write one.
 *
 * A sequence reads and writes the slot of per-CPU data that belongs to this thread right now. When
 * the kernel preempts, migrates or signals the thread inside the sequence, the thread resumes at
 * the label near_failed, and the sequence has had no effect: only its last operation, the commit,
 * is visible to other threads.
 *
 *     static inline bool add(uint64_t *p, uint64_t n)
 *     {
 *             uint64_t at, v;
 *
 *             return NEAR_SEQ(
 *                     NEAR_SLOT(at, p)             // at = the local slot's copy of p
 *                     NEAR_LOAD8(v, at, 0)         // v = at[0]
 *                     NEAR_ADD(v, n)
 *                     NEAR_COMMIT8(v, at, 0),      // at[0] = v
 *                     NEAR_OUT(at, v), NEAR_IN(NEAR_OBJECT(p), n));
 *     }
 *
 * NEAR_SEQ(operations, outputs, inputs, labels...) is an expression. Its value is
 *
 *     NEAR_SEQ_COMMITTED, 1    the commit was executed;
 *     NEAR_SEQ_FAILED, 0       the sequence was aborted, or the slot is not open (near_slot_open()
 *                              returns which), or the kernel does not watch this thread any more
 *                              (struct near__thread), or a branch went to near_failed;
 *     a label                  a branch went there. Each label, up to 7, is the name of an
 *                              enumerator other than 0 and 1. Nothing was committed.
 *
 * Outputs, up to 8, are the registers of the sequence: local variables that operations write. They
 * are set if it committed. Inputs, up to 8, are variables or pairs (name, value); operations must
 * not write them. All are 8 bytes wide: integers, or pointers.
 *
 * Rules. The slot is found inside (NEAR_SLOT, NEAR_INDEX). Stores before the commit go to memory
 * that is private to the caller, or are harmless to repeat. The commit comes last. No call, no
 * system call, no load of what the same sequence stored. A sequence without an index, with other
 * than one commit or with an operation after it does not assemble. Code with sequences must not be
 * unloaded: the kernel reads the descriptor of a thread's last sequence when it resumes the thread,
 * even long after. Therefore a constructor in each shared object that includes this header prevents
 * dlclose() from unloading it.
 *
 * Arguments of operations are names of outputs and inputs. Loads of less than 8 bytes clear the
 * other bits. Constants: off 0 to 255, n of ADD_CONST -255 to 255, of shifts 0 to 63, of compares
 * with memory 1 to 255; others do not assemble, on any CPU.
 *
 *     NEAR_SLOT(at, p)                  at = the local slot's copy of percpu object p, an input
 *                                       NEAR_OBJECT(p); fails unless the slot is open
 *     NEAR_SLOT_UNCHECKED(at, p)        the same, for an object that holds a state word of its own
 *     NEAR_OFFSET(at, p)                at = bytes from p to that copy; fails unless open
 *     NEAR_INDEX(dst)                   the number of the local slot; near_slots() where not live;
 *                                       this, the two below and what uses them fail if the thread's
 *                                       registration was taken away
 *     NEAR_INDEX_CPU(dst)               the number of the cpu; near_cpus() where not live
 *     NEAR_INDEX_CID(dst)               the concurrency id; near_slots() where not live
 *     NEAR_LOAD{1,2,4,8}(dst, base, off)      dst = base[off]
 *     NEAR_LOAD8X(dst, base, index)     dst = base[index]
 *     NEAR_STORE{1,2,4,8}(src, base, off)     base[off] = src, to memory private to the caller
 *     NEAR_COPY{2,4}(dst, do, src, so, t)     copies 2 or 4 words of 8 bytes by register t
 *     NEAR_{MOVE,ADD,SUB,AND,OR,XOR,MUL}(dst, src)
 *     NEAR_ADD_CONST(dst, n)  NEAR_SHIFT_{LEFT,RIGHT}(dst, n)
 *     NEAR_BRANCH_{EQ,NE,BELOW,NOT_BELOW}(a, b, label)    unsigned compares
 *     NEAR_BRANCH_{ZERO,NONZERO}(a, label)
 *     NEAR_BRANCH_MEM4_NE(base, off, n, label)            compares a 4-byte word in memory with n
 *     NEAR_CLOCK(time)                  time = the CPU's counter, near_clock(); once, and `time`
 *                                       is an output by NEAR_OUT_CLOCK(time, ...)
 *     NEAR_COMMIT{4,8}(src, base, off)  the plain commit
 *     NEAR_COMMIT_ADD8(src, base, off)  base[off] += src: load, add and commit
 *     NEAR_COMMIT{4,8}_RELEASE(src, base)     the commit, ordered after all before it
 *     NEAR_COMMIT_ADD8_RELEASE(src, base)     base[0] += src, committed so
 *     NEAR_COMMIT4_SHARED_RELEASE(src, base)  the same, to a word that all CPUs share. Needs no
 *                                       index. Sound only if each other thread that writes the
 *                                       word fences sequences before it relies on what it wrote.
 *
 * Cost:      that of its instructions, and some to announce it: an add takes about 1 ns. No atomic
 *            instruction, no system call. near_clock: 10 ns on some CPUs.
 * Memory:    40 bytes of the program's data per sequence.
 * Safety:    any thread, signal handlers. Children of vfork: the fallback.
 * Order:     a plain commit orders nothing between CPUs. What passes from thread to thread by the
 *            slot itself is ordered by the kernel: a slot passes from one thread to the next
 *            through the scheduler (src/percpu/gate.h has the argument).
 * Fallback:  C code of the caller, on near_percpu_fallback(), by atomics: where a thread is not
 *            live each sequence fails.
 *
 * Concurrent with:       sequence, its slot  sequence, another slot  load  store from outside
 *            sequence    never: it is aborted         yes            yes   no (it may be lost)
 *
 * Source: the interface of Linux's restartable sequences (2018). Where its users write each
 * sequence by hand for each CPU, these are lists of about thirty operations that each CPU spells.
 */
#ifndef NEARCPU_SEQ_H
#define NEARCPU_SEQ_H

#include <nearcpu/detail/arch/arch.h>
#include <nearcpu/rseq.h>
#include <nearcpu/detail/tsan.h>
#include <stdbool.h>
#include <stdint.h>

NEAR__BEGIN_DECLS

/* Keeps the shared object loaded that contains this address. Each file of the object that includes
 * this header calls it when the object is loaded. A program is not unloaded, nor compiled with
 * -fPIC. The library's own objects call it once. */
NEAR_API void near__stay_loaded(const void *code);
#if NEAR__HAS_SEQ && defined(__PIC__) && !defined(__PIE__) && !defined(NEAR__LIBRARY)
__attribute__((constructor)) static void near__stay_here(void)
{
	near__stay_loaded((const void *)(uintptr_t)near__stay_here);
}
#endif

/* 1 if this CPU has sequences. If not, each of them fails, and its operations are not compiled. */
#define NEAR_HAS_SEQ NEAR__HAS_SEQ

/* The copy of slot s of an object is at the object's address plus (s << NEAR_STRIDE_SHIFT). Part of
 * the binary interface. */
#define NEAR_STRIDE_SHIFT 20
#define NEAR__ARENA_MASK (((uintptr_t)1 << NEAR_STRIDE_SHIFT) - 1)

/* States of a slot, as of a gate (src/percpu/gate.h). Fresh memory is zero. */
#define NEAR__UNOPENED 0u
#define NEAR__OPEN 1u
#define NEAR__CLOSED 2u
#define NEAR__OPEN_FALLBACK 4u /* of a slot that sequences must not use */

/* Without `?` a sequence in an inline function of two C++ files would not link: its descriptor
 * would stay when the linker drops the second copy of the function. The numbers of the local
 * labels: 71 start, 72 end, 73 descriptor, 74 abort handler, 75 free to the architecture. */
#if NEAR__HAS_SEQ
#define NEAR__SEQ_BEGIN                                                                            \
	".pushsection __rseq_cs, \"aw?\"\n\t"                                                      \
	".balign 32\n"                                                                             \
	"73:\n\t"                                                                                  \
	".4byte 0, 0\n\t"                                                                          \
	".8byte 71f, 72f - 71f, 74f\n\t"                                                           \
	".popsection\n\t"                                                                          \
	".pushsection __rseq_cs_ptr_array, \"aw?\"\n\t"                                            \
	".8byte 73b\n\t"                                                                           \
	".popsection\n\t"                                                                          \
	".ifdef .Lnear_indexed\n\t"                                                                \
	".if .Lnear_indexed != 2\n\t"                                                              \
	".error \"nearcpu: a sequence before this one has no commit\"\n\t"                         \
	".endif\n\t"                                                                               \
	".endif\n\t"                                                                               \
	".set .Lnear_indexed, 0\n\t"                                                               \
	".set .Lnear_offsets, 0\n\t" NEAR__SEQ_ARM "71:\n\t"
/* Each operation begins with it. The kernel would not restart an operation after the commit. */
#define NEAR__OP                                                                                   \
	".if .Lnear_indexed == 2\n\t"                                                              \
	".error \"nearcpu: an operation follows the commit\"\n\t"                                  \
	".endif\n\t"
#define NEAR__MARK_INDEX NEAR__OP ".set .Lnear_indexed, 1\n\t"
/* Collects the bits of the offsets in use: none above the lowest eight may be set at the end. */
#define NEAR__MARK_OFFSET(off) ".set .Lnear_offsets, .Lnear_offsets | (" #off ")\n\t"
/* What one CPU could encode and another could not is refused on all. */
#define NEAR__RANGE(n, least, most)                                                                \
	".if (" #n ") < " #least "\n\t"                                                            \
	".error \"nearcpu: a constant is " #least " to " #most " here\"\n\t"                       \
	".endif\n\t"                                                                               \
	".if (" #n ") > " #most "\n\t"                                                             \
	".error \"nearcpu: a constant is " #least " to " #most " here\"\n\t"                       \
	".endif\n\t"
#define NEAR__SEQ_END                                                                              \
	"72:\n\t"                                                                                  \
	".if .Lnear_indexed != 1\n\t"                                                              \
	".error \"nearcpu: a sequence loads its index (NEAR_SLOT...) and commits once\"\n\t"       \
	".endif\n\t"                                                                               \
	".if .Lnear_offsets & ~255\n\t"                                                            \
	".error \"nearcpu: an offset is 0 to 255\"\n\t"                                            \
	".endif\n\t"                                                                               \
	".set .Lnear_indexed, 2\n\t" NEAR__SEQ_HANDLER
#endif

/* The pieces of the statement around the operations. The empty statement after each edge keeps
 * compilers with a fault in outputs of asm goto (gcc before 11.5, 12.4, 13.3, 14.1) from moving
 * code across it. */
#define NEAR__SEQ_OUT(tmp) [near_tmp] "=&r"(tmp)
/* Volatile, so that `index_mode` is loaded last: a signal handler in between may make this thread
 * live, and the area must not then be combined with an old index mode. 32 bits: compilers do not
 * make one instruction of a volatile load and its conversion. The mode is less than 2^31, so that
 * it does not matter how a load of 32 bits extends it. */
#define NEAR__SEQ_IN [near_area] "r"(near__self.area), [near_index_mode] "r"(near__self.index_mode)
/* For a sequence that is indexed by NEAR_INDEX_CID or NEAR_INDEX_CPU alone. */
#define NEAR__SEQ_IN_AREA [near_area] "r"(near__self.area)
#define NEAR__SEQ_OBJECT(name, ptr)                                                                \
	[name] "r"(ptr), [name##_arena] "r"((uintptr_t)(ptr) & ~NEAR__ARENA_MASK)
#define NEAR__SEQ_CLOBBER "memory", "cc"
#define NEAR__SEQ_EDGE __asm__ volatile("" : : : "memory")

/* each(item) for each of up to 8 items. */
#define NEAR__EACH(each, ...) NEAR__PASTE(NEAR__EACH, NEAR__COUNT(__VA_ARGS__))(each, __VA_ARGS__)
#define NEAR__EACH1(each, a) each(a)
#define NEAR__EACH2(each, a, ...) each(a) NEAR__EACH1(each, __VA_ARGS__)
#define NEAR__EACH3(each, a, ...) each(a) NEAR__EACH2(each, __VA_ARGS__)
#define NEAR__EACH4(each, a, ...) each(a) NEAR__EACH3(each, __VA_ARGS__)
#define NEAR__EACH5(each, a, ...) each(a) NEAR__EACH4(each, __VA_ARGS__)
#define NEAR__EACH6(each, a, ...) each(a) NEAR__EACH5(each, __VA_ARGS__)
#define NEAR__EACH7(each, a, ...) each(a) NEAR__EACH6(each, __VA_ARGS__)
#define NEAR__EACH8(each, a, ...) each(a) NEAR__EACH7(each, __VA_ARGS__)
#define NEAR__COUNT(...) NEAR__NINTH(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define NEAR__NINTH(a, b, c, d, e, f, g, h, n, ...) n
#define NEAR__PASTE(a, b) NEAR__PASTE_(a, b)
#define NEAR__PASTE_(a, b) a##b

/* Lists of operands, in parentheses; each operand begins with a comma. NEAR__IN_TWO is called if
 * the item is a pair, so that two items are counted, not one. */
#define NEAR_OUT(...) (NEAR__EACH(NEAR__OUT, __VA_ARGS__))
#define NEAR_OUT_CLOCK(time, ...) (NEAR__CLOCK_OUT(time) NEAR__EACH(NEAR__OUT, __VA_ARGS__))
#define NEAR_IN(...) (NEAR__EACH(NEAR__IN, __VA_ARGS__))
#define NEAR__IN(item) NEAR__PASTE(NEAR__IN_, NEAR__COUNT(NEAR__IN_TWO item))(item)
#define NEAR__IN_TWO(name, value) 0, 0
#define NEAR__IN_1(name) NEAR__IN_PAIR(name, name)
#define NEAR__IN_2(pair) NEAR__IN_PAIR pair
#define NEAR__OPERANDS(...) __VA_ARGS__
#define NEAR_OBJECT(p) p, (p##_arena, (uintptr_t)(p) & ~NEAR__ARENA_MASK)

/* The CPU's counter: x86_64's time stamp counter, aarch64's virtual counter, riscv64's time. Its
 * rate is the machine's. It may be read before what precedes it. 0 where there is none. */
NEAR_INLINE uint64_t near_clock(void)
{
	return near__clock();
}

enum near_seq_result { NEAR_SEQ_FAILED, NEAR_SEQ_COMMITTED };

#define NEAR_SEQ(...) NEAR__SEQ((NEAR__SEQ_IN), __VA_ARGS__)
#define NEAR__SEQ(...) NEAR__SEQ_FRAME(__VA_ARGS__, near_failed)
#if NEAR__HAS_SEQ
#define NEAR__OUT(name) , [name] "=&r"(name)
#define NEAR__IN_OUT(name) , [name] "+&r"(name)
#define NEAR__IN_PAIR(name, value) NEAR__IN_AS("r", name, (uint64_t)(value))
#define NEAR__IN_AS(constraint, name, value) , [name] constraint(value)
/* The label near_failed is always the last. `volatile`: gcc 12 deletes a statement without it.
 * `__inline__`: gcc must not take it for long code. */
#define NEAR__SEQ_FRAME(thread, operations, outputs, inputs, ...)                                  \
	__extension__({                                                                            \
		__label__ __VA_ARGS__;                                                             \
		enum { near_failed = NEAR_SEQ_FAILED };                                            \
		uint64_t near__tmp;                                                                \
		__attribute__((unused)) uint64_t near__high; /* of NEAR_CLOCK */                   \
		int near__result;                                                                  \
		__asm__ volatile __inline__ goto(NEAR__SEQ_BEGIN operations                        \
						 : NEAR__SEQ_OUT(near__tmp) NEAR__OPERANDS outputs \
						 : NEAR__OPERANDS thread NEAR__OPERANDS inputs     \
:NEAR__SEQ_CLOBBER                                                                                 \
						 : __VA_ARGS__);                                   \
		NEAR__SEQ_EDGE;                                                                    \
		near__result = NEAR_SEQ_COMMITTED;                                                 \
		NEAR__EACH(NEAR__SEQ_LABEL, __VA_ARGS__)                                           \
		near__result;                                                                      \
	})
#define NEAR__SEQ_LABEL(label)                                                                     \
	if (0) {                                                                                   \
label:                                                                                             \
		NEAR__SEQ_EDGE;                                                                    \
		near__result = label;                                                              \
	}
#else
/* No assembly: a 32-bit CPU has fewer registers than a sequence has operands. */
#define NEAR__OUT(name) (void)((name) = 0);
#define NEAR__IN_OUT(name) (void)(name);
#define NEAR__IN_PAIR(name, value) (void)(value);
#define NEAR__IN_AS(constraint, name, value) (void)(value);
#define NEAR__SEQ_FRAME(thread, operations, outputs, inputs, ...)                                  \
	__extension__({                                                                            \
		NEAR__OPERANDS outputs;                                                            \
		NEAR__OPERANDS inputs;                                                             \
		(int)NEAR_SEQ_FAILED;                                                              \
	})
#endif

/* Each fails if cpu_id is negative: the registration was taken away (struct near__thread). It is a
 * branch: an index of -1, made of the sign without one, took .05 to .2 ns longer on AMD Zen 5, and
 * each table that is indexed by slots would need an entry before its first. */
#define NEAR_INDEX(dst) NEAR__MARK_INDEX NEAR__INDEX(dst)
#define NEAR_INDEX_CID(dst) NEAR__MARK_INDEX NEAR__INDEX_CID(dst)
#define NEAR_INDEX_CPU(dst) NEAR__MARK_INDEX NEAR__INDEX_CPU(dst)
/* The number of the cpu, after another index: that one has found the thread registered. */
#define NEAR__INDEX_CPU_TOO(dst) NEAR_LOAD4(dst, near_area, 4)
#define NEAR_OFFSET_UNCHECKED(at) NEAR_INDEX(at) NEAR_SHIFT_LEFT(at, 20)
#define NEAR_OFFSET(at, p)                                                                         \
	NEAR_OFFSET_UNCHECKED(at) NEAR__BRANCH_MEM4X_NE(p##_arena, at, 1, near_failed)
#define NEAR_SLOT(at, p) NEAR_OFFSET(at, p) NEAR_ADD(at, p)
#define NEAR_SLOT_UNCHECKED(at, p) NEAR_OFFSET_UNCHECKED(at) NEAR_ADD(at, p)

#define NEAR_COPY2(dst, doff, src, soff, t)                                                        \
	NEAR_LOAD8(t, src, soff)                                                                   \
	NEAR_STORE8(t, dst, doff)                                                                  \
	NEAR_LOAD8(t, src, soff + 8)                                                               \
	NEAR_STORE8(t, dst, doff + 8)
#define NEAR_COPY4(dst, doff, src, soff, t)                                                        \
	NEAR_COPY2(dst, doff, src, soff, t)                                                        \
	NEAR_COPY2(dst, doff + 16, src, soff + 16, t)

#define NEAR_COMMIT4(src, base, off) NEAR_STORE4(src, base, off) NEAR__SEQ_END
#define NEAR_COMMIT8(src, base, off) NEAR_STORE8(src, base, off) NEAR__SEQ_END
#define NEAR_COMMIT_ADD8(src, base, off)                                                           \
	NEAR_LOAD8(near_tmp, base, off) NEAR_ADD(near_tmp, src) NEAR_COMMIT8(near_tmp, base, off)
#define NEAR_COMMIT4_RELEASE(src, base) NEAR__STORE4_RELEASE(src, base) NEAR__SEQ_END
#define NEAR_COMMIT8_RELEASE(src, base) NEAR__STORE8_RELEASE(src, base) NEAR__SEQ_END
#define NEAR_COMMIT_ADD8_RELEASE(src, base)                                                        \
	NEAR_LOAD8(near_tmp, base, 0) NEAR_ADD(near_tmp, src) NEAR_COMMIT8_RELEASE(near_tmp, base)
/* The CPU's number is loaded to see whether the thread is still registered. */
#define NEAR_COMMIT4_SHARED_RELEASE(src, base)                                                     \
	NEAR_INDEX_CPU(near_tmp) NEAR_COMMIT4_RELEASE(src, base)

/* Answers a failed sequence on percpu object p: true, try again (the slot is open now, or the
 * attempt was only aborted); false, take the fallback. Count the attempts: NEAR_SEQ_TRIES at
 * most. */
NEAR_API bool near_slot_open(const void *p);
#define NEAR_SEQ_TRIES 16

NEAR__END_DECLS

#endif
