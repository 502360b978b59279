/* SPDX-License-Identifier: MIT */
/* seq: restartable sequences, written once for all CPUs. near_seq(7) teaches how to write one.
 *
 * A sequence is a list of the operations below inside one `asm volatile goto`. It reads and writes
 * the slot of per-CPU data that belongs to this thread right now. When the kernel preempts,
 * migrates or signals the thread inside the sequence, it resumes at label near_failed, and nothing
 * has happened: only the last operation, the commit, is visible to others.
 *
 *     static inline bool add(uint64_t *p, uint64_t n)
 *     {
 *             uint64_t at, v, tmp;
 *
 *             if (!NEAR_HAS_SEQ)
 *                     return false;
 *             __asm__ volatile __inline__ goto(
 *                     NEAR_SEQ_BEGIN
 *                     NEAR_SLOT(at, p)             // at = own slot's copy of p
 *                     NEAR_LOAD8(v, at, 0)         // v = at[0]
 *                     NEAR_ADD(v, n)
 *                     NEAR_COMMIT8(v, at, 0)       // at[0] = v
 *                     : NEAR_SEQ_OUT(tmp), [at] "=&r"(at), [v] "=&r"(v)
 *                     : NEAR_SEQ_IN, NEAR_SEQ_OBJECT(p, p), [n] "r"(n)
 *                     : NEAR_SEQ_CLOBBER : near_failed);
 *             NEAR_SEQ_EDGE;
 *             return true;
 *     near_failed:
 *             NEAR_SEQ_EDGE;
 *             return false;                        // aborted, or the slot is not open:
 *     }                                            // near_slot_open() says which
 *
 * Rules. The slot is found inside (NEAR_SLOT, NEAR_INDEX). What stands before the commit is private
 * to the caller or harmless to repeat. The commit ends it. No call, no system call, no load of what
 * the same sequence stored. A sequence without an index, with other than one commit or with an
 * operation behind it does not assemble. Code with sequences must not be unloaded: the kernel looks
 * at a thread's last one when it resumes the thread, even long after. So a shared object that
 * includes this header is never unloaded, not even by dlclose(): a constructor in it sees to
 * that.
 *
 * Operands are names of asm operands; all are 8 bytes wide, outputs early-clobber ("=&r"). Loads of
 * less than 8 bytes clear the rest. Constants: off 0 to 255, n of ADD_CONST -255 to 255, of shifts
 * 0 to 63, of compares with memory 1 to 255; others do not assemble, on any CPU.
 *
 *     NEAR_SLOT(at, p)                  at = own slot's copy of percpu object p; fails unless open
 *     NEAR_SLOT_UNCHECKED(at, p)        the same, for an object that holds a state word of its own
 *     NEAR_OFFSET(at, p)                at = bytes from p to that copy; fails unless open
 *     NEAR_INDEX(dst)                   the number of the own slot; near_slots() where not live
 *     NEAR_INDEX_CPU(dst)               the number of the cpu; near_cpus() where not live
 *     NEAR_INDEX_CID(dst)               the concurrency id; near_slots() where not live
 *     NEAR_LOAD1 2 4 8(dst, base, off)  dst = base[off]
 *     NEAR_LOAD8X(dst, base, index)     dst = base[index]
 *     NEAR_XOR_LOAD8X(dst, base, index) dst ^= base[index]
 *     NEAR_STORE1 2 4 8(src, base, off) base[off] = src, to memory that only the caller knows
 *     NEAR_ADD_MEM8(src, base, off)     base[off] += src, of a count that may be off by aborts
 *     NEAR_COPY2 4(dst, do, src, so, t) copies 2 or 4 words of 8 bytes by register t
 *     NEAR_MOVE ADD SUB AND OR XOR MUL(dst, src)
 *     NEAR_ADD_CONST(dst, n)  NEAR_SHIFT_LEFT RIGHT(dst, n)
 *     NEAR_BRANCH_EQ NE BELOW NOT_BELOW(a, b, label)    unsigned compares, to a C label
 *     NEAR_BRANCH_ZERO NONZERO(a, label)
 *     NEAR_BRANCH_MEM4_NE(base, off, n, label)          compares a 4-byte word in memory with n
 *     NEAR_COMMIT4 8(src, base, off)    the plain commit
 *     NEAR_COMMIT_ADD8(src, base, off)  base[off] += src: load, add and commit
 *     NEAR_COMMIT_ADD8X(src, base, at)  base[at] += src, and spoils at
 *     NEAR_COMMIT4_RELEASE 8_RELEASE(src, base)         the commit, ordered after all before it
 *
 * Order: a plain commit orders nothing between CPUs. What passes from thread to thread by the slot
 * itself is ordered by the kernel: a slot changes hands through the scheduler (src/percpu/gate.h
 * tells how).
 *
 * Source: the interface of Linux's restartable sequences (2018). Where its users write each
 * sequence by hand for each CPU, these are lists of about thirty operations that each CPU spells.
 */
#ifndef NEARCPU_SEQ_H
#define NEARCPU_SEQ_H

#include <nearcpu/arch/arch.h>
#include <nearcpu/rseq.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* 1 if this CPU has sequences. If not, the operations are empty: the statement must not be
 * reached. */
#define NEAR_HAS_SEQ NEAR__HAS_SEQ

/* The copy of slot s of an object stands (s << NEAR_STRIDE_SHIFT) bytes behind the object. Part of
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
#define NEAR_SEQ_BEGIN                                                                             \
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
/* Each operation begins with it. Behind the commit an operation would not be restarted. */
#define NEAR__OP                                                                                   \
	".if .Lnear_indexed == 2\n\t"                                                              \
	".error \"nearcpu: the commit comes last\"\n\t"                                            \
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
#else
#define NEAR_SEQ_BEGIN ""
#define NEAR__MARK_INDEX ""
#define NEAR__SEQ_END ""
#endif

/* C side of a sequence. The empty statement behind each edge keeps compilers with a fault in
 * outputs of asm goto (gcc before 11.5, 12.4, 13.3, 14.1) from moving code across it. */
#define NEAR_SEQ_OUT(tmp) [near_tmp] "=&r"(tmp)
/* Volatile, so that `general` is loaded last: a signal handler in between may make this thread
 * live, and the area must not then go with an old `general`. */
#define NEAR_SEQ_IN                                                                                \
	[near_area] "r"(near__self.area), [near_general] "r"((uint64_t)near__self.general)
/* For a sequence that goes by NEAR_INDEX_CID or NEAR_INDEX_CPU alone. */
#define NEAR_SEQ_IN_AREA [near_area] "r"(near__self.area)
#define NEAR_SEQ_OBJECT(name, ptr)                                                                 \
	[name] "r"(ptr), [name##_arena] "r"((uintptr_t)(ptr) & ~NEAR__ARENA_MASK)
#define NEAR_SEQ_CLOBBER "memory", "cc"
#define NEAR_SEQ_EDGE __asm__ volatile("" : : : "memory")

/* ThreadSanitizer does not see what a sequence passes on: it is told. */
#if defined(__SANITIZE_THREAD__)
#define NEAR__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NEAR__TSAN 1
#endif
#endif
#ifndef NEAR__TSAN
#define NEAR__TSAN 0
#endif
#if NEAR__TSAN
void __tsan_acquire(void *p);
void __tsan_release(void *p);
#define NEAR__TSAN_ACQUIRE(p) __tsan_acquire(p)
#define NEAR__TSAN_RELEASE(p) __tsan_release(p)
#else
#define NEAR__TSAN_ACQUIRE(p) ((void)(p))
#define NEAR__TSAN_RELEASE(p) ((void)(p))
#endif

#define NEAR_INDEX(dst) NEAR__MARK_INDEX NEAR__INDEX(dst)
#define NEAR_INDEX_CID(dst) NEAR__MARK_INDEX NEAR__INDEX_CID(dst)
#define NEAR_INDEX_CPU(dst) NEAR__MARK_INDEX NEAR__INDEX_CPU(dst)
#define NEAR_OFFSET_UNCHECKED(at) NEAR_INDEX(at) NEAR_SHIFT_LEFT(at, 20)
#define NEAR_OFFSET(at, p)                                                                         \
	NEAR_OFFSET_UNCHECKED(at) NEAR_BRANCH_MEM4X_NE(p##_arena, at, 1, near_failed)
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
#define NEAR_COMMIT_ADD8(src, base, off) NEAR__STORE_ADD8(src, base, off) NEAR__SEQ_END
#define NEAR_COMMIT_ADD8X(src, base, at) NEAR__STORE_ADD8X(src, base, at) NEAR__SEQ_END
#define NEAR_COMMIT4_RELEASE(src, base) NEAR__STORE4_RELEASE(src, base) NEAR__SEQ_END
#define NEAR_COMMIT8_RELEASE(src, base) NEAR__STORE8_RELEASE(src, base) NEAR__SEQ_END

/* Answers a failed sequence on percpu object p: true, try again (the slot is open now, or the
 * attempt was only aborted); false, take the fallback. Count the attempts: NEAR_SEQ_TRIES at
 * most. */
NEAR_API bool near_slot_open(const void *p);
#define NEAR_SEQ_TRIES 16

#ifdef __cplusplus
}
#endif

#endif
