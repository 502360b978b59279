/* SPDX-License-Identifier: MIT */
/* Finds other copies of the library by a note in their objects.
 *
 * A copy in the program that does not export its state. A second copy, in a shared object, then has
 * a struct near__thread of its own, but the process has one `vfork`, which changes the program's:
 * sequences of the second copy would go on in the child, which the kernel does not watch. So the
 * second copy takes the portable path.
 *
 * A copy of another version. It has a state of its own as well, since names of shared state have
 * the version. The copy of the program runs sequences; or else that whose `vfork` the process
 * calls, or which came first (first.c); the other one takes the portable path. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "kernel/kernel.h"

/* The note of kernel_state.c: where the state of the object is that contains it. */
struct note {
	ElfW(Nhdr) header;
	char name[8];
	int32_t state; /* less the address of this field */
	uint32_t version;
};
extern const struct note near__note __attribute__((visibility("hidden"))); /* this object's */

static bool is_ours(const struct note *n, size_t size)
{
	return size >= sizeof(*n) && n->header.n_namesz == sizeof(n->name) &&
	       n->header.n_descsz == sizeof(n->state) + sizeof(n->version) &&
	       memcmp(n->name, "Nearcpu", 8) == 0;
}

/* The note in a segment of notes, or NULL. */
static const struct note *note_in(const char *notes, size_t size)
{
	const size_t header = sizeof(ElfW(Nhdr));

	while (size >= header) {
		const struct note *n = (const struct note *)notes;
		size_t length = header + ((n->header.n_namesz + 3ul) & ~3ul) +
				((n->header.n_descsz + 3ul) & ~3ul);

		if (is_ours(n, size))
			return n;
		if (length > size)
			break;
		notes += length;
		size -= length;
	}
	return NULL;
}

/* The note of an object, or NULL. Segments with another alignment have another format. */
static const struct note *note_of(uintptr_t base, const ElfW(Phdr) * headers, size_t n)
{
	const struct note *note = NULL;

	for (size_t i = 0; i < n && !note; i++)
		if (headers[i].p_type == PT_NOTE && headers[i].p_align <= 4)
			note = note_in((const char *)base + headers[i].p_vaddr, headers[i].p_memsz);
	return note;
}

/* A static program has no PT_PHDR, and no shared objects. */
static const struct note *note_of_program(void)
{
	const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	size_t n = headers ? getauxval(AT_PHNUM) : 0;

	for (size_t i = 0; i < n; i++)
		if (headers[i].p_type == PT_PHDR)
			return note_of((uintptr_t)headers - headers[i].p_vaddr, headers, n);
	return NULL;
}

static bool is_other_version(const struct note *n)
{
	return n && n->version != near__note.version;
}

/* Whether the process calls the `vfork` of another version. It is marked, in the 8 bytes in front
 * of it, which are in its page; others are not. So this can be known early, without dladdr(), which
 * waits for other threads that load objects: the first allocation may be in a constructor. */
static bool is_served_elsewhere(void)
{
	uintptr_t at = (uintptr_t)vfork;
	uint32_t mark[2];

	if (at % 16 != sizeof(mark))
		return false;
	memcpy(mark, (const char *)at - sizeof(mark), sizeof(mark));
	return mark[0] == NEAR__VFORK_WORD && mark[1] != near__note.version;
}

const char *near__why_other_copy(void)
{
	const struct note *n = note_of_program();
	uintptr_t state = n ? (uintptr_t)&n->state + (uintptr_t)(intptr_t)n->state : 0;

	if (is_other_version(n))
		return "the program contains another version of this library";
	if (n && state != (uintptr_t)&near__process)
		return "the program contains this library, too, and does not export its state "
		       "(nearcpu(7) has the link option)";
	return is_served_elsewhere() ? "another version of this library is in this process, and "
				       "comes first"
				     : NULL;
}
