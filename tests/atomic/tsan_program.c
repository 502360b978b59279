/* SPDX-License-Identifier: MIT */
/* A program with ThreadSanitizer in it, for a libatomic that was built without: what is published
 * by an atomic object of any size is no race. With an argument it has a race, and must say so. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define TIMES 2000

struct words3 {
	uint64_t word[3];
};
struct words40 {
	uint64_t word[40];
};
struct __attribute__((aligned(16))) words2 {
	uint64_t word[2];
};

static struct words2 two;
static struct words3 three;
static struct words40 forty;

/* What thread 0 hands to thread 1 by each of them, and what comes back. */
static long by_store[3], by_exchange[3], by_swap[3];

/* The turn is the first word; even: thread 0's. */
#define PASS(object, type, i)                                                                      \
	static void pass_##object(unsigned me)                                                     \
	{                                                                                          \
		for (uint64_t turn = me; turn < TIMES; turn += 2) {                                \
			type seen, next = {{turn + 1, turn + 1}};                                  \
                                                                                                   \
			for (__atomic_load(&object, &seen, __ATOMIC_ACQUIRE);                      \
			     seen.word[0] != turn;                                                 \
			     __atomic_load(&object, &seen, __ATOMIC_ACQUIRE))                      \
				sched_yield();                                                     \
			by_store[i]++;                                                             \
			by_exchange[i]++;                                                          \
			by_swap[i]++;                                                              \
			if (turn % 3 == 0)                                                         \
				__atomic_store(&object, &next, __ATOMIC_RELEASE);                  \
			else if (turn % 3 == 1)                                                    \
				__atomic_exchange(&object, &next, &seen, __ATOMIC_ACQ_REL);        \
			else                                                                       \
				__atomic_compare_exchange(&object, &seen, &next, false,            \
							  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);     \
		}                                                                                  \
	}
PASS(two, struct words2, 0)
PASS(three, struct words3, 1)
PASS(forty, struct words40, 2)

static long raced;
static bool races;

static void *run(void *number)
{
	unsigned me = *(unsigned *)number;

	if (races) {
		raced++;
		return NULL;
	}
	pass_two(me);
	pass_three(me);
	pass_forty(me);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned numbers[2] = {0, 1};
	pthread_t threads[2];

	(void)argv;
	races = argc > 1;
	for (int t = 0; t < 2; t++)
		pthread_create(&threads[t], NULL, run, &numbers[t]);
	for (int t = 0; t < 2; t++)
		pthread_join(threads[t], NULL);
	for (int i = 0; i < 3 && !races; i++)
		if (by_store[i] != TIMES || by_exchange[i] != TIMES || by_swap[i] != TIMES)
			return 1;
	return 0;
}
