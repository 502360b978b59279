/* SPDX-License-Identifier: MIT */
/* C++'s operators new and delete, by their names in the ABI: no C++ library is needed for them.
 *
 * Letters: w, a: new, new[]. l, a: delete, delete[]. m: size_t. Pv: the block. St11align_val_t: an
 * alignment. RKSt9nothrow_t: std::nothrow.
 *
 * A program may have some of them itself, and the others must go by these, says the C++ standard:
 * new[] by new, nothrow forms by those that throw, delete with a size by the one without. So each
 * asks first whether those that it stands for are the program's own. */
#include "malloc/api/cxx.h"

#include <stdlib.h>

#include "malloc/api/fast.h"
#include "malloc/observe/hooks.h"

/* Defines an operator, under a name that the program's own does not take away, too. Weak: in a
 * static program its own comes first. */
#define OPERATOR(type, name, ...)                                                                  \
	type near__own##name(__VA_ARGS__) __attribute__((visibility("hidden")));                   \
	NEAR__ENTRY type name(__VA_ARGS__) __attribute__((weak, alias("near__own" #name)));        \
	type near__own##name(__VA_ARGS__)
#define REPLACED(name) NEAR__UNLIKELY(name != near__own##name)
#define UNUSED __attribute__((unused))

/* ---- new ---- */

static void *made(void *p, enum near__maker maker)
{
	if (NEAR__UNLIKELY(near__heap.hooks == NEAR__CHECKED) && p)
		near__check_made(p, maker);
	return p;
}

static __attribute__((noinline)) void *new_slow(size_t align, size_t n, enum near__maker maker)
{
	void *p = near__alloc_aligned(align, n, NEAR__CALLER);

	return made(NEAR__LIKELY(p != NULL) ? p : near__new_failed(align, n, NEAR__CALLER), maker);
}

static __attribute__((noinline)) void *nothrow_slow(size_t align, size_t n, enum near__maker maker)
{
	void *p = near__alloc_aligned(align, n, NEAR__CALLER);

	return made(NEAR__LIKELY(p != NULL) ? p : near__new_nothrow_failed(align, n, NEAR__CALLER),
		    maker);
}

static __attribute__((noinline)) void *nothrow_theirs(size_t align, size_t n, bool array)
{
	return near__new_nothrow_theirs(align, n, array, NEAR__CALLER);
}

OPERATOR(void *, _Znwm, size_t n)
{
	void *p;

	return near__alloc_fast(n, &p) ? p : new_slow(1, n, NEAR__BY_NEW);
}

OPERATOR(void *, _Znam, size_t n)
{
	void *p;

	if (REPLACED(_Znwm))
		return _Znwm(n);
	return near__alloc_fast(n, &p) ? p : new_slow(1, n, NEAR__BY_NEW_ARRAY);
}

OPERATOR(void *, _ZnwmSt11align_val_t, size_t n, size_t align)
{
	return new_slow(align, n, NEAR__BY_NEW);
}

OPERATOR(void *, _ZnamSt11align_val_t, size_t n, size_t align)
{
	if (REPLACED(_ZnwmSt11align_val_t))
		return _ZnwmSt11align_val_t(n, align);
	return new_slow(align, n, NEAR__BY_NEW_ARRAY);
}

OPERATOR(void *, _ZnwmRKSt9nothrow_t, size_t n, const void *nothrow UNUSED)
{
	void *p;

	if (REPLACED(_Znwm))
		return nothrow_theirs(1, n, false);
	return near__alloc_fast(n, &p) ? p : nothrow_slow(1, n, NEAR__BY_NEW);
}

OPERATOR(void *, _ZnamRKSt9nothrow_t, size_t n, const void *nothrow UNUSED)
{
	void *p;

	if (REPLACED(_Znam) || REPLACED(_Znwm))
		return nothrow_theirs(1, n, true);
	return near__alloc_fast(n, &p) ? p : nothrow_slow(1, n, NEAR__BY_NEW_ARRAY);
}

OPERATOR(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t n, size_t align,
	 const void *nothrow UNUSED)
{
	if (REPLACED(_ZnwmSt11align_val_t))
		return nothrow_theirs(align, n, false);
	return nothrow_slow(align, n, NEAR__BY_NEW);
}

OPERATOR(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t n, size_t align,
	 const void *nothrow UNUSED)
{
	if (REPLACED(_ZnamSt11align_val_t) || REPLACED(_ZnwmSt11align_val_t))
		return nothrow_theirs(align, n, true);
	return nothrow_slow(align, n, NEAR__BY_NEW_ARRAY);
}

/* ---- delete ---- */

static __attribute__((noinline)) void delete_slow(void *p, size_t n, enum near__maker maker)
{
	if (NEAR__UNLIKELY(near__heap.hooks == NEAR__CHECKED) && p)
		near__check_free(p, n, maker, NEAR__CALLER);
	else
		near__free_slow(p);
}

static inline void delete_as(void *p, size_t n, enum near__maker maker)
{
	if (!near__free_fast(p))
		delete_slow(p, n, maker);
}

/* These do not ask for themselves: a program's own may call them. */
OPERATOR(void, _ZdlPv, void *p)
{
	delete_as(p, NEAR__ANY_SIZE, NEAR__BY_NEW);
}

OPERATOR(void, _ZdaPv, void *p)
{
	if (REPLACED(_ZdlPv))
		_ZdlPv(p);
	else
		delete_as(p, NEAR__ANY_SIZE, NEAR__BY_NEW_ARRAY);
}

OPERATOR(void, _ZdlPvSt11align_val_t, void *p, size_t align UNUSED)
{
	delete_as(p, NEAR__ANY_SIZE, NEAR__BY_NEW);
}

OPERATOR(void, _ZdaPvSt11align_val_t, void *p, size_t align)
{
	if (REPLACED(_ZdlPvSt11align_val_t))
		_ZdlPvSt11align_val_t(p, align);
	else
		delete_as(p, NEAR__ANY_SIZE, NEAR__BY_NEW_ARRAY);
}

static inline void delete_one(void *p, size_t n)
{
	if (REPLACED(_ZdlPv))
		_ZdlPv(p);
	else
		delete_as(p, n, NEAR__BY_NEW);
}

static inline void delete_array(void *p, size_t n)
{
	if (REPLACED(_ZdaPv))
		_ZdaPv(p);
	else if (REPLACED(_ZdlPv))
		_ZdlPv(p);
	else
		delete_as(p, n, NEAR__BY_NEW_ARRAY);
}

static inline void delete_aligned(void *p, size_t n, size_t align)
{
	if (REPLACED(_ZdlPvSt11align_val_t))
		_ZdlPvSt11align_val_t(p, align);
	else
		delete_as(p, n, NEAR__BY_NEW);
}

static inline void delete_aligned_array(void *p, size_t n, size_t align)
{
	if (REPLACED(_ZdaPvSt11align_val_t))
		_ZdaPvSt11align_val_t(p, align);
	else if (REPLACED(_ZdlPvSt11align_val_t))
		_ZdlPvSt11align_val_t(p, align);
	else
		delete_as(p, n, NEAR__BY_NEW_ARRAY);
}

OPERATOR(void, _ZdlPvm, void *p, size_t n)
{
	delete_one(p, n);
}

OPERATOR(void, _ZdaPvm, void *p, size_t n)
{
	delete_array(p, n);
}

OPERATOR(void, _ZdlPvRKSt9nothrow_t, void *p, const void *nothrow UNUSED)
{
	delete_one(p, NEAR__ANY_SIZE);
}

OPERATOR(void, _ZdaPvRKSt9nothrow_t, void *p, const void *nothrow UNUSED)
{
	delete_array(p, NEAR__ANY_SIZE);
}

OPERATOR(void, _ZdlPvmSt11align_val_t, void *p, size_t n, size_t align)
{
	delete_aligned(p, n, align);
}

OPERATOR(void, _ZdaPvmSt11align_val_t, void *p, size_t n, size_t align)
{
	delete_aligned_array(p, n, align);
}

OPERATOR(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, void *p, size_t align,
	 const void *nothrow UNUSED)
{
	delete_aligned(p, NEAR__ANY_SIZE, align);
}

OPERATOR(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, void *p, size_t align,
	 const void *nothrow UNUSED)
{
	delete_aligned_array(p, NEAR__ANY_SIZE, align);
}

bool near__cxx_is_ours(void)
{
	return !(REPLACED(_Znwm) || REPLACED(_Znam) || REPLACED(_ZnwmRKSt9nothrow_t) ||
		 REPLACED(_ZnamRKSt9nothrow_t) || REPLACED(_ZdlPv) || REPLACED(_ZdaPv) ||
		 REPLACED(_ZdlPvm) || REPLACED(_ZdaPvm));
}
