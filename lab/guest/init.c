/* SPDX-License-Identifier: MIT */
/* init of the laboratory's virtual machines: runs the lines of /plan, and ends the machine. Fields
 *   are separated by tabs: online CPU... brings CPUs online run NAME SECONDS SETTING... -- COMMAND
 *   runs a test with a time limit Its own messages begin with "@lab", after a line feed: a test may
 *   have left half a line. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FIELDS 32

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("\n@lab ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
}

static void mount_on(const char *type, const char *where, const char *options)
{
	mkdir(where, 0755);
	if (mount(type, where, type, 0, options))
		say("note no %s: %s", where, strerror(errno));
}

static unsigned long long milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long long)t.tv_sec * 1000 + (unsigned long long)t.tv_nsec / 1000000;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
	int error = errno;

	if (fd >= 0)
		close(fd);
	return n < 0 ? -error : 0;
}

static void bring_online(char *const *cpus)
{
	char path[64];
	int r;

	for (; *cpus; cpus++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%s/online", *cpus);
		r = write_file(path, "1");
		if (r)
			say("note cpu %s does not come online: %s", *cpus, strerror(-r));
	}
}

/* In the child: settings up to "--", then the command. */
static void start(char *const *fields)
{
	setpgid(0, 0);
	for (; *fields && strcmp(*fields, "--") != 0; fields++)
		putenv(*fields);
	if (*fields && fields[1]) {
		execv(fields[1], fields + 1);
		fprintf(stderr, "%s: %s\n", fields[1], strerror(errno));
	}
	_exit(126);
}

/* Whatever ends without a parent becomes a child of this process, and is forgotten here. */
static bool ended(pid_t child, int *status)
{
	int any;
	pid_t pid;

	while ((pid = waitpid(-1, &any, WNOHANG)) > 0) {
		if (pid == child) {
			*status = any;
			return true;
		}
	}
	return false;
}

static void run(char *const *fields)
{
	unsigned long long begun = milliseconds();
	unsigned long long limit = strtoull(fields[1], NULL, 10) * 1000;
	const char *name = fields[0];
	struct timespec pause = {0, 20 * 1000 * 1000};
	bool late = false;
	int status = 0;
	pid_t child;

	say("begin %s", name);
	child = fork();
	if (child == 0)
		start(fields + 2);
	while (child > 0 && !ended(child, &status)) {
		late = milliseconds() - begun > limit;
		if (late)
			kill(-child, SIGKILL);
		nanosleep(&pause, NULL);
	}
	kill(-child, SIGKILL);
	if (late)
		say("end %s late %llu", name, limit / 1000);
	else if (child < 0 || WIFSIGNALED(status))
		say("end %s signal %d", name, child < 0 ? 0 : WTERMSIG(status));
	else
		say("end %s exit %d %llu", name, WEXITSTATUS(status), milliseconds() - begun);
}

static void follow(char *line)
{
	char *fields[FIELDS + 1];
	size_t n = 0;

	for (char *field = strtok(line, "\t\n"); field && n < FIELDS; field = strtok(NULL, "\t\n"))
		fields[n++] = field;
	fields[n] = NULL;
	if (n > 1 && strcmp(fields[0], "online") == 0)
		bring_online(fields + 1);
	else if (n > 4 && strcmp(fields[0], "run") == 0)
		run(fields + 1);
	else if (n)
		say("note the plan has a line that begins with '%s'", fields[0]);
}

static void mount_all(void)
{
	mount_on("proc", "/proc", NULL);
	mount_on("sysfs", "/sys", NULL);
	mount_on("devtmpfs", "/dev", NULL);
	mkdir("/dev/shm", 01777);
	mount_on("tmpfs", "/dev/shm", NULL);
	mount_on("tmpfs", "/tmp", NULL);
}

int main(void)
{
	struct utsname kernel = {0};
	struct rlimit files = {4096, 4096};
	char line[4096];
	FILE *plan;

	mount_all();
	setrlimit(RLIMIT_NOFILE, &files);
	setenv("PATH", "/", 1);
	setenv("TMPDIR", "/tmp", 1);
	setenv("NEAR_TEST_SLOW", "1", 1); /* see tests/support/unit.h */
	uname(&kernel);
	say("up %s %ld", kernel.release, sysconf(_SC_NPROCESSORS_ONLN));
	plan = fopen("/plan", "re");
	while (plan && fgets(line, sizeof(line), plan))
		follow(line);
	say("done");
	sync();
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}
