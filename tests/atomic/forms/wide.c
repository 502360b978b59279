/* SPDX-License-Identifier: MIT */
/* What a compiler makes of atomic objects of many sizes, by C11's words and by its own: two threads
 * count in each, and the main thread moves values through them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef ROUNDS
#define ROUNDS 20000
#endif

#define CHECK(holds)                                                                               \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			printf("%s:%d: %s is false\n", __FILE__, __LINE__, #holds);                \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

#define C11_TYPE(type) _Atomic type
#define C11_LOAD(p, to) (*(to) = atomic_load(p))
#define C11_STORE(p, from) atomic_store_explicit(p, *(from), memory_order_release)
#define C11_EXCHANGE(p, from, to) (*(to) = atomic_exchange(p, *(from)))
#define C11_WEAK(p, expected, from) atomic_compare_exchange_weak(p, expected, *(from))
#define C11_STRONG(p, expected, from)                                                              \
	atomic_compare_exchange_strong_explicit(p, expected, *(from), memory_order_acq_rel,        \
						memory_order_relaxed)
#define GNU_TYPE(type) type
#define GNU_LOAD(p, to) __atomic_load(p, to, __ATOMIC_ACQUIRE)
#define GNU_STORE(p, from) __atomic_store(p, from, __ATOMIC_SEQ_CST)
#define GNU_EXCHANGE(p, from, to) __atomic_exchange(p, from, to, __ATOMIC_RELAXED)
#define GNU_WEAK(p, expected, from)                                                                \
	__atomic_compare_exchange(p, expected, from, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define GNU_STRONG(p, expected, from)                                                              \
	__atomic_compare_exchange(p, expected, from, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

/* All bytes of a value are the same, modulo 251. */
#define OBJECT(name, n, BY)                                                                        \
	typedef struct {                                                                           \
		unsigned char bytes[n];                                                            \
	} name;                                                                                    \
	static BY##_TYPE(name) name##_shared;                                                      \
	static void *name##_count(void *wrong)                                                     \
	{                                                                                          \
		name old, new;                                                                     \
                                                                                                   \
		for (int i = 0; i < ROUNDS; i++) {                                                 \
			BY##_LOAD(&name##_shared, &old);                                           \
			do {                                                                       \
				memset(&new, (old.bytes[0] + 1) % 251, n);                         \
				if (old.bytes[n - 1] != old.bytes[0])                              \
					*(bool *)wrong = true;                                     \
			} while (!(i % 2 ? BY##_WEAK(&name##_shared, &old, &new)                   \
					 : BY##_STRONG(&name##_shared, &old, &new)));              \
		}                                                                                  \
		return NULL;                                                                       \
	}                                                                                          \
	static int name##_test(void)                                                               \
	{                                                                                          \
		bool wrong[2] = {false, false};                                                    \
		name a, b;                                                                         \
		pthread_t threads[2];                                                              \
                                                                                                   \
		for (int i = 0; i < 2; i++)                                                        \
			CHECK(!pthread_create(&threads[i], NULL, name##_count, &wrong[i]));        \
		for (int i = 0; i < 2; i++)                                                        \
			pthread_join(threads[i], NULL);                                            \
		BY##_LOAD(&name##_shared, &a);                                                     \
		CHECK(!wrong[0] && !wrong[1]);                                                     \
		CHECK(a.bytes[0] == 2 * ROUNDS % 251);                                             \
		memset(&b, 'b', n);                                                                \
		BY##_EXCHANGE(&name##_shared, &b, &a);                                             \
		CHECK(a.bytes[n - 1] == 2 * ROUNDS % 251);                                         \
		memset(&a, 'a', n);                                                                \
		CHECK(!BY##_STRONG(&name##_shared, &a, &b));                                       \
		CHECK(memcmp(&a, &b, n) == 0);                                                     \
		memset(&b, 'c', n);                                                                \
		CHECK(BY##_STRONG(&name##_shared, &a, &b));                                        \
		memset(&b, 'd', n);                                                                \
		BY##_STORE(&name##_shared, &b);                                                    \
		BY##_LOAD(&name##_shared, &a);                                                     \
		CHECK(memcmp(&a, &b, n) == 0);                                                     \
		printf("%s: right\n", #name);                                                      \
		return 0;                                                                          \
	}

OBJECT(of_1, 1, C11)
OBJECT(of_8, 8, C11)
OBJECT(of_16, 16, C11)
OBJECT(of_24, 24, C11)
OBJECT(of_100, 100, C11)
OBJECT(of_3, 3, GNU)
OBJECT(of_12, 12, GNU)
OBJECT(of_24_plain, 24, GNU)
OBJECT(of_65, 65, GNU)

/* Of sizes for which a compiler may add bytes, which a comparison of its counts in. */
static int moved(void)
{
	static _Atomic of_3 three;
	static _Atomic of_12 twelve;
	of_3 a = {{1, 2, 3}}, b;
	of_12 c = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, d;

	atomic_store(&three, a);
	atomic_store(&twelve, c);
	b = atomic_load(&three);
	d = atomic_load(&twelve);
	CHECK(memcmp(&a, &b, 3) == 0 && memcmp(&c, &d, 12) == 0);
	b = atomic_exchange(&three, (of_3){{4}});
	d = atomic_exchange(&twelve, (of_12){{4}});
	CHECK(memcmp(&a, &b, 3) == 0 && memcmp(&c, &d, 12) == 0);
	b = atomic_load(&three);
	CHECK(b.bytes[0] == 4 && b.bytes[2] == 0);
	CHECK(!atomic_is_lock_free((_Atomic of_24 *)&of_24_shared));
	return 0;
}

/* Before main and before other constructors. */
static of_24_plain early;

__attribute__((constructor(101))) static void begin(void)
{
	of_24_plain v = {{7}};
	of_16 none = {{0}};

	__atomic_store(&early, &v, __ATOMIC_SEQ_CST);
	atomic_store(&of_16_shared, none);
}

int main(void)
{
	alarm(100);
	CHECK(early.bytes[0] == 7);
	if (of_1_test() || of_8_test() || of_16_test() || of_24_test() || of_100_test() ||
	    of_3_test() || of_12_test() || of_24_plain_test() || of_65_test() || moved())
		return 1;
	puts("done");
	return 0;
}
