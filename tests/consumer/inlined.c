/* SPDX-License-Identifier: MIT */
/* The add that examples/rust inlines, aborted at each of its instructions, with the inline form of
 * the header and that of libnearcpu-ffi in between. ffi.sh links it. */
#include <errno.h>
#include <nearcpu/counter.h>
#include <nearcpu/torture.h>
#include <stdio.h>
#include <stdlib.h>

void inlined_add(int64_t *p, int64_t n);
void called_add(struct near_counter *c, int64_t n) __asm__("near_counter_add");

static struct near_counter hits;
static int64_t added;

static void setup(void *arg)
{
	(void)arg;
	if (hits.p)
		near_counter_destroy(&hits);
	if (near_counter_init(&hits))
		abort();
	added = 0;
}

static void by_rust(void *arg)
{
	(void)arg;
	inlined_add(hits.p, 3);
	added += 3;
}

static void by_header(void *arg)
{
	(void)arg;
	near_counter_add(&hits, 5);
	added += 5;
}

static void by_call(void *arg)
{
	(void)arg;
	called_add(&hits, 7);
	added += 7;
}

static const void *slot(void *arg, size_t *size)
{
	(void)arg;
	*size = sizeof(int64_t);
	return near_percpu_at(hits.p, near_slot());
}

static const char *check(void *arg)
{
	(void)arg;
	return near_counter_read(&hits) == added ? NULL : "miscounted";
}

/* Against all three. */
static int prove(void (*run)(void *arg), struct near_torture_result *result)
{
	static const struct near_torture_rival rivals[] = {
		{"inlined", by_rust, NULL, 0},
		{"of the header", by_header, NULL, 0},
		{"called", by_call, NULL, 0},
	};
	static struct near_torture t;
	int failures;

	t.setup = setup;
	t.run = run;
	t.check = check;
	t.slot = slot;
	t.rivals = rivals;
	t.n_rivals = sizeof(rivals) / sizeof(rivals[0]);
	failures = near_torture(&t, sizeof(t), result, sizeof(*result));
	printf("%u sequences, %lu aborts, %s\n", result->sequences, result->aborts,
	       failures ? result->text : "proven");
	return failures;
}

int main(void)
{
	struct near_torture_result rust, call;
	int failures = prove(by_rust, &rust);

	if (failures == -ENOSYS)
		return 0;
	return failures || prove(by_call, &call) || !rust.sequences || !call.sequences;
}
