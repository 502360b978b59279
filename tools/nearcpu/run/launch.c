/* SPDX-License-Identifier: MIT */
/* Starting the program, and waiting for it.
 *
 * With --stats it stays in our process group, so that the terminal's signals reach both: it acts on
 * them, we do not. What is sent to us alone we pass on. When it stops by the terminal's wish we
 * stop, too, so that the shell sees one job. */
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/tool.h"

static const int signals[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1, SIGUSR2,
			      SIGTSTP, SIGCONT, SIGWINCH, SIGALRM, SIGCHLD};
static sigset_t waited, before;
static void (*child_action)(int);
static int interrupted;

void run_begin(void)
{
	sigemptyset(&waited);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&waited, signals[i]);
	sigprocmask(SIG_BLOCK, &waited, &before);
	child_action = signal(SIGCHLD, SIG_DFL); /* ignored, it would take the status away */
}

int run_signal(void)
{
	return interrupted;
}

static bool sets(const char *entry, const char *name)
{
	size_t len = strlen(name);

	return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

/* Ours with what the program gets instead, to be freed; NULL: no memory. Made before fork: a child
 * calls nothing that may allocate (run_small.c). */
static char **make_environment(const struct run_child *c)
{
	static char preload[sizeof(c->options->preload) + 12], conf[sizeof(c->options->conf) + 12];
	static char search[sizeof(c->options->search) + 20];
	bool with_preload = c->ours, with_conf = c->conf && c->conf[0];
	bool with_search = c->ours && c->options->search[0];
	size_t n = 0;
	char **all;

	while (environ[n])
		n++;
	all = calloc(n + 4, sizeof(*all));
	if (!all)
		return NULL;
	n = 0;
	for (char **e = environ; *e; e++)
		if (!(with_preload && sets(*e, "LD_PRELOAD")) &&
		    !(with_search && sets(*e, "LD_LIBRARY_PATH")) &&
		    !(with_conf && sets(*e, "NEAR_CONF")))
			all[n++] = *e;
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", c->options->preload);
	snprintf(conf, sizeof(conf), "NEAR_CONF=%s", with_conf ? c->conf : "");
	snprintf(search, sizeof(search), "LD_LIBRARY_PATH=%s", c->options->search);
	if (with_preload)
		all[n++] = preload;
	if (with_search)
		all[n++] = search;
	if (with_conf)
		all[n++] = conf;
	return all;
}

/* Not c->options->path: the program may look at its name. A name without a slash leads there
 * again. */
static int execute(const struct run_child *c, char **environment)
{
	tool_restore_signals();
	execvpe(c->options->argv[0], c->options->argv, environment);
	return -errno;
}

int run_become(const struct run_child *c)
{
	char **environment = make_environment(c);
	int err = environment ? execute(c, environment) : -ENOMEM;

	free(environment);
	return err;
}

static void in_child(const struct run_child *c, char **environment, int told, pid_t parent)
{
	int err;

	if (c->apart) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(RUN_NOT_FOUND);
	}
	if (c->in >= 0)
		dup2(c->in, STDIN_FILENO);
	if (c->out >= 0)
		dup2(c->out, STDOUT_FILENO);
	if (c->err >= 0)
		dup2(c->err, STDERR_FILENO);
	signal(SIGCHLD, child_action);
	sigprocmask(SIG_SETMASK, &before, NULL);
	err = execute(c, environment);
	if (write(told, &err, sizeof(err)) < 0)
		_exit(RUN_CANNOT);
	_exit(RUN_NOT_FOUND);
}

/* 0, or the negative errno of exec. */
static int start(const struct run_child *c, pid_t *pid)
{
	pid_t parent = getpid();
	char **environment = make_environment(c);
	int told[2], err = 0;

	fflush(NULL);
	if (!environment)
		return -ENOMEM;
	if (pipe2(told, O_CLOEXEC)) {
		err = -errno;
		free(environment);
		return err;
	}
	run_small_children(true);
	*pid = fork();
	if (*pid == 0)
		in_child(c, environment, told[1], parent);
	if (*pid < 0)
		err = -errno;
	run_small_children(false);
	if (*pid > 0 && c->apart)
		setpgid(*pid, *pid);
	close(told[1]);
	if (!err && read(told[0], &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(told[0]);
	free(environment);
	if (err && *pid > 0)
		waitpid(*pid, NULL, 0);
	return err;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* The next signal; SIGCHLD if there was none that can be waited for. */
static int next_signal(siginfo_t *info)
{
	int sig;

	do
		sig = sigwaitinfo(&waited, info);
	while (sig < 0 && errno == EINTR);
	return sig < 0 ? SIGCHLD : sig;
}

/* Whether it has ended. */
static bool reap(struct run_end *end, bool *stop)
{
	pid_t pid;

	do
		pid = wait4(end->pid, &end->status, WNOHANG | WUNTRACED, &end->usage);
	while (pid < 0 && errno == EINTR);
	*stop = pid == end->pid && WIFSTOPPED(end->status);
	return pid == end->pid && !*stop;
}

/* SIGSTOP that somebody sent to the program alone is between the two. */
static void stop_too(int by, bool *terminal)
{
	if (*terminal || by != SIGSTOP)
		raise(SIGSTOP);
	*terminal = false;
}

static void pass_on(pid_t pid, int sig, const siginfo_t *info, bool *terminal)
{
	if (info->si_code > 0 && sig != SIGCONT)
		*terminal |= sig == SIGTSTP;
	else
		kill(pid, sig);
}

int run_with_signals(const struct run_child *child, struct run_end *end)
{
	double started = now_s();
	bool stop = false, terminal = false;
	int err = start(child, &end->pid);

	if (err)
		return err;
	for (;;) {
		siginfo_t info;
		int sig = next_signal(&info);

		if (sig != SIGCHLD) {
			pass_on(end->pid, sig, &info, &terminal);
			continue;
		}
		if (reap(end, &stop))
			break;
		if (stop)
			stop_too(WSTOPSIG(end->status), &terminal);
	}
	end->wall_s = now_s() - started;
	return 0;
}

static bool asks_to_end(int sig)
{
	return sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;
}

/* While it is a zombie its number is taken, so this kills what it left and nothing else. */
static void end_group(struct run_end *end)
{
	siginfo_t ended;

	while (waitid(P_PID, (id_t)end->pid, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	kill(-end->pid, SIGKILL);
	while (wait4(end->pid, &end->status, 0, &end->usage) < 0 && errno == EINTR)
		;
}

/* 0: it ended; else why it was ended. */
static int wait_apart(pid_t pid)
{
	for (;;) {
		siginfo_t info, now = {0};
		int sig = next_signal(&info);

		if (asks_to_end(sig)) {
			interrupted = sig;
			return -EINTR;
		}
		if (sig != SIGCHLD)
			continue;
		waitid(P_PID, (id_t)pid, &now, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
		if (now.si_pid == pid && now.si_code != CLD_STOPPED)
			return 0;
		if (now.si_pid == pid && (now.si_status == SIGTTIN || now.si_status == SIGTTOU))
			return -ENOTTY;
	}
}

int run_apart(const struct run_child *child, struct run_end *end)
{
	double started = now_s();
	int err = start(child, &end->pid);

	if (err)
		return err;
	err = wait_apart(end->pid);
	end->wall_s = now_s() - started;
	if (err)
		kill(-end->pid, SIGKILL);
	end_group(end);
	return err;
}

int run_exit_code(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void run_end_as(int status)
{
	struct rlimit none = {0, 0};
	sigset_t one;

	fflush(NULL);
	if (WIFSIGNALED(status)) {
		/* It has left the core, if one was wanted. */
		setrlimit(RLIMIT_CORE, &none);
		signal(WTERMSIG(status), SIG_DFL);
		sigemptyset(&one);
		sigaddset(&one, WTERMSIG(status));
		sigprocmask(SIG_UNBLOCK, &one, NULL);
		raise(WTERMSIG(status));
	}
	exit(run_exit_code(status));
}
