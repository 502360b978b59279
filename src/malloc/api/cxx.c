/* SPDX-License-Identifier: MIT */
/* C++'s operators new and delete, by their names in the ABI: they need no C++ library.
 *
 * Letters: w, a: new, new[]. l, a: delete, delete[]. m: size_t. Pv: the block. St11align_val_t: an
 * alignment. RKSt9nothrow_t: std::nothrow.
 *
 * A program may define some of them itself. The C++ standard requires that the others call these:
 * new[] calls new, the nothrow forms call those that throw, delete with a size calls the one
 * without. Each operator therefore first checks whether the program has replaced those that it
 * stands for. */
#define _GNU_SOURCE
#include "malloc/api/cxx.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "malloc/api/fast.h"
#include "malloc/api/other.h"
#include "malloc/diagnostics/hooks.h"

/* Defines an operator, also under a second name that stays when the program replaces the first.
 * Weak: in a static program the program's own operator wins. */
#define OPERATOR(type, name, ...)                                                                  \
	type near__own##name(__VA_ARGS__) __attribute__((visibility("hidden")));                   \
	NEAR__ENTRY type name(__VA_ARGS__) __attribute__((weak, alias("near__own" #name)));        \
	type near__own##name(__VA_ARGS__)
#define REPLACED(name) NEAR__UNLIKELY(name != near__own##name)
#define UNUSED __attribute__((unused))

void *_Znwm(size_t n);
void *_Znam(size_t n);
void *_ZnwmSt11align_val_t(size_t n, size_t align);
void *_ZnamSt11align_val_t(size_t n, size_t align);
void *_ZnwmRKSt9nothrow_t(size_t n, const void *nothrow);
void *_ZnamRKSt9nothrow_t(size_t n, const void *nothrow);
void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t n, size_t align, const void *nothrow);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t n, size_t align, const void *nothrow);

/* ---- no memory ---- */

/* The C++ library has the handler: weak references reach it if it came with the program or with a
 * library that the program needs, else cxx_find.c finds it. */
typedef void handler(void);

/* std::get_new_handler and std::__throw_bad_alloc: libstdc++ and libc++ have both. */
handler *near__get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
void near__throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

/* In the shared library alone: a static program loads no C++ library later. */
#pragma weak near__cxx_find

static void *cxx_symbol(const void *caller, const char *name)
{
	return near__cxx_find ? near__cxx_find(caller, name) : NULL;
}

static handler *current_handler(const void *caller)
{
	handler *(*get)(void) = near__get_new_handler;

	if (!get)
		*(void **)&get = cxx_symbol(caller, "_ZSt15get_new_handlerv");
	return get ? get() : NULL;
}

__attribute__((noreturn)) static void throw_bad_alloc(size_t n, const void *caller)
{
	void (*throw)(void) = near__throw_bad_alloc;

	if (!throw)
		*(void **)&throw = cxx_symbol(caller, "_ZSt17__throw_bad_allocv");
	if (throw)
		throw();
	near__heap_die_block("no memory for new, and no C++ library to tell", NULL,
			     &(struct near__origin){n, caller, NULL});
}

/* As the C++ library does it, by public names, if the program has replaced malloc: a size of 0 is
 * 1, and that of an aligned block a multiple of the alignment. */
static void *alloc_public(size_t align, size_t n)
{
	size_t size = n ? n : 1;

	if (align == 1)
		return malloc(size);
	size = (size + align - 1) & ~(align - 1);
	return size >= n ? aligned_alloc(align, size) : near__no_memory();
}

static void *cxx_obtain(size_t align, size_t n, const void *caller)
{
	if (NEAR__UNLIKELY(near__malloc_is_replaced()))
		return alloc_public(align, n);
	if (NEAR__UNLIKELY(near__heap.new_limit != near__heap.cid_limit))
		near__heap_open_operators();
	return near__alloc_aligned(align, n, caller);
}

/* Retries until there is memory or no handler: then throws std::bad_alloc. */
__attribute__((cold)) static void *new_failed(size_t align, size_t n, const void *caller)
{
	void *p = NULL;

	while (!p) {
		handler *h = current_handler(caller);

		if (!h)
			throw_bad_alloc(n, caller);
		h();
		p = cxx_obtain(align, n, caller);
	}
	return p;
}

#pragma weak dlsym

/* The C++ library's nothrow new: it calls ours and catches what the handler throws; C cannot.
 * NULL: the program contains that library, with our operator; or an allocator's follows ours. */
static void *cxx_theirs(const char *name, const void *ours, const void *caller)
{
	const void *get = (const void *)near__get_new_handler;
	void *found;

	if (!get)
		return cxx_symbol(caller, name);
	found = dlsym ? dlsym(RTLD_NEXT, name) : NULL;
	return found && found != ours && near__same_object(get, found) ? found : NULL;
}

/* False: there is none. */
static bool try_theirs(size_t align, size_t n, bool array, const void *caller, void **p)
{
	static const char nothrow; /* std::nothrow has no content */
	void *(*plain)(size_t, const void *);
	void *(*aligned)(size_t, size_t, const void *);

	if (align == 1) {
		*(void **)&plain = array ? cxx_theirs("_ZnamRKSt9nothrow_t",
						      (void *)_ZnamRKSt9nothrow_t, caller)
					 : cxx_theirs("_ZnwmRKSt9nothrow_t",
						      (void *)_ZnwmRKSt9nothrow_t, caller);
		*p = plain ? plain(n, &nothrow) : NULL;
		return plain != NULL;
	}
	*(void **)&aligned = array ? cxx_theirs("_ZnamSt11align_val_tRKSt9nothrow_t",
						(void *)_ZnamSt11align_val_tRKSt9nothrow_t, caller)
				   : cxx_theirs("_ZnwmSt11align_val_tRKSt9nothrow_t",
						(void *)_ZnwmSt11align_val_tRKSt9nothrow_t, caller);
	*p = aligned ? aligned(n, align, &nothrow) : NULL;
	return aligned != NULL;
}

__attribute__((cold, noinline)) static void *nothrow_theirs(size_t align, size_t n, bool array)
{
	void *p;

	if (try_theirs(align, n, array, NEAR__CALLER, &p))
		return p;
	if (align == 1)
		return array ? _Znam(n) : _Znwm(n);
	return array ? _ZnamSt11align_val_t(n, align) : _ZnwmSt11align_val_t(n, align);
}

static void *try_without_catch(size_t align, size_t n, const void *caller)
{
	handler *h;
	void *p = NULL;

	while (!p && (h = current_handler(caller))) {
		h();
		p = cxx_obtain(align, n, caller);
	}
	return p;
}

/* The same, but returns NULL then. */
__attribute__((cold)) static void *new_nothrow_failed(size_t align, size_t n, const void *caller)
{
	void *p;

	if (!current_handler(caller))
		return NULL;
	return try_theirs(align, n, false, caller, &p) ? p : try_without_catch(align, n, caller);
}

/* ---- new ---- */

static bool all_are_ours(void);

static void *cxx_made(void *p, enum near__maker maker)
{
	if (NEAR__UNLIKELY(near__heap.hooks == NEAR__CHECKED) && p && all_are_ours())
		near__check_made(p, maker);
	return p;
}

static __attribute__((noinline)) void *new_slow(size_t align, size_t n, enum near__maker maker)
{
	void *p = cxx_obtain(align, n, NEAR__CALLER);

	return cxx_made(NEAR__LIKELY(p != NULL) ? p : new_failed(align, n, NEAR__CALLER), maker);
}

static __attribute__((noinline)) void *nothrow_slow(size_t align, size_t n, enum near__maker maker)
{
	void *p = cxx_obtain(align, n, NEAR__CALLER);

	return cxx_made(NEAR__LIKELY(p != NULL) ? p : new_nothrow_failed(align, n, NEAR__CALLER),
			maker);
}

OPERATOR(void *, _Znwm, size_t n)
{
	void *p;

	return near__alloc_below(near__heap.new_limit, n, &p) ? p : new_slow(1, n, NEAR__BY_NEW);
}

OPERATOR(void *, _Znam, size_t n)
{
	void *p;

	if (REPLACED(_Znwm))
		return _Znwm(n);
	return near__alloc_below(near__heap.new_limit, n, &p) ? p
							      : new_slow(1, n, NEAR__BY_NEW_ARRAY);
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
	return near__alloc_below(near__heap.new_limit, n, &p) ? p
							      : nothrow_slow(1, n, NEAR__BY_NEW);
}

OPERATOR(void *, _ZnamRKSt9nothrow_t, size_t n, const void *nothrow UNUSED)
{
	void *p;

	if (REPLACED(_Znam) || REPLACED(_Znwm))
		return nothrow_theirs(1, n, true);
	return near__alloc_below(near__heap.new_limit, n, &p)
		       ? p
		       : nothrow_slow(1, n, NEAR__BY_NEW_ARRAY);
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

static void delete_own(void *p, size_t n, enum near__maker maker, const void *caller)
{
	struct near__place at;

	if (near__is_checked(p, &at))
		near__check_free(at, n, all_are_ours() ? maker : NEAR__BY_MALLOC, caller);
	else
		near__free_slow(p);
}

/* A block with an alignment is from aligned_alloc. If that is ours, a program's own free would not
 * know the block. */
static __attribute__((noinline)) void delete_slow(void *p, size_t n, enum near__maker maker,
						  bool aligned)
{
	if (NEAR__UNLIKELY(near__malloc_is_replaced()) &&
	    (!aligned || near__aligned_alloc_is_replaced()))
		free(p);
	else
		delete_own(p, n, maker, NEAR__CALLER);
}

static inline void delete_as(void *p, size_t n, enum near__maker maker, bool aligned)
{
	if (!near__free_below(near__heap.new_size, p))
		delete_slow(p, n, maker, aligned);
}

/* Calls the program's operator, if it has replaced this one. */
#define DELEGATE(name, ...)                                                                        \
	if (REPLACED(name)) {                                                                      \
		name(__VA_ARGS__);                                                                 \
		return;                                                                            \
	}

/* These do not check whether they are replaced: a program's own operator may call them. */
OPERATOR(void, _ZdlPv, void *p)
{
	delete_as(p, NEAR__ANY_SIZE, NEAR__BY_NEW, false);
}

OPERATOR(void, _ZdaPv, void *p)
{
	DELEGATE(_ZdlPv, p)
	delete_as(p, NEAR__ANY_SIZE, NEAR__BY_NEW_ARRAY, false);
}

OPERATOR(void, _ZdlPvSt11align_val_t, void *p, size_t align UNUSED)
{
	delete_as(p, NEAR__ANY_SIZE, NEAR__BY_NEW, true);
}

OPERATOR(void, _ZdaPvSt11align_val_t, void *p, size_t align)
{
	DELEGATE(_ZdlPvSt11align_val_t, p, align)
	delete_as(p, NEAR__ANY_SIZE, NEAR__BY_NEW_ARRAY, true);
}

static inline void delete_one(void *p, size_t n)
{
	DELEGATE(_ZdlPv, p)
	delete_as(p, n, NEAR__BY_NEW, false);
}

static inline void delete_array(void *p, size_t n)
{
	DELEGATE(_ZdaPv, p)
	DELEGATE(_ZdlPv, p)
	delete_as(p, n, NEAR__BY_NEW_ARRAY, false);
}

static inline void delete_aligned(void *p, size_t n, size_t align)
{
	DELEGATE(_ZdlPvSt11align_val_t, p, align)
	delete_as(p, n, NEAR__BY_NEW, true);
}

static inline void delete_aligned_array(void *p, size_t n, size_t align)
{
	DELEGATE(_ZdaPvSt11align_val_t, p, align)
	DELEGATE(_ZdlPvSt11align_val_t, p, align)
	delete_as(p, n, NEAR__BY_NEW_ARRAY, true);
}

#define NOTHROW const void *nothrow UNUSED
/* clang-format off */
OPERATOR(void, _ZdlPvm, void *p, size_t n) { delete_one(p, n); }
OPERATOR(void, _ZdaPvm, void *p, size_t n) { delete_array(p, n); }
OPERATOR(void, _ZdlPvRKSt9nothrow_t, void *p, NOTHROW) { delete_one(p, NEAR__ANY_SIZE); }
OPERATOR(void, _ZdaPvRKSt9nothrow_t, void *p, NOTHROW) { delete_array(p, NEAR__ANY_SIZE); }
OPERATOR(void, _ZdlPvmSt11align_val_t, void *p, size_t n, size_t align)
{ delete_aligned(p, n, align); }
OPERATOR(void, _ZdaPvmSt11align_val_t, void *p, size_t n, size_t align)
{ delete_aligned_array(p, n, align); }
OPERATOR(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, void *p, size_t align, NOTHROW)
{ delete_aligned(p, NEAR__ANY_SIZE, align); }
OPERATOR(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, void *p, size_t align, NOTHROW)
{ delete_aligned_array(p, NEAR__ANY_SIZE, align); }
/* clang-format on */

/* The operators without an alignment, and malloc. Without all of them, a block from one of the
 * program's may reach one of ours: glibc and libstdc++ accept that, and so the checks must. */
static bool all_are_ours(void)
{
	return !(near__malloc_is_replaced() || REPLACED(_Znwm) || REPLACED(_Znam) ||
		 REPLACED(_ZnwmRKSt9nothrow_t) || REPLACED(_ZnamRKSt9nothrow_t) ||
		 REPLACED(_ZdlPv) || REPLACED(_ZdaPv) || REPLACED(_ZdlPvm) || REPLACED(_ZdaPvm));
}
