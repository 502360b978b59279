/* SPDX-License-Identifier: MIT */
/* near_trace: USDT probes: their notes, and that the place of one is run by each call. */
#define NEAR_TRACE_USDT
#include <link.h>

#include "traces.h"

enum color { RED, BLUE };

NEAR_TRACEPOINT(usdt, none, NEAR_TRACE_INFO);
NEAR_TRACEPOINT(usdt, one, NEAR_TRACE_INFO, (u64, size));
NEAR_TRACEPOINT(usdt, some, NEAR_TRACE_INFO, (i16, a), (f64, b), (enum, c, color, RED, BLUE),
		(string, d), (bytes, e), (bool, f));
NEAR_TRACEPOINT(usdt, many, NEAR_TRACE_INFO, (u8, a), (u8, b), (u8, c), (u8, d), (u8, e), (u8, f),
		(u8, g), (u8, h), (u8, i), (u8, j), (bytes, k), (u32, l), (u32, m));

/* One place each. */
__attribute__((noinline)) static void call_all(uint64_t n)
{
	near_trace_usdt_none();
	near_trace_usdt_one(n);
	near_trace_usdt_some((int16_t)n, (double)n, RED, "d", "e", 1, true);
	near_trace_usdt_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "k", 1, 12, 13);
}

/* ---- notes ---- */

struct note {
	unsigned long location;
	char arguments[300];
};

static bool has(const char *line, const char *what, const char **rest)
{
	const char *at = strstr(line, what);

	*rest = at ? at + strlen(what) : NULL;
	return at;
}

/* The note of usdt:<name>. */
static struct note note_of(const char *name)
{
	char path[400] = "", command[440], line[400];
	bool is_mine = false, is_it = false;
	struct note note = {0};
	const char *rest;
	FILE *out;

	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	snprintf(command, sizeof(command), "LC_ALL=C readelf -nW '%s'", path);
	out = popen(command, "r");
	assert_non_null(out);
	while (fgets(line, sizeof(line), out)) {
		line[strcspn(line, "\n")] = 0;
		if (has(line, "Provider: ", &rest))
			is_mine = strcmp(rest, "usdt") == 0;
		else if (has(line, "Name: ", &rest))
			is_it = is_mine && strcmp(rest, name) == 0;
		else if (is_it && has(line, "Location: ", &rest))
			note.location = strtoul(rest, NULL, 16);
		else if (is_it && has(line, "Arguments:", &rest))
			snprintf(note.arguments, sizeof(note.arguments), "%s", rest);
	}
	pclose(out);
	return note;
}

/* The sizes before each `@`: negative for signed numbers, with `f` for real ones. */
static void check_sizes(const char *name, const char *sizes)
{
	struct note note = note_of(name);
	char found[100] = "";

	assert_true(note.location);
	for (char *word = strtok(note.arguments, " "); word; word = strtok(NULL, " "))
		if (strchr(word, '@'))
			snprintf(found + strlen(found), sizeof(found) - strlen(found), "%.*s ",
				 (int)(strchr(word, '@') - word), word);
	assert_string_equal(found, sizes);
}

static void notes_have_the_fields(void **state)
{
	call_all(1);
	check_sizes("none", "");
	check_sizes("one", "8 ");
	check_sizes("some", "-2 8f 4 8 8 8 1 ");
	check_sizes("many", "1 1 1 1 1 1 1 1 1 1 8 8 ");
	assert_int_equal(note_of("other").location, 0);
}

/* ---- a breakpoint ---- */

#ifdef __x86_64__
static volatile sig_atomic_t hits;

static void hit(int signal)
{
	hits++;
}

static int first_object(struct dl_phdr_info *info, size_t size, void *base)
{
	*(uintptr_t *)base = info->dlpi_addr;
	return 1;
}

/* As the kernel does when a tracer attaches: the nop becomes a breakpoint. */
static void each_call_runs_the_probe(void **state)
{
	unsigned char *at;
	uintptr_t base = 0;

	if (UNIT_THREAD_SANITIZER)
		skip(); /* it calls the handler later */
	dl_iterate_phdr(first_object, &base);
	at = (unsigned char *)(base + note_of("one").location);
	assert_int_equal(*at, 0x90);
	if (mprotect((void *)((uintptr_t)at & ~(uintptr_t)4095), 4096,
		     PROT_READ | PROT_WRITE | PROT_EXEC))
		skip();
	unit_on_signal(SIGTRAP, hit);
	*at = 0xcc;
	call_all(1);
	assert_int_equal(hits, 1);
	traces_start((struct near_trace_options){0});
	call_all(2);
	assert_int_equal(hits, 2);
	*at = 0x90;
	call_all(3);
	assert_int_equal(hits, 2);
}
#else
static void each_call_runs_the_probe(void **state)
{
	skip();
}
#endif

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		notes_have_the_fields, each_call_runs_the_probe);
}
