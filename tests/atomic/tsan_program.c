/* SPDX-License-Identifier: MIT */
/* A program with ThreadSanitizer in it, for a libatomic that was built without: what is published
 * by an atomic object of any size is no race. With an argument it has a race, and must say so. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
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
struct ints3 {
	uint32_t word[3];
};
struct bytes3 {
	uint8_t word[3];
};
struct bytes4 {
	uint8_t word[4];
};

static struct words2 two;
static struct words3 three;
static struct words40 forty;
/* Inside of a word. */
static _Alignas(16) struct ints3 twelve_bytes;
static struct bytes3 three_bytes;
static struct __attribute__((aligned(8))) {
	char before[3];
	struct bytes4 four;
} misaligned;

#define OBJECTS 6

/* What thread 0 hands to thread 1 by each of them, and what comes back. */
static long by_store[OBJECTS], by_exchange[OBJECTS], by_swap[OBJECTS];

/* By the compiler, which may have instructions for it; by the library, whatever it has. */
#define built_load(p, out) __atomic_load(p, out, __ATOMIC_ACQUIRE)
#define built_store(p, in) __atomic_store(p, in, __ATOMIC_RELEASE)
#define built_exchange(p, in, out) __atomic_exchange(p, in, out, __ATOMIC_ACQ_REL)
#define built_swap(p, expected, in)                                                                \
	__atomic_compare_exchange(p, expected, in, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

void load(size_t n, const void *p, void *out, int order) __asm__("__atomic_load");
void store(size_t n, void *p, const void *in, int order) __asm__("__atomic_store");
void exchange(size_t n, void *p, const void *in, void *out, int order) __asm__("__atomic_exchange");
bool swap(size_t n, void *p, void *expected, const void *in, int success,
	  int failure) __asm__("__atomic_compare_exchange");
#define called_load(p, out) load(sizeof(*(p)), p, out, __ATOMIC_ACQUIRE)
#define called_store(p, in) store(sizeof(*(p)), p, in, __ATOMIC_RELEASE)
#define called_exchange(p, in, out) exchange(sizeof(*(p)), p, in, out, __ATOMIC_ACQ_REL)
#define called_swap(p, expected, in)                                                               \
	swap(sizeof(*(p)), p, expected, in, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* The turn is the first word; even: thread 0's. */
#define PASS(i, by, p, type)                                                                       \
	static void pass_##i(unsigned me)                                                          \
	{                                                                                          \
		for (uint64_t turn = me; turn < TIMES; turn += 2) {                                \
			type seen, next = {{turn + 1, turn + 1}}, wanted = {{turn}};               \
                                                                                                   \
			for (by##_load(p, &seen); seen.word[0] != wanted.word[0];                  \
			     by##_load(p, &seen))                                                  \
				sched_yield();                                                     \
			by_store[i]++;                                                             \
			by_exchange[i]++;                                                          \
			by_swap[i]++;                                                              \
			if (turn % 3 == 0)                                                         \
				by##_store(p, &next);                                              \
			else if (turn % 3 == 1)                                                    \
				by##_exchange(p, &next, &seen);                                    \
			else                                                                       \
				by##_swap(p, &seen, &next);                                        \
		}                                                                                  \
	}
PASS(0, built, &two, struct words2)
PASS(1, called, &three, struct words3)
PASS(2, called, &forty, struct words40)
PASS(3, called, &twelve_bytes, struct ints3)
PASS(4, called, &three_bytes, struct bytes3)
PASS(5, called, &misaligned.four, struct bytes4)

static long raced;
static bool races;

static void *run(void *number)
{
	unsigned me = *(unsigned *)number;

	if (races) {
		raced++;
		return NULL;
	}
	pass_0(me);
	pass_1(me);
	pass_2(me);
	pass_3(me);
	pass_4(me);
	pass_5(me);
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
	for (int i = 0; i < OBJECTS && !races; i++)
		if (by_store[i] != TIMES || by_exchange[i] != TIMES || by_swap[i] != TIMES)
			return 1;
	return 0;
}
