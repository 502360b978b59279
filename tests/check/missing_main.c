/* SPDX-License-Identifier: MIT */
/* What nearcpu check says in a build without its libraries. */
#include "common/tool.h"

int main(int argc, char **argv)
{
	return check_main(argc, argv);
}
