/* SPDX-License-Identifier: MIT */
/* nearcpu info: what this machine offers, and what the library makes of it. */
#include "common/machine.h"
#include "common/options.h"
#include "common/tool.h"
#include "info/print.h"

#include <getopt.h>

static bool as_json;

static const struct option_row rows[] = {
	{"json", .help = "as JSON", .flag = &as_json},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "info",
	.rows = rows,
	.width = 13,
	.head = "usage: nearcpu info [OPTION...]\n\n"
		"Shows whether restartable sequences work in this process, and if not, why; what\n"
		"the kernel and the C library offer; which slots the library uses.\n\n",
	.tail = "",
};

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
	struct machine machine;
	int code = parse_options(&table, argc, argv);

	if (code != OPTIONS_DONE)
		return code;
	if (optind < argc)
		return usage_error("info", "unexpected argument '%s'", argv[optind]);
	machine_read(&machine);
	code = EXIT_DONE;
	if (as_json)
		code = print_json(&machine);
	else
		machine_print(&machine);
	return finish_stdout("info", code);
}
