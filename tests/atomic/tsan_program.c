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

/* n words that are aligned to `align`. */
#define WORDS(name, n, type, align)                                                                \
	struct __attribute__((aligned(align))) name {                                              \
		type word[n];                                                                      \
	};
WORDS(words2, 2, uint64_t, 16)
WORDS(words3, 3, uint64_t, 8)
WORDS(words40, 40, uint64_t, 8)
WORDS(ints3, 3, uint32_t, 4)
WORDS(bytes3, 3, uint8_t, 1)
WORDS(bytes4, 4, uint8_t, 1)

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

/* What thread 0 hands to thread 1 by each of them, and what comes back: by stores, exchanges and
 * swaps in turn. */
static long passed[OBJECTS];

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
			passed[i]++;                                                               \
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

static void (*const passes[OBJECTS])(unsigned) = {pass_0, pass_1, pass_2, pass_3, pass_4, pass_5};

static long raced;
static bool races;

static void *run(void *number)
{
	unsigned me = *(unsigned *)number;

	if (races) {
		raced++;
		return NULL;
	}
	for (int i = 0; i < OBJECTS; i++)
		passes[i](me);
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
		if (passed[i] != TIMES)
			return 1;
	return 0;
}
