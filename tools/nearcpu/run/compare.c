/* SPDX-License-Identifier: MIT */
/* nearcpu run --compare: the same program with what the system has and with ours, in turn, so that
 * what slows the machine for a while slows both. Who begins changes with each pair. */
#include "run/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/output.h"
#include "common/tool.h"

struct state {
	struct run_options *options;
	struct run_comparison c;
	int first[RUN_SIDES]; /* output of the first run of each side, -1: none yet */
};

static const char *const side_names[RUN_SIDES][LIBRARY_BOTH + 1] = {
	{"", "with the system's malloc", "with the system's libatomic",
	 "with the system's malloc and libatomic"},
	{"", "with nearcpu-malloc", "with nearcpu-atomic",
	 "with nearcpu-malloc and nearcpu-atomic"},
};

/* ---- files ---- */

/* A file without a name in TMPDIR. Returns a descriptor or a negative errno. */
static int make_file(void)
{
	const char *dir = getenv("TMPDIR");
	char path[PATH_MAX];
	int fd;

	dir = dir && *dir ? dir : "/tmp";
	if (snprintf(path, sizeof(path), "%s/nearcpu-run.XXXXXX", dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

static bool same_content(int a, int b)
{
	struct run_file x, y;
	bool has_x = run_map_fd(&x, a), has_y = run_map_fd(&y, b), same = has_x == has_y;

	if (has_x && has_y)
		same = x.size == y.size && memcmp(x.at, y.at, x.size) == 0;
	if (has_x)
		run_unmap(&x);
	if (has_y)
		run_unmap(&y);
	return same;
}

/* Returns an exit status. */
static int copy(int from, const char *path)
{
	struct run_file f;
	int code;

	if (!run_map_fd(&f, from))
		return output_write("run", path, "", 0);
	code = output_write("run", path, f.at, f.size);
	run_unmap(&f);
	return code;
}

static void last_line(int fd, char *line, size_t size)
{
	struct stat st;
	off_t from = fstat(fd, &st) == 0 && st.st_size >= (off_t)size ? st.st_size - (off_t)size + 1
								      : 0;
	ssize_t n = pread(fd, line, size - 1, from);
	char *start;

	while (n > 0 && line[n - 1] == '\n')
		n--;
	line[n > 0 ? n : 0] = '\0';
	start = strrchr(line, '\n');
	if (start)
		memmove(line, start + 1, strlen(start));
}

/* ---- one run ---- */

static int fail(const struct state *s, enum run_side side, unsigned run, const struct run_end *end,
		int err_fd)
{
	char which[32] = "the run to warm up", line[200] = "";

	if (run)
		snprintf(which, sizeof(which), "run %u", run);
	last_line(err_fd, line, sizeof(line));
	return failure("run", "%s %s of '%s' %s %d%s%s", which, side_names[side][s->options->parts],
		       s->options->argv[0],
		       WIFSIGNALED(end->status) ? "was killed by signal" : "had exit status",
		       WIFSIGNALED(end->status) ? WTERMSIG(end->status) : WEXITSTATUS(end->status),
		       line[0] ? ": " : "", line);
}

static int explain(const struct state *s, int err)
{
	if (err == -EINTR)
		return 128 + run_signal();
	if (err == -ENOTTY)
		return failure("run", "'%s' wants the terminal, which --compare keeps from it",
			       s->options->argv[0]);
	return failure("run", "cannot run '%s': %s", s->options->argv[0], strerror(-err));
}

/* Compares the output with the first one of the same side, and of the other. */
static void compare_output(struct state *s, enum run_side side, int out)
{
	if (s->first[side] >= 0) {
		s->c.output_varies |= !same_content(s->first[side], out);
		return;
	}
	s->first[side] = dup(out);
	if (s->first[!side] >= 0)
		s->c.output_differs = !same_content(s->first[!side], out);
}

static void keep(struct state *s, enum run_side side, unsigned i, const struct run_end *end)
{
	double(*values)[MAX_REPEAT] = s->c.values[side];

	values[RUN_CPU][i] = to_seconds(end->usage.ru_utime) + to_seconds(end->usage.ru_stime);
	values[RUN_WALL][i] = end->wall_s;
	values[RUN_MEMORY][i] = (double)end->usage.ru_maxrss * 1024;
	values[RUN_FAULTS][i] = (double)(end->usage.ru_minflt + end->usage.ru_majflt);
}

/* Run 0 is the warm-up. Returns an exit status. */
static int run_with(struct state *s, enum run_side side, unsigned run, struct run_child *child)
{
	struct run_end end = {0};
	int err = run_apart(child, &end);

	if (err)
		return explain(s, err);
	if (run_exit_code(end.status))
		return fail(s, side, run, &end, child->err);
	compare_output(s, side, child->out);
	if (run)
		keep(s, side, run - 1, &end);
	return 0;
}

static int run_once(struct state *s, enum run_side side, unsigned run)
{
	const char *input = s->options->input ? s->options->input : "/dev/null";
	struct run_child child = {.options = s->options,
				  .conf = side == RUN_OURS ? s->options->conf : NULL,
				  .ours = side == RUN_OURS,
				  .apart = true,
				  .in = open(input, O_RDONLY | O_CLOEXEC),
				  .out = make_file(),
				  .err = make_file()};
	int code;

	if (child.in < 0)
		code = failure("run", "cannot read '%s': %s", input, strerror(errno));
	else if (child.out < 0 || child.err < 0)
		code = failure("run", "cannot make a file in TMPDIR: %s",
			       strerror(child.out < 0 ? -child.out : -child.err));
	else
		code = run_with(s, side, run, &child);
	for (int fds[] = {child.in, child.out, child.err}, i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return code;
}

/* ---- all of them ---- */

static void show_progress(unsigned done, unsigned all)
{
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, done < all ? "\r\033[Krun %u of %u" : "\r\033[K", done + 1, all);
	fflush(stderr);
}

static int run_all(struct state *s)
{
	unsigned all = 2 * (s->c.runs + 1), done = 0;
	int code = 0;

	for (unsigned run = 0; run <= s->c.runs && !code; run++)
		for (unsigned half = 0; half < 2 && !code; half++) {
			show_progress(done++, all);
			code = run_once(s, (enum run_side)((run + half) % 2), run);
		}
	show_progress(all, all);
	return code;
}

static void release(struct state *s)
{
	for (unsigned side = 0; side < RUN_SIDES; side++)
		if (s->first[side] >= 0)
			close(s->first[side]);
}

static int report(const struct state *s)
{
	const struct run_options *o = s->options;
	int code = o->output ? copy(s->first[RUN_OURS], o->output) : 0;

	if (o->json)
		code |= output_json("run", o->json, run_json(&s->c));
	else
		run_print(&s->c);
	return finish_stdout("run", code);
}

int run_compare(struct run_options *o)
{
	static struct state s;
	int code;

	s = (struct state){.options = o, .c = {.options = o, .runs = o->repeat}, .first = {-1, -1}};
	code = run_all(&s);
	code = code ? code : report(&s);
	release(&s);
	return code;
}
