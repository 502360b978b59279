/* SPDX-License-Identifier: MIT */
/* Names in tables, and which of them a mistyped one was to be. */
#include <string.h>
#include <sys/param.h>

#include "common/options.h"
#include "common/tool.h"

#define LONGEST 32

const void *name_find(const void *names, size_t size, const char *name)
{
	const char *row = names;

	for (; row && *(const char *const *)row; row += size)
		if (strcmp(*(const char *const *)row, name) == 0)
			return row;
	return NULL;
}

/* The Damerau-Levenshtein distance: letters to insert, remove, replace or swap with the next (no
 * place is changed twice). */
static size_t word_distance(const char *a, size_t n, const char *b, size_t m)
{
	size_t d[LONGEST + 1][LONGEST + 1];

	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			d[i][j] = i + j;
			if (!i || !j)
				continue;
			d[i][j] = MIN(d[i - 1][j], d[i][j - 1]) + 1;
			d[i][j] = MIN(d[i][j], d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[n][m];
}

/* SIZE_MAX: it is another word. One letter of three may be wrong; a name that begins so, in
 * capitals or not, is near from two letters on. */
static size_t word_far(const char *typed, const char *name)
{
	size_t n = strcspn(typed, "="), m = strlen(name), far;

	if (n > LONGEST || m > LONGEST)
		return SIZE_MAX;
	if (n >= 2 && strncasecmp(typed, name, n) == 0)
		return 1;
	far = word_distance(typed, n, name, m);
	return far * 3 <= (n > m ? n : m) ? far : SIZE_MAX;
}

int unknown_name(const char *sub, const char *what, const char *typed, const char *hint,
		 const void *names, size_t size)
{
	const char *word = typed + strspn(typed, "-"), *near = NULL;
	size_t best = SIZE_MAX;

	for (const char *row = names, *name; row && (name = *(const char *const *)row); row += size)
		if (word_far(word, name) < best) {
			best = word_far(word, name);
			near = name;
		}
	if (!near)
		return usage_error(sub, "there is no %s '%s'%s", what, typed, hint);
	return usage_error(sub, "there is no %s '%s'; did you mean '%s%s'?", what, typed,
			   *typed == '-' ? "--" : "", near);
}
