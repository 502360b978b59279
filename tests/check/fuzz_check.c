/* SPDX-License-Identifier: MIT */
/* nearcpu check on files that are anything: one input, as libFuzzer and fuzz_main.c give it. */
#include "check/check.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool check_one(void *context, const char *member, const uint8_t *file, size_t size)
{
	json_t *sequences = json_array();
	struct check_counts counts = {0};
	char why[CHECK_WHY];

	(void)context;
	(void)member;
	check_elf(file, size, json_sequence, sequences, &counts, why);
	json_decref(sequences);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[CHECK_WHY];

	check_split(data, size, check_one, NULL, why);
	return 0;
}
