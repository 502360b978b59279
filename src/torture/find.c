/* SPDX-License-Identifier: MIT */
/* Finds the sequences of the process. A descriptor is recognized in memory, after relocation, by
 * its content: five fields whose addresses lie in the text of the same object, and the signature
 * before the abort address, which the kernel requires. This needs neither sections nor symbols. */
#define _GNU_SOURCE
#include "torture/find.h"

#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "torture/names.h"

/* As the kernel defines it. */
struct descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
};
#define MAX_LENGTH 65536

struct text {
	uintptr_t start, end;
	int protection;
};

/* Memory that no sanitizer knows as an object of the program. */
#define READS_ANYTHING __attribute__((no_sanitize("address"), no_sanitize("thread")))

struct finder {
	struct found *out;
	const struct dl_phdr_info *object;
	unsigned room;
	int error;
};

static uintptr_t start_of(const struct finder *f, const ElfW(Phdr) * p)
{
	return f->object->dlpi_addr + p->p_vaddr;
}

static bool is_text(const struct finder *f, uint64_t address, uint64_t size)
{
	for (unsigned i = 0; i < f->object->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &f->object->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && address >= start_of(f, p) &&
		    size <= p->p_memsz && address - start_of(f, p) <= p->p_memsz - size)
			return true;
	}
	return false;
}

READS_ANYTHING static bool is_descriptor(const struct finder *f, const struct descriptor *d)
{
	uint32_t signature = NEAR__SIGNATURE;
	const unsigned char *before;

	if (d->version || d->flags || d->length == 0 || d->length > MAX_LENGTH ||
	    d->abort < sizeof(signature) || !is_text(f, d->start, d->length) ||
	    !is_text(f, d->abort - sizeof(signature), sizeof(signature) + 1))
		return false;
	before = (const unsigned char *)(uintptr_t)d->abort - sizeof(signature);
	for (size_t i = 0; i < sizeof(signature); i++)
		if (before[i] != ((const unsigned char *)&signature)[i])
			return false;
	return true;
}

static bool is_known(const struct finder *f, const struct descriptor *d)
{
	for (unsigned i = 0; i < f->out->count; i++)
		if (f->out->seqs[i].start == d->start && f->out->seqs[i].abort == d->abort)
			return true;
	return false;
}

/* Where the length of an instruction can be decoded, all boundaries are known without a run. */
static void find_points(struct trap_seq *s)
{
	uintptr_t ip;

	if (NEAR__TRAP_STEPS)
		return;
	for (ip = s->start; ip < s->end && s->points < TRAP_MAX_POINTS - 1;
	     ip += near__trap_length(ip))
		s->point[s->points++] = ip;
	s->point[s->points++] = ip;
	s->too_long = ip < s->end;
}

/* Only the abort address identifies an aborted sequence. */
static bool shares_abort(struct finder *f, uintptr_t abort)
{
	bool shares = false;

	for (unsigned i = 0; i < f->out->count; i++)
		if (f->out->seqs[i].abort == abort)
			shares = f->out->seqs[i].shares = true;
	return shares;
}

READS_ANYTHING static void finder_add(struct finder *f, const struct descriptor *d)
{
	struct found *out = f->out;
	struct trap_seq *s;

	if (is_known(f, d))
		return;
	if (out->count == f->room) {
		f->room = f->room ? 2 * f->room : 16;
		s = realloc(out->seqs, f->room * sizeof(*s));
		if (!s) {
			f->error = -ENOMEM;
			return;
		}
		out->seqs = s;
	}
	s = &out->seqs[out->count];
	*s = (struct trap_seq){
		.start = d->start,
		.end = d->start + d->length,
		.abort = d->abort,
		.shares = shares_abort(f, d->abort),
	};
	out->count++;
	find_points(s);
}

/* The linker may place descriptors anywhere in the loaded file. Memory beyond the file's bytes is
 * initially zero, and descriptors are not created at run time. */
READS_ANYTHING static void finder_search(struct finder *f, const ElfW(Phdr) * p)
{
	uintptr_t at = (start_of(f, p) + 7) & ~(uintptr_t)7;
	uintptr_t end = start_of(f, p) + p->p_filesz;

	for (; at + sizeof(struct descriptor) <= end && !f->error; at += 8)
		if (*(const uint64_t *)at == 0 && is_descriptor(f, (const struct descriptor *)at))
			finder_add(f, (const struct descriptor *)at);
}

static void add_text(struct finder *f, const ElfW(Phdr) * p)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct text *texts = realloc(f->out->texts, (f->out->text_count + 1) * sizeof(*texts));

	if (!texts) {
		f->error = -ENOMEM;
		return;
	}
	f->out->texts = texts;
	texts[f->out->text_count++] = (struct text){
		.start = start_of(f, p) & ~(page - 1),
		.end = near__round_up(start_of(f, p) + p->p_memsz, page),
		.protection = PROT_EXEC | (p->p_flags & PF_R ? PROT_READ : 0) |
			      (p->p_flags & PF_W ? PROT_WRITE : 0),
	};
}

/* The program itself comes first, and has no name. */
static void name_functions(struct finder *f, unsigned first)
{
	const char *path = f->object->dlpi_name;
	struct names w;

	near__names_open(&w, path && *path ? path : "/proc/self/exe", f->object->dlpi_addr);
	for (unsigned i = first; i < f->out->count; i++) {
		struct trap_seq *s = &f->out->seqs[i];

		s->function = strdup(near__name_of(&w, s->start, &s->offset));
		if (!s->function)
			f->error = -ENOMEM;
		else if (strcmp(s->function, "?") != 0)
			s->entry = s->start - s->offset;
	}
	near__names_close(&w);
}

static int finder_visit(struct dl_phdr_info *object, size_t size, void *finder)
{
	struct finder *f = finder;
	unsigned first = f->out->count;

	(void)size;
	f->object = object;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &object->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R))
			finder_search(f, p);
	}
	if (f->out->count == first)
		return f->error;
	for (unsigned i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_LOAD && (object->dlpi_phdr[i].p_flags & PF_X))
			add_text(f, &object->dlpi_phdr[i]);
	name_functions(f, first);
	return f->error;
}

int near__find(struct found *out)
{
	struct finder f = {.out = out};

	*out = (struct found){0};
	if (NEAR__HAS_SEQ)
		dl_iterate_phdr(finder_visit, &f);
	if (f.error)
		near__find_end(out);
	return f.error;
}

void near__find_end(struct found *f)
{
	for (unsigned i = 0; i < f->count; i++)
		free(f->seqs[i].function);
	free(f->seqs);
	free(f->texts);
	*f = (struct found){0};
}

static int text_protect(const struct text *t, int more)
{
	if (mprotect((void *)t->start, t->end - t->start, t->protection | more) == 0)
		return 0;
	return errno == ENOMEM ? -ENOMEM : -EACCES;
}

int near__text_open(const struct found *f)
{
	int r;

	for (unsigned i = 0; i < f->text_count; i++) {
		r = text_protect(&f->texts[i], PROT_READ | PROT_WRITE);
		if (r == 0)
			continue;
		while (i-- > 0)
			text_protect(&f->texts[i], 0);
		return r;
	}
	return 0;
}

void near__text_close(const struct found *f)
{
	for (unsigned i = 0; i < f->text_count; i++)
		text_protect(&f->texts[i], 0);
}
