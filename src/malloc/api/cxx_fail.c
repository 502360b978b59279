/* SPDX-License-Identifier: MIT */
/* No memory for new. The C++ library is asked what to do: by weak references where it came with the
 * program or with a library that it needs, else by cxx_find.c. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "malloc/api/cxx.h"
#include "malloc/base/heap.h"

typedef void handler(void);

/* std::get_new_handler and std::__throw_bad_alloc: libstdc++ and libc++ have both. */
handler *near__get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
void near__throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

/* In the shared library alone: a static program has all it will ever have. */
#pragma weak near__cxx_find

static void *find(const void *caller, const char *name)
{
	return near__cxx_find ? near__cxx_find(caller, name) : NULL;
}

static handler *current_handler(const void *caller)
{
	handler *(*get)(void) = near__get_new_handler;

	if (!get)
		*(void **)&get = find(caller, "_ZSt15get_new_handlerv");
	return get ? get() : NULL;
}

__attribute__((noreturn)) static void throw_bad_alloc(size_t n, const void *caller)
{
	void (*throw)(void) = near__throw_bad_alloc;

	if (!throw)
		*(void **)&throw = find(caller, "_ZSt17__throw_bad_allocv");
	if (throw)
		throw();
	near__heap_die_block("no memory for new, and no C++ library to tell", NULL,
			     &(struct near__told){n, caller, NULL});
}

void *near__new_failed(size_t align, size_t n, const void *caller)
{
	void *p = NULL;

	while (!p) {
		handler *h = current_handler(caller);

		if (!h)
			throw_bad_alloc(n, caller);
		h();
		p = near__alloc_aligned(align, n, caller);
	}
	return p;
}

#pragma weak dladdr
#pragma weak dlsym

static bool same_object(const void *a, const void *b)
{
	Dl_info x, y;

	return dladdr(a, &x) && dladdr(b, &y) && x.dli_fbase == y.dli_fbase;
}

/* The C++ library's own nothrow new. It calls ours, which calls the handler, and catches what that
 * throws: C cannot. NULL where the C++ library is in the program itself, and so has ours. That of
 * another allocator behind us is none. */
static void *theirs(const char *name, const void *ours, const void *caller)
{
	const void *get = (const void *)near__get_new_handler;
	void *found;

	if (!get)
		return find(caller, name);
	found = dlsym && dladdr ? dlsym(RTLD_NEXT, name) : NULL;
	return found && found != ours && same_object(get, found) ? found : NULL;
}

void *_Znwm(size_t n);
void *_Znam(size_t n);
void *_ZnwmSt11align_val_t(size_t n, size_t align);
void *_ZnamSt11align_val_t(size_t n, size_t align);
void *_ZnwmRKSt9nothrow_t(size_t n, const void *nothrow);
void *_ZnamRKSt9nothrow_t(size_t n, const void *nothrow);
void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t n, size_t align, const void *nothrow);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t n, size_t align, const void *nothrow);

/* False: there is none. */
static bool try_theirs(size_t align, size_t n, bool array, const void *caller, void **p)
{
	static const char nothrow; /* std::nothrow has no content */
	void *(*plain)(size_t, const void *);
	void *(*aligned)(size_t, size_t, const void *);

	if (align == 1) {
		*(void **)&plain =
			array ? theirs("_ZnamRKSt9nothrow_t", (void *)_ZnamRKSt9nothrow_t, caller)
			      : theirs("_ZnwmRKSt9nothrow_t", (void *)_ZnwmRKSt9nothrow_t, caller);
		*p = plain ? plain(n, &nothrow) : NULL;
		return plain != NULL;
	}
	*(void **)&aligned = array ? theirs("_ZnamSt11align_val_tRKSt9nothrow_t",
					    (void *)_ZnamSt11align_val_tRKSt9nothrow_t, caller)
				   : theirs("_ZnwmSt11align_val_tRKSt9nothrow_t",
					    (void *)_ZnwmSt11align_val_tRKSt9nothrow_t, caller);
	*p = aligned ? aligned(n, align, &nothrow) : NULL;
	return aligned != NULL;
}

void *near__new_nothrow_theirs(size_t align, size_t n, bool array, const void *caller)
{
	void *p;

	if (try_theirs(align, n, array, caller, &p))
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
		p = near__alloc_aligned(align, n, caller);
	}
	return p;
}

void *near__new_nothrow_failed(size_t align, size_t n, const void *caller)
{
	void *p;

	if (!current_handler(caller))
		return NULL;
	return try_theirs(align, n, false, caller, &p) ? p : try_without_catch(align, n, caller);
}
