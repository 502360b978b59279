/* SPDX-License-Identifier: MIT */
/* The peak memory of a process begins with what it had before exec: a copy of ours. So that it does
 * not hide that of a small program, a child gets no copy of what our libraries wrote to when they
 * were loaded. */
#include "run/run.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Those that are large, and that a child does not call. Symbols are bound before (see
 * CMakeLists.txt), so that the dynamic linker does not look into them either. */
static bool is_idle(const char *path)
{
	static const char *const names[] = {"libcapstone.", "libelf.", "libz.", "libjansson."};
	const char *name = strrchr(path, '/');

	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(name + 1, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static int advise(struct dl_phdr_info *info, size_t size, void *advice)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum && is_idle(info->dlpi_name); i++) {
		uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t end = start + info->dlpi_phdr[i].p_memsz;

		start &= ~(page - 1);
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_W)
			madvise((void *)start, end - start, *(const int *)advice);
	}
	return 0;
}

void run_small_children(bool on)
{
	int advice = on ? MADV_DONTFORK : MADV_DOFORK;

	dl_iterate_phdr(advise, &advice);
}
