/* SPDX-License-Identifier: MIT */
/* What ThreadSanitizer is not to report: fast paths load the limits of the heap, and the table of
 * classes, plainly, each word by itself, and an old one is as right (heap.c,
 * lookup.c); and whether a list of batches is empty is checked before its lock is taken. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:^near__heap_set_limits$\n"
	       "race:^near__lookup_grown$\n"
	       "race:^near__central_decay$\n";
}
