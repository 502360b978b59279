/* SPDX-License-Identifier: MIT */
/* text: lines that are put together and wrapped. */
#ifndef NEARCPU_TEXT_H
#define NEARCPU_TEXT_H

#include <stddef.h>

/* A short string that functions return by value. */
struct word {
	char text[48];
};
__attribute__((format(printf, 1, 2))) struct word word(const char *fmt, ...);

/* A string in a buffer of `size` bytes. What does not fit is cut off. */
struct text {
	char *out;
	size_t size;
};

/* Appends. */
__attribute__((format(printf, 2, 3))) void say(struct text *text, const char *fmt, ...);

/* Prints lines of at most `width` columns, broken at spaces: `first` is before the first line,
 * `margin` before the others. A word that is longer than a line stays whole. */
void print_wrapped(const char *text, size_t width, const char *first, const char *margin);

#endif
