/* SPDX-License-Identifier: MIT */
/* A running process, by its files in /proc. Its objects are found by the library's note in their
 * files. Its memory is read by /proc/PID/mem, which stops no thread: one structure, constant once
 * it is decided, and only if the process has the same note at the same place. */
#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/elf_file.h"
#include "common/memory.h"
#include "common/own_malloc.h"
#include "common/text.h"
#include "common/tool.h"

#define KERNEL_THREAD 0x200000 /* in the field flags of stat, proc(5) */

static struct word path_of(const struct process *p, const char *name)
{
	return word("/proc/%d/%s", p->pid, name);
}

static int process_gone(const struct process *p)
{
	return failure(p->sub, "process %d has ended", p->pid);
}

/* ---- what it is ---- */

static int check_kind(struct process *p)
{
	char text[1024], *at;
	unsigned flags = 0;

	read_text(path_of(p, "stat").text, text, sizeof(text));
	at = strrchr(text, ')');
	if (!at)
		return failure(p->sub, "there is no process %d in this pid namespace", p->pid);
	sscanf(at, ") %*c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d",
	       &flags, &p->threads);
	*at = 0;
	snprintf(p->name, sizeof(p->name), "%s", strchr(text, '(') ? strchr(text, '(') + 1 : "");
	make_printable(p->name, "");
	if (at[2] == 'Z' || at[2] == 'X')
		return process_gone(p);
	if (flags & KERNEL_THREAD)
		return failure(p->sub, "%d is a thread of the kernel", p->pid);
	return 0;
}

static void take_variable(const char *variable, const char *name, const char **value)
{
	char *copy;

	if (strncmp(variable, name, strlen(name)) != 0)
		return;
	copy = copy_text(variable + strlen(name));
	make_printable(copy, "");
	*value = copy;
}

/* Of the environment with which the program began. */
static void read_environment(struct process *p)
{
	FILE *file = fopen(path_of(p, "environ").text, "re");
	char *variable = NULL;
	size_t size = 0;

	while (file && getdelim(&variable, &size, 0, file) > 0) {
		take_variable(variable, "NEAR_CONF=", &p->conf);
		take_variable(variable, "GLIBC_TUNABLES=", &p->tunables);
		take_variable(variable, "LD_PRELOAD=", &p->preload);
	}
	free(variable);
	if (file)
		fclose(file);
}

/* ---- its objects ---- */

/* The note in the file, and where the process has it: `bias` from the address in the file. */
static bool find_note(struct process_object *o, const struct elf_file *f, uint64_t bias,
		      const Elf64_Phdr *segment)
{
	static const struct process_note head = {{8, 8, 1}, "Nearcpu", 0, 0};
	const char *begin, *note;

	if (!elf_in_file(f, segment->p_offset, segment->p_filesz))
		return false;
	begin = f->at + segment->p_offset;
	note = memmem(begin, segment->p_filesz, &head, offsetof(struct process_note, state));
	if (!note || segment->p_filesz - (uint64_t)(note - begin) < sizeof(o->note))
		return false;
	memcpy(&o->note, note, sizeof(o->note));
	o->note_at = bias + segment->p_vaddr + (uint64_t)(note - begin);
	return true;
}

/* Whether it is a program or a library with the core in it. */
static bool examine(struct process_object *o, const struct elf_file *f, uint64_t start)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t first = 0; /* the address in the file of what is mapped at `start` */
	Elf64_Ehdr e;
	Elf64_Phdr segment;

	if (f->size < sizeof(e))
		return false;
	memcpy(&e, f->at, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_phentsize != sizeof(segment) ||
	    !elf_in_file(f, e.e_phoff, e.e_phnum * sizeof(segment)))
		return false;
	for (unsigned i = 0, at_begin = 0; i < 2u * e.e_phnum; i++) { /* the notes last */
		memcpy(&segment, f->at + e.e_phoff + i % e.e_phnum * sizeof(segment),
		       sizeof(segment));
		if (i < e.e_phnum && segment.p_type == PT_LOAD && segment.p_offset < page &&
		    !at_begin++)
			first = segment.p_vaddr - segment.p_offset;
		if (i >= e.e_phnum && segment.p_type == PT_NOTE &&
		    find_note(o, f, start - first, &segment))
			return true;
	}
	return false;
}

static bool is_defined(const Elf64_Sym *s, const char *name, size_t room, const char *wanted)
{
	return s->st_shndx != SHN_UNDEF && strlen(wanted) < room && strcmp(name, wanted) == 0;
}

static bool is_locks(const Elf64_Sym *s, const char *name, size_t room)
{
	return is_defined(s, name, room, "near__atomic_locks");
}

static bool is_stats(const Elf64_Sym *s, const char *name, size_t room)
{
	return is_defined(s, name, room, "near_malloc_stats");
}

static bool has_symbol(const char *file, elf_symbol_test *test)
{
	return elf_has_symbol(file, SHT_DYNSYM, test) == 1 ||
	       elf_has_symbol(file, SHT_SYMTAB, test) == 1;
}

/* Whether LD_PRELOAD names it; the link that it names may be of another version. */
static bool is_preloaded(const struct process *p, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	char stem[NAME_MAX + 1];

	snprintf(stem, sizeof(stem), "/%.*s", (int)strcspn(name, "."), name);
	return p->preload && strstr(p->preload, stem);
}

/* A file that the process maps from its begin; not a device, which something may happen to. */
static void add_object(struct process *p, const char *path, const char *file, uint64_t start)
{
	struct process_object *o = &p->objects[p->count];
	const char *name = strrchr(path, '/');
	struct elf_file f = {"", 0};
	struct stat st;

	if (p->count == PROCESS_OBJECTS)
		return;
	memset(o, 0, sizeof(*o));
	if (stat(file, &st) || (S_ISREG(st.st_mode) && !elf_map(&f, file)))
		o->is_closed = strstr(name, "nearcpu") || strstr(name, "atomic");
	else if (S_ISREG(st.st_mode))
		o->has_core = examine(o, &f, start);
	if (f.size > EI_CLASS && memcmp(f.at, ELFMAG, SELFMAG) == 0 && f.at[EI_CLASS] == ELFCLASS32)
		o->is_closed = strstr(name, "libnearcpu") != NULL;
	elf_unmap(&f);
	o->is_program = strcmp(path, p->program) == 0;
	if (f.size && (o->is_program || strstr(name, "atomic")))
		o->is_atomic = has_symbol(file, is_locks);
	if (!o->has_core && !o->is_atomic && !o->is_closed)
		return;
	o->has_malloc = has_symbol(file, is_stats);
	o->is_preloaded = !o->is_program && is_preloaded(p, path);
	snprintf(o->path, sizeof(o->path), "%s", path);
	make_printable(o->path, "");
	p->count++;
}

/* A line of maps: "start-end rwxp offset dev inode   path". */
static void read_mapping(struct process *p, const char *line)
{
	char last[2 * PATH_MAX] = "", file[3 * PATH_MAX], *deleted;
	unsigned long long start, end, offset;
	int at = 0;
	const char *path;

	if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %n", &start, &end, &offset, &at) < 3 || !at ||
	    offset || line[at] != '/')
		return;
	path = line + at;
	snprintf(last, sizeof(last), "%s", path);
	last[strcspn(last, "\n")] = 0;
	deleted = strstr(last, " (deleted)");
	if (strcmp(last, p->program) == 0)
		snprintf(file, sizeof(file), "/proc/%d/exe", p->pid);
	else if (deleted) /* for root alone */
		snprintf(file, sizeof(file), "/proc/%d/map_files/%llx-%llx", p->pid, start, end);
	else
		snprintf(file, sizeof(file), "/proc/%d/root%s", p->pid, last);
	add_object(p, last, file, start);
}

static int read_objects(struct process *p)
{
	FILE *maps = fopen(path_of(p, "maps").text, "re");
	ssize_t n = readlink(path_of(p, "exe").text, p->program, sizeof(p->program) - 1);
	char *line = NULL;
	size_t size = 0;
	int err = errno;

	if (!maps || n < 0) {
		if (maps)
			fclose(maps);
		if (err == ENOENT || err == ESRCH)
			return process_gone(p);
		return failure(p->sub,
			       "process %d may not be examined: it is another user's, or has more "
			       "rights than this one%s",
			       p->pid, geteuid() ? ": try as root" : "");
	}
	while (getline(&line, &size, maps) > 0)
		read_mapping(p, line);
	free(line);
	fclose(maps);
	p->own_malloc = own_malloc(path_of(p, "exe").text);
	return 0;
}

/* ---- its memory ---- */

static bool read_memory(int memory, uint64_t at, void *out, size_t size)
{
	return pread(memory, out, size, (off_t)at) == (ssize_t)size;
}

static void read_string(int memory, const char *at, char *out, size_t size)
{
	ssize_t n = at ? pread(memory, out, size - 1, (off_t)(uintptr_t)at) : 0;

	out[n > 0 ? n : 0] = 0;
	make_printable(out, "");
}

/* Of several copies, the one that decided: the dynamic linker directs the others to it, or these
 * leave sequences to it. */
static bool read_state(struct process *p, int memory, const struct process_object *o)
{
	const uint64_t field = o->note_at + offsetof(struct process_note, state);
	struct process_note note;

	if (!o->has_core || o->note.version != NEAR__STATE_NUMBER ||
	    !read_memory(memory, o->note_at, &note, sizeof(note)) ||
	    memcmp(&note, &o->note, sizeof(note)) != 0 ||
	    !read_memory(memory, field + (uint64_t)(int64_t)note.state, &p->state,
			 sizeof(p->state)) ||
	    p->state.decided != 1)
		return false;
	read_string(memory, p->state.why, p->why, sizeof(p->why));
	read_string(memory, p->state.slot_why, p->slot_why, sizeof(p->slot_why));
	return true;
}

/* Why the state is not known. */
static void say_unread(struct process *p, int error)
{
	const char *why = "it has the libatomic alone, which runs no sequences";

	for (unsigned i = 0; i < p->count; i++) {
		if (p->objects[i].is_closed)
			why = "its library has 32 bits, was deleted, or may not be read";
		if (p->objects[i].has_core) {
			why = p->objects[i].note.version == NEAR__STATE_NUMBER
				      ? "no thread of it has used the library yet"
				      : "it has another version of the library than this command";
			break;
		}
	}
	if (error)
		snprintf(p->unread, sizeof(p->unread),
			 "its memory may not be read (%s; is it kernel.yama.ptrace_scope?)",
			 strerror(error));
	else
		snprintf(p->unread, sizeof(p->unread), "%s", why);
}

static void read_states(struct process *p)
{
	int memory = open(path_of(p, "mem").text, O_RDONLY | O_CLOEXEC);
	int error = memory < 0 ? errno : 0;
	bool found = false;

	for (unsigned i = 0; i < p->count && !error && !found; i++)
		found = read_state(p, memory, &p->objects[i]);
	if (!found)
		say_unread(p, error);
	if (!error)
		close(memory);
}

int process_read(struct process *p, const char *sub, int pid)
{
	int code;

	memset(p, 0, sizeof(*p));
	p->sub = sub;
	p->pid = pid;
	code = check_kind(p);
	if (code)
		return code;
	read_environment(p);
	code = read_objects(p);
	if (code)
		return code;
	if (p->count)
		read_states(p);
	return access(path_of(p, "exe").text, F_OK) ? process_gone(p) : 0;
}
