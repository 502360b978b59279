/* SPDX-License-Identifier: MIT */
/* What of a running process changes all the time: its heap, by the region that it publishes, and
 * which of its threads the C library registered for sequences.
 *
 * No call returns where the area of another thread is, unless it is stopped. But the kernel returns
 * where its list of robust mutexes begins (get_robust_list(2)). With glibc that is in the thread's
 * control block, as far from the thread pointer as in this process if both have the same dynamic
 * linker. The thread's id precedes the list: if that is right, so is the place. The distance of the
 * area from the thread pointer is __rseq_offset, a constant of the process, in its linker. */
#include "info/live.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/text.h"
#include "region/region.h"

/* ---- the heap ---- */

static int open_file(const struct process *p, const char *key)
{
	const char *at = p->conf ? strstr(p->conf, key) : NULL;
	char path[2 * PATH_MAX];

	if (!at)
		return -1;
	at += strlen(key);
	snprintf(path, sizeof(path), "/proc/%d/%s/%.*s", p->pid, *at == '/' ? "root" : "cwd",
		 (int)strcspn(at, ","), at);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Of a process or thread in its own pid namespace, which is the number that it knows. */
static uint64_t inner_id(const char *status, uint64_t id)
{
	char text[4096], *at;

	read_text(status, text, sizeof(text));
	at = strstr(text, "\nNSpid:");
	for (at += at ? strlen("\nNSpid:") : 0; at && *at == '\t';)
		id = strtoull(at, &at, 10);
	return id;
}

static bool heap_value(const struct near_region *r, uint64_t pid, const char *name, int64_t *out)
{
	const uint64_t self = near__owner_self();
	struct near_region_object o;
	struct near__value v;

	for (unsigned n = 0; near_region_object(r, n, &o) == 0; n++)
		for (size_t i = 0; strcmp(o.name, name) == 0 && i < near__region_values(&o); i++)
			if (near__region_value(r, &o, i, self, &v) && v.pid == pid) {
				*out = v.value;
				return true;
			}
	return false;
}

bool heap_read(const struct process *p, struct heap *out)
{
	int fd = open_file(p, "malloc_region:");
	uint64_t pid = inner_id(word("/proc/%d/status", p->pid).text, (uint64_t)p->pid);
	struct near_region r;
	bool found;

	if (fd < 0)
		return false;
	found = near_region_open_fd(&r, fd) == 0;
	close(fd);
	if (!found)
		return false;
	found = heap_value(&r, pid, "near_malloc_in_use_bytes", &out->in_use) &&
		heap_value(&r, pid, "near_malloc_mapped_bytes", &out->mapped) &&
		heap_value(&r, pid, "near_malloc_dirty_bytes", &out->dirty) &&
		heap_value(&r, pid, "near_malloc_published_timestamp_seconds", &out->when);
	near_region_close(&r);
	return found;
}

/* ---- threads ---- */

#define HEAD 1024           /* of the linker, with its build id, in memory */
#define FAILED UINT32_C(-2) /* RSEQ_CPU_ID_REGISTRATION_FAILED */
#define ID_BEFORE_LIST 16   /* bytes, in glibc's struct pthread */

static bool read_at(int memory, uint64_t at, void *out, size_t size)
{
	return pread(memory, out, size, (off_t)at) == (ssize_t)size;
}

static uint64_t robust_list(int tid)
{
	uint64_t head = 0;
	size_t size;

	return syscall(SYS_get_robust_list, tid, &head, &size) ? 0 : head;
}

/* Where the linker is; 0: there is none, or it is not that of this process. */
static uint64_t linker_of(const struct process *p, int memory)
{
	FILE *auxv = fopen(word("/proc/%d/auxv", p->pid).text, "re");
	unsigned long entry[2] = {1, 0}, base = 0;
	char head[HEAD];

	while (auxv && entry[0] && fread(entry, sizeof(entry), 1, auxv) == 1)
		base = entry[0] == AT_BASE ? entry[1] : base;
	if (auxv)
		fclose(auxv);
	return base && getauxval(AT_BASE) && read_at(memory, base, head, HEAD) &&
			       memcmp(head, (void *)getauxval(AT_BASE), HEAD) == 0
		       ? base
		       : 0;
}

/* From a thread's robust list to its area. */
static bool find_distance(const struct process *p, int memory, uint64_t *out)
{
	const char *symbol = dlsym(RTLD_NEXT, "__rseq_offset"); /* the linker's, not a copy */
	uint64_t base = linker_of(p, memory);
	ptrdiff_t offset;

	if (!symbol || !base ||
	    !read_at(memory, base + (uintptr_t)symbol - getauxval(AT_BASE), &offset,
		     sizeof(offset)))
		return false;
	*out = (uintptr_t)near__thread_pointer() + (uint64_t)offset - robust_list(0);
	return true;
}

static enum thread_kind thread_kind(const struct process *p, int memory, int tid, uint64_t distance)
{
	const struct word status = word("/proc/%d/task/%d/status", p->pid, tid);
	uint64_t list = robust_list(tid);
	uint32_t id, cpu[2]; /* cpu_id_start, cpu_id */

	if (!list || !read_at(memory, list - ID_BEFORE_LIST, &id, sizeof(id)) ||
	    id != inner_id(status.text, (uint64_t)tid) ||
	    !read_at(memory, list + distance, cpu, sizeof(cpu)))
		return THREAD_UNKNOWN;
	return (int32_t)cpu[1] >= 0 ? THREAD_LIVE : cpu[1] == FAILED ? THREAD_FAILED : THREAD_NONE;
}

bool threads_read(const struct process *p, struct threads *out)
{
	int memory = open(word("/proc/%d/mem", p->pid).text, O_RDONLY | O_CLOEXEC);
	DIR *tasks = opendir(word("/proc/%d/task", p->pid).text);
	const struct dirent *entry;
	uint64_t distance = 0;
	bool known = memory >= 0 && tasks && find_distance(p, memory, &distance);

	memset(out, 0, sizeof(*out));
	while (known && (entry = readdir(tasks)))
		if (entry->d_name[0] != '.')
			out->of[thread_kind(p, memory, atoi(entry->d_name), distance)]++;
	if (tasks)
		closedir(tasks);
	if (memory >= 0)
		close(memory);
	return known;
}
