/* SPDX-License-Identifier: MIT */
/* NEAR_CONF=key:value,...: the one setting. Each library reads the keys of its own part. */
#ifndef NEARCPU_CONF_H
#define NEARCPU_CONF_H

#include <stddef.h>
#include <stdint.h>

/* What a value is, where it is not a word: a number, with k, m or g for powers of 1024, into a
 * uint64_t; or any text, into a struct near__conf_text. */
#define NEAR__CONF_NUMBER ((const char *)1)
#define NEAR__CONF_TEXT ((const char *)2)

/* An item that begins so is ignored. */
#define NEAR__CONF_COMMENT '#'

struct near__conf_text {
	const char *text; /* in the environment */
	size_t len;
};

struct near__setting {
	const char *key, *value;
	size_t field; /* of what the part reads into. A word sets an int there */
	int set;      /* to this */
};

struct near__settings {
	const struct near__setting *list;
	size_t count;
	/* Keys of other parts, which this one leaves to them: those that begin with one of these
	 * words; or, where `own`, those that do not. */
	const char *const *prefixes;
	size_t prefix_count;
	int own;
};

/* Reads the environment into *out. An unknown key or a bad value is ignored, with a line on
 * standard error, which the process's children do not repeat. Nothing is read in setuid programs.
 * May run before the C library knows its environment. Not for two threads at once. */
void near__conf_read_part(const struct near__settings *settings, void *out);

/* The core's part. */
enum near__conf_slot { NEAR__SLOT_AUTO, NEAR__SLOT_BY_CPU, NEAR__SLOT_BY_CID };
enum near__conf_lock_check { NEAR__LOCK_CHECK_OFF, NEAR__LOCK_CHECK_TELLS, NEAR__LOCK_CHECK_STOPS };

struct near__conf {
	int rseq_off;
	int fence_off;
	int slot;       /* enum near__conf_slot */
	int lock_check; /* enum near__conf_lock_check */
	int pool_check;
	int rcu_check;
	int few_calls; /* system calls: none that a filter might not expect */
};

/* Read the environment, or `text` (NULL: nothing set), with a function for the warnings. */
typedef void near__conf_warn(const char *what, const char *item, size_t len);
void near__conf_read(struct near__conf *out);
void near__conf_parse(struct near__conf *out, const char *text, near__conf_warn *warn);

/* The beginnings of keys that the drop-in malloc reads; then the drop-in libatomic's, and those of
 * near_trace. */
extern const char *const near__conf_prefixes[4] __attribute__((visibility("hidden")));
#define NEAR__CONF_MALLOC_PREFIXES 2
#define near__conf_atomic_prefixes (&near__conf_prefixes[NEAR__CONF_MALLOC_PREFIXES])
#define near__conf_trace_prefixes (&near__conf_prefixes[NEAR__CONF_MALLOC_PREFIXES + 1])

#endif
