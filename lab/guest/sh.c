/* SPDX-License-Identifier: MIT */
/* /bin/sh of the laboratory's machines, as much of it as the tests use:
 *     sh -c [--] "exit NUMBER" | "echo WORD..." */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	const char *command = argv[argc - 1];

	if (argc < 3 || strcmp(argv[1], "-c") != 0)
		return 2;
	if (strncmp(command, "exit ", 5) == 0)
		return atoi(command + 5);
	if (strncmp(command, "echo ", 5) == 0)
		return puts(command + 5) < 0;
	fprintf(stderr, "sh: '%s' is not known here\n", command);
	return 127;
}
