/* SPDX-License-Identifier: MIT */
/* messages: errors, and the reading of what was typed. */
#include "common/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The first error of standard output: stdio keeps that there was one, not which. */
static int stdout_error;

bool write_stdout(const char *data, size_t size)
{
	errno = 0;
	if (fwrite(data, 1, size, stdout) != size && !stdout_error)
		stdout_error = errno ? errno : EIO;
	return flush_stdout();
}

bool flush_stdout(void)
{
	errno = 0;
	if ((fflush(stdout) || ferror(stdout)) && !stdout_error)
		stdout_error = errno ? errno : EIO;
	return !stdout_error;
}

static void print_error(const char *sub, const char *fmt, va_list args)
{
	/* What was printed so far comes first. */
	flush_stdout();
	fprintf(stderr, "nearcpu%s%s: ", sub ? " " : "", sub ? sub : "");
	vfprintf(stderr, fmt, args); /* NOLINT: started by the caller */
	fputc('\n', stderr);
}

int failure(const char *sub, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_error(sub, fmt, args);
	va_end(args);
	return EXIT_FAILED;
}

int usage_error(const char *sub, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	print_error(sub, fmt, args);
	va_end(args);
	fprintf(stderr, "Try 'nearcpu%s%s --help'.\n", sub ? " " : "", sub ? sub : "");
	return EXIT_USAGE;
}

int option_error(const char *sub, int c, char **argv)
{
	const char *word = argv[optind - 1];
	size_t len = strcspn(word, "=");

	if (c == ':')
		return usage_error(sub, "option '%s' needs a value", word);
	/* optopt: a short option, or a long one that takes no value. */
	if (optopt && strncmp(word, "--", 2) != 0)
		return usage_error(sub, "unknown option '-%c'", optopt);
	if (optopt && word[len])
		return usage_error(sub, "option '%.*s' takes no value", (int)len, word);
	return usage_error(sub, "unknown option '%s'", word);
}

bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || text[digits])
		return false;
	errno = 0;
	*out = strtoull(text, NULL, 10);
	return !errno && *out >= least && *out <= most;
}

void print_version(void)
{
	printf("nearcpu %s\nLicence: MIT.\n", NEARCPU_VERSION);
}

int finish_stdout(const char *sub, int code)
{
	if (flush_stdout())
		return code;
	if (stdout_error == EPIPE)
		failure(sub, "standard output was closed before all was written");
	else
		failure(sub, "cannot write to standard output: %s", strerror(stdout_error));
	return code ? code : EXIT_FAILED;
}
