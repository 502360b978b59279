/* SPDX-License-Identifier: MIT */
/* Whether the libraries can be preloaded into a program: by its ELF header and its privileges. */
#include "run/run.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "common/text.h"

/* Scripts whose interpreters are scripts: the kernel allows five. */
#define MAX_DEPTH 5
#define HEAD_SIZE 4096

struct target {
	struct run_options *options;
	const char *name; /* for people: "'x'", "the interpreter '/bin/x' of 'y'" */
	struct text why;
};

/* Fills `why` with the name and the reason; returns `status`. */
#define REFUSE(t, status, ...)                                                                     \
	(snprintf((t)->why.out, (t)->why.size, "%s ", (t)->name), say(&(t)->why, __VA_ARGS__),     \
	 (status))

/* ---- where it is ---- */

static int target_find(struct target *t, const char *name, char path[PATH_MAX])
{
	int err;

	if (!strchr(name, '/')) {
		err = *name ? find_in_path(name, path) : -ENOENT;
		if (err == -ENOENT)
			return REFUSE(t, LAUNCH_NOT_FOUND, "was not found in PATH");
	} else {
		err = snprintf(path, PATH_MAX, "%s", name) < PATH_MAX ? file_can_run(path)
								      : -ENAMETOOLONG;
	}
	if (err == -ENOENT || err == -ENOTDIR)
		return REFUSE(t, LAUNCH_NOT_FOUND, "does not exist");
	if (err)
		return REFUSE(t, LAUNCH_CANNOT, "cannot be run: %s", strerror(-err));
	return 0;
}

/* ---- what it is ---- */

/* Whether it is an ELF file, and its header. */
static bool read_header(const struct elf_file *f, Elf64_Ehdr *e)
{
	if (f->size < sizeof(*e) || memcmp(f->at, ELFMAG, SELFMAG) != 0)
		return false;
	memcpy(e, f->at, sizeof(*e));
	return true;
}

static const char *machine_name(unsigned machine)
{
	static const struct {
		unsigned machine;
		const char *name;
	} names[] = {
		{EM_386, "i386"},        {EM_X86_64, "x86_64"}, {EM_ARM, "arm"},
		{EM_AARCH64, "aarch64"}, {EM_RISCV, "riscv"},   {EM_PPC64, "powerpc64"},
		{EM_S390, "s390"},       {EM_MIPS, "mips"},     {EM_LOONGARCH, "loongarch"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].machine == machine)
			return names[i].name;
	return "another CPU";
}

/* The file's interpreter, "" if it has none; false: its program headers are damaged. */
static bool find_interpreter(const struct elf_file *f, const Elf64_Ehdr *e, char *interpreter,
			     size_t size)
{
	interpreter[0] = '\0';
	if (e->e_phentsize != sizeof(Elf64_Phdr) ||
	    !elf_in_file(f, e->e_phoff, e->e_phnum * sizeof(Elf64_Phdr)))
		return false;
	for (unsigned i = 0; i < e->e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, f->at + e->e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type != PT_INTERP)
			continue;
		if (!p.p_filesz || !elf_in_file(f, p.p_offset, p.p_filesz))
			return false;
		snprintf(interpreter, size, "%.*s", (int)p.p_filesz, f->at + p.p_offset);
		return true;
	}
	return true;
}

/* Names of what a library needs and has are among its strings. */
static bool has_string(const char *library, const char *name)
{
	struct elf_file f;
	bool found;

	if (!elf_map(&f, library))
		return false;
	found = memmem(f.at, f.size, name, strlen(name) + 1) != NULL;
	elf_unmap(&f);
	return found;
}

/* 0, or refused: their C libraries must be the same. */
static int compare_libc(struct target *t, const char *library, bool musl)
{
	bool glibc = has_string(library, "libc.so.6"); /* musl's is named otherwise */

	if (musl && glibc)
		return REFUSE(t, LAUNCH_CANNOT,
			      "is linked with musl, the library with glibc: build the library with "
			      "musl-gcc, and name it with --library");
	if (!musl && !glibc)
		return REFUSE(t, LAUNCH_CANNOT, "is linked with glibc, the library '%s' is not",
			      library);
	return 0;
}

/* 0, or refused: they must be for the same CPU. */
static int compare_machine(struct target *t, const char *library, const Elf64_Ehdr *its)
{
	struct elf_file f;
	Elf64_Ehdr mine;
	bool is_library = elf_map(&f, library) && read_header(&f, &mine);

	elf_unmap(&f);
	if (!is_library)
		return REFUSE(t, LAUNCH_CANNOT, "cannot be run with '%s': it is no library",
			      library);
	if (memcmp(its->e_ident, mine.e_ident, EI_VERSION) != 0 || its->e_machine != mine.e_machine)
		return REFUSE(t, LAUNCH_CANNOT,
			      "is for %s with %u bits, the library for %s with %u: build the "
			      "library for that",
			      machine_name(its->e_machine),
			      its->e_ident[EI_CLASS] == ELFCLASS32 ? 32u : 64u,
			      machine_name(mine.e_machine),
			      mine.e_ident[EI_CLASS] == ELFCLASS32 ? 32u : 64u);
	return 0;
}

/* musl's linker compares files, not SONAMEs: it would search libatomic.so.1 although ours is
 * preloaded. So it searches our directory first, and finds the same file. */
static int set_search(struct target *t)
{
	struct run_options *o = t->options;
	const char *had = getenv("LD_LIBRARY_PATH");
	int n = snprintf(o->search, sizeof(o->search), "%.*s%s%s",
			 (int)(strrchr(o->atomic, '/') - o->atomic), o->atomic,
			 had && *had ? ":" : "", had ? had : "");

	if (n < 0 || (size_t)n >= sizeof(o->search))
		return REFUSE(t, LAUNCH_CANNOT, "cannot be run: LD_LIBRARY_PATH is too long");
	return 0;
}

/* What to do where nothing can be preloaded. */
static int refuse_static(struct target *t)
{
	const struct run_options *o = t->options;

	if (!(o->parts & LIBRARY_ATOMIC))
		return REFUSE(t, LAUNCH_CANNOT,
			      "is static: nothing can be preloaded; link it with "
			      "libnearcpu-malloc.a");
	return REFUSE(t, LAUNCH_CANNOT,
		      "is static: nothing can be preloaded; link it with %sthe libatomic.a "
		      "next to '%s'",
		      o->parts & LIBRARY_MALLOC ? "libnearcpu-malloc.a and " : "", o->atomic);
}

static int refuse_rights(struct target *t, const char *rights)
{
	const unsigned parts = t->options->parts;

	return REFUSE(t, LAUNCH_CANNOT,
		      "gets more rights than you have (%s): nothing can be preloaded; %s%s%s",
		      rights, parts & LIBRARY_MALLOC ? "link it with libnearcpu-malloc" : "",
		      parts == LIBRARY_BOTH ? ", and " : "",
		      parts & LIBRARY_ATOMIC
			      ? "see near_atomic(7) for how to put its libatomic in the "
				"system's place"
			      : "");
}

static int check_elf(struct target *t, const char *path, const struct elf_file *f,
		     const Elf64_Ehdr *its)
{
	struct run_options *o = t->options;
	const char *libraries[] = {o->malloc, o->atomic};
	bool musl;
	int code = 0;

	for (size_t i = 0; i < 2 && !code; i++)
		code = *libraries[i] ? compare_machine(t, libraries[i], its) : 0;
	if (code)
		return code;
	if (*o->atomic && !has_string(o->atomic, "LIBATOMIC_1.0"))
		return REFUSE(t, LAUNCH_CANNOT, "cannot be run with '%s': it is no libatomic",
			      o->atomic);
	if (*o->malloc && has_string(o->malloc, "LIBATOMIC_1.0"))
		return REFUSE(t, LAUNCH_CANNOT,
			      "cannot be run with '%s': it is a libatomic; give --atomic",
			      o->malloc);
	snprintf(o->elf, sizeof(o->elf), "%s", path);
	if (!find_interpreter(f, its, o->linker, sizeof(o->linker)))
		return 0; /* the kernel will report it */
	if (!o->linker[0])
		return refuse_static(t);
	musl = strstr(o->linker, "ld-musl") != NULL;
	for (size_t i = 0; i < 2 && !code; i++)
		if (*libraries[i])
			code = compare_libc(t, libraries[i], musl);
	if (!code && musl && *o->atomic)
		code = set_search(t);
	return code;
}

/* ---- all of it ---- */

static int check_file(struct target *t, const char *path, int depth);

/* "#! /usr/bin/env -S x": what follows the first word does not matter here. */
static int check_script(struct target *t, const char *path, char *line, int depth)
{
	char *interpreter = line + strspn(line, " \t"), name[2 * PATH_MAX + 64];
	struct target its = *t;
	int err;

	interpreter[strcspn(interpreter, " \t\r\n")] = '\0';
	snprintf(name, sizeof(name), "the interpreter '%.*s' of '%.*s'", PATH_MAX, interpreter,
		 PATH_MAX, path);
	its.name = name;
	err = file_can_run(interpreter);
	if (err)
		return REFUSE(&its, err == -ENOENT ? LAUNCH_NOT_FOUND : LAUNCH_CANNOT,
			      "cannot be run: %s", strerror(-err));
	return depth < MAX_DEPTH ? check_file(&its, interpreter, depth + 1) : 0;
}

static int check_file(struct target *t, const char *path, int depth)
{
	char line[HEAD_SIZE] = "/bin/sh"; /* what execvp makes of a file that the kernel refuses */
	const char *why = launch_rights(path);
	struct elf_file f;
	bool is_readable = elf_map(&f, path); /* else it may still be run */
	Elf64_Ehdr e;
	int code = 0;

	if (f.size >= 2 && memcmp(f.at, "#!", 2) == 0) { /* its own rights count for nothing */
		snprintf(line, sizeof(line), "%.*s", (int)MIN(f.size - 2, sizeof(line)), f.at + 2);
		line[strcspn(line, "\n")] = '\0';
		code = check_script(t, path, line, depth);
	} else if (why) {
		code = refuse_rights(t, why);
	} else if (read_header(&f, &e)) {
		code = check_elf(t, path, &f, &e);
	} else if (is_readable) {
		code = check_script(t, path, line, depth);
	}
	elf_unmap(&f);
	return code;
}

int run_find_program(struct run_options *o, char *why, size_t size)
{
	char quoted[PATH_MAX + 2];
	struct target t = {o, quoted, {why, size}};
	int status;

	snprintf(quoted, sizeof(quoted), "'%.*s'", PATH_MAX - 1, o->argv[0]);
	status = target_find(&t, o->argv[0], o->path);
	return status ? status : check_file(&t, o->path, 0);
}
