/* SPDX-License-Identifier: MIT */
/* Of the entry points that replace the C library's: malloc_init.c checks whether they are here. */
#include "malloc/api/fast.h"

const char near__replaces_malloc;
