/* SPDX-License-Identifier: MIT */
/* nearcpu heap: the malloc's heap profiles, which src/malloc/diagnostics/profile_file.c writes, for
 * pprof: each line becomes a message of its profile.proto. The numbers are estimates: samples
 * scaled to what they stand for, as pprof does with the malloc's own files. */
#include "heap/heap.h"

#include "common/memory.h"
#include "common/options.h"
#include "common/proto.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST_LINE 20000 /* a path has 4096 bytes, each of which may be four in a mapping */
#define SUMS "%" SCNu64 ": %" SCNu64 " [%" SCNu64 ": %" SCNu64 "] @"

/* Numbers of fields. */
enum { SAMPLE_TYPE = 1, SAMPLE, MAPPING, LOCATION, STRING = 6, DROP_FRAMES };
enum { TIME_NANOS = 9, PERIOD_TYPE = 11, PERIOD, DEFAULT_TYPE = 14 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };

/* The strings; path and build id of each mapping come after them. The last one is of functions that
 * allocate for C++'s containers: pprof leaves them out, as their callers are of interest. */
static const char *const texts[] = {
	"",
	"alloc_objects",
	"count",
	"alloc_space",
	"bytes",
	"inuse_objects",
	"inuse_space",
	"space",
	"operator new(\\[\\])?|(std|__gnu_cxx)::.*::(_M_)?allocate(_at_least)?"};
enum { ALLOC_OBJECTS = 1, COUNT, ALLOC_SPACE, BYTES, INUSE_OBJECTS, INUSE_SPACE, SPACE, DROP };
enum { TEXTS = DROP + 1 };

struct mapping {
	uint64_t start, end, offset, inode;
};

struct profile {
	FILE *to;
	struct timespec written;
	uint64_t rate;
	uint64_t *addresses; /* within the calls of all stacks */
	struct mapping *mappings;
	size_t count, map_count;
};

/* A message whose fields are numbers, from field 1 on; 0 is that of a field that is not there. */
#define PUT(f, field, ...)                                                                         \
	put_numbers(f, field, (uint64_t[]){__VA_ARGS__},                                           \
		    sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
static void put_numbers(FILE *f, unsigned field, const uint64_t *numbers, size_t count)
{
	struct memory_file m;

	memory_open(&m);
	for (unsigned i = 0; i < count; i++)
		if (numbers[i])
			proto_put_number(m.file, i + 1, numbers[i]);
	proto_put_message(f, field, &m);
}

/* ---- samples ---- */

static bool read_header(struct profile *p, const char *line)
{
	uint64_t n[4];
	int end = 0;

	sscanf(line, "heap profile: " SUMS " heapz_v2/%" SCNu64 "%n", &n[0], &n[1], &n[2], &n[3],
	       &p->rate, &end);
	return end && !line[end] && p->rate - 1 < INT64_MAX;
}

/* A block of n bytes is sampled with the probability 1 - exp(-n / rate). */
static void put_estimate(FILE *f, uint64_t blocks, uint64_t bytes, uint64_t rate)
{
	double values[] = {(double)blocks, (double)bytes}, scale = 1;

	if (bytes && rate > 1)
		scale = 1 / (1 - exp(-values[1] / values[0] / (double)rate));
	for (unsigned i = 0; i < 2; i++) {
		double value = values[i] * scale;

		proto_put_number(f, SAMPLE_VALUE, value < 0x1p63 ? (uint64_t)value : INT64_MAX);
	}
}

/* Within the calls, which end where they return to. An address is the id of its place. */
static bool put_stack(struct profile *p, FILE *f, const char *line)
{
	size_t before = p->count;

	while (strncmp(line, " 0x", 3) == 0) {
		uint64_t address = strtoull(line, (char **)&line, 16) - 1;

		if (address >= UINT64_MAX - 1 || !address)
			return false;
		proto_put_number(f, SAMPLE_LOCATION, address);
		APPEND(p->addresses, p->count, address);
	}
	return p->count > before && !*line;
}

/* Blocks and bytes in use, and in all. Where a number has too many digits, or a sign, what scanf
 * stores is larger than INT64_MAX. No blocks have no bytes. */
static bool read_sample(struct profile *p, const char *line)
{
	struct memory_file m;
	uint64_t n[4];
	bool is_right;
	int end = 0;

	sscanf(line, SUMS "%n", &n[0], &n[1], &n[2], &n[3], &end);
	if (!end || (n[0] | n[1] | n[2] | n[3]) > INT64_MAX || n[0] > n[2] || (!n[0] && n[1]) ||
	    (!n[2] && n[3]))
		return false;
	is_right = put_stack(p, memory_open(&m), line + end);
	put_estimate(m.file, n[2], n[3], p->rate);
	put_estimate(m.file, n[0], n[1], p->rate);
	PUT(m.file, SAMPLE_LABEL, BYTES, 0, n[2] ? n[3] / n[2] : 0); /* mean size */
	proto_put_message(p->to, SAMPLE, &m);
	return is_right;
}

/* ---- mappings ---- */

/* The linker places the note of the build id at the begin of the file. A wrong id is worse than
 * none, as pprof would refuse the right file by it: the file must be the one that was mapped. */
static void put_build_id(struct profile *p, const struct mapping *m, const char *path)
{
	static const char kind[] = {3, 0, 0, 0, 'G', 'N', 'U', 0};
	char head[4096 + 80] = "", id[2 * 64 + 1] = "", *at;
	struct stat st;
	FILE *f = NULL;

	if (*path == '/' && !stat(path, &st) && S_ISREG(st.st_mode) && st.st_ino == m->inode &&
	    st.st_ctim.tv_sec <= p->written.tv_sec)
		f = fopen(path, "re");
	if (f && fread(head, 1, 4096, f)) {
		at = memmem(head + 64, 4096 - 64, kind, sizeof(kind));
		for (int i = 0; at && i < at[-4] && i < 64; i++)
			sprintf(id + 2 * i, "%02x", (unsigned char)at[8 + i]);
	}
	if (f)
		fclose(f);
	proto_put_text(p->to, STRING, id);
}

/* Those with code. */
static bool read_mapping(struct profile *p, const char *line)
{
	struct mapping m;
	uint64_t text = TEXTS + 2 * p->map_count;
	char rights[5];
	int end = 0;

	sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64 " %n", &m.start,
	       &m.end, rights, &m.offset, &m.inode, &end);
	if (!end || m.start >= m.end)
		return false;
	if (!strchr(rights, 'x'))
		return true;
	APPEND(p->mappings, p->map_count, m);
	PUT(p->to, MAPPING, p->map_count, m.start, m.end, m.offset, text, text + 1);
	proto_put_text(p->to, STRING, line + end);
	put_build_id(p, &m, line + end);
	return true;
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* Each address once. */
static void put_places(const struct profile *p)
{
	if (p->count)
		qsort(p->addresses, p->count, sizeof(*p->addresses), compare_addresses);
	for (size_t i = 0; i < p->count; i++) {
		uint64_t at = p->addresses[i];
		size_t n = p->map_count; /* 0 in the end: none */

		while (n && (at < p->mappings[n - 1].start || at >= p->mappings[n - 1].end))
			n--;
		if (!i || at != p->addresses[i - 1])
			PUT(p->to, LOCATION, at, n, at);
	}
}

/* ---- the file ---- */

/* Without the end of the line, which a file that is cut off lacks. At the end of the file it is
 * empty. */
static bool next_line(FILE *f, char *line, unsigned *number)
{
	size_t n;

	++*number;
	*line = '\0';
	n = fgets(line, LONGEST_LINE, f) ? strlen(line) : 0;
	if (!n || line[n - 1] != '\n')
		return false;
	line[n - 1] = '\0';
	return true;
}

static bool read_lines(struct profile *p, FILE *f, unsigned *number)
{
	char line[LONGEST_LINE];

	if (!next_line(f, line, number) || !read_header(p, line))
		return false;
	while (next_line(f, line, number) && *line)
		if (!read_sample(p, line))
			return false;
	if (*line || !next_line(f, line, number) || strcmp(line, "MAPPED_LIBRARIES:") != 0)
		return false;
	while (next_line(f, line, number))
		if (!read_mapping(p, line))
			return false;
	return feof(f) && !*line;
}

/* 0, or the number of the line that is wrong; the file may have an error of its own. */
static unsigned profile_convert(struct profile *p, FILE *from)
{
	uint64_t ns = (uint64_t)p->written.tv_sec * 1000000000 + (uint64_t)p->written.tv_nsec;
	unsigned number = 0;

	for (size_t i = 0; i < TEXTS; i++)
		proto_put_text(p->to, STRING, texts[i]);
	PUT(p->to, SAMPLE_TYPE, ALLOC_OBJECTS, COUNT);
	PUT(p->to, SAMPLE_TYPE, ALLOC_SPACE, BYTES);
	PUT(p->to, SAMPLE_TYPE, INUSE_OBJECTS, COUNT);
	PUT(p->to, SAMPLE_TYPE, INUSE_SPACE, BYTES);
	if (read_lines(p, from, &number))
		number = 0;
	put_places(p);
	proto_put_number(p->to, DROP_FRAMES, DROP);
	proto_put_number(p->to, TIME_NANOS, ns);
	PUT(p->to, PERIOD_TYPE, SPACE, BYTES);
	proto_put_number(p->to, PERIOD, p->rate);
	proto_put_number(p->to, DEFAULT_TYPE, INUSE_SPACE);
	free(p->addresses);
	free(p->mappings);
	return number;
}

/* ---- the command ---- */

static const struct option_row no_rows[] = {{.name = NULL}};

static const struct option_table table = {
	.sub = "heap",
	.rows = no_rows,
	.width = 13,
	.files = true,
	.head = "usage: nearcpu heap PROFILE|PID\n\n"
		"Converts a heap profile that the malloc wrote (NEAR_CONF=heap_profile:PREFIX,\n"
		"nearcpu run --heap-profile PREFIX) to pprof's protocol buffers; PID, a process\n"
		"that was also started with heap_signal:N, writes one now:\n\n"
		"  nearcpu heap app.4711.1.heap >last.pb\n"
		"  go tool pprof -top last.pb\n"
		"  go tool pprof -top -base first.pb last.pb     what came into use since\n\n",
	.tail = "\nExit status: 0 done, 1 no profile or damaged, 2 wrong usage.\n",
};

static int file_convert(FILE *to, const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	struct profile p = {.to = to};
	struct stat st = {0};
	unsigned line;
	int error;

	if (!f)
		return failure("heap", "cannot open '%s': %s", name, strerror(errno));
	fstat(fileno(f), &st);
	p.written = st.st_mtim;
	line = profile_convert(&p, f);
	error = ferror(f) ? errno : 0;
	fclose(f);
	if (error)
		return failure("heap", "cannot read '%s': %s", name, strerror(error));
	if (line == 1)
		return failure("heap", "'%s' is no heap profile of nearcpu-malloc", name);
	return line ? failure("heap", "'%s' is damaged, in line %u", name, line) : EXIT_DONE;
}

int heap_main(int argc, char **argv)
{
	int code = parse_options(&table, argc, argv);
	char written[HEAP_PATH];
	const char *path;
	struct memory_file m;
	uint64_t pid;

	if (code != OPTIONS_DONE)
		return code;
	if (optind + 1 != argc)
		return usage_error("heap", optind < argc ? "one file at a time" : "no file given");
	if (isatty(STDOUT_FILENO))
		return usage_error("heap", "a profile is no text: redirect standard output");
	path = argv[optind];
	if (parse_number(path, 1, INT_MAX, &pid)) {
		code = heap_live((int)pid, written);
		if (code != EXIT_DONE)
			return code;
		path = written;
	}
	code = file_convert(memory_open(&m), path, path == written ? strrchr(path, '/') + 1 : path);
	memory_close(&m);
	if (code == EXIT_DONE) {
		write_stdout(m.text, m.size);
		code = finish_stdout("heap", code);
	}
	free(m.text);
	return code;
}
