/* SPDX-License-Identifier: MIT */
/* lab_beside hotplug|cpuset COMMAND...: runs the command while CPUs go offline and come back, or
 * while the set of CPUs that it may use changes. Fails if the command does, or if hardly anything
 * changed in the meantime. */
#define _GNU_SOURCE
#include "lab.h"

#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define GROUPS "/tmp/cgroup"
#define GROUP GROUPS "/lab"
#define FEWEST 4 /* changes */

static unsigned cpus[LAB_CPUS], online;
static uint64_t random_state = 1;

static unsigned any(unsigned below)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (unsigned)(random_state >> 33) % below;
}

/* ---- CPUs that come and go ---- */

static bool set_online(unsigned cpu, bool on)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	return lab_write(path, on ? "1" : "0");
}

/* The first two stay. */
static bool hotplug(void)
{
	static bool off[LAB_CPUS];
	unsigned i;

	if (online < 3)
		LAB_FAIL("only %u cpus: none can be taken away", online);
	i = 2 + any(online - 2);
	if (!set_online(cpus[i], off[i]))
		return false;
	off[i] = !off[i];
	return true;
}

static void all_online(void)
{
	for (unsigned i = 0; i < online; i++)
		set_online(cpus[i], true);
}

/* ---- the set of CPUs allowed ---- */

/* Of version 2, if the kernel gives it a cpuset; else of version 1. */
static void make_group(void)
{
	char text[256];

	mkdir(GROUPS, 0755);
	if (mount("cgroup2", GROUPS, "cgroup2", 0, NULL) == 0) {
		if (lab_write(GROUPS "/cgroup.subtree_control", "+cpuset")) {
			LAB_CHECK(mkdir(GROUP, 0755) == 0);
			return;
		}
		umount(GROUPS);
	}
	if (mount("cgroup", GROUPS, "cgroup", 0, "cpuset"))
		LAB_FAIL("this kernel has no cpusets: %s", strerror(errno));
	LAB_CHECK(mkdir(GROUP, 0755) == 0);
	LAB_CHECK(lab_read(GROUPS "/cpuset.mems", text, sizeof(text)));
	LAB_CHECK(lab_write(GROUP "/cpuset.mems", text));
	LAB_CHECK(lab_read(GROUPS "/cpuset.cpus", text, sizeof(text)));
	LAB_CHECK(lab_write(GROUP "/cpuset.cpus", text));
}

static void enter_group(void)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", (int)getpid());
	LAB_CHECK(lab_write(GROUP "/cgroup.procs", text));
}

/* One CPU up to all. */
static bool change_set(void)
{
	unsigned first = any(online), n = 1 + any(online), used = 0;
	char text[LAB_CPUS * 5];

	for (unsigned i = 0; i < n; i++)
		used += (unsigned)snprintf(text + used, sizeof(text) - used, "%s%u", i ? "," : "",
					   cpus[(first + i) % online]);
	return lab_write(GROUP "/cpuset.cpus", text);
}

/* ---- the command ---- */

static pid_t start(char **command, bool in_group)
{
	pid_t child = fork();

	if (child == 0) {
		if (in_group)
			enter_group();
		execv(command[0], command);
		LAB_FAIL("%s: %s", command[0], strerror(errno));
	}
	LAB_CHECK(child > 0);
	return child;
}

int main(int argc, char **argv)
{
	bool in_group = argc > 2 && strcmp(argv[1], "cpuset") == 0;
	struct timespec pause = {0, 60 * 1000 * 1000};
	unsigned changes = 0;
	int status;
	pid_t child;

	if (argc < 3 || (!in_group && strcmp(argv[1], "hotplug") != 0)) {
		fputs("usage: lab_beside hotplug|cpuset COMMAND...\n", stderr);
		return 2;
	}
	online = lab_online(cpus);
	if (in_group)
		make_group();
	child = start(argv + 2, in_group);
	while (waitpid(child, &status, WNOHANG) == 0) {
		changes += in_group ? change_set() : hotplug();
		nanosleep(&pause, NULL);
	}
	if (!in_group)
		all_online();
	printf("%u changes\n", changes);
	LAB_CHECK(changes >= FEWEST);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
