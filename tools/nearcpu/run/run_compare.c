/* SPDX-License-Identifier: MIT */
/* nearcpu run --compare: the same program with what the system has and with ours, in turn, so that
 * what slows the machine for a while slows both. Who begins changes with each pair. */
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/output.h"
#include "common/spread.h"
#include "common/text.h"
#include "common/tool.h"

/* Quartiles of fewer runs mean nothing. */
#define ENOUGH 3
#define FOREVER 1e9 /* seconds */

enum side { SYSTEM, OURS, SIDES };
enum measure { CPU, WALL, MEMORY, FAULTS, MEASURES };

struct comparison {
	struct run_options *options;
	unsigned runs;                              /* of each side */
	double values[SIDES][MEASURES][MAX_REPEAT]; /* seconds, bytes, pages */
	bool output_differs, output_varies;         /* varies: from run to run of one side */
	int first[SIDES]; /* output of the first run of each side, -1: none yet */
	sigset_t ending;  /* signals that end the comparison, and SIGCHLD */
	int by;           /* the one that did */
};

static const char *const side_names[SIDES][LIBRARY_BOTH + 1] = {
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
	struct elf_file x, y;
	bool same = false;

	if (!elf_map_fd(&x, a))
		return false;
	if (elf_map_fd(&y, b)) {
		same = x.size == y.size && memcmp(x.at, y.at, x.size) == 0;
		elf_unmap(&y);
	}
	elf_unmap(&x);
	return same;
}

/* Returns an exit status. */
static int copy(int from, const char *path)
{
	struct elf_file f;
	int code;

	if (!elf_map_fd(&f, from))
		return output_write("run", path, NULL, 0);
	code = output_write("run", path, f.at, f.size);
	elf_unmap(&f);
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

static int fail(const struct comparison *s, enum side side, unsigned run,
		const struct launch_end *end, int err_fd)
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

static int explain(const struct comparison *s, int err)
{
	if (err == -EINTR)
		return 128 + s->by;
	if (err == -ENOTTY)
		return failure("run", "'%s' wants the terminal, which --compare keeps from it",
			       s->options->argv[0]);
	return failure("run", "cannot run '%s': %s", s->options->argv[0], strerror(-err));
}

/* Compares the output with the first one of the same side, and of the other. */
static void compare_output(struct comparison *s, enum side side, int out)
{
	if (s->first[side] >= 0) {
		s->output_varies |= !same_content(s->first[side], out);
		return;
	}
	s->first[side] = dup(out);
	if (s->first[!side] >= 0)
		s->output_differs = !same_content(s->first[!side], out);
}

static void keep(struct comparison *s, enum side side, unsigned i, const struct launch_end *end)
{
	double(*values)[MAX_REPEAT] = s->values[side];

	values[CPU][i] = to_seconds(end->usage.ru_utime) + to_seconds(end->usage.ru_stime);
	values[WALL][i] = end->wall_s;
	values[MEMORY][i] = (double)end->usage.ru_maxrss * 1024;
	values[FAULTS][i] = (double)(end->usage.ru_minflt + end->usage.ru_majflt);
}

/* Run 0 is the warm-up. Returns an exit status. */
static int run_with(struct comparison *s, enum side side, unsigned run, struct spawn *program)
{
	struct launch_end end = {0};
	int err = launch_apart(program, &s->ending, FOREVER, &end, &s->by);

	if (err)
		return explain(s, err);
	if (launch_exit_code(end.status))
		return fail(s, side, run, &end, program->err);
	compare_output(s, side, program->out);
	if (run)
		keep(s, side, run - 1, &end);
	return 0;
}

static int run_once(struct comparison *s, enum side side, unsigned run)
{
	const char *input = s->options->input ? s->options->input : "/dev/null";
	struct spawn program = {.argv = s->options->argv,
				.set = side == OURS ? run_settings(s->options) : NULL,
				.apart = true,
				.mask = launch_mask(),
				.in = open(input, O_RDONLY | O_CLOEXEC),
				.out = make_file(),
				.err = make_file()};
	int code;

	if (program.in < 0)
		code = failure("run", "cannot read '%s': %s", input, strerror(errno));
	else if (program.out < 0 || program.err < 0)
		code = failure("run", "cannot make a file in TMPDIR: %s",
			       strerror(program.out < 0 ? -program.out : -program.err));
	else
		code = run_with(s, side, run, &program);
	for (int fds[] = {program.in, program.out, program.err}, i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return code;
}

/* ---- table and JSON ---- */

static const struct {
	const char *label, *name;
} measures[MEASURES] = {
	{"CPU time", "cpu_s"},
	{"wall time", "wall_s"},
	{"peak memory", "peak_bytes"},
	{"page faults", "page_faults"},
};

enum verdict { UNKNOWN, SAME, BETTER, WORSE };

static const struct {
	const char *text, *name; /* for people, and in the JSON */
} verdicts[] = {
	[UNKNOWN] = {"too few runs to tell", "unknown"},
	[SAME] = {"no difference beyond the spread", "same"},
	[BETTER] = {"nearcpu is better", "better"},
	[WORSE] = {"the system's is better", "worse"},
};

/* Ours over the system's, run by run; false: a divisor is 0. */
static bool ratio_of(const struct comparison *c, enum measure m, struct spread *out)
{
	double ratios[MAX_REPEAT];

	for (unsigned i = 0; i < c->runs; i++) {
		if (c->values[SYSTEM][m][i] <= 0)
			return false;
		ratios[i] = c->values[OURS][m][i] / c->values[SYSTEM][m][i];
	}
	*out = spread_of(ratios, c->runs);
	return true;
}

static enum verdict verdict_of(const struct comparison *c, enum measure m)
{
	struct spread s;

	if (c->runs < ENOUGH || !ratio_of(c, m, &s))
		return UNKNOWN;
	return s.high < 1 ? BETTER : s.low > 1 ? WORSE : SAME;
}

static double median(const struct comparison *c, enum side side, enum measure m)
{
	return spread_of(c->values[side][m], c->runs).median;
}

static struct word value_text(enum measure m, double value)
{
	if (m == MEMORY)
		return word("%.1f MiB", value / (1 << 20));
	return word(m == FAULTS ? "%.0f" : "%.3f s", value);
}

static void print_measure(const struct comparison *c, enum measure m)
{
	struct spread s;

	printf("%-12s %13s %13s", measures[m].label, value_text(m, median(c, SYSTEM, m)).text,
	       value_text(m, median(c, OURS, m)).text);
	if (ratio_of(c, m, &s))
		printf("  %5.2f  %.2f to %.2f", s.median, s.low, s.high);
	else
		printf("      -            -");
	printf("  %s\n", verdicts[verdict_of(c, m)].text);
}

static void comparison_print(const struct comparison *c)
{
	static const char *const parts[] = {"", "malloc", "libatomic", "malloc and libatomic"};

	printf("%s, %u run%s with each %s in turn, after one to warm up; medians\n\n",
	       c->options->argv[0], c->runs, c->runs == 1 ? "" : "s", parts[c->options->parts]);
	printf("%-12s %13s %13s  %5s  %s\n", "", "system", "nearcpu", "ratio", "quartiles");
	for (enum measure m = 0; m < MEASURES; m++)
		print_measure(c, m);
	if (c->output_varies)
		printf("\nstandard output differs from run to run, of one side too\n");
	else if (c->output_differs)
		printf("\nstandard output differs: see --output\n");
}

static json_t *values_json(const double *values, unsigned n)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(array, json_real(values[i]));
	return array;
}

static json_t *measure_json(const struct comparison *c, enum measure m)
{
	struct spread s = {0};
	bool has_ratio = ratio_of(c, m, &s);
	json_t *json = json_pack("{s:f, s:f, s:s, s:o, s:o}", "system", median(c, SYSTEM, m),
				 "nearcpu", median(c, OURS, m), "nearcpu_is",
				 verdicts[verdict_of(c, m)].name, "system_runs",
				 values_json(c->values[SYSTEM][m], c->runs), "nearcpu_runs",
				 values_json(c->values[OURS][m], c->runs));

	if (has_ratio)
		json_object_update_new(json, json_pack("{s:f, s:[f, f]}", "ratio", s.median,
						       "quartiles", s.low, s.high));
	return json;
}

static json_t *make_json(const struct comparison *c)
{
	json_t *json = run_options_json(c->options);

	json_object_update_new(json,
			       json_pack("{s:i, s:b, s:b}", "runs", (int)c->runs, "output_differs",
					 c->output_differs, "output_varies", c->output_varies));
	for (enum measure m = 0; m < MEASURES; m++)
		json_object_set_new(json, measures[m].name, measure_json(c, m));
	return json;
}

/* ---- all of them ---- */

static void show_progress(unsigned done, unsigned all)
{
	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, done < all ? "\r\033[Krun %u of %u" : "\r\033[K", done + 1, all);
	fflush(stderr);
}

static int run_all(struct comparison *s)
{
	unsigned all = 2 * (s->runs + 1), done = 0;
	int code = 0;

	for (unsigned run = 0; run <= s->runs && !code; run++)
		for (unsigned half = 0; half < 2 && !code; half++) {
			show_progress(done++, all);
			code = run_once(s, (enum side)((run + half) % 2), run);
		}
	show_progress(all, all);
	return code;
}

static int comparison_report(const struct comparison *s)
{
	const struct run_options *o = s->options;
	int code = o->output ? copy(s->first[OURS], o->output) : 0;

	if (o->json)
		code |= output_json("run", o->json, make_json(s));
	else
		comparison_print(s);
	return finish_stdout("run", code);
}

int run_compare(struct run_options *o)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD};
	static struct comparison s;
	int code;

	s = (struct comparison){.options = o, .runs = (unsigned)o->repeat, .first = {-1, -1}};
	sigemptyset(&s.ending);
	for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++)
		sigaddset(&s.ending, ending[i]);
	code = run_all(&s);
	code = code ? code : comparison_report(&s);
	for (unsigned side = 0; side < SIDES; side++)
		if (s.first[side] >= 0)
			close(s.first[side]);
	return code;
}
