/* SPDX-License-Identifier: MIT */
/* near_trace: the text of a trigger: an event, and pairs of a word and what it takes. */
#include "trace/trigger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t"
#define NS UINT64_C(1000000000)
#define MOST_NS (NS * 86400 * 365)
#define EVERY (60 * NS)
#define KEEP 4

enum word { IF, TO, BY, OVER, BEFORE, AFTER, EVERY_, KEEP_, IN, NO_WORD };
static const char words[NO_WORD][8] = {"if",    "to",    "by",   "over", "before",
				       "after", "every", "keep", "in"};

static enum word word_of(const char *text, size_t n)
{
	unsigned i = 0;

	while (i < NO_WORD && (strlen(words[i]) != n || memcmp(words[i], text, n) != 0))
		i++;
	return (enum word)i;
}

/* "10ms"; without a unit it is in seconds. */
static bool take_time(const char *text, uint64_t *ns)
{
	static const struct {
		char text[3];
		uint64_t ns;
	} units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", NS}, {"m", 60 * NS}, {"", NS}};
	size_t digits = strspn(text, "0123456789");
	uint64_t n = digits && digits < 19 ? strtoull(text, NULL, 10) : UINT64_MAX;

	for (unsigned i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (strcmp(text + digits, units[i].text) == 0 && n <= MOST_NS / units[i].ns) {
			*ns = n * units[i].ns;
			return true;
		}
	return false;
}

static bool take_keep(const char *text, uint32_t *keep)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long n = digits && digits < 4 ? strtoul(text, NULL, 10) : 0;

	*keep = (uint32_t)n;
	return !text[digits] && n && n <= NEAR__TRACE_KEEP;
}

static bool take_value(struct near__trace_trigger *g, enum word w, const char *value)
{
	switch (w) {
	case IF:
		g->condition = value;
		return near__trace_is_condition(value);
	case TO:
		g->end = value;
		break;
	case BY:
		g->by = value;
		break;
	case OVER:
		return take_time(value, &g->over);
	case BEFORE:
		return take_time(value, &g->before);
	case AFTER:
		return take_time(value, &g->after);
	case EVERY_:
		return take_time(value, &g->every);
	case KEEP_:
		return take_keep(value, &g->keep);
	default:
		g->folder = value;
		return near__trace_is_folder(value) && *value == '/';
	}
	return !value[strcspn(value, BLANKS)];
}

/* What `w` takes: up to the next word; a folder is the rest. Returns where the next word is. */
static char *value_end(char *value, enum word w)
{
	char *end = value, *at = value;

	if (w == IN)
		return value + strlen(value);
	while (*at) {
		size_t n = strcspn(at, BLANKS);

		if (at != value && word_of(at, n) != NO_WORD)
			break;
		end = at + n;
		at = end + strspn(end, BLANKS);
	}
	*end = 0;
	return at;
}

static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, BLANKS);
	size_t n = strcspn(word, BLANKS);

	*rest = word + n + (word[n] != 0);
	word[n] = 0;
	return word;
}

static bool parse_words(struct near__trace_trigger *g)
{
	char *rest = g->words, *word;
	unsigned seen = 0;

	g->event = next_word(&rest);
	while (*(word = next_word(&rest))) {
		enum word w = word_of(word, strlen(word));
		char *value = rest + strspn(rest, BLANKS);

		if (w == NO_WORD || seen >> w & 1 || !*value)
			return false;
		seen |= 1u << w;
		rest = value_end(value, w);
		if (!take_value(g, w, value))
			return false;
	}
	return *g->event && (seen >> TO & 1) == (seen >> OVER & 1) && (g->end || !g->by);
}

int near__trace_trigger_parse(struct near__trace_trigger *g, const char *text)
{
	memset(g, 0, offsetof(struct near__trace_trigger, begun));
	g->every = EVERY;
	g->keep = KEEP;
	if (strlen(text) >= sizeof(g->text))
		return near__trace_fail(-EINVAL, "a trigger has up to 255 characters");
	strcpy(g->text, text);
	strcpy(g->words, text);
	if (!parse_words(g))
		return near__trace_fail(-EINVAL, "a trigger is such as 'shop:order if total>100 "
						 "before 5s after 1s every 60s keep 4 in /folder', "
						 "or 'shop:begin to shop:end by job over 10ms'");
	return 0;
}
