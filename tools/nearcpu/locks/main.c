/* SPDX-License-Identifier: MIT */
/* nearcpu locks: where an unmodified program waits for its locks. It preloads libnearcpu-locks.so,
 * whose waits.c has the design, and reads the files that this leaves in a folder. */
#include "locks/locks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/installed.h"
#include "common/launch.h"
#include "common/options.h"
#include "common/output.h"
#include "common/text.h"
#include "common/tool.h"

static const char *html, *json, *keep, *enable, *disable, *report;
static bool is_off;

static const struct option_row rows[] = {
	{"html", "FILE", .string = &html, .help = "a page with places, threads and times"},
	{"json", "FILE", .string = &json, .help = "the results as JSON; - is standard output"},
	{"off", .flag = &is_off, .help = "begin to record when --enable requests it"},
	{"keep", "FOLDER", .string = &keep, .help = "of the records, for --report"},
	{"report", "PID|FOLDER", .string = &report,
	 .help = "what a process has recorded up to now, or a folder has"},
	{"enable", "PID", .string = &enable, .help = "record, in a process that was started so"},
	{"disable", "PID", .string = &disable, .help = "record no longer"},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "locks",
	.rows = rows,
	.width = 22,
	.stops = true,
	.head = "usage: nearcpu locks [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
		"       nearcpu locks --report|--enable|--disable PID\n\n"
		"Runs a program, as it is, and prints on standard error where its threads waited\n"
		"for mutexes, rwlocks, condition variables and semaphores, how long, and which\n"
		"threads held them.\n\n",
	.tail = "\nExit status: that of the program; 126 if it cannot be run so, 127 if it was "
		"not\nfound.\n",
};

/* ---- a running process ---- */

static bool is_record(int fd)
{
	struct near__waits_head head;
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	       st.st_size == sizeof(struct near__waits) &&
	       pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
	       head.magic == NEAR__WAITS_MAGIC && head.size == sizeof(struct near__waits);
}

/* Opens its record, by the path that it has mapped. A negative errno; -ENOMSG: it has none. */
static int process_open(const char *pid, int flags)
{
	char path[PATH_MAX + 64], mapped[PATH_MAX], line[PATH_MAX + 128];
	int fd = -1, err;
	FILE *maps;
	uint64_t n;

	if (!parse_number(pid, 1, INT32_MAX, &n))
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	while (fd < 0 && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%*s rw-s %*s %*s %*s %4095[^\n]", mapped) != 1)
			continue;
		snprintf(path, sizeof(path), "/proc/%s/root%s", pid, mapped);
		fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd >= 0 && !is_record(fd)) {
			close(fd);
			fd = -1;
		}
	}
	err = ferror(maps) ? -EACCES : -ENOMSG;
	fclose(maps);
	return fd < 0 ? err : fd;
}

static int process_failure(const char *pid, int err)
{
	return err == -ENOMSG
		       ? failure("locks",
				 "process %s has no record: it was not started by nearcpu locks, "
				 "or the folder has been removed",
				 pid)
		       : failure("locks", "cannot read process %s: %s", pid, strerror(-err));
}

static int process_switch(const char *pid, bool on)
{
	int fd = process_open(pid, O_RDWR);
	struct near__waits_head *head = MAP_FAILED;

	if (fd < 0)
		return process_failure(pid, fd);
	head = mmap(NULL, sizeof(*head), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (head == MAP_FAILED)
		return process_failure(pid, -errno);
	atomic_store(&head->is_on, on);
	munmap(head, sizeof(*head));
	return EXIT_DONE;
}

/* ---- reports ---- */

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

/* Of the files in a folder, those that have recorded something; `clear`: removes all. */
static json_t *folder_read(const char *folder, bool clear)
{
	struct dirent **names = NULL;
	json_t *processes = json_array();
	int n = scandir(folder, &names, NULL, compare_names);

	for (int i = 0; i < n; i++) {
		char path[2 * PATH_MAX];
		json_t *one;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
		free(names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		one = fd >= 0 ? locks_json(fd) : NULL;
		if (one && (json_array_size(json_object_get(one, "places")) ||
			    json_integer_value(json_object_get(one, "error"))))
			json_array_append(processes, one);
		json_decref(one);
		if (fd >= 0)
			close(fd);
		if (clear)
			unlink(path);
	}
	free(names);
	if (clear)
		rmdir(folder);
	return n < 0 ? NULL : processes;
}

static int write_all(FILE *to, json_t *processes)
{
	int code = 0, other = 0;

	locks_print(to, processes);
	if (html)
		code = locks_html(html, processes);
	if (json)
		other = output_json("locks", json, json_pack("{s:O}", "processes", processes));
	json_decref(processes);
	return code ? code : other;
}

static int report_what(const char *what)
{
	json_t *processes, *one;
	int fd;

	if (strspn(what, "0123456789") == strlen(what)) {
		fd = process_open(what, O_RDONLY);
		if (fd < 0)
			return process_failure(what, fd);
		one = locks_json(fd);
		close(fd);
		processes = json_pack("[o*]", one);
	} else {
		processes = folder_read(what, false);
		if (!processes)
			return failure("locks", "cannot read '%s': %s", what, strerror(errno));
	}
	return finish_stdout("locks", write_all(json && output_is_stdout(json) ? stderr : stdout,
						processes));
}

/* ---- a program ---- */

static int folder_make(char folder[PATH_MAX])
{
	const char *tmp = getenv("TMPDIR");

	if (keep) {
		if (mkdir(keep, 0700) && errno != EEXIST)
			return failure("locks", "cannot make '%s': %s", keep, strerror(errno));
		if (!realpath(keep, folder))
			return failure("locks", "cannot use '%s': %s", keep, strerror(errno));
		return 0;
	}
	snprintf(folder, PATH_MAX, "/dev/shm/nearcpu-locks-XXXXXX");
	if (mkdtemp(folder))
		return 0;
	snprintf(folder, PATH_MAX, "%s/nearcpu-locks-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
	return mkdtemp(folder) ? 0
			       : failure("locks", "cannot make '%s': %s", folder, strerror(errno));
}

static int run_program(char **argv)
{
	char library[PATH_MAX], folder[PATH_MAX], preload[3 * PATH_MAX], conf[PATH_MAX + 8];
	const char *had = getenv("LD_PRELOAD");
	const char *const set[] = {"LD_PRELOAD", preload, "NEAR_LOCKS", conf, NULL};
	struct spawn program = {argv, set, .in = -1, .out = -1, .err = -1};
	struct launch_end end;
	json_t *processes;
	int code, err;

	if (find_library(LIBRARY_LOCKS, library) || strpbrk(library, ": \t\n"))
		return failure("locks",
			       LOCKS_FILE " was not found, or has a path with a colon or space: "
					  "'%s'",
			       library);
	code = folder_make(folder);
	if (code)
		return code;
	snprintf(preload, sizeof(preload), "%s%s%s", library, had && *had ? ":" : "",
		 had ? had : "");
	snprintf(conf, sizeof(conf), "%s%s", is_off ? "off:" : "", folder);
	launch_begin();
	err = launch_with_signals(&program, &end);
	processes = folder_read(folder, !keep);
	if (err)
		return launch_failure("locks", argv[0], err);
	launch_print_end("locks", argv[0], end.status);
	if (!json_array_size(processes))
		failure("locks",
			"no process has waited, or none could record it: static programs do not "
			"load the library, nor those with more rights than the user; and each "
			"needs a file of 5.3 MiB in '%s'",
			folder);
	launch_end_as(end.status, finish_stdout("locks", write_all(stderr, processes)));
}

int locks_main(int argc, char **argv)
{
	int code = parse_options(&table, argc, argv);
	int requests = !!enable + !!disable + !!report;

	if (code != OPTIONS_DONE)
		return code;
	if (requests ? requests > 1 || optind < argc : optind == argc)
		return usage_error("locks", requests ? "one of --report, --enable, --disable alone"
						     : "no program given");
	if (enable || disable)
		return process_switch(enable ? enable : disable, enable);
	code = output_check("locks", html);
	code = code ? code : output_check("locks", json);
	if (code)
		return code;
	return report ? report_what(report) : run_program(argv + optind);
}
