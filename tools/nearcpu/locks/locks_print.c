/* SPDX-License-Identifier: MIT */
/* nearcpu locks: the text, and the page. */
#include "locks/locks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/output.h"
#include "common/page.h"
#include "common/text.h"

#define MOST_PLACES 10 /* of each kind */
#define MOST_FRAMES 8

static json_int_t member(const json_t *from, const char *key)
{
	return json_integer_value(json_object_get(from, key));
}

static struct word duration(json_int_t ns)
{
	return ns < 10000         ? word("%lld ns", (long long)ns)
	       : ns < 10000000    ? word("%.1f us", (double)ns / 1e3)
	       : ns < 10000000000 ? word("%.1f ms", (double)ns / 1e6)
				  : word("%.1f s", (double)ns / 1e9);
}

static int compare_totals(const void *a, const void *b)
{
	json_int_t left = member(*(json_t *const *)a, "total_ns"),
		   right = member(*(json_t *const *)b, "total_ns");

	return left > right ? -1 : left < right;
}

static void print_place(FILE *to, const json_t *p)
{
	const json_t *locks = json_object_get(p, "locks"), *stack = json_object_get(p, "stack"),
		     *frame;
	const char *tid = NULL, *key, *lock;
	json_t *count;
	json_int_t most = 0, all = 0;
	size_t i;

	fprintf(to, "%9lld %10s %10s %10s %10s  ", (long long)member(p, "count"),
		duration(member(p, "total_ns")).text, duration(member(p, "p50_ns")).text,
		duration(member(p, "p99_ns")).text, duration(member(p, "longest_ns")).text);
	lock = json_string_value(json_object_get(json_array_get(locks, 0), "lock"));
	if (json_array_size(locks) > 1)
		fprintf(to, "%zu of them", json_array_size(locks));
	else
		fputs(strcmp(lock, "0x0") == 0 ? "of any address" : lock, to);
	if (member(p, "failed"))
		fprintf(to, ", %lld without success", (long long)member(p, "failed"));
	json_object_foreach(json_object_get(p, "holders"), key, count)
	{
		all += json_integer_value(count);
		if (json_integer_value(count) > most) {
			most = json_integer_value(count);
			tid = key;
		}
	}
	if (tid)
		fprintf(to, ", held by thread %s (%lld %%)", tid, (long long)(100 * most / all));
	fputc('\n', to);
	json_array_foreach(stack, i, frame)
	{
		if (i < MOST_FRAMES)
			fprintf(to, "%12s%.110s\n", "", json_string_value(frame));
	}
}

static void print_kind(FILE *to, const json_t *process, int kind)
{
	static const char *const titles[] = {
		"Mutexes",
		"Rwlocks, to read",
		"Rwlocks, to write",
		"Condition variables",
		"Semaphores",
		"Parking lot: near_rwlock, near_cond, near_sem and others",
		"Where they were released, with others waiting"};
	const json_t **order = NULL, *p;
	size_t i, n = 0;

	json_array_foreach(json_object_get(process, "places"), i, p)
	{
		if (strcmp(json_string_value(json_object_get(p, "kind")), locks_kinds[kind]) == 0)
			APPEND(order, n, p);
	}
	if (n) {
		qsort(order, n, sizeof(*order), compare_totals);
		fprintf(to, "\n%s\n%9s %10s %10s %10s %10s\n", titles[kind],
			kind == NEAR__WAIT_HELD ? "times" : "waits", "total", "p50", "p99",
			"longest");
	}
	for (i = 0; i < n && i < MOST_PLACES; i++)
		print_place(to, order[i]);
	if (n > i)
		fprintf(to, "          and %zu places more\n", n - i);
	free(order);
}

static void print_notices(FILE *to, const json_t *p)
{
	if (member(p, "error"))
		fprintf(to, "nothing is recorded: no room for the file: %s\n",
			strerror((int)member(p, "error")));
	if (member(p, "without_lock"))
		fprintf(to, "%lld waits are recorded by their call stack alone: too many locks\n",
			(long long)member(p, "without_lock"));
	if (member(p, "lost"))
		fprintf(to, "%lld waits are not recorded: too many call stacks\n",
			(long long)member(p, "lost"));
}

void locks_print(FILE *to, const json_t *processes)
{
	const json_t *p;
	size_t i;

	json_array_foreach(processes, i, p)
	{
		fprintf(to, "%s%s %lld: %zu threads waited, or released what others waited for\n",
			i ? "\n" : "", json_string_value(json_object_get(p, "program")),
			(long long)member(p, "pid"),
			json_array_size(json_object_get(p, "threads")));
		print_notices(to, p);
		for (int kind = 0; kind < NEAR__WAIT_KINDS; kind++)
			print_kind(to, p, kind);
	}
}

/* ---- the page ---- */

int locks_html(const char *path, json_t *processes)
{
	struct memory_file page;
	FILE *out = memory_open(&page);
	int code;

	page_put_part(out, "", locks_page_begin);
	fputs("<script id=\"description\" type=\"application/json\">\n", out);
	page_put_json(out,
		      json_pack("{s:s, s:O}", "version", NEARCPU_VERSION, "processes", processes));
	page_put_part(out, "\n</script>\n<script>\n", locks_page_view);
	fputs("</script>\n</body></html>\n", out);
	memory_close(&page);
	code = output_write("locks", path, page.text, page.size);
	free(page.text);
	return code;
}
