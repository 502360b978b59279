/* SPDX-License-Identifier: MIT */
/* other: blocks of other allocators, and programs that have a malloc of their own, or wrap ours.
 *
 * Such a program rarely has all names. Those that it lacks are ours: operators new and delete,
 * reallocarray, free_sized and so on go by the public malloc, realloc and free there, which are the
 * program's, as they do in the C and C++ libraries. The operators'
 * limits in near__heap stay 0, so that a call takes the slow path, which compares. */
#ifndef NEARCPU_MALLOC_OTHER_H
#define NEARCPU_MALLOC_OTHER_H

#include <stdbool.h>
#include <stddef.h>

/* Whether malloc, realloc or free is not ours. Also where the program has taken the address of one
 * and is not position-independent: the public name is then in the program, which calls ours. */
bool near__malloc_is_replaced(void);
bool near__aligned_alloc_is_replaced(void);

/* next.c: a block from elsewhere, to the next allocator after this library in the dynamic linker's
 * order: the C library's, as a rule. False: there is none, or it has no blocks. Where no other
 * allocator is replaced (own.c), these do not exist. */
bool near__free_other(void *p);
bool near__resize_other(void **p, size_t n);
bool near__size_of_other(void *p, size_t *size);

/* Whether two functions are of one object. */
bool near__same_object(const void *a, const void *b);

#endif
