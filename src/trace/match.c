/* SPDX-License-Identifier: MIT */
/* near_trace: patterns of names. */
#include "trace/trace.h"

/* The set at `p`, after its bracket. Returns what follows it; NULL: no bracket closes it. */
static const char *in_set(const char *p, char c, bool *is_in)
{
	bool others = *p == '!' || *p == '^';
	const char *first = p += others;

	for (*is_in = false; *p && (*p != ']' || p == first); p++) {
		char low = *p == '\\' && p[1] ? *++p : *p, high = low;

		if (p[1] == '-' && p[2] && p[2] != ']') {
			p += 2;
			high = *p == '\\' && p[1] ? *++p : *p;
		}
		*is_in |= low <= c && c <= high;
	}
	*is_in ^= others;
	return *p ? p + 1 : NULL;
}

/* Whether the element at *p, which is no star, is c; then *p is the next one. */
static bool is_one(const char **p, char c)
{
	const char *at = *p, *end = NULL;
	bool is_in;

	if (*at == '[')
		end = in_set(at + 1, c, &is_in);
	*p = end;
	if (end)
		return is_in;
	if (*at == '?') {
		*p = at + 1;
		return true;
	}
	at += *at == '\\' && at[1];
	*p = at + 1;
	return *at == c;
}

/* A star that has matched too little is tried with one character more: only the last one needs
 * that. */
bool near__trace_match(const char *pattern, const char *text)
{
	const char *star = NULL, *from = text;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			from = text;
		} else if (*pattern && is_one(&pattern, *text)) {
			text++;
		} else if (star) {
			pattern = star;
			text = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
