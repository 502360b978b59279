/* SPDX-License-Identifier: MIT */
/* near_trace: tracepoints, and by which patterns they are on. */
#include "trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "region/region.h"

#define STEP (UINT64_C(64) << 10) /* in which the blocks of trace:points are allocated */
#define MOST 65535

/* ---- rules ---- */

/* Those of the same pattern that a new rule leaves without effect. */
static void remove_rules(const char *pattern, size_t length, const char *condition)
{
	unsigned n = 0;

	for (unsigned i = 0; i < near__trace.rules_known; i++) {
		const struct near__trace_rule *r = &near__trace.rules[i];

		if (strlen(r->pattern) != length || memcmp(r->pattern, pattern, length) != 0 ||
		    (*condition && strcmp(r->condition, condition) != 0))
			near__trace.rules[n++] = *r;
	}
	near__trace.rules_known = n;
}

/* Later rules decide. */
int near__trace_add_rule(const char *pattern, size_t length, enum near_trace_level level,
			 const char *condition)
{
	struct near__trace_rule *r;

	if (length == 0 || length >= NEAR__TRACE_PATTERN)
		return near__trace_fail(-EINVAL, "a pattern has 1 to 95 characters");
	if ((unsigned)level > NEAR_TRACE_VERBOSE)
		return near__trace_fail(-EINVAL, "there is no such level");
	if (*condition &&
	    (strlen(condition) >= NEAR__TRACE_CONDITION || !near__trace_is_condition(condition)))
		return near__trace_fail(-EINVAL, "a condition is such as size>4096");
	if (length == 1 && *pattern == '*' && !*condition)
		near__trace.rules_known = 0;
	remove_rules(pattern, length, condition);
	if (near__trace.rules_known == NEAR__TRACE_RULES)
		return near__trace_fail(-E2BIG, "there are 32 patterns since the last `*`");
	r = &near__trace.rules[near__trace.rules_known];
	memcpy(r->pattern, pattern, length);
	r->pattern[length] = 0;
	strcpy(r->condition, condition);
	r->level = (uint32_t)level;
	near__trace.rules_known++;
	return 0;
}

int near__trace_set_rules(const char *patterns, enum near_trace_level level)
{
	int err = 0;

	near__trace.rules_known = 0;
	while (!err && patterns) {
		size_t length = strcspn(patterns, ",");

		err = near__trace_add_rule(patterns, length, level, "");
		patterns = patterns[length] ? patterns + length + 1 : NULL;
	}
	return err;
}

static bool point_matches(const struct near_trace_point *p, const char *pattern,
			  const char *condition, struct near__trace_filter *f)
{
	return near__trace_match(pattern, p->name) &&
	       (!*condition || near__trace_compile(f, p, condition));
}

/* `enabled`: the last rule that matches decides. Only what the file has. */
static uint32_t state_of(const struct near_trace_point *p, uint32_t clock,
			 struct near__trace_filter *f)
{
	uint32_t level = p->level & ~(uint32_t)NEAR_TRACE_CUT;

	for (unsigned i = near__trace.rules_known; i-- > 0 && p->session == near__trace.number;) {
		const struct near__trace_rule *r = &near__trace.rules[i];

		if (point_matches(p, r->pattern, r->condition, f))
			return level > r->level
				       ? 0
				       : clock | (*r->condition ? NEAR__TRACE_FILTERED : 0);
	}
	return 0;
}

/* Or a context. */
static bool has_trigger(struct near_trace_point *p, const struct near__trace_filter *f, bool is_on)
{
	return near__trace.triggers && near__trace.current && p->session == near__trace.number &&
	       near__trace.bind(p, f, is_on);
}

/* Release: pairs with the acquire in near__trace_word. Where there is no thread, an event that is
 * recorded checks for orders when its sequence fails, any other one each time. */
static int point_set(struct near_trace_point *p, uint32_t clock)
{
	struct near__trace_filter f = {0};
	uint32_t enabled = clock ? state_of(p, clock, &f) : 0;
	bool is_on;

	if (clock && has_trigger(p, enabled & NEAR__TRACE_FILTERED ? &f : NULL, enabled)) {
		near__trace_open_filter(p);
		enabled = clock | NEAR__TRACE_FILTERED | NEAR__TRACE_TRIGGERED;
	} else if (enabled & NEAR__TRACE_FILTERED) {
		near__trace_set_filter(p, &f);
	}
	is_on = enabled != 0;
	if (clock && (!enabled || enabled & NEAR__TRACE_FILTERED) && near__trace.current &&
	    !near__trace_has_thread(near__trace.current))
		enabled |= NEAR__TRACE_WATCHED;
	__atomic_store_n(&p->enabled, enabled, __ATOMIC_RELEASE);
	if (p->probe)
		__atomic_store_n(p->probe, enabled != 0, __ATOMIC_RELEASE);
	return is_on;
}

int near__trace_apply(uint32_t clock)
{
	int n = 0;

	for (struct near_trace_point *p = near__trace.first; p; p = p->next)
		n += point_set(p, clock);
	return n;
}

static int count_matches(const char *pattern, const char *condition)
{
	struct near__trace_filter f;
	int n = 0;

	for (struct near_trace_point *p = near__trace.first; p; p = p->next)
		n += point_matches(p, pattern, condition, &f);
	return n;
}

/* ---- records ---- */

/* The text of the fields, with the values of labels. Returns its length; to == NULL: only that. */
static size_t put_fields(char *to, const struct near_trace_point *p)
{
	const int32_t *value = p->values;
	size_t n = 0;
	char text[16];

	for (const char *s = p->fields; *s; s++) {
		size_t length = 1;

		if (*s == '%')
			length = (size_t)snprintf(text, sizeof(text), "%d", (int)*value++);
		else
			*text = *s;
		if (to)
			memcpy(to + n, text, length);
		n += length;
	}
	if (to)
		to[n] = 0;
	return n + 1;
}

/* False: no room. The store of points_bytes, a release, publishes the record. */
static bool write_point(struct near__trace_run *t, const struct near_trace_point *p)
{
	size_t name = strlen(p->name) + 1, fields = put_fields(NULL, p);
	uint64_t at = t->file.session->points_bytes;
	struct near__trace_point_record *r =
		(struct near__trace_point_record *)(t->file.points + at);
	uint64_t size = (sizeof(*r) + name + fields + strlen(p->place) + 1 + 7) & ~UINT64_C(7);
	uint64_t end = (at + size + STEP - 1) / STEP * STEP;

	if (at + size > NEAR__TRACE_POINTS_SIZE ||
	    near_region_populate(&t->file.region, &t->file.objects[NEAR__AT_POINTS], at, end - at))
		return false;
	r->size = (uint32_t)size;
	r->id = (uint32_t)(p->head >> NEAR__TRACE_ID_SHIFT & MOST);
	r->level = p->level & ~(uint32_t)NEAR_TRACE_CUT;
	r->name_size = (uint32_t)name;
	r->fields_size = (uint32_t)fields;
	r->flags = p->level & NEAR_TRACE_CUT ? NEAR__TRACE_CUT : 0;
	memcpy(r->texts, p->name, name);
	put_fields(r->texts + name, p);
	strcpy(r->texts + name + fields, p->place);
	__atomic_store_n(&t->file.session->points_bytes, at + size, __ATOMIC_RELEASE);
	return true;
}

bool near__trace_write_points(struct near__trace_run *t, struct near_trace_point *from)
{
	for (struct near_trace_point *p = from; p; p = p->next) {
		if (!(p->head >> NEAR__TRACE_ID_SHIFT & MOST) ||
		    p->session == t->file.session->number)
			continue;
		if (!write_point(t, p))
			return false;
		p->session = t->file.session->number;
	}
	return true;
}

/* What the reader takes for the name and the fields. C++'s labels may have `::`. */
static bool is_readable(const struct near_trace_point *p)
{
	static const char name[] = "abcdefghijklmnopqrstuvwxyz"
				   "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_";
	size_t provider = strspn(p->name, name);
	const char *event = p->name + provider + (p->name[provider] == ':');
	const char *s = p->fields;

	while (*s && (strchr(name, *s) || strchr(":{}=%,; ", *s)))
		s++;
	return provider && event > p->name + provider && *event && !event[strspn(event, name)] &&
	       !*s;
}

/* It stays off, and no file has it. */
static void point_refuse(const struct near_trace_point *p)
{
	int saved = errno;

	dprintf(2,
		"nearcpu: tracepoint '%s' (%s) is off: names of tracepoints and fields are "
		"letters, digits and _\n",
		p->name, p->place);
	errno = saved;
}

void near__trace_add_point(struct near_trace_point *p)
{
	if (!is_readable(p)) {
		__atomic_store_n(&p->enabled, 0, __ATOMIC_RELAXED);
		point_refuse(p);
		return;
	}
	near__trace_lock();
	if (near__trace.points_known < MOST)
		p->head |= (uint64_t)++near__trace.points_known << NEAR__TRACE_ID_SHIFT;
	if (!near__trace.last)
		near__trace.last = &near__trace.first;
	*near__trace.last = p;
	near__trace.last = &p->next;
	point_set(p, 0);
	if (near__trace.current && near__trace_is_own()) {
		near__trace_count_missed(near__trace.current);
		near__trace_write_points(near__trace.current, p);
		point_set(p, near__trace.current->clock);
	}
	near_lock_unlock(&near__trace.lock);
}

/* ---- switching ---- */

int near__trace_change(const char *pattern, enum near_trace_level level, const char *condition)
{
	int n = count_matches(pattern, condition), err;

	if (!near__trace.current && !near__trace.is_child)
		return n;
	err = near__trace_add_rule(pattern, strlen(pattern), level, condition);
	if (err)
		return err;
	near__trace_apply(near__trace.options.clock);
	return n;
}

static int points_change(const char *pattern, enum near_trace_level level, const char *condition)
{
	struct region_caller c = near__region_enter();
	int n;

	near__trace_lock();
	if (near__trace.current && !near__trace.is_ending)
		near__trace.start_thread(near__trace.current);
	n = near__trace_change(pattern, level, condition);
	near_lock_unlock(&near__trace.lock);
	return near__region_leave(c, n);
}

int near_trace_enable(const char *pattern, enum near_trace_level level)
{
	return points_change(pattern, level ? level : NEAR_TRACE_DEBUG, "");
}

/* "?" is no condition. */
int near_trace_enable_if(const char *pattern, enum near_trace_level level, const char *condition)
{
	return points_change(pattern, level ? level : NEAR_TRACE_DEBUG,
			     *condition ? condition : "?");
}

int near_trace_disable(const char *pattern)
{
	return points_change(pattern, 0, "");
}
