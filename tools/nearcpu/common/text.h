/* SPDX-License-Identifier: MIT */
/* text: lines that are put together and wrapped. */
#ifndef NEARCPU_TEXT_H
#define NEARCPU_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* A short string that functions return by value. */
struct word {
	char text[48];
};
__attribute__((format(printf, 1, 2))) struct word word(const char *fmt, ...);

/* Of a time in ns since 1970, in the local time zone: "2026-01-31 23:59:59"; "?": there is none. */
struct word date(uint64_t ns);

/* A string in a buffer of `size` bytes. What does not fit is cut off. */
struct text {
	char *out;
	size_t size;
};

/* Replaces what is not printable ASCII, and these characters, by '?'. */
void make_printable(char *text, const char *others);

/* The begin of a file, of at most size - 1 bytes, as a string; "" if it cannot be read. */
void read_text(const char *path, char *text, size_t size);

/* Appends. */
__attribute__((format(printf, 2, 3))) void say(struct text *text, const char *fmt, ...);

/* Appends numbers in rising order as the kernel writes sets, "0-3,8": "..." in place of what comes
 * after `most` bytes. */
void say_set(struct text *text, const uint32_t *ids, unsigned count, size_t most);

/* Prints lines of at most `width` columns, broken at spaces: `first` is before the first line,
 * `margin` before the others. A word that is longer than a line stays whole. */
void print_wrapped(const char *text, size_t width, const char *first, const char *margin);

#endif
