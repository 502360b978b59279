/* SPDX-License-Identifier: MIT */
/* near_trace: the fields of tracepoints, as they are in the file: types, strings, chains, cuts. */
#include "traces.h"

#include <sys/prctl.h>

/* Words that a program may have made macros. */
#define NUMBER 1
#define REAL 2
#define STRING 3
#define BYTES 4
#define ARRAY 5
#define POINTER 6
#define ENUM 7
#define TEXT 8
#define PARAM 9
#define VALUES 10
#define SIZE 11
#define PUT 12
#define SOME 13
#define NONE 14
#define MANY 15

enum color { RED = 1, GREEN, BLUE = -7 };

NEAR_TRACEPOINT(f, none, NEAR_TRACE_INFO);
NEAR_TRACEPOINT(f, small, NEAR_TRACE_INFO, (u8, a), (i16, b), (bool, c), (i32, d));
NEAR_TRACEPOINT(f, real, NEAR_TRACE_INFO, (f32, a), (x8, b));
NEAR_TRACEPOINT(f, whole, NEAR_TRACE_INFO, (f64, a));
NEAR_TRACEPOINT(f, color, NEAR_TRACE_INFO, (enum, c, color, RED, GREEN, BLUE), (x16, d));
NEAR_TRACEPOINT(f, pointer, NEAR_TRACE_INFO, (ptr, p));
NEAR_TRACEPOINT(f, packed, NEAR_TRACE_INFO, (u8, a), (u64, b), (i64, c), (f64, d), (u16, e),
		(ptr, f), (enum, g, color, RED), (f32, h), (bool, i));
NEAR_TRACEPOINT(f, full, NEAR_TRACE_INFO, (u64, a1), (u64, a2), (u64, a3), (u64, a4), (u64, a5),
		(u64, a6), (u64, a7), (u64, a8), (u64, a9), (u64, a10), (u64, a11), (u64, a12),
		(u64, a13), (u64, a14), (u64, a15), (u64, a16), (u64, a17), (u64, a18), (u64, a19),
		(u64, a20), (u64, a21), (u64, a22), (u64, a23), (u64, a24), (u64, a25), (u64, a26),
		(u64, a27), (u64, a28), (u64, a29), (u64, a30), (u64, a31), (u64, a32));
NEAR_TRACEPOINT(f, text, NEAR_TRACE_INFO, (u32, n), (string, s), (i8, last));
NEAR_TRACEPOINT(f, cut, NEAR_TRACE_INFO | NEAR_TRACE_CUT, (string, s), (array_u32, a), (i8, last));
NEAR_TRACEPOINT(f, arrays, NEAR_TRACE_INFO, (array_u16, a), (bytes, b), (array_f64, c));

/* 64 fields of each form: two words, pieces without a length, and with some. */
#define EIGHT(type, n)                                                                             \
	(type, n##0), (type, n##1), (type, n##2), (type, n##3), (type, n##4), (type, n##5),        \
		(type, n##6), (type, n##7)
#define NUMBERS(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
NEAR_TRACEPOINT(f, most_words, NEAR_TRACE_INFO, EIGHT(u8, a), EIGHT(u8, b), EIGHT(u8, c),
		EIGHT(u8, d), EIGHT(u32, e), EIGHT(u8, g), EIGHT(u8, h), EIGHT(i16, i));
NEAR_TRACEPOINT(f, most_bytes, NEAR_TRACE_INFO, EIGHT(u64, a), EIGHT(u64, b), EIGHT(u64, c),
		EIGHT(u64, d), EIGHT(u64, e), EIGHT(u64, g), EIGHT(u64, h), EIGHT(u64, i));
NEAR_TRACEPOINT(f, most_texts, NEAR_TRACE_INFO, EIGHT(string, a), EIGHT(u8, b), EIGHT(u8, c),
		EIGHT(u8, d), EIGHT(u8, e), EIGHT(u8, g), EIGHT(u8, h), EIGHT(bytes, i));

/* ---- what one event becomes ---- */

struct got {
	unsigned records, words, flags;
	uint32_t serial;
	const struct trace_file *file;
	char name[64], fields[1024];
	size_t size;
	char payload[1 << 20];
};

/* Parts of a chain are joined. */
static void collect(const struct trace_record *r, void *arg)
{
	struct got *g = arg;
	const char *name = traces_name(g->file, r->id), *from = r->payload;
	size_t size = r->words * 8;

	CHECK(name);
	snprintf(g->name, sizeof(g->name), "%s", name);
	snprintf(g->fields, sizeof(g->fields), "%s", name + strlen(name) + 1);
	if (r->flags & NEAR__TRACE_PART) {
		uint64_t link = r->head[2];

		CHECK((link >> 32 & 0xffff) == g->records);
		CHECK(g->records == 0 || g->serial == (uint32_t)link);
		g->serial = (uint32_t)link;
		from += 8;
		size -= 8;
	}
	g->words = r->words;
	g->flags = r->flags;
	CHECK(g->size + size <= sizeof(g->payload));
	memcpy(g->payload + g->size, from, size);
	g->size += size;
	g->records++;
}

static struct got got;

static void start(void **state)
{
	traces_start((struct near_trace_options){0});
}

/* In order only if there is one ring: this thread stays on a CPU. */
static struct got *stop(void)
{
	struct trace_file f = traces_stop();

	memset(&got, 0, sizeof(got));
	got.file = &f;
	traces_read(&f, collect, &got);
	traces_close(&f);
	return &got;
}

/* A cursor on a payload. */
static const char *at;

#define NEXT(type, value)                                                                          \
	do {                                                                                       \
		type next_;                                                                        \
                                                                                                   \
		memcpy(&next_, at, sizeof(next_));                                                 \
		at += sizeof(next_);                                                               \
		assert_true(next_ == (type)(value));                                               \
	} while (0)

#define EVENT(event)                                                                               \
	do {                                                                                       \
		start(state);                                                                      \
		event;                                                                             \
		at = stop()->payload;                                                              \
	} while (0)

/* ---- fixed sizes ---- */

static void numbers_are_packed(void **state)
{
	volatile unsigned flags = 0x100; /* not 0 as a byte */

	EVENT(near_trace_f_small(200, -3, flags, -70000));
	assert_string_equal(got.name, "f:small");
	assert_string_equal(got.fields, "u8 a;i16 b;bool c;i32 d");
	NEXT(uint8_t, 200);
	NEXT(int16_t, -3);
	NEXT(uint8_t, 1);
	NEXT(int32_t, -70000);
	assert_int_equal(got.size, 8);
	EVENT(near_trace_f_real(1.5f, 0xab));
	NEXT(float, 1.5f);
	NEXT(uint8_t, 0xab);
	NEXT(uint8_t, 0);
	assert_string_equal(got.fields, "f32 a;x8 b");
	EVENT(near_trace_f_whole(-2.25));
	NEXT(double, -2.25);
	EVENT(near_trace_f_pointer(&got));
	NEXT(uint64_t, (uintptr_t)&got);
	assert_string_equal(got.fields, "ptr p");
	EVENT(near_trace_f_none());
	assert_string_equal(got.fields, "");
	assert_int_equal(got.size, 8);
	NEXT(uint64_t, 0);
}

static void enums_have_names(void **state)
{
	EVENT(near_trace_f_color(BLUE, 0xffff));
	NEXT(int32_t, BLUE);
	NEXT(uint16_t, 0xffff);
	NEXT(uint16_t, 0);
	assert_string_equal(got.fields, "enum color{RED=1,GREEN=2,BLUE=-7} c;x16 d");
}

static void many_fields_are_packed(void **state)
{
	EVENT(near_trace_f_packed(1, UINT64_MAX, -2, 3.5, 4, NULL, RED, 5.5f, false));
	NEXT(uint8_t, 1);
	NEXT(uint64_t, UINT64_MAX);
	NEXT(int64_t, -2);
	NEXT(double, 3.5);
	NEXT(uint16_t, 4);
	NEXT(uint64_t, 0);
	NEXT(int32_t, RED);
	NEXT(float, 5.5f);
	NEXT(uint8_t, 0);
	assert_int_equal(got.size, 48);
	EVENT(near_trace_f_full(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
				20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32));
	assert_int_equal(got.records, 1);
	assert_int_equal(got.size, 256);
	for (uint64_t i = 1; i <= 32; i++)
		NEXT(uint64_t, i);
}

static void events_have_up_to_64_fields(void **state)
{
	EVENT(near_trace_f_most_words(NUMBERS(0), NUMBERS(8), NUMBERS(16), NUMBERS(24), NUMBERS(32),
				      NUMBERS(40), NUMBERS(48), NUMBERS(56)));
	assert_int_equal(got.records, 1);
	for (unsigned i = 0; i < 64; i++)
		if (i / 8 == 4) {
			NEXT(uint32_t, i);
		} else if (i / 8 == 7) {
			NEXT(int16_t, i);
		} else {
			NEXT(uint8_t, i);
		}
	EVENT(near_trace_f_most_bytes(NUMBERS(0), NUMBERS(8), NUMBERS(16), NUMBERS(24), NUMBERS(32),
				      NUMBERS(40), NUMBERS(48), NUMBERS(56)));
	assert_int_equal(got.records, 3);
	for (uint64_t i = 0; i < 64; i++)
		NEXT(uint64_t, i);
}

#define TEXTS "a", "b", "c", "d", "e", "f", "g", "h"
#define BYTES_OF(s) s, 1, s, 1, s, 1, s, 1, s, 1, s, 1, s, 1, s, 1

/* With a condition on a late one, and further ones by a context. */
static void pieces_are_up_to_64_and_context(void **state)
{
	char name[17] = "";

	start(state);
	near_trace_context("f:most_texts",
			   NEAR_TRACE_WITH_IDS | NEAR_TRACE_WITH_THREAD | NEAR_TRACE_WITH_PROCESS);
	near_trace_enable_if("f:most_texts", NEAR_TRACE_INFO, "h7==55");
	for (uint8_t i = 54; i < 57; i++)
		near_trace_f_most_texts(TEXTS, NUMBERS(8), NUMBERS(16), NUMBERS(24), NUMBERS(32),
					NUMBERS(40), 48, 49, 50, 51, 52, 53, 54, i, BYTES_OF("x"));
	at = stop()->payload;
	assert_int_equal(got.records, 1);
	for (unsigned i = 0; i < 64; i++)
		if (i < 8 || i > 55) {
			NEXT(uint16_t, 1);
			NEXT(char, i < 8 ? 'a' + i : 'x');
		} else {
			NEXT(uint8_t, i);
		}
	NEXT(uint32_t, 0); /* the ids */
	prctl(PR_GET_NAME, name);
	NEXT(uint16_t, strlen(name));
	at += strlen(name);
	NEXT(uint32_t, getpid());
}

/* ---- strings and arrays ---- */

static void text_is(const char *s)
{
	size_t n = strlen(s);

	if (n < NEAR__TRACE_LONG) {
		NEXT(uint16_t, n);
	} else {
		NEXT(uint16_t, NEAR__TRACE_LONG);
		NEXT(uint32_t, n);
	}
	assert_memory_equal(at, s, n);
	at += n;
}

/* Of each length: through all size classes, and on as chains. */
static void strings_of_any_length(void **state)
{
	static char text[200001];

	memset(text, 'x', sizeof(text) - 1);
	for (size_t n = 0; n < sizeof(text); n += n < 600 ? 1 + n / 32 : n * 3) {
		const char *s = text + sizeof(text) - 1 - n;

		EVENT(near_trace_f_text(7, s, -1));
		assert_string_equal(got.fields, "u32 n;string s;i8 last");
		NEXT(uint32_t, 7);
		text_is(s);
		NEXT(int8_t, -1);
		assert_int_equal(got.flags & NEAR__TRACE_PART, n + 7 > 256 ? NEAR__TRACE_PART : 0);
		assert_true(got.size - (size_t)(at - got.payload) < 8);
		while (at < got.payload + got.size)
			NEXT(uint8_t, 0);
	}
	EVENT(near_trace_f_text(8, NULL, 0));
	NEXT(uint32_t, 8);
	text_is("(null)");
}

static void arrays_have_a_length(void **state)
{
	static const uint16_t numbers[] = {1, 2, 3};
	static const double reals[] = {0.5};

	EVENT(near_trace_f_arrays(numbers, 3, "ab", 2, reals, 1));
	assert_string_equal(got.fields, "array_u16 a;bytes b;array_f64 c");
	NEXT(uint16_t, 3);
	for (int i = 0; i < 3; i++)
		NEXT(uint16_t, numbers[i]);
	NEXT(uint16_t, 2);
	NEXT(char, 'a');
	NEXT(char, 'b');
	NEXT(uint16_t, 1);
	NEXT(double, 0.5);
	EVENT(near_trace_f_arrays(NULL, 0, NULL, 0, NULL, 0));
	NEXT(uint16_t, 0);
	NEXT(uint16_t, 0);
	NEXT(uint16_t, 0);
	assert_int_equal(got.size, 8);
}

static void what_is_to_be_cut_is_cut(void **state)
{
	static uint32_t numbers[100];
	char text[300];

	memset(text, 'y', sizeof(text));
	text[LENGTH(text) - 1] = 0;
	EVENT(near_trace_f_cut("short", numbers, 5, 1));
	assert_int_equal(got.flags, 0);
	EVENT(near_trace_f_cut("short", numbers, 100, 1));
	assert_int_equal(got.flags, NEAR__TRACE_CUT);
	assert_int_equal(got.records, 1);
	text_is("short");
	NEXT(uint16_t, 61);
	at += 61 * 4;
	NEXT(int8_t, 1);
	EVENT(near_trace_f_cut(text, numbers, 100, 2));
	assert_int_equal(got.flags, NEAR__TRACE_CUT);
	text[251] = 0;
	text_is(text);
	NEXT(uint16_t, 0);
	NEXT(int8_t, 2);
}

/* ---- messages ---- */

static void messages_have_a_format(void **state)
{
	EVENT(near_trace_message(NEAR_TRACE_WARNING, "%s %d", "disk", 7));
	assert_string_equal(got.name, "log:warning");
	assert_string_equal(got.fields, "string text");
	text_is("disk 7");
	EVENT(near_trace_message(NEAR_TRACE_VERBOSE, "%s", "off"));
	assert_int_equal(got.records, 0);
	EVENT(near_trace_message(-5, "x"));
	assert_string_equal(got.name, "log:error");
}

int main(void)
{
	unit_pin(0, NULL);
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		numbers_are_packed, enums_have_names, many_fields_are_packed,
		events_have_up_to_64_fields, pieces_are_up_to_64_and_context, strings_of_any_length,
		arrays_have_a_length, what_is_to_be_cut_is_cut, messages_have_a_format);
}
