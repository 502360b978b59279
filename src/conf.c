/* SPDX-License-Identifier: MIT */
/* The settings: one table of keys and values. */
#include "conf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>

struct setting {
	const char *key, *value;
	size_t field; /* an int of struct near__conf, */
	int set;      /* which becomes this */
};

#define FIELD(f) offsetof(struct near__conf, f)

static const struct setting settings[] = {
	{"rseq", "on", FIELD(rseq_off), 0},
	{"rseq", "off", FIELD(rseq_off), 1},
	{"fence", "on", FIELD(fence_off), 0},
	{"fence", "off", FIELD(fence_off), 1},
	{"slot", "auto", FIELD(slot), NEAR__SLOT_AUTO},
	{"slot", "cpu", FIELD(slot), NEAR__SLOT_BY_CPU},
	{"slot", "cid", FIELD(slot), NEAR__SLOT_BY_CID},
};

static int equals(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(text, word, len) == 0;
}

static void apply(struct near__conf *out, const char *item, size_t len, near__conf_warn *warn)
{
	const char *colon = memchr(item, ':', len);
	size_t key_len = colon ? (size_t)(colon - item) : len;
	int known = 0;

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		const struct setting *s = &settings[i];

		if (!equals(item, key_len, s->key))
			continue;
		known = 1;
		if (!colon || !equals(colon + 1, len - key_len - 1, s->value))
			continue;
		memcpy((char *)out + s->field, &s->set, sizeof(s->set));
		return;
	}
	warn(known ? "bad value" : "unknown key", item, len);
}

void near__conf_parse(struct near__conf *out, const char *text, near__conf_warn *warn)
{
	memset(out, 0, sizeof(*out));
	while (text && *text) {
		size_t len = strcspn(text, ",");

		if (len)
			apply(out, text, len, warn);
		text += len;
		text += *text == ',';
	}
}

/* One writev, so that lines of several processes do not mix. */
static void warn_on_stderr(const char *what, const char *item, size_t len)
{
	static const char head[] = "nearcpu: NEAR_CONF: ";
	static const char tail[] = "' ignored (keys: rseq:on|off, slot:auto|cpu|cid, "
				   "fence:on|off)\n";
	struct iovec parts[] = {
		{(void *)head, sizeof(head) - 1},
		{(void *)what, strlen(what)},
		{(void *)" '", 2},
		{(void *)item, len > 64 ? 64 : len},
		{(void *)tail, sizeof(tail) - 1},
	};

	if (writev(2, parts, sizeof(parts) / sizeof(parts[0])) < 0)
		return; /* no standard error: nobody to tell */
}

void near__conf_read(struct near__conf *out)
{
	const char *text = getauxval(AT_SECURE) ? NULL : getenv("NEAR_CONF");

	near__conf_parse(out, text, warn_on_stderr);
}
