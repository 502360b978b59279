/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "find.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trap_arch.h"
#include "where.h"

/* As the kernel defines it. */
struct descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
} __attribute__((aligned(32)));

/* Made by the linker. Weak: a program without sequences has none. */
#define HIDDEN __attribute__((weak, visibility("hidden")))
extern const struct descriptor __start___rseq_cs[] HIDDEN;
extern const struct descriptor __stop___rseq_cs[] HIDDEN;

struct text {
	uintptr_t start, end;
};

static int find_text(struct dl_phdr_info *info, size_t size, void *out)
{
	struct text *text = out;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		text->start = info->dlpi_addr + p->p_vaddr;
		text->end = text->start + p->p_memsz;
	}
	return 1; /* the program itself comes first */
}

int open_text(uintptr_t *start, uintptr_t *end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from, to;
	struct text text = {0, 0};

	dl_iterate_phdr(find_text, &text);
	*start = text.start;
	*end = text.end;
	from = text.start & ~(page - 1);
	to = (text.end + page - 1) & ~(page - 1);
	return mprotect((void *)from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC) ? -EACCES : 0;
}

/* Where instructions tell their length, all boundaries are known at once. */
static void find_points(struct trap_seq *s)
{
	uintptr_t ip = s->start;

	if (TRAP_STEPS)
		return;
	while (ip < s->end && s->points < TRAP_MAX_POINTS - 1) {
		s->point[s->points++] = ip;
		ip += trap_length(ip);
	}
	s->point[s->points++] = ip;
}

int find_sequences(struct trap_seq **out)
{
	size_t n = (size_t)(__stop___rseq_cs - __start___rseq_cs);
	struct trap_seq *seqs;

	if (!TRAP_ARCH || n == 0)
		return -ENOSYS;
	seqs = calloc(n, sizeof(*seqs));
	if (!seqs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct descriptor *d = &__start___rseq_cs[i];

		seqs[i].start = d->start;
		seqs[i].end = d->start + d->length;
		seqs[i].abort = d->abort;
		seqs[i].function = where(d->start);
		find_points(&seqs[i]);
	}
	*out = seqs;
	return (int)n;
}
