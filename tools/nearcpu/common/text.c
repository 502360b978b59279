/* SPDX-License-Identifier: MIT */
/* Formatted strings of bounded size, and text that is wrapped. */
#include "common/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct word word(const char *fmt, ...)
{
	struct word w;
	va_list args;

	va_start(args, fmt);
	vsnprintf(w.text, sizeof(w.text), fmt, args); /* NOLINT: started above */
	va_end(args);
	return w;
}

struct word date(uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct word when = {"?"};
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(when.text, sizeof(when.text), "%Y-%m-%d %H:%M:%S", &tm);
	return when;
}

void say(struct text *text, const char *fmt, ...)
{
	size_t used = strlen(text->out);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text->out + used, text->size - used, fmt, args); /* NOLINT: started above */
	va_end(args);
}

void say_set(struct text *text, const uint32_t *ids, unsigned count, size_t most)
{
	for (unsigned i = 0, next; i < count; i = next) {
		for (next = i + 1; next < count; next++)
			if (ids[next] != ids[i] + (next - i))
				break;
		if (strlen(text->out) > most) {
			say(text, ",...");
			break;
		}
		say(text, "%s%" PRIu32, i ? "," : "", ids[i]);
		if (next > i + 1)
			say(text, "-%" PRIu32, ids[next - 1]);
	}
}

void make_printable(char *text, const char *others)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~' || strchr(others, *text))
			*text = '?';
}

void read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
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
