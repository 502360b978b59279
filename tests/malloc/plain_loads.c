/* SPDX-License-Identifier: MIT */
/* Data races that ThreadSanitizer must not report. Fast paths load the limits of the heap and the
 * table of classes plainly, and every value that was ever stored is correct: heap.c and lookup.c
 * have the arguments. near__central_decay checks whether a list of batches is empty before it takes
 * the lock: it misses a batch that came just now, which the next step finds. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:^near__heap_set_limits$\n"
	       "race:^near__lookup_grown$\n"
	       "race:^near__central_decay$\n";
}
