/* SPDX-License-Identifier: MIT */
/* The scheduler's events by tracefs, in an instance of its own, read in the ring buffer's format.
 *
 * The format, of linux/ring_buffer.h: pages with a time and a length; events with 5 bits of type
 * or length, and 27 bits of time since the event before.
 */
#include "common/memory.h"
#include "sim/kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_KB 32768 /* of all buffers, together four times this on few CPUs */
#define PAGE_HEAD 16
#define LENGTH_MASK 0xfffffff

static const struct {
	const char *name, *fields[3];
} events[KERNEL_EVENTS] = {
	[KERNEL_SWITCH] = {"sched_switch", {"prev_pid", "next_pid", NULL}},
	[KERNEL_MIGRATE] = {"sched_migrate_task", {"pid", "orig_cpu", "dest_cpu"}},
	[KERNEL_FORK] = {"sched_process_fork", {"parent_pid", "child_pid", NULL}},
	[KERNEL_EXIT] = {"sched_process_exit", {"pid", NULL, NULL}},
};

static int open_in(const struct kernel_trace *t, const char *name, int flags)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/%s", t->path, name);
	return open(path, flags | O_CLOEXEC);
}

static int tracefs_put(const struct kernel_trace *t, const char *name, const char *text)
{
	int fd = open_in(t, name, O_WRONLY), err = 0;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* The text of a file, "" if there is none. */
static void tracefs_get(const struct kernel_trace *t, const char *name, char *out, size_t size)
{
	int fd = open_in(t, name, O_RDONLY);
	size_t used = 0;
	ssize_t n;

	while (fd >= 0 && used + 1 < size && (n = read(fd, out + used, size - 1 - used)) > 0)
		used += (size_t)n;
	out[used] = 0;
	if (fd >= 0)
		close(fd);
}

/* ---- start ---- */

static int make_instance(struct kernel_trace *t)
{
	static const char *const roots[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	const char *root = NULL;
	char path[100];

	for (unsigned i = 0; i < 3 && !root; i++) {
		if (i == 2 && mount("nodev", roots[0], "tracefs", 0, NULL))
			return -errno;
		snprintf(path, sizeof(path), "%s/instances", roots[i % 2]);
		if (access(path, W_OK) == 0)
			root = path;
	}
	if (!root)
		return -EACCES;
	snprintf(t->path, sizeof(t->path), "%s/nearcpu-%d", root, (int)getpid());
	if (mkdir(t->path, 0700) && errno != EEXIST) {
		t->path[0] = 0;
		return -errno;
	}
	return 0;
}

static int read_format(struct kernel_trace *t, enum kernel_event e)
{
	char name[80], text[4096], field[40];
	const char *at;

	snprintf(name, sizeof(name), "events/sched/%s/format", events[e].name);
	tracefs_get(t, name, text, sizeof(text));
	at = strstr(text, "ID:");
	if (!at)
		return -ENOENT;
	t->ids[e] = (unsigned)strtoul(at + 3, NULL, 10);
	for (unsigned i = 0; i < 3 && events[e].fields[i]; i++) {
		snprintf(field, sizeof(field), " %s;\toffset:", events[e].fields[i]);
		at = strstr(text, field);
		if (!at)
			return -ENOENT;
		t->offsets[e][i] = (unsigned)strtoul(at + strlen(field), NULL, 10);
	}
	snprintf(name, sizeof(name), "events/sched/%s/enable", events[e].name);
	return tracefs_put(t, name, "1");
}

int kernel_trace_start(struct kernel_trace *t, unsigned cpus, const char **why)
{
	char kb[20];
	int err;

	t->cpus = cpus;
	*why = "tracefs, which needs root";
	err = make_instance(t);
	if (err)
		return err;
	*why = "the trace's settings";
	snprintf(kb, sizeof(kb), "%u", cpus <= 4 ? MOST_KB : 2 * MOST_KB / cpus);
	err = tracefs_put(t, "tracing_on", "0");
	err = err ? err : tracefs_put(t, "trace_clock", "mono");
	err = err ? err : tracefs_put(t, "options/overwrite", "0");
	err = err ? err : tracefs_put(t, "buffer_size_kb", kb);
	*why = "the scheduler's events";
	for (unsigned e = 0; e < KERNEL_EVENTS && !err; e++)
		err = read_format(t, e);
	return err ? err : tracefs_put(t, "tracing_on", "1");
}

/* ---- read ---- */

static uint32_t word_at(const unsigned char *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static int take_event(struct kernel_trace *t, unsigned cpu, uint64_t time,
		      const unsigned char *data, size_t size)
{
	struct kernel_record *r;
	unsigned id = word_at(data) & 0xffff, e = 0;

	while (e < KERNEL_EVENTS && t->ids[e] != id)
		e++;
	if (e == KERNEL_EVENTS)
		return 0;
	grow(&t->records, t->count, sizeof(*r));
	r = &t->records[t->count];
	*r = (struct kernel_record){
		.time = time, .event = e, .cpu = cpu, .order = (unsigned)t->count};
	for (unsigned i = 0; i < 3 && events[e].fields[i]; i++) {
		if (t->offsets[e][i] + 4 > size)
			return -EBADMSG;
		r->value[i] = (int)word_at(data + t->offsets[e][i]);
	}
	t->count++;
	return 0;
}

/* One event at `at`: its bytes, or a negative errno. 0 ends the page. */
static long take_one(struct kernel_trace *t, unsigned cpu, uint64_t *time, const unsigned char *at,
		     size_t left)
{
	uint32_t head = word_at(at), type = head & 31, delta = head >> 5;
	uint32_t word = left >= 8 ? word_at(at + 4) : 0;
	size_t from = type ? 4 : 8, size = type ? type * 4 : word - 4;
	int err;

	if (type == 29) { /* padding */
		*time += delta;
		return delta ? (long)word + 4 : 0;
	}
	if (type >= 30) { /* the upper bits of the time, to be added or absolute */
		uint64_t upper = ((uint64_t)word << 27) + delta;

		*time = type == 30 ? *time + upper : (*time & 0xf8ull << 56) | upper;
		return 8;
	}
	*time += delta;
	if (from + size > left || size < 4)
		return -EBADMSG;
	err = take_event(t, cpu, *time, at + from, size);
	return err ? err : (long)(from + size);
}

static int take_page(struct kernel_trace *t, unsigned cpu, const unsigned char *page, size_t size)
{
	size_t end, at = PAGE_HEAD;
	uint64_t time, commit;

	if (size < PAGE_HEAD)
		return -EBADMSG;
	memcpy(&time, page, 8);
	memcpy(&commit, page + 8, 8);
	end = PAGE_HEAD + (commit & LENGTH_MASK);
	if (end > size)
		end = size;
	while (at + 4 <= end) {
		long used = take_one(t, cpu, &time, page + at, end - at);

		if (used <= 0)
			return (int)used;
		at += (size_t)used;
	}
	return 0;
}

/* Of a CPU: how many events found no room. */
static unsigned long lost(const struct kernel_trace *t, unsigned cpu)
{
	char name[60], text[600];
	const char *at, *over;

	snprintf(name, sizeof(name), "per_cpu/cpu%u/stats", cpu);
	tracefs_get(t, name, text, sizeof(text));
	at = strstr(text, "dropped events: ");
	over = strstr(text, "overrun: ");
	return (at ? strtoul(at + 16, NULL, 10) : 0) + (over ? strtoul(over + 9, NULL, 10) : 0);
}

static int read_cpu(struct kernel_trace *t, unsigned cpu, unsigned char *page, size_t size)
{
	char name[60];
	ssize_t n;
	int fd, err = 0;

	if (lost(t, cpu))
		return -ENOBUFS;
	snprintf(name, sizeof(name), "per_cpu/cpu%u/trace_pipe_raw", cpu);
	fd = open_in(t, name, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	while (!err && (n = read(fd, page, size)) > 0)
		err = take_page(t, cpu, page, (size_t)n);
	close(fd);
	return err;
}

static int by_time(const void *a, const void *b)
{
	const struct kernel_record *left = a, *right = b;

	if (left->time != right->time)
		return left->time < right->time ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

static void remove_instance(struct kernel_trace *t)
{
	if (t->path[0])
		rmdir(t->path);
	t->path[0] = '\0';
}

int kernel_trace_stop(struct kernel_trace *t, const char **why)
{
	char text[40];
	size_t size;
	unsigned char *page;
	int err = tracefs_put(t, "tracing_on", "0");

	*why = "the trace";
	tracefs_get(t, "buffer_subbuf_size_kb", text, sizeof(text));
	size = text[0] ? strtoul(text, NULL, 10) * 1024 : (size_t)sysconf(_SC_PAGESIZE);
	page = malloc(size);
	if (!page)
		return -ENOMEM;
	for (unsigned cpu = 0; cpu < t->cpus && !err; cpu++)
		err = read_cpu(t, cpu, page, size);
	free(page);
	if (err == -ENOBUFS)
		*why = "the trace lost events; a shorter run may help";
	if (t->count)
		qsort(t->records, t->count, sizeof(*t->records), by_time);
	remove_instance(t);
	return err;
}

void kernel_trace_free(struct kernel_trace *t)
{
	remove_instance(t);
	free(t->records);
	*t = (struct kernel_trace){0};
}
