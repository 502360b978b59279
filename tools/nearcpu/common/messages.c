/* SPDX-License-Identifier: MIT */
/* Messages on standard error, errors of standard output, and numbers on the command line. */
#include "common/tool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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
	/* Keeps the order of the two streams. */
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

const char *tool_subcommand;

void out_of_memory(void)
{
	exit(failure(tool_subcommand, "not enough memory"));
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

/* The dispositions that this process was started with. */
static void (*old_pipe)(int), (*old_size)(int), (*old_child)(int);

void tool_begin(void)
{
	old_pipe = signal(SIGPIPE, SIG_IGN);
	old_size = signal(SIGXFSZ, SIG_IGN);
	old_child = signal(SIGCHLD, SIG_DFL);
}

void tool_restore_signals(void)
{
	signal(SIGPIPE, old_pipe);
	signal(SIGXFSZ, old_size);
	signal(SIGCHLD, old_child);
}

void allow_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
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

int finish_help(const char *sub, int code)
{
	return !flush_stdout() && stdout_error == EPIPE ? code : finish_stdout(sub, code);
}
