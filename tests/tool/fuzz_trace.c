/* SPDX-License-Identifier: MIT */
/* Traces that are anything: one input, as libFuzzer and fuzz_main.c give it, is the size of a file,
 * and of each page that is not empty its number and its bytes. */
#include "common/tool.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define MOST_PAGES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int expand(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	uint32_t pages, number;

	if (fd < 0 || size < sizeof(pages))
		return fd;
	memcpy(&pages, data, sizeof(pages));
	if (ftruncate(fd, (off_t)(pages % MOST_PAGES) * PAGE))
		abort();
	for (size_t at = sizeof(pages); at + sizeof(number) < size; at += PAGE + sizeof(number)) {
		size_t left = size - at - sizeof(number);

		memcpy(&number, data + at, sizeof(number));
		if (pwrite(fd, data + at + sizeof(number), left < PAGE ? left : PAGE,
			   (off_t)(number % MOST_PAGES) * PAGE) < 0)
			abort();
	}
	return fd;
}

/* What it prints goes nowhere; what a sanitizer prints later does not. */
static void run(const char *const *words, const char *path)
{
	static int nowhere = -1, out, err;
	char *argv[8] = {(char *)"trace"};
	int n = 1;

	if (nowhere < 0) {
		nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
		out = dup(STDOUT_FILENO);
		err = dup(STDERR_FILENO);
	}
	while (words[n - 1]) {
		argv[n] = (char *)words[n - 1];
		n++;
	}
	argv[n++] = (char *)path;
	fflush(stdout);
	dup2(nowhere, STDOUT_FILENO);
	dup2(nowhere, STDERR_FILENO);
	optind = 0;
	trace_main(n, argv);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
}

static void remove_folder(const char *folder)
{
	char path[128];

	for (unsigned cpu = 0; cpu < 16384; cpu++) {
		snprintf(path, sizeof(path), "%s/stream_%u", folder, cpu);
		if (unlink(path) && cpu > 64)
			break;
	}
	snprintf(path, sizeof(path), "%s/metadata", folder);
	unlink(path);
	rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const forms[][5] = {
		{"show"},
		{"list"},
		{"recover"},
		{"stat", "--between", "app:begin,app:end", "--by", "job"},
		{"recover", "--csv", "/dev/null"},
		{"recover", "--chrome", "/dev/null"},
		{"recover", "--perfetto", "/dev/null"},
		{"recover", "--html", "/dev/null"},
	};
	static char folder[] = "/tmp/fuzz_trace.XXXXXX";
	static bool has_folder;
	const char *const ctf[] = {"recover", "--ctf", folder, NULL};
	int fd = expand(data, size);
	char path[64];

	if (fd < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		const char *words[6] = {NULL};

		memcpy(words, forms[i], sizeof(forms[i]));
		run(words, path);
	}
	if (!has_folder && mkdtemp(folder) && rmdir(folder) == 0)
		has_folder = true;
	run(ctf, path);
	remove_folder(folder);
	close(fd);
	return 0;
}
