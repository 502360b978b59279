/* SPDX-License-Identifier: MIT */
/* Whether a program calls the shared libatomic: by its undefined symbols, and those of the
 * libraries that the dynamic linker would load with it. */
#include "run/run.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "common/child.h"

#define LIST_SECONDS 10

static bool in_file(const struct run_file *f, uint64_t offset, uint64_t size)
{
	return offset <= f->size && size <= f->size - offset;
}

/* What libatomic has. It is named where it is missing: a static copy is not. */
static bool is_atomic(const char *name, size_t room)
{
	static const char *const prefixes[] = {"__atomic_", "atomic_thread_fence",
					       "atomic_signal_fence", "atomic_flag_"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i],
			    strlen(prefixes[i]) < room ? strlen(prefixes[i]) : room) == 0)
			return true;
	return false;
}

static bool lacks_in(const struct run_file *f, const Elf64_Shdr *symbols, const Elf64_Shdr *names)
{
	for (uint64_t i = 0; i < symbols->sh_size / sizeof(Elf64_Sym); i++) {
		Elf64_Sym s;

		memcpy(&s, f->at + symbols->sh_offset + i * sizeof(s), sizeof(s));
		if (s.st_shndx == SHN_UNDEF && s.st_name && s.st_name < names->sh_size &&
		    is_atomic(f->at + names->sh_offset + s.st_name, names->sh_size - s.st_name))
			return false;
	}
	return true;
}

/* False where it is not known. */
static bool lacks(const struct run_file *f)
{
	Elf64_Ehdr e;
	Elf64_Shdr s, names;

	if (f->size < sizeof(e))
		return false;
	memcpy(&e, f->at, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_shentsize != sizeof(s) || !in_file(f, e.e_shoff, e.e_shnum * sizeof(s)))
		return false;
	for (unsigned i = 0; i < e.e_shnum; i++) {
		memcpy(&s, f->at + e.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_type != SHT_DYNSYM || s.sh_link >= e.e_shnum)
			continue;
		memcpy(&names, f->at + e.e_shoff + s.sh_link * sizeof(s), sizeof(s));
		return in_file(f, s.sh_offset, s.sh_size) &&
		       in_file(f, names.sh_offset, names.sh_size) && lacks_in(f, &s, &names);
	}
	return false;
}

static bool file_lacks(const char *path)
{
	struct run_file f;
	bool answer;

	if (!run_map(&f, path))
		return false;
	answer = lacks(&f);
	run_unmap(&f);
	return answer;
}

/* A line of its: "\tlibx.so.1 => /lib/libx.so.1 (0x...)", or a path alone, or "linux-vdso.so.1". */
static bool line_lacks(char *line)
{
	char *path = strchr(line, '/'), *end = path ? strstr(path, " (0x") : NULL;

	if (strstr(line, "=> not found"))
		return false;
	if (!path || !end)
		return true;
	*end = '\0';
	return strstr(path, "/libatomic.so.") || file_lacks(path);
}

/* Whether --list makes it load all, and run nothing. */
static bool can_list(const char *linker)
{
	return strstr(linker, "/ld-linux") || strstr(linker, "/ld-musl");
}

bool run_lacks_atomic(const char *elf, const char *linker)
{
	const char *const argv[] = {linker, "--list", elf, NULL};
	const struct child list = {.argv = argv, .timeout_s = LIST_SECONDS};
	struct child_result result;
	bool answer = can_list(linker) && file_lacks(elf);

	if (!answer || child_run(&list, &result))
		return false;
	answer = result.status == 0 && *result.out;
	for (char *line = strtok(result.out, "\n"); line && answer; line = strtok(NULL, "\n"))
		answer = line_lacks(line);
	free(result.out);
	return answer;
}
