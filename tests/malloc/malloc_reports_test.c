/* SPDX-License-Identifier: MIT */
/* The forms of the statistics: JSON, a file at exit, the functions of glibc. */
#include "stats.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "malloc/base/heap.h"

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

	s = stats();
	assert_int_equal(near_malloc_stats_json(collect, &t), 0);
	assert_int_equal(number_of(t.text, "misses"), s.misses);
	assert_int_equal(number_of(t.text, "in_use"), s.in_use);
	assert_int_equal(number_of(t.text, "metadata"), s.metadata);
	for (const char *at = t.text; (at = strstr(at, "{\"size\": ")); at++)
		classes++;
	assert_int_equal(classes, s.classes);
	assert_string_equal(t.text + t.used - 6, "  ]\n}\n");
	t.error = -ENOSPC;
	assert_int_equal(near_malloc_stats_json(collect, &t), -ENOSPC);
}

/* ---- a file at exit ---- */

static void *volatile lost;

static char err[512]; /* what the last child wrote to standard error */

/* Runs this program again in a child that has this added to NEAR_CONF, as child() below. */
struct run {
	const char *what, *conf;
};

static void run_self(void *arg)
{
	const struct run *r = arg;
	const char *had = getenv("NEAR_CONF");
	char setting[512];

	snprintf(setting, sizeof(setting), "%s%s%s", had ? had : "", had ? "," : "", r->conf);
	setenv("NEAR_CONF", setting, 1);
	execl("/proc/self/exe", "malloc_reports_test", "child", r->what, (char *)NULL);
	_exit(1);
}

static pid_t run_child(const char *what, const char *conf)
{
	struct run r = {what, conf};

	assert_int_equal(unit_capture(run_self, &r, err, sizeof(err), NULL), 0);
	return unit_child;
}

static void expect_written(const char *what, const char *conf)
{
	run_child(what, conf);
	assert_string_equal(err, "");
}

static void expect_refused(const char *conf, const char *reason)
{
	run_child("exit", conf);
	assert_non_null(strstr(err, "nearcpu-malloc: cannot write the statistics to "));
	if (!strstr(err, reason))
		fail_msg("%s: %s", conf, err);
}

/* The child of a fork does not count its parent's misses, one for each list of two blocks. Each
 * process has a file of its own. */
static void use_and_exit(void *n)
{
	for (unsigned i = 0; i < *(unsigned *)n; i++)
		lost = malloc(7000);
	exit(0);
}

static bool is_zero(void)
{
	struct near_malloc_stats s;
	struct near_malloc_class_stats c;

	for (unsigned n = 0; near_malloc_class_stats(n, &c, sizeof(c)) == 0; n++)
		if (!c.size || c.misses || c.in_use || c.cached || c.spans)
			return false;
	return near_malloc_stats(&s, sizeof(s)) == 0 && s.classes && !s.misses && !s.metadata &&
	       !near__heap.ready;
}

static int child(const char *what)
{
	if (strcmp(what, "nothing") == 0)
		return !near__heap.ready && !is_zero(); /* a library may have allocated */
	lost = malloc(1);
	if (chdir("/")) /* the file is in the directory of the first allocation */
		return 1;
	setenv("NEAR_CONF", "", 1);
	if (strcmp(what, "fork") == 0)
		return unit_wait(unit_fork(use_and_exit, &(unsigned){1000}), NULL);
	if (strcmp(what, "count") == 0) {
		for (unsigned i = 0; i < 1000; i++)
			lost = malloc(7000);
		unit_fork(use_and_exit, &(unsigned){10});
		fprintf(stderr, "%d", unit_child);
		return unit_wait(unit_child, NULL);
	}
	if (strcmp(what, "_exit") == 0)
		_exit(0);
	return 0;
}

static const char *read_text(const char *path)
{
	static struct text t;
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, t.text, sizeof(t.text) - 1);

	t.text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return t.text;
}

/* Those of 7,000 bytes, in the file with these statistics. */
static uint64_t misses_in(const char *path)
{
	return number_of(strstr(read_text(path), "\"size\": 7168"), "misses");
}

static char directory[] = "/tmp/malloc_stats_test.XXXXXX";

static void enter_directory(void)
{
	if (unit_emulated()) /* which does not start programs */
		skip();
	strcpy(directory + sizeof(directory) - sizeof("XXXXXX"), "XXXXXX");
	assert_non_null(mkdtemp(directory));
	assert_int_equal(chdir(directory), 0);
}

/* Nothing but these files is there. */
static void remove_directory(const char *const *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(unlink(files[i]), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(directory), 0);
}

static void at_exit(void **state)
{
	char of_process[64], of_parent[64], of_child[64];
	const char *const files[] = {"s.json", of_process, of_parent, of_child};

	enter_directory();
	expect_written("fork", "malloc_stats:s.json");
	assert_true(number_of(read_text("s.json"), "misses") > 0);
	assert_true(misses_in("s.json") < 100);
	snprintf(of_process, sizeof(of_process), "a%d-b", run_child("exit", "malloc_stats:a%p-b"));
	snprintf(of_parent, sizeof(of_parent), "c%d", run_child("count", "malloc_stats:c%p"));
	assert_in_range(misses_in(of_parent), 500, 1100);
	snprintf(of_child, sizeof(of_child), "c%.20s", err);
	assert_in_range(misses_in(of_child), 5, 20);
	run_child("_exit", "malloc_stats:none.json");
	assert_int_not_equal(access("none.json", F_OK), 0);
	run_child("exit", "malloc_stats:/nonexistent/s");
	assert_string_equal(err, "nearcpu-malloc: cannot write the statistics to /nonexistent/s"
				 ": no such directory\n");
	run_child("exit", "malloc_stats:/dev/full");
	assert_string_equal(err,
			    "nearcpu-malloc: cannot write the statistics to /dev/full: no space\n");
	remove_directory(files, LENGTH(files));
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
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
	assert_string_equal(read_text("others"), "precious");
	unlink("others");
}

/* The process writes only to files that it created, or that belong to its user. */
static void the_file_is_safe(void **state)
{
	static const char *const files[] = {"new", "victim", "link", "dangling", "pipe"};

	enter_directory();
	umask(0);
	expect_written("exit", "malloc_stats:new");
	assert_int_equal(mode_of("new"), 0600);
	write_text("victim", "precious");
	assert_int_equal(symlink("victim", "link"), 0);
	assert_int_equal(symlink("unborn", "dangling"), 0);
	expect_refused("malloc_stats:link", ": it is a symbolic link\n");
	expect_refused("malloc_stats:dangling", ": it is a symbolic link\n");
	assert_int_not_equal(access("unborn", F_OK), 0);
	assert_int_equal(link("victim", "second"), 0);
	expect_refused("malloc_stats:second", ": the file there is not this user's alone\n");
	assert_string_equal(read_text("victim"), "precious");
	assert_int_equal(mkfifo("pipe", 0600), 0);
	expect_refused("malloc_stats:pipe", ": nothing reads that pipe\n");
	refuse_another_users();
	/* A file of the user is overwritten, and keeps its mode. */
	unlink("second");
	expect_written("exit", "malloc_stats:victim");
	assert_int_equal(mode_of("victim"), 0644);
	remove_directory(files, LENGTH(files));
}

/* ---- the functions of glibc ---- */

#if defined(__GLIBC__)

/* musl allocates before main, in pthread_atfork. */
static void before_the_first_allocation(void **state)
{
	if (unit_emulated())
		skip(); /* /proc/self/exe is the emulator */
	run_child("nothing", "malloc_background:0");
}

static void mallinfos(void **state)
{
	struct near_malloc_stats s;
	void *volatile p = malloc(100000);

	s = stats();
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

UNIT_CALLS(print, malloc_stats(), NULL)

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
	pthread_t thread = unit_start(print_cancelled, NULL);
	void *result;

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
	if (argc == 3 && strcmp(argv[1], "child") == 0)
		return child(argv[2]);
#if defined(__GLIBC__)
	return UNIT_TESTS(json, before_the_first_allocation, at_exit, the_file_is_safe, mallinfos,
			  info, printed, printing_is_no_cancellation_point, options);
#else
	return UNIT_TESTS(json, at_exit, the_file_is_safe);
#endif
}
