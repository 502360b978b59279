/* SPDX-License-Identifier: MIT */
/* rcu: how threads read and update, by near_rcu and by what programs use instead. Each is compiled
 * with its library's own inline functions. Those of third-party libraries are in a module, which is
 * not installed. */
#ifndef BENCH_RCU_H
#define BENCH_RCU_H

#include <stdint.h>
#include <stdlib.h>

struct rcu_impl {
	const char *name;
	int (*init)(void); /* 0 or a negative errno; or NULL */
	/* What a thread does before it reads or updates, and before it ends; or NULL. */
	void (*begin)(void), (*end)(void);
	/* Before it sleeps for long, and after that; or NULL. */
	void (*sleep)(void), (*wake)(void);
	/* Begins a section, loads a pointer and what it points to, ends the section; n times. */
	void (*read)(uint64_t n);
	void (*synchronize)(void);
	/* Makes an object of RCU_OBJECT bytes, and frees it by a callback, which counts in *ran. */
	void (*call)(uint64_t *ran);
	void (*barrier)(void);
};

#define RCU_OBJECT 64

/* bench_row.tunables where the module's library has large thread-local variables. */
#define RCU_TLS "glibc.rtld.optional_static_tls=4096"

/* A pointer that the compiler cannot know, in the file that reads it. */
#define RCU_POINTER(name)                                                                          \
	static int name##_value;                                                                   \
	static int *name##_pointer = &name##_value;                                                \
	static void name##_hide(void) { __asm__ volatile("" : "+m"(name##_pointer)); }

#define RCU_READ(name, ENTER, LOAD, EXIT)                                                          \
	static void name##_read(uint64_t n)                                                        \
	{                                                                                          \
		for (; n; n--) {                                                                   \
			ENTER;                                                                     \
			__asm__ volatile("" : : "r"(*(LOAD)));                                     \
			EXIT;                                                                      \
		}                                                                                  \
	}

/* One thread runs callbacks; another loads the count now and then. */
#define RCU_CALL(name, head_type, CALL)                                                            \
	struct name##_object {                                                                     \
		head_type head;                                                                    \
		uint64_t *ran;                                                                     \
	};                                                                                         \
	static void name##_callback(head_type *head)                                               \
	{                                                                                          \
		struct name##_object *o = (struct name##_object *)head;                            \
		uint64_t *ran = o->ran;                                                            \
                                                                                                   \
		free(o);                                                                           \
		__atomic_store_n(ran, *ran + 1, __ATOMIC_RELEASE);                                 \
	}                                                                                          \
	static void name##_call(uint64_t *ran)                                                     \
	{                                                                                          \
		struct name##_object *o = malloc(RCU_OBJECT);                                      \
                                                                                                   \
		if (!o)                                                                            \
			abort();                                                                   \
		o->ran = ran;                                                                      \
		CALL;                                                                              \
	}

/* ---- the benchmarks ---- */

/* The implementation of this process's row. */
extern const struct rcu_impl *rcu_impl;
/* bench_row.choose. */
const char *rcu_choose(const char *name);
/* bench_row.setup. */
struct bench_run;
int rcu_setup(struct bench_run *run);
/* A row that is measured by one of the implementations; what follows are further members. */
#define RCU_ROW(id, row, text, whose, ...)                                                         \
	{                                                                                          \
		.name = row, .label = text, .role = whose, .choose = rcu_choose, .impl = id,       \
		.setup = rcu_setup, __VA_ARGS__                                                    \
	}
void rcu_begin_thread(void);
void rcu_end_thread(void);

/* Both end with NULL. */
extern const struct rcu_impl *const rcu_impls[];
extern __attribute__((visibility("default"))) const struct rcu_impl *const near_bench_rcu_impls[];

#endif
