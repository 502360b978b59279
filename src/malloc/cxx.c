/* SPDX-License-Identifier: MIT */
/* C++'s operators new and delete, by their names in the ABI: no C++ library is needed for them.
 *
 * Letters: w, a: new, new[]. l, a: delete, delete[]. m: size_t. Pv: the block. St11align_val_t: an
 * alignment. RKSt9nothrow_t: std::nothrow. */
#include <stdlib.h>

#include "cxx.h"
#include "fast.h"

static __attribute__((noinline)) void *new_slow(size_t n)
{
	void *p = near__alloc_slow(n, NEAR__CALLER);

	return NEAR__LIKELY(p != NULL) ? p : near__new_failed(1, n, NEAR__CALLER);
}

static __attribute__((noinline)) void *new_nothrow_slow(size_t n)
{
	void *p = near__alloc_slow(n, NEAR__CALLER);

	return NEAR__LIKELY(p != NULL) ? p : near__new_nothrow_failed(1, n, NEAR__CALLER);
}

static void *new_aligned(size_t align, size_t n, const void *caller)
{
	void *p = near__alloc_aligned(align, n, caller);

	return NEAR__LIKELY(p != NULL) ? p : near__new_failed(align, n, caller);
}

static void *new_aligned_nothrow(size_t align, size_t n, const void *caller)
{
	void *p = near__alloc_aligned(align, n, caller);

	return NEAR__LIKELY(p != NULL) ? p : near__new_nothrow_failed(align, n, caller);
}

#define UNUSED __attribute__((unused))
/* clang-format off */
#define DEFINE_NEW(letter)                                                                         \
	NEAR__ENTRY void *_Zn##letter##m(size_t n);                                                \
	NEAR__ENTRY void *_Zn##letter##m(size_t n)                                                 \
	{                                                                                          \
		void *p;                                                                           \
												   \
		return near__alloc_fast(n, &p) ? p : new_slow(n);                                  \
	}                                                                                          \
	NEAR__ENTRY void *_Zn##letter##mRKSt9nothrow_t(size_t n, const void *nothrow);             \
	NEAR__ENTRY void *_Zn##letter##mRKSt9nothrow_t(size_t n, const void *nothrow)              \
	{                                                                                          \
		void *p;                                                                           \
												   \
		(void)nothrow;                                                                     \
		return near__alloc_fast(n, &p) ? p : new_nothrow_slow(n);                          \
	}                                                                                          \
	NEAR__ENTRY void *_Zn##letter##mSt11align_val_t(size_t n, size_t align);                   \
	NEAR__ENTRY void *_Zn##letter##mSt11align_val_t(size_t n, size_t align)                    \
	{                                                                                          \
		return new_aligned(align, n, NEAR__CALLER);                                        \
	}                                                                                          \
	NEAR__ENTRY void *_Zn##letter##mSt11align_val_tRKSt9nothrow_t(size_t n, size_t align,      \
								      const void *nothrow);        \
	NEAR__ENTRY void *_Zn##letter##mSt11align_val_tRKSt9nothrow_t(size_t n, size_t align,      \
								      const void *nothrow)         \
	{                                                                                          \
		(void)nothrow;                                                                     \
		return new_aligned_nothrow(align, n, NEAR__CALLER);                                \
	}

/* Size and alignment say nothing that the heap does not know. */
#define DEFINE_DELETE(name, ...)                                                                   \
	NEAR__ENTRY void name(__VA_ARGS__);                                                        \
	NEAR__ENTRY void name(__VA_ARGS__)                                                         \
	{                                                                                          \
		near__free(p);                                                                     \
	}
#define DEFINE_DELETES(letter)                                                                     \
	DEFINE_DELETE(_Zd##letter##Pv, void *p)                                                    \
	DEFINE_DELETE(_Zd##letter##Pvm, void *p, size_t n UNUSED)                                 \
	DEFINE_DELETE(_Zd##letter##PvRKSt9nothrow_t, void *p, const void *nothrow UNUSED)         \
	DEFINE_DELETE(_Zd##letter##PvSt11align_val_t, void *p, size_t align UNUSED)               \
	DEFINE_DELETE(_Zd##letter##PvmSt11align_val_t, void *p, size_t n UNUSED,                  \
		      size_t align UNUSED)                                                        \
	DEFINE_DELETE(_Zd##letter##PvSt11align_val_tRKSt9nothrow_t, void *p, size_t align UNUSED, \
		      const void *nothrow UNUSED)
/* clang-format on */

DEFINE_NEW(w)
DEFINE_NEW(a)
DEFINE_DELETES(l)
DEFINE_DELETES(a)
