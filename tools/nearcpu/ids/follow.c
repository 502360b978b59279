/* SPDX-License-Identifier: MIT */
/* The program, from its exec to its end, by ptrace. */
#include "ids/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/launch.h"
#include "common/spawn.h"
#include "common/tool.h"

#ifndef PTRACE_GET_RSEQ_CONFIGURATION /* glibc 2.33 */
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

#define OPTIONS                                                                                    \
	(PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |     \
	 PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD)

#define SYSCALL_STOP (SIGTRAP | 0x80)

/* Stops at system calls until an area is registered: glibc's threads do that first of all, its
 * programs after loading the libraries. */
enum { THREAD_STOPS = 8, PROGRAM_STOPS = 1500 };

struct area_of {
	uint64_t address;
	uint32_t size, signature, flags, pad;
};

uint64_t ids_now(const struct ids *f)
{
	double elapsed = now_seconds() - f->begin_s;

	return elapsed > 0 ? (uint64_t)(elapsed * 1e6) : 0;
}

/* ---- the first process ---- */

/* It waits until the gate is closed, and is observed then. */
__attribute__((noreturn)) static void program_become(const struct ids *f, const int gate[2],
						     int failed)
{
	const struct spawn program = {f->argv, .in = -1, .out = -1, .err = -1,
				      .mask = launch_mask()};
	char none;
	int err;

	close(gate[1]);
	while (read(gate[0], &none, 1) < 0 && errno == EINTR)
		continue;
	err = spawn_become(&program);
	if (write(failed, &err, sizeof(err)) < 0)
		_exit(LAUNCH_CANNOT);
	_exit(LAUNCH_NOT_FOUND);
}

static int program_start(struct ids *f, int gate[2], const int failed[2])
{
	int err = 0;

	fflush(NULL);
	f->pid = fork();
	if (f->pid == 0)
		program_become(f, gate, failed[1]);
	if (f->pid < 0)
		return -errno;
	if (ptrace(PTRACE_SEIZE, f->pid, NULL, OPTIONS)) {
		err = errno == ESRCH ? -EPERM : -errno;
		kill(f->pid, SIGKILL);
		waitpid(f->pid, NULL, 0);
	}
	return err;
}

/* ---- events ---- */

static void find_area(struct ids *f, struct ids_thread *t)
{
	struct area_of area = {0};

	if (t->area || !f->with_areas)
		return;
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, t->tid, sizeof(area), &area) < 0) {
		f->with_areas = errno != EIO && errno != EINVAL;
		return;
	}
	t->area = area.address;
	t->area_size = area.size;
}

static struct ids_thread *new_thread(struct ids *f, pid_t tid)
{
	struct ids_thread *t = ids_add_thread(f, tid);

	/* A forked process has the area of its parent; one of vfork gets one after its exec. */
	t->stops = tid == t->process->pid ? 0 : THREAD_STOPS;
	return t;
}

/* A thread is known from here on, before its creator continues. So none is missed when the program
 * ends first. A thread that has run and ended before this event was counted then. */
static void created(struct ids *f, pid_t creator)
{
	unsigned long tid = 0;

	if (ptrace(PTRACE_GETEVENTMSG, creator, NULL, &tid) || !tid)
		return;
	if (!ids_find(f, (pid_t)tid) && ids_is_ours((pid_t)tid))
		new_thread(f, (pid_t)tid);
}

static struct ids_thread *executed(struct ids *f, pid_t pid)
{
	unsigned long former = (unsigned long)pid;
	struct ids_thread *t;

	ptrace(PTRACE_GETEVENTMSG, pid, NULL, &former);
	if (!f->started)
		f->begin_s = now_seconds();
	f->started = true;
	t = ids_find(f, (pid_t)former);
	if (!t)
		t = ids_find(f, pid);
	if (!t)
		t = ids_add_thread(f, pid);
	ids_executed(f, t, pid);
	t->stops = PROGRAM_STOPS;
	return t;
}

static bool stops_job(int sig)
{
	return sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

/* The thread stays stopped until SIGCONT. */
static void group_stop(struct ids *f, pid_t tid, int sig)
{
	ptrace(PTRACE_LISTEN, tid, NULL, NULL);
	if (tid != f->pid || f->stopped)
		return;
	f->stopped = true;
	launch_stop_too(sig, &f->terminal);
}

static void resume(const struct ids *f, pid_t tid, const struct ids_thread *t, long sig)
{
	bool wait = t && f->with_areas && !t->area && t->stops;

	ptrace(wait ? PTRACE_SYSCALL : PTRACE_CONT, tid, NULL, sig);
}

static void take_stop(struct ids *f, pid_t tid, int sig, int event)
{
	struct ids_thread *t = event == PTRACE_EVENT_EXEC ? executed(f, tid) : ids_find(f, tid);

	if (!t && f->started) /* its first stop may be that of its end */
		t = new_thread(f, tid);
	if (tid == f->pid && (event != PTRACE_EVENT_STOP || !stops_job(sig)))
		f->stopped = false;
	if (t) {
		/* Until the exec is complete the kernel reports the area of the former program. */
		if (event != PTRACE_EVENT_EXEC)
			find_area(f, t);
		if (!event && sig == SYSCALL_STOP && t->stops)
			t->stops--;
	}
	if (event == PTRACE_EVENT_STOP && stops_job(sig)) {
		group_stop(f, tid, sig);
		return;
	}
	if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
	    event == PTRACE_EVENT_CLONE)
		created(f, tid);
	if (event == PTRACE_EVENT_EXIT && t) {
		ids_sample(f, t);
		ids_end_thread(f, t);
		t = NULL;
	}
	resume(f, tid, t, event || sig == SYSCALL_STOP ? 0 : sig);
}

/* False: there are no more for now. */
static bool take_event(struct ids *f)
{
	struct ids_thread *t;
	int status;
	pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);

	if (tid <= 0)
		return false;
	if (WIFSTOPPED(status)) {
		take_stop(f, tid, WSTOPSIG(status), status >> 16);
		return true;
	}
	t = ids_find(f, tid);
	if (t)
		ids_end_thread(f, t);
	if (tid == f->pid) {
		f->status = status;
		f->ended = true;
	}
	return true;
}

/* ---- all of it ---- */

/* Sampling takes at most a fifth of a CPU's time. */
static uint64_t sample(struct ids *f)
{
	uint64_t begin = ids_now(f), took;

	ids_sample_all(f);
	took = ids_now(f) - begin;
	return begin + (5 * took > f->interval ? 5 * took : f->interval);
}

static void follow(struct ids *f)
{
	uint64_t next = 0;

	while (!f->ended) {
		uint64_t now = ids_now(f), left = now < next ? next - now : 0;
		unsigned events = 0;
		struct timespec ts;
		siginfo_t info;
		int sig;

		while (!f->ended && events < 64 && take_event(f))
			events++;
		if (f->ended)
			break;
		left = events == 64 ? 0 : left;
		ts = (struct timespec){(time_t)(left / 1000000), (long)(left % 1000000 * 1000)};
		sig = launch_signal(&info, &ts);
		if (sig && sig != SIGCHLD)
			launch_forward(f->pid, sig, &info, &f->terminal);
		if (ids_now(f) >= next)
			next = sample(f);
	}
	f->end_s = now_seconds();
	for (unsigned i = f->thread_count; i--;) {
		ids_sample(f, f->threads[i]);
		ids_end_thread(f, f->threads[i]);
	}
}

int ids_follow(struct ids *f, int *exec_error)
{
	int gate[2], failed[2], err;

	if (pipe2(gate, O_CLOEXEC) || pipe2(failed, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	f->begin_s = now_seconds();
	err = program_start(f, gate, failed);
	close(gate[0]);
	close(gate[1]);
	close(failed[1]);
	if (err)
		return err;
	allow_files(); /* one for each thread */
	follow(f);
	if (read(failed[0], exec_error, sizeof(*exec_error)) != sizeof(*exec_error))
		*exec_error = 0;
	close(failed[0]);
	return 0;
}
