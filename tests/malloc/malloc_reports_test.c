/* SPDX-License-Identifier: MIT */
/* The forms of the statistics: JSON, a file at exit, the functions of glibc. */
#include <fcntl.h>
#include <malloc.h>
#include <nearcpu/malloc.h>
#include <sys/stat.h>

#include "unit.h"

static struct near_malloc_stats all(void)
{
	struct near_malloc_stats s;

	assert_int_equal(near_malloc_stats(&s, sizeof(s)), 0);
	return s;
}

struct text {
	char text[32768];
	size_t used;
	int error;
};

static int collect(void *arg, const char *text, size_t size)
{
	struct text *t = arg;

	if (t->error)
		return t->error;
	assert_true(t->used + size < sizeof(t->text));
	memcpy(t->text + t->used, text, size);
	t->used += size;
	t->text[t->used] = '\0';
	return 0;
}

static uint64_t number_of(const char *text, const char *name)
{
	char key[64];
	const char *at;

	snprintf(key, sizeof(key), "\"%s\": ", name);
	at = strstr(text, key);
	assert_non_null(at);
	return strtoull(at + strlen(key), NULL, 10);
}

static void json(void **state)
{
	static struct text t;
	struct near_malloc_stats s;
	unsigned classes = 0;

	s = all();
	assert_int_equal(near_malloc_stats_json(collect, &t), 0);
	assert_int_equal(number_of(t.text, "allocations"), s.allocations);
	assert_int_equal(number_of(t.text, "in_use"), s.in_use);
	assert_int_equal(number_of(t.text, "metadata"), s.metadata);
	for (const char *at = t.text; (at = strstr(at, "{\"size\": ")); at++)
		classes++;
	assert_int_equal(classes, s.classes);
	assert_string_equal(t.text + t.used - 6, "  ]\n}\n");
	t.error = -ENOSPC;
	assert_int_equal(near_malloc_stats_json(collect, &t), -ENOSPC);
}

static const char *self;
static void *volatile lost;

/* Runs this program again, as child() below. Returns what it writes to standard error. */
static int run_child(const char *what, const char *conf, char *text, size_t size)
{
	const char *had = getenv("NEAR_CONF");
	char setting[512];
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	snprintf(setting, sizeof(setting), "%s%s%s", had ? had : "", had ? "," : "", conf);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		setenv("NEAR_CONF", setting, 1);
		dup2(ends[1], 2);
		execl(self, self, "child", what, (char *)NULL);
		_exit(1);
	}
	close(ends[1]);
	n = read(ends[0], text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	status = unit_wait(pid, NULL);
	assert_int_equal(status, 0);
	return pid;
}

/* The child does not count its parent's blocks. Each process has a file of its own. */
static int count_after_fork(void)
{
	pid_t pid;

	for (unsigned i = 0; i < 1000; i++)
		free(lost = malloc(7000));
	pid = fork();
	if (pid == 0) {
		for (unsigned i = 0; i < 10; i++)
			free(lost = malloc(7000));
		exit(0);
	}
	fprintf(stderr, "%d", pid);
	return unit_wait(pid, NULL);
}

static int child(const char *what)
{
	pid_t pid;

	lost = malloc(1);
	if (chdir("/")) /* the file is in the directory of the first allocation */
		return 1;
	setenv("NEAR_CONF", "", 1);
	if (strcmp(what, "fork") == 0) {
		pid = fork();
		if (pid == 0) {
			for (unsigned i = 0; i < 1000; i++)
				lost = malloc(7000);
			exit(0);
		}
		return unit_wait(pid, NULL);
	}
	if (strcmp(what, "count") == 0)
		return count_after_fork();
	if (strcmp(what, "_exit") == 0)
		_exit(0);
	return 0;
}

static void read_text(const char *path, struct text *t)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, t->text, sizeof(t->text) - 1);

	t->text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static void at_exit(void **state)
{
	static struct text t;
	char dir[] = "/tmp/malloc_stats_test.XXXXXX", path[64], err[512];
	int pid;

	if (unit_emulated()) /* which does not start programs */
		skip();
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	run_child("fork", "malloc_stats:s.json", err, sizeof(err));
	assert_string_equal(err, "");
	read_text("s.json", &t);
	assert_true(number_of(t.text, "allocations") > 0);
	assert_true(number_of(strstr(t.text, "\"size\": 7168"), "allocations") < 100);
	pid = run_child("exit", "malloc_stats:a%p-b", err, sizeof(err));
	snprintf(path, sizeof(path), "a%d-b", pid);
	assert_int_equal(unlink(path), 0);
	pid = run_child("count", "malloc_stats:c%p", err, sizeof(err));
	snprintf(path, sizeof(path), "c%d", pid);
	read_text(path, &t);
	assert_in_range(number_of(strstr(t.text, "\"size\": 7168"), "allocations"), 1000, 1100);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "c%.20s", err);
	read_text(path, &t);
	assert_in_range(number_of(strstr(t.text, "\"size\": 7168"), "allocations"), 10, 20);
	assert_int_equal(unlink(path), 0);
	run_child("_exit", "malloc_stats:none.json", err, sizeof(err));
	assert_int_not_equal(access("none.json", F_OK), 0);
	run_child("exit", "malloc_stats:/nonexistent/s", err, sizeof(err));
	assert_string_equal(err, "nearcpu-malloc: cannot write the statistics to /nonexistent/s"
				 ": no such directory\n");
	run_child("exit", "malloc_stats:/dev/full", err, sizeof(err));
	assert_string_equal(err,
			    "nearcpu-malloc: cannot write the statistics to /dev/full: no space\n");
	unlink("s.json");
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void expect_refused(const char *conf, const char *reason)
{
	char err[512];

	run_child("exit", conf, err, sizeof(err));
	assert_non_null(strstr(err, "nearcpu-malloc: cannot write the statistics to "));
	if (!strstr(err, reason))
		fail_msg("%s: %s", conf, err);
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void expect_text(const char *path, const char *text)
{
	static struct text t;

	read_text(path, &t);
	assert_string_equal(t.text, text);
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static void refuse_another_users(void)
{
	if (geteuid())
		return;
	write_text("others", "precious");
	if (chown("others", 65534, 65534) == 0) /* this user namespace has that number */
		expect_refused("malloc_stats:others",
			       ": the file there is not this user's alone\n");
	expect_text("others", "precious");
	unlink("others");
}

/* The process writes only to files that it created, or that belong to its user. */
static void the_file_is_safe(void **state)
{
	char dir[] = "/tmp/malloc_stats_test.XXXXXX", err[512];

	if (unit_emulated())
		skip();
	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	umask(0);
	run_child("exit", "malloc_stats:new", err, sizeof(err));
	assert_string_equal(err, "");
	assert_int_equal(mode_of("new"), 0600);
	write_text("victim", "precious");
	assert_int_equal(symlink("victim", "link"), 0);
	assert_int_equal(symlink("unborn", "dangling"), 0);
	expect_refused("malloc_stats:link", ": it is a symbolic link\n");
	expect_refused("malloc_stats:dangling", ": it is a symbolic link\n");
	assert_int_not_equal(access("unborn", F_OK), 0);
	assert_int_equal(link("victim", "second"), 0);
	expect_refused("malloc_stats:second", ": the file there is not this user's alone\n");
	expect_text("victim", "precious");
	assert_int_equal(mkfifo("pipe", 0600), 0);
	expect_refused("malloc_stats:pipe", ": nothing reads that pipe\n");
	refuse_another_users();
	/* A file of the user is overwritten, and keeps its mode. */
	unlink("second");
	run_child("exit", "malloc_stats:victim", err, sizeof(err));
	assert_string_equal(err, "");
	assert_int_equal(mode_of("victim"), 0644);
	unlink("new");
	unlink("victim");
	unlink("link");
	unlink("dangling");
	unlink("pipe");
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(dir), 0);
}

#if defined(__GLIBC__)
static void mallinfos(void **state)
{
	struct near_malloc_stats s;
	void *volatile p = malloc(100000);

	s = all();
#if __GLIBC_PREREQ(2, 33)
	struct mallinfo2 m = mallinfo2();

	assert_int_equal(m.arena, m.uordblks + m.fordblks);
	assert_int_equal(m.uordblks, s.in_use - s.large);
	assert_int_equal(m.hblks, s.large_blocks);
	assert_int_equal(m.hblkhd, s.large);
	assert_int_equal(m.fsmblks, s.cached);
	assert_int_equal(m.keepcost, s.free_dirty);
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	struct mallinfo old = mallinfo();
#pragma GCC diagnostic pop

	assert_int_equal(old.arena, old.uordblks + old.fordblks);
	assert_int_equal(old.hblkhd, (int)s.large);
	free(p);
}

static void info(void **state)
{
	static const char head[] = "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n";
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(malloc_info(1, f), EINVAL);
	assert_int_equal(malloc_info(0, f), 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(strncmp(text, head, strlen(head)), 0);
	assert_non_null(strstr(text, "<total type=\"mmap\" count=\""));
	assert_string_equal(text + size - 10, "</malloc>\n");
	free(text);
}

static void print(void *unused)
{
	malloc_stats();
}

static void printed(void **state)
{
	static char text[16384];

	assert_int_equal(unit_capture(print, NULL, text, sizeof(text), NULL), 0);
	assert_int_equal(strncmp(text, "Arena 0:\nsystem bytes     = ", 28), 0);
	assert_non_null(strstr(text, "\nTotal (incl. mmap):\n"));
	assert_non_null(strstr(text, "\nClasses:\n"));
}

static void *print_cancelled(void *unused)
{
	pthread_cancel(pthread_self());
	malloc_stats();
	return (void *)&lost;
}

static void print_in_thread(void *unused)
{
	pthread_t thread;
	void *result;

	CHECK(pthread_create(&thread, NULL, print_cancelled, NULL) == 0);
	CHECK(pthread_join(thread, &result) == 0);
	CHECK(result != PTHREAD_CANCELED);
}

static void printing_is_no_cancellation_point(void **state)
{
	static char text[16384];

	assert_int_equal(unit_capture(print_in_thread, NULL, text, sizeof(text), NULL), 0);
	assert_non_null(strstr(text, "\nClasses:\n"));
}

static void options(void **state)
{
	assert_int_equal(mallopt(M_MXFAST, 160), 1);
	assert_int_equal(mallopt(M_MXFAST, 161), 0);
	assert_int_equal(mallopt(M_MXFAST, -1), 0);
	assert_int_equal(mallopt(M_TRIM_THRESHOLD, 1 << 20), 1);
	assert_int_equal(mallopt(M_MMAP_THRESHOLD, 1 << 20), 1);
	assert_int_equal(mallopt(M_ARENA_MAX, 1), 1);
	assert_int_equal(mallopt(4711, 1), 1);
}
#endif

int main(int argc, char **argv)
{
	static char path[4096];
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json),
		cmocka_unit_test(at_exit),
		cmocka_unit_test(the_file_is_safe),
#if defined(__GLIBC__)
		cmocka_unit_test(mallinfos),
		cmocka_unit_test(info),
		cmocka_unit_test(printed),
		cmocka_unit_test(printing_is_no_cancellation_point),
		cmocka_unit_test(options),
#endif
	};

	if (argc == 3 && strcmp(argv[1], "child") == 0)
		return child(argv[2]);
	if (readlink("/proc/self/exe", path, sizeof(path) - 1) > 0)
		self = path;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
