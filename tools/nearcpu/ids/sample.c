/* SPDX-License-Identifier: MIT */
/* Where threads run, from outside: their rseq areas, and /proc. */
#include "ids/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/text.h"

/* What an area begins with; <linux/rseq.h> of old systems lacks the last two. */
struct area {
	uint32_t cpu_id_start;
	int32_t cpu_id;
	uint64_t rseq_cs;
	uint32_t flags, node_id, mm_cid;
};

#define MOST_ID 0xffff /* ids above it are damage */

/* A file of a thread. */
static struct thread_path {
	char text[80];
} path_of(pid_t pid, pid_t tid, const char *name)
{
	struct thread_path path;

	snprintf(path.text, sizeof(path.text), "/proc/%d/task/%d/%s", pid, tid, name);
	return path;
}

void ids_read_name(pid_t pid, pid_t tid, char name[20])
{
	read_text(path_of(pid, tid, "comm").text, name, 20);
	name[strcspn(name, "\n")] = 0;
	make_printable(name, "");
}

/* A number of the file status, or -1. */
static pid_t read_status(pid_t tid, const char *key)
{
	char text[1024];
	const char *line;

	read_text(path_of(tid, tid, "status").text, text, sizeof(text));
	line = strstr(text, key);
	return line ? (pid_t)strtol(line + strlen(key), NULL, 10) : -1;
}

pid_t ids_read_process(pid_t tid)
{
	pid_t pid = read_status(tid, "\nTgid:");

	return pid < 0 ? tid : pid;
}

bool ids_is_ours(pid_t tid)
{
	return read_status(tid, "\nTracerPid:") == getpid();
}

/* The field of that number, as in proc(5), of a thread's stat: a number. */
static uint64_t read_stat(const struct ids_thread *t, int number)
{
	char text[1024];
	const char *at;

	read_text(path_of(t->process->pid, t->tid, "stat").text, text, sizeof(text));
	at = strrchr(text, ')');
	for (int field = 2; at && field < number; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

/* CPU time, which the kernel brings up to date when the thread leaves a CPU, and at ticks. */
static uint64_t read_run(struct ids_thread *t)
{
	char text[80];
	ssize_t n;

	if (t->run_fd < 0)
		t->run_fd = open(path_of(t->process->pid, t->tid, "schedstat").text,
				 O_RDONLY | O_CLOEXEC);
	if (t->run_fd < 0) /* a kernel without it, or no descriptor is left */
		return (read_stat(t, 14) + read_stat(t, 15)) *
		       (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
	n = pread(t->run_fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	return n > 0 ? strtoull(text, NULL, 10) : t->run_ns;
}

/* The kernel writes an area while it is read: the ids of one place may be of two, one after the
 * other, but each was the thread's. */
static bool read_area(struct ids *f, const struct ids_thread *t, struct ids_place *place)
{
	struct area area = {0};
	const size_t size = t->area_size < sizeof(area) ? t->area_size : sizeof(area);
	struct iovec here = {&area, size};
	struct iovec there = {(void *)(uintptr_t)t->area, size}; /* NOLINT: not of this process */

	if (process_vm_readv(t->tid, &here, 1, &there, 1, 0) != (ssize_t)size) {
		f->unreadable |= errno == EPERM || errno == ENOSYS;
		return false;
	}
	if (area.cpu_id < 0 || area.cpu_id > MOST_ID)
		return false;
	place->cpu = area.cpu_id;
	if (f->with_cid && size >= sizeof(area)) {
		place->node = area.node_id < MOST_ID ? (int)area.node_id : -1;
		place->cid = area.mm_cid < MOST_ID ? (int)area.mm_cid : -1;
	}
	return true;
}

void ids_sample(struct ids *f, struct ids_thread *t)
{
	struct ids_place place = {-1, -1, -1};
	uint64_t run = read_run(t), now = ids_now(f), ran = (run - t->run_ns) / 1000;
	uint64_t begin = now > ran ? now - ran : 0;

	if (run == t->run_ns)
		return;
	t->run_ns = run;
	if (!t->area || !read_area(f, t, &place))
		place.cpu = (int)read_stat(t, 39);
	/* Earlier than the last sample if a tick has brought the time up to date: the thread has
	 * not left its CPU since, or the time would have been up to date before. */
	begin = begin < f->last_sample ? begin : f->last_sample;
	ids_add_place(f, t, begin > t->born ? begin : t->born, now, &place);
}

/* A thread that runs without an area may have registered one after its first system calls. It is
 * interrupted a few times at most: some system calls then return EINTR. */
static void try_again(const struct ids *f, struct ids_thread *t)
{
	static const uint64_t after[] = {10000, 100000, 1000000};

	if (t->tries == sizeof(after) / sizeof(after[0]) || ids_now(f) - t->born < after[t->tries])
		return;
	t->tries++;
	ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL);
}

void ids_sample_all(struct ids *f)
{
	for (unsigned i = 0; i < f->thread_count; i++) {
		struct ids_thread *t = f->threads[i];
		uint64_t before = t->run_ns;

		ids_sample(f, t);
		if (f->with_areas && !t->area && !t->stops && t->run_ns != before)
			try_again(f, t);
	}
	f->last_sample = ids_now(f);
	f->samples++;
}
