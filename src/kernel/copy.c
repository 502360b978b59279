/* SPDX-License-Identifier: MIT */
/* Finds a copy of the library in the program that does not export its state. A second copy, in a
 * shared object, then has a struct near__thread of its own, but the process has one `vfork`, which
 * changes the program's: sequences of the second copy would go on in the child, which the kernel
 * does not watch. So the second copy takes the portable path. */
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "internal.h"

/* The note of state.c: where the state of the object is that contains it. */
struct note {
	ElfW(Nhdr) header;
	char name[8];
	int32_t state; /* less the address of this field */
};

static bool is_ours(const struct note *n, size_t size)
{
	return size >= sizeof(*n) && n->header.n_namesz == sizeof(n->name) &&
	       n->header.n_descsz == sizeof(n->state) && memcmp(n->name, "Nearcpu", 8) == 0;
}

/* The address of the state in a segment of notes, or 0. */
static uintptr_t state_in(const char *notes, size_t size)
{
	const size_t header = sizeof(ElfW(Nhdr));

	while (size >= header) {
		const struct note *n = (const struct note *)notes;
		size_t length = header + ((n->header.n_namesz + 3ul) & ~3ul) +
				((n->header.n_descsz + 3ul) & ~3ul);

		if (is_ours(n, size))
			return (uintptr_t)&n->state + (uintptr_t)(intptr_t)n->state;
		if (length > size)
			break;
		notes += length;
		size -= length;
	}
	return 0;
}

/* A static program has no PT_PHDR, and no shared objects. */
bool near__program_hides_copy(void)
{
	const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
	size_t n = headers ? getauxval(AT_PHNUM) : 0;
	uintptr_t base = 0, state = 0;
	bool is_dynamic = false;

	for (size_t i = 0; i < n; i++)
		if (headers[i].p_type == PT_PHDR) {
			base = (uintptr_t)headers - headers[i].p_vaddr;
			is_dynamic = true;
		}
	for (size_t i = 0; is_dynamic && i < n && !state; i++)
		/* Segments with another alignment have another format. */
		if (headers[i].p_type == PT_NOTE && headers[i].p_align <= 4)
			state = state_in((const char *)base + headers[i].p_vaddr,
					 headers[i].p_memsz);
	return state && state != (uintptr_t)&near__process;
}
