/* SPDX-License-Identifier: MIT */
/* nearcpu heap PID: a running process writes its profile at the signal that its settings name. The
 * signal and the paths go by a descriptor of /proc/PID, which names this process alone. */
#include "heap/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/process.h"
#include "common/text.h"
#include "common/tool.h"

#define SECONDS 10
#define STEP_MS 50

struct live {
	int pid, proc;
	char prefix[PATH_MAX]; /* as the process sees it */
	unsigned long signal;  /* 0: none is set */
	char own_pid[24];      /* in the process's pid namespace */
};

static struct word proc_path(const struct live *p, const char *name)
{
	return word("/proc/self/fd/%d/%s", p->proc, name);
}

/* ---- whether it can ---- */

/* The last setting of a kind counts. */
static void read_settings(struct live *p, const char *conf)
{
	for (; conf && *conf; conf += strcspn(conf, ","), conf += *conf == ',') {
		if (strncmp(conf, "heap_profile:", 13) == 0)
			snprintf(p->prefix, sizeof(p->prefix), "%.*s", (int)strcspn(conf + 13, ","),
				 conf + 13);
		if (strncmp(conf, "heap_signal:", 12) == 0)
			p->signal = strtoul(conf + 12, NULL, 10);
	}
}

static int check_status(struct live *p)
{
	char text[8192];
	const char *state, *pid, *caught;

	read_text(proc_path(p, "status").text, text, sizeof(text));
	state = strstr(text, "\nState:\t");
	pid = strstr(text, "\nNSpid:\t"); /* one for each namespace, its own last */
	caught = strstr(text, "\nSigCgt:\t");
	if (!state || !pid || !caught)
		return failure("heap", "process %d has ended", p->pid);
	text[pid + 1 - text + (ptrdiff_t)strcspn(pid + 1, "\n")] = 0;
	snprintf(p->own_pid, sizeof(p->own_pid), "%s", strrchr(pid, '\t') + 1);
	if (!(strtoull(caught + 9, NULL, 16) >> (p->signal - 1) & 1))
		return failure("heap", "process %d has no handler of the signal %lu", p->pid,
			       p->signal);
	return strchr("Tt", state[8]) ? failure("heap", "process %d is stopped", p->pid) : 0;
}

/* The settings are also those of programs that ignore the preload. */
static int check(struct live *p)
{
	static struct process process;
	int code = process_read(&process, "heap", p->pid);
	bool has_malloc = false;

	if (code)
		return code;
	for (unsigned i = 0; i < process.count; i++)
		has_malloc |= process.objects[i].has_malloc;
	if (!has_malloc)
		return failure("heap", "process %d does not have this library's malloc", p->pid);
	/* Servers that set their title write over their environment. */
	read_settings(p, process.conf ? process.conf : getenv("NEAR_CONF"));
	if (!p->prefix[0] || p->signal - 1 > 63)
		return failure(
			"heap",
			"process %d was started without %s in NEAR_CONF, or has written over "
			"it: give this command the same",
			p->pid, p->prefix[0] ? "heap_signal" : "heap_profile");
	return check_status(p);
}

/* ---- the file ---- */

static int signal_send(const struct live *p)
{
	if (syscall(SYS_pidfd_send_signal, p->proc, (int)p->signal, NULL, 0) == 0)
		return 0;
	return failure("heap", "cannot send the signal %lu to process %d: %s", p->signal, p->pid,
		       errno == EINVAL ? "it is in a pid namespace that this command is not in"
				       : strerror(errno));
}

/* Whether a file whose name begins so was written and closed: its name. */
static bool take_events(int watch, const char *begin, char *name)
{
	char events[16384] __attribute__((aligned(8)));
	ssize_t n = read(watch, events, sizeof(events));

	for (char *at = events; n > 0 && at < events + n;) {
		const struct inotify_event *e = (const struct inotify_event *)at;

		at += sizeof(*e) + e->len;
		if (e->len && strncmp(e->name, begin, strlen(begin)) == 0) {
			strcpy(name, e->name);
			return true;
		}
	}
	return false;
}

static int wait_for_file(const struct live *p, int watch, const char *begin, char *name)
{
	struct pollfd ready = {.fd = watch, .events = POLLIN};
	char unused[8];

	for (unsigned i = 0; i < SECONDS * 1000 / STEP_MS; i++) {
		bool ended = readlinkat(p->proc, "exe", unused, sizeof(unused)) < 0;

		if (poll(&ready, 1, ended ? 0 : STEP_MS) > 0 && take_events(watch, begin, name))
			return 0;
		if (ended)
			return failure("heap", "process %d has ended", p->pid);
	}
	return failure("heap",
		       "process %d wrote no profile within %d s: see its standard error; or it "
		       "blocks the signal %lu, or has replaced the handler",
		       p->pid, SECONDS, p->signal);
}

int heap_live(int pid, char path[HEAP_PATH])
{
	struct live p = {.pid = pid};
	char begin[NAME_MAX + 64], *name;
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), code;

	p.proc = open(word("/proc/%d", pid).text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	code = check(&p);
	if (code)
		return code;
	/* The process may have another root than this command. */
	snprintf(path, HEAP_PATH, "%s%s", proc_path(&p, p.prefix[0] == '/' ? "root" : "cwd/").text,
		 p.prefix);
	name = strrchr(path, '/') + 1;
	snprintf(begin, sizeof(begin), "%.255s.%s.", name, p.own_pid);
	*name = 0;
	if (inotify_add_watch(watch, path, IN_CLOSE_WRITE | IN_ONLYDIR) < 0)
		return failure("heap", "the folder of '%s', where process %d writes: %s", p.prefix,
			       pid, strerror(errno));
	code = signal_send(&p);
	code = code ? code : wait_for_file(&p, watch, begin, name);
	if (!code && access(path, R_OK))
		return failure("heap",
			       "process %d could not write it whole: see its standard error", pid);
	return code;
}
