/* SPDX-License-Identifier: MIT */
/* Formatted strings of bounded size, and text that is wrapped. */
#include "common/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct word word(const char *fmt, ...)
{
	struct word w;
	va_list args;

	va_start(args, fmt);
	vsnprintf(w.text, sizeof(w.text), fmt, args); /* NOLINT: started above */
	va_end(args);
	return w;
}

void say(struct text *text, const char *fmt, ...)
{
	size_t used = strlen(text->out);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text->out + used, text->size - used, fmt, args); /* NOLINT: started above */
	va_end(args);
}

void print_wrapped(const char *text, size_t width, const char *first, const char *margin)
{
	while (*text) {
		size_t len = strlen(text);

		if (len > width) {
			len = width;
			while (len && text[len] != ' ')
				len--;
			if (!len)
				len = strcspn(text, " ");
		}
		printf("%s%.*s\n", first, (int)len, text);
		text += len;
		text += strspn(text, " ");
		first = margin;
	}
}
