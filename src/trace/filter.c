/* SPDX-License-Identifier: MIT */
/* near_trace: conditions on a field, which decide for each event whether it is recorded. */
#include "trace/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t"
#define MOST_VALUE 48

enum kind { UNSIGNED, SIGNED, REAL };
/* How a value compares; a test is the set of those that it is true of. */
enum { BELOW = 1, EQUAL = 2, ABOVE = 4, NO_NUMBER = 8 };

/* struct near__trace_filter.code */
#define SIZE_OF(code) ((code)&15) /* bytes of the field, 1 to 8 */
#define KIND_OF(code) ((code) >> 4 & 3)
#define TEST_OF(code) ((code) >> 6 & 15)
#define FIELD_OF(code) ((code) >> 10 & 63)
#define OFFSET_OF(code) ((code) >> 16 & 255) /* in a payload without lengths */

/* ---- texts ---- */

/* "size > 4096" */
struct condition {
	const char *name;
	size_t name_length;
	unsigned test;
	char value[MOST_VALUE];
};

static bool condition_parse(const char *text, struct condition *c)
{
	static const struct {
		char text[3];
		unsigned char test;
	} tests[] = {{"==", EQUAL},         {"!=", BELOW | ABOVE | NO_NUMBER},
		     {"<=", BELOW | EQUAL}, {">=", ABOVE | EQUAL},
		     {"<", BELOW},          {">", ABOVE}};
	const unsigned known = sizeof(tests) / sizeof(*tests);
	unsigned i = 0;
	size_t n;

	c->name = text + strspn(text, BLANKS);
	c->name_length = strcspn(c->name, BLANKS "=!<>");
	text = c->name + c->name_length;
	text += strspn(text, BLANKS);
	while (i < known && strncmp(text, tests[i].text, strlen(tests[i].text)) != 0)
		i++;
	if (!c->name_length || i == known)
		return false;
	c->test = tests[i].test;
	text += strlen(tests[i].text);
	text += strspn(text, BLANKS);
	n = strcspn(text, BLANKS);
	if (!n || n >= sizeof(c->value) || text[n + strspn(text + n, BLANKS)])
		return false;
	memcpy(c->value, text, n);
	c->value[n] = 0;
	return true;
}

/* False: its size depends on the event. */
static bool type_of(const char *text, unsigned *size, enum kind *kind)
{
	static const struct {
		char name[6];
		unsigned char size, kind;
	} types[] = {
		{"bool ", 1, UNSIGNED}, {"u8 ", 1, UNSIGNED},  {"u16 ", 2, UNSIGNED},
		{"u32 ", 4, UNSIGNED},  {"u64 ", 8, UNSIGNED}, {"x8 ", 1, UNSIGNED},
		{"x16 ", 2, UNSIGNED},  {"x32 ", 4, UNSIGNED}, {"x64 ", 8, UNSIGNED},
		{"ptr ", 8, UNSIGNED},  {"i8 ", 1, SIGNED},    {"i16 ", 2, SIGNED},
		{"i32 ", 4, SIGNED},    {"i64 ", 8, SIGNED},   {"enum ", 4, SIGNED},
		{"f32 ", 4, REAL},      {"f64 ", 8, REAL},
	};

	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strncmp(text, types[i].name, strlen(types[i].name)) == 0) {
			*size = types[i].size;
			*kind = (enum kind)types[i].kind;
			return true;
		}
	return false;
}

/* Of "enum color{RED=%,BLUE=%} c": the label's value is the next but as many as precede it. */
static bool find_label(const char *text, const char *end, const int32_t *values, const char *label,
		       uint64_t *out)
{
	size_t n = strlen(label);
	const char *at = memchr(text, '{', (size_t)(end - text));

	while (at && at < end && *at != '}') {
		at++;
		if (strncmp(at, label, n) == 0 && at[n] == '=') {
			*out = (uint64_t)(int64_t)*values;
			return true;
		}
		at += strcspn(at, ",}");
		values++;
	}
	return false;
}

static bool number_parse(const char *text, enum kind kind, uint64_t *out)
{
	int saved = errno;
	bool done;
	char *end;
	double real;

	errno = 0;
	switch (kind) {
	case UNSIGNED:
		*out = strtoull(*text == '-' ? "-" : text, &end, 0);
		break;
	case SIGNED:
		*out = (uint64_t)strtoll(text, &end, 0);
		break;
	default:
		real = strtod(text, &end);
		memcpy(out, &real, sizeof(*out));
	}
	done = !errno && !*end;
	errno = saved;
	return done;
}

/* ---- conditions ---- */

bool near__trace_is_condition(const char *text)
{
	struct condition c;

	return condition_parse(text, &c);
}

/* The field of that name: its place in the fields' text, which ends at *end, the number, if it is
 * one, in the code of a filter, and the values of its labels. NULL: there is none. */
static const char *field_find(const struct near_trace_point *p, const char *name, size_t length,
			      const char **end, uint32_t *code, const int32_t **values)
{
	unsigned offset = 0, field = 0, size = 0;
	enum kind kind = UNSIGNED;

	*values = p->values;
	for (const char *at = p->fields; *at; at = **end ? *end + 1 : *end, field++) {
		bool is_number = type_of(at, &size, &kind);
		const char *own = *end = at + strcspn(at, ";");

		while (own[-1] != ' ')
			own--;
		if ((size_t)(*end - own) == length && memcmp(own, name, length) == 0) {
			*code = is_number ? size | (uint32_t)kind << 4 | field << 10 |
						    (offset & 255) << 16
					  : 0;
			return at;
		}
		for (const char *s = at; s < *end; s++)
			*values += *s == '%';
		offset += is_number ? size : 0;
	}
	return NULL;
}

bool near__trace_compile(struct near__trace_filter *out, const struct near_trace_point *p,
			 const char *text)
{
	const int32_t *values;
	const char *at, *end;
	struct condition c;

	if (!condition_parse(text, &c))
		return false;
	at = field_find(p, c.name, c.name_length, &end, &out->code, &values);
	if (!at || !out->code)
		return false;
	out->code |= c.test << 6;
	return find_label(at, end, values, c.value, &out->operand) ||
	       number_parse(c.value, (enum kind)KIND_OF(out->code), &out->operand);
}

uint32_t near__trace_field_code(const struct near_trace_point *p, const char *name)
{
	const int32_t *values;
	const char *end;
	uint32_t code = 0;

	return field_find(p, name, strlen(name), &end, &code, &values) ? code : 0;
}

void near__trace_count_fields(const struct near_trace_point *p, uint32_t *fields, uint32_t *bytes)
{
	unsigned size;
	enum kind kind;

	*fields = *bytes = 0;
	for (const char *at = p->fields; *at; at += strcspn(at, ";"), at += *at != 0) {
		*bytes += type_of(at, &size, &kind) ? size : 0;
		++*fields;
	}
}

/* A release for each word, an acquire for each load: a reader that loads a new word finds another
 * number of changes afterwards, or found an odd one before. */
void near__trace_set_filter(struct near_trace_point *p, const struct near__trace_filter *f)
{
	struct near__trace_filter *to = &p->filter;

	uint32_t odd = to->changes | 1;

	if (to->changes && to->changes != odd && to->code == f->code && to->operand == f->operand)
		return;
	__atomic_store_n(&to->changes, odd, __ATOMIC_RELAXED);
	__atomic_store_n(&to->code, f->code, __ATOMIC_RELEASE);
	__atomic_store_n(&to->operand, f->operand, __ATOMIC_RELEASE);
	__atomic_store_n(&to->changes, odd + 1, __ATOMIC_RELEASE);
}

void near__trace_open_filter(struct near_trace_point *p)
{
	__atomic_store_n(&p->filter.changes, p->filter.changes | 1, __ATOMIC_RELAXED);
}

/* ---- events ---- */

static uint64_t field_load(const char *at, unsigned size, unsigned kind)
{
	uint64_t n;
	uint32_t n4;
	uint16_t n2;
	float f;
	double d;

	switch (size) {
	case 1:
		return kind == SIGNED ? (uint64_t)(signed char)*at : (unsigned char)*at;
	case 2:
		memcpy(&n2, at, sizeof(n2));
		return kind == SIGNED ? (uint64_t)(int16_t)n2 : n2;
	case 4:
		memcpy(&n4, at, sizeof(n4));
		memcpy(&f, at, sizeof(f));
		d = f;
		memcpy(&n, &d, sizeof(n));
		return kind == REAL ? n : kind == SIGNED ? (uint64_t)(int32_t)n4 : n4;
	default:
		memcpy(&n, at, sizeof(n));
		return n;
	}
}

#define COMPARE(a, b) ((a) < (b) ? BELOW : (a) > (b) ? ABOVE : (a) == (b) ? EQUAL : NO_NUMBER)

static unsigned value_compare(unsigned kind, uint64_t a, uint64_t b)
{
	double x, y;

	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	switch (kind) {
	case UNSIGNED:
		return COMPARE(a, b);
	case SIGNED:
		return COMPARE((int64_t)a, (int64_t)b);
	default:
		return COMPARE(x, y);
	}
}

/* Inline, also where it is not the only copy: this is what a condition costs. */
__attribute__((always_inline)) static inline bool is_true(uint32_t code, uint64_t operand,
							  const char *at)
{
	return TEST_OF(code) &
	       value_compare(KIND_OF(code), field_load(at, SIZE_OF(code), KIND_OF(code)), operand);
}

static const char *field_at(uint32_t code, const void *payload,
			    const struct near__trace_piece *pieces)
{
	return pieces ? (const char *)pieces[FIELD_OF(code)].data
		      : (const char *)payload + OFFSET_OF(code);
}

bool near__trace_is_true(const struct near__trace_filter *f, const void *payload,
			 const struct near__trace_piece *pieces)
{
	return is_true(f->code, f->operand, field_at(f->code, payload, pieces));
}

uint64_t near__trace_value(uint32_t code, const void *payload,
			   const struct near__trace_piece *pieces)
{
	return field_load(field_at(code, payload, pieces), SIZE_OF(code), KIND_OF(code));
}

/* Acquire: pairs with the store that switched it on. */
static bool is_triggered(const struct near_trace_point *p)
{
	return __atomic_load_n(&p->enabled, __ATOMIC_ACQUIRE) & NEAR__TRACE_TRIGGERED;
}

/* While it changes the event is recorded: a handler may have interrupted the change. The filter of
 * a tracepoint that has a trigger always is as one that changes: so triggers cost the conditions of
 * others nothing. */
__attribute__((noinline)) static void choose_slowly(struct near_trace_point *p, const void *payload,
						    const struct near__trace_piece *pieces,
						    unsigned n, const void *frame)
{
	if (is_triggered(p))
		near__trace.play_triggers(p, payload, pieces, n, frame);
	else
		near__trace.record(p, payload, pieces, n);
}

/* All calls are the last ones, so that nothing is saved. */
void near__trace_choose(struct near_trace_point *p, const void *payload,
			const struct near__trace_piece *pieces, unsigned n, const void *frame)
{
	const struct near__trace_filter *f = &p->filter;
	uint32_t changes = __atomic_load_n(&f->changes, __ATOMIC_ACQUIRE);
	uint32_t code = __atomic_load_n(&f->code, __ATOMIC_ACQUIRE);
	uint64_t operand = __atomic_load_n(&f->operand, __ATOMIC_ACQUIRE);
	const char *at = field_at(code, payload, pieces);

	if (changes % 2 || changes != __atomic_load_n(&f->changes, __ATOMIC_RELAXED))
		choose_slowly(p, payload, pieces, n, frame);
	else if (is_true(code, operand, at))
		near__trace.record(p, payload, pieces, n);
	else if (__atomic_load_n(&p->enabled, __ATOMIC_RELAXED) & NEAR__TRACE_WATCHED)
		near__trace_watch();
}
