/* SPDX-License-Identifier: MIT */
/* nearcpu info: what this machine offers, and what the library makes of it. */
#include "common/machine.h"
#include "common/tool.h"

static void print_help(void)
{
	printf("usage: nearcpu info [OPTION...]\n\n"
	       "Tells whether restartable sequences work in this process, and if not, why; what\n"
	       "the kernel and the C library offer; which slots the library uses.\n\n"
	       "  --json     as JSON\n"
	       "  --help     this text\n"
	       "  --version  the version\n");
}

static int print_json(const struct machine *m)
{
	json_t *json = machine_json(m);

	if (!json)
		return failure("info", "not enough memory");
	json_dumpf(json, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(json);
	return EXIT_DONE;
}

int info_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	struct machine machine;
	bool json = false;
	int c, code = EXIT_DONE;

	while ((c = getopt_long(argc, argv, ":hV", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			json = true;
			break;
		case 'h':
			print_help();
			return finish_stdout("info", EXIT_DONE);
		case 'V':
			print_version();
			return finish_stdout("info", EXIT_DONE);
		default:
			return option_error("info", c, argv);
		}
	}
	if (optind < argc)
		return usage_error("info", "unexpected argument '%s'", argv[optind]);
	machine_read(&machine);
	if (json)
		code = print_json(&machine);
	else
		machine_print(&machine);
	return finish_stdout("info", code);
}
