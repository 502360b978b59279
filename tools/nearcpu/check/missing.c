/* SPDX-License-Identifier: MIT */
/* nearcpu-check in a build without the libraries that it needs. */
#include "common/tool.h"

#ifdef HAVE_LIBELF
#define LIBELF ""
#else
#define LIBELF " libelf"
#endif
#ifdef HAVE_CAPSTONE
#define CAPSTONE ""
#else
#define CAPSTONE " capstone"
#endif

int main(void)
{
	return failure("check",
		       "built without:" LIBELF CAPSTONE
		       "; install what is missing (Debian: libelf-dev libcapstone-dev) and build "
		       "again");
}
