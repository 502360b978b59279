/* SPDX-License-Identifier: MIT */
/* The settings of the libraries. */
#include "common/settings.h"

#include <ctype.h>
#include <string.h>

#include "common/options.h"
#include "common/text.h"
#include "common/tool.h"

/* What NEAR_CONF takes: words with bars between them, or in capitals what the value is.
 * tests/lists.sh compares these with the libraries' tables. */
static const struct setting {
	const char *key, *values;
} settings[] = {
	{"rseq", "on|off"},
	{"slot", "auto|cpu|cid"},
	{"fence", "on|off"},
	{"calls", "all|few"},
	{"lock_check", "0|1|2"},
	{"pool_check", "0|1"},
	{"rcu_check", "0|1"},
	{"malloc_check", "0|1"},
	{"malloc_mismatch", "0|1"},
	{"malloc_background", "0|1|auto"},
	{"malloc_age", "MILLISECONDS"},
	{"malloc_cache", "BYTES"},
	{"malloc_stats", "FILE"},
	{"malloc_region", "FILE"},
	{"heap_profile", "PREFIX"},
	{"heap_sample", "BYTES"},
	{"heap_signal", "NUMBER"},
	{"heap_interval", "SECONDS"},
	{"heap_keep", "NUMBER"},
	{"atomic_stats", "0|1"},
	{"trace", "PATH"},
	{"trace_mode", "overwrite|stop|stream"},
	{"trace_ring", "BYTES"},
	{"trace_max", "BYTES"},
	{"trace_file", "BYTES"},
	{"trace_files", "NUMBER"},
	{"trace_level", "error|warning|notice|info|debug|verbose"},
	{"trace_enable", "PATTERN+..."},
	{"trace_context", "KIND+..."},
	{"trace_trigger", "EVENT+WORD+...;..."},
	{"trace_children", "thread"},
	{0},
};

static bool is_one_of(const char *value, size_t len, const char *words)
{
	for (;; words++) {
		size_t n = strcspn(words, "|");

		if (n == len && memcmp(value, words, n) == 0)
			return true;
		words += n;
		if (!*words)
			return false;
	}
}

/* As the libraries read numbers: digits, and perhaps a unit of 1,024. */
static bool is_number(const char *value, size_t len)
{
	char digits[24];
	uint64_t n;
	int shift = 0;

	if (len && memchr("kmg", value[len - 1], 3))
		shift = value[--len] == 'k' ? 10 : value[len] == 'm' ? 20 : 30;
	if (!len || len >= sizeof(digits))
		return false;
	memcpy(digits, value, len);
	digits[len] = '\0';
	return parse_number(digits, 0, UINT64_MAX >> shift, &n);
}

static bool takes(const struct setting *s, const char *value, size_t len)
{
	static const char *const numbers[] = {"MILLISECONDS", "SECONDS", "BYTES", "NUMBER"};

	if (!isupper((unsigned char)s->values[0]))
		return is_one_of(value, len, s->values);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(s->values, numbers[i]) == 0)
			return is_number(value, len);
	return len > 0;
}

bool setting_takes(const char *key, const char *value)
{
	const struct setting *s = settings;

	while (strcmp(s->key, key) != 0)
		s++;
	return takes(s, value, strlen(value));
}

static int refuse_key(const char *item, size_t key_len)
{
	char list[1024] = "", key[256];
	struct text text = {list, sizeof(list)};

	for (const struct setting *s = settings; s->key; s++)
		say(&text, "%s %s", s == settings ? "; there are" : ",", s->key);
	say(&text, " (nearcpu(7))");
	snprintf(key, sizeof(key), "%.*s", (int)key_len, item);
	return unknown_name("run", "setting", key, list, ROWS(settings));
}

static int check_item(const char *item, size_t len)
{
	const char *colon = memchr(item, ':', len);
	size_t key_len = colon ? (size_t)(colon - item) : len;

	for (const struct setting *s = settings; s->key; s++) {
		if (strlen(s->key) != key_len || memcmp(s->key, item, key_len) != 0)
			continue;
		if (colon && takes(s, colon + 1, len - key_len - 1))
			return 0;
		return usage_error("run", "--conf: '%.*s' is not %s:%s", (int)len, item, s->key,
				   s->values);
	}
	return refuse_key(item, key_len);
}

int settings_check(const char *conf)
{
	int code = 0;

	while (*conf && !code) {
		size_t len = strcspn(conf, ",");

		code = len ? check_item(conf, len) : 0;
		conf += len + (conf[len] == ',');
	}
	return code;
}
