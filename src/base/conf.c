/* SPDX-License-Identifier: MIT */
/* The settings: tables of keys and values. */
#define _GNU_SOURCE
#include "base/conf.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <unistd.h>

#define FIELD(f) offsetof(struct near__conf, f)

static const struct near__setting core_list[] = {
	{"rseq", "on", FIELD(rseq_off), 0},
	{"rseq", "off", FIELD(rseq_off), 1},
	{"fence", "on", FIELD(fence_off), 0},
	{"fence", "off", FIELD(fence_off), 1},
	{"calls", "all", FIELD(few_calls), 0},
	{"calls", "few", FIELD(few_calls), 1},
	{"slot", "auto", FIELD(slot), NEAR__SLOT_AUTO},
	{"slot", "cpu", FIELD(slot), NEAR__SLOT_BY_CPU},
	{"slot", "cid", FIELD(slot), NEAR__SLOT_BY_CID},
	{"lock_check", "0", FIELD(lock_check), NEAR__LOCK_CHECK_OFF},
	{"lock_check", "1", FIELD(lock_check), NEAR__LOCK_CHECK_TELLS},
	{"lock_check", "2", FIELD(lock_check), NEAR__LOCK_CHECK_STOPS},
	{"pool_check", "0", FIELD(pool_check), 0},
	{"pool_check", "1", FIELD(pool_check), 1},
	{"rcu_check", "0", FIELD(rcu_check), 0},
	{"rcu_check", "1", FIELD(rcu_check), 1},
};

const char *const near__conf_prefixes[4] = {"malloc_", "heap_", "atomic_", "trace"};

static const struct near__settings core = {
	.list = core_list,
	.count = sizeof(core_list) / sizeof(core_list[0]),
	.prefixes = near__conf_prefixes,
	.prefix_count = sizeof(near__conf_prefixes) / sizeof(near__conf_prefixes[0]),
};

static int word_equals(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* 0: no number of at most 64 bits. */
static int read_number(const char *text, size_t len, uint64_t *out)
{
	static const char units[] = "kmg";
	const char *unit = len ? memchr(units, text[len - 1], sizeof(units) - 1) : NULL;
	int shift = unit ? 10 * (int)(unit - units + 1) : 0;
	uint64_t n = 0;

	len -= unit != NULL;
	if (len == 0)
		return 0;
	for (size_t i = 0; i < len; i++) {
		unsigned digit = (unsigned)(text[i] - '0');

		if (digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, digit, &n))
			return 0;
	}
	*out = n << shift;
	return *out >> shift == n;
}

/* Whether the value is one that this setting takes. */
static int set_field(const struct near__setting *s, char *out, const char *value, size_t len)
{
	struct near__conf_text text = {value, len};
	uint64_t number;

	if (s->value == NEAR__CONF_NUMBER) {
		if (!read_number(value, len, &number))
			return 0;
		memcpy(out + s->field, &number, sizeof(number));
	} else if (s->value == NEAR__CONF_TEXT) {
		if (!len)
			return 0;
		memcpy(out + s->field, &text, sizeof(text));
	} else {
		if (!word_equals(value, len, s->value))
			return 0;
		memcpy(out + s->field, &s->set, sizeof(s->set));
	}
	return 1;
}

static int is_others(const struct near__settings *settings, const char *key, size_t len)
{
	for (size_t i = 0; i < settings->prefix_count; i++) {
		size_t n = strlen(settings->prefixes[i]);

		if (n <= len && memcmp(key, settings->prefixes[i], n) == 0)
			return !settings->own;
	}
	return settings->own;
}

static void settings_apply(const struct near__settings *settings, void *out, const char *item,
			   size_t len, near__conf_warn *warn)
{
	const char *colon = memchr(item, ':', len);
	size_t key_len = colon ? (size_t)(colon - item) : len;
	int known = 0;

	if (*item == NEAR__CONF_COMMENT || is_others(settings, item, key_len))
		return;
	for (size_t i = 0; i < settings->count; i++) {
		const struct near__setting *s = &settings->list[i];

		if (!word_equals(item, key_len, s->key))
			continue;
		known = 1;
		if (colon && set_field(s, out, colon + 1, len - key_len - 1))
			return;
	}
	warn(known ? "bad value" : "unknown key", item, len);
}

static void apply_all(const struct near__settings *settings, void *out, const char *text,
		      near__conf_warn *warn)
{
	while (text && *text) {
		size_t len = strcspn(text, ",");

		if (len)
			settings_apply(settings, out, text, len, warn);
		text += len;
		text += *text == ',';
	}
}

void near__conf_parse(struct near__conf *out, const char *text, near__conf_warn *warn)
{
	memset(out, 0, sizeof(*out));
	apply_all(&core, out, text, warn);
}

/* ---- the environment ---- */

/* An item that was reported is commented out in the environment that the kernel passed, which the
 * program's children inherit: one message per tree of processes, not one per process. That memory
 * is writable; a string that the program itself set may not be. */
static void comment_out(const char *item)
{
	uintptr_t begin = getauxval(AT_RANDOM), end = getauxval(AT_EXECFN);

	if ((uintptr_t)item > begin && (uintptr_t)item < end)
		*(char *)(uintptr_t)item = NEAR__CONF_COMMENT;
}

/* One writev, so that lines of several processes do not mix. */
static void warn_on_stderr(const char *what, const char *item, size_t len)
{
	static const char head[] = "nearcpu: NEAR_CONF: ";
	static const char tail[] = "' ignored; nearcpu(7) lists the settings\n";
	struct iovec parts[] = {
		{(void *)head, sizeof(head) - 1},
		{(void *)what, strlen(what)},
		{(void *)" '", 2},
		{(void *)item, len > 64 ? 64 : len},
		{(void *)tail, sizeof(tail) - 1},
	};

	if (writev(2, parts, sizeof(parts) / sizeof(parts[0])) > 0)
		comment_out(item);
}

static const char *conf_find(char *const *environment)
{
	static const char name[] = "NEAR_CONF=";

	for (; *environment; environment++)
		if (strncmp(*environment, name, sizeof(name) - 1) == 0)
			return *environment + sizeof(name) - 1;
	return NULL;
}

#pragma weak __libc_stack_end
extern void *__libc_stack_end;

/* A preloaded allocator is called before the C library has its environment. The kernel put it on
 * the stack, after the arguments, at an address that glibc's dynamic linker exports. */
static const char *find_on_stack(void)
{
	char *const *at = &__libc_stack_end ? __libc_stack_end : NULL;

	if (!at)
		return NULL;
	at += 1 + *(const long *)at; /* argc and its pointers */
	return conf_find(at + 1);
}

void near__conf_read_part(const struct near__settings *settings, void *out)
{
	if (getauxval(AT_SECURE))
		return;
	apply_all(settings, out, environ ? conf_find(environ) : find_on_stack(), warn_on_stderr);
}

void near__conf_read(struct near__conf *out)
{
	memset(out, 0, sizeof(*out));
	near__conf_read_part(&core, out);
}
