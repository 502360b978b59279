/* SPDX-License-Identifier: MIT */
/* Whether a program calls the shared libatomic: by its undefined symbols, and those of the
 * libraries that the dynamic linker would load with it. */
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

#include "common/child.h"

#define LIST_SECONDS 10

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

static bool is_missing_atomic(const Elf64_Sym *s, const char *name, size_t room)
{
	return s->st_shndx == SHN_UNDEF && is_atomic(name, room);
}

/* False where it is not known. */
static bool file_lacks(const char *path)
{
	return elf_has_symbol(path, SHT_DYNSYM, is_missing_atomic) == 0;
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
