/* SPDX-License-Identifier: MIT */
/* usage: trace_file FILE basic|chains|large|floats|many [N [RING_KIB [MODE [CLOCK]]]]
 *
 * Makes a trace file by its format alone, whose events the tests know (trace_show_test.py ...). The
 * counter has two ticks per ns. */
#include <nearcpu/region.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/format.h"

#define SLOTS 2u
#define CPUS 2u
#define BEGIN UINT64_C(1000000) /* of the counter */
#define HEADER_AT (NEAR__TRACE_PAGE - sizeof(struct near__trace_ring))
#define POINTS_SIZE (UINT64_C(64) << 10)

static struct near_region region;
static struct near__trace_session *session;
static char *points, *rings;
static struct near_region_object ring_object;

static void must(int error)
{
	if (error) {
		fprintf(stderr, "trace_file: %s\n", near_region_error(&region) ?: "error");
		exit(1);
	}
}

static char *define(const char *name, uint32_t kind, uint32_t flags, uint64_t size,
		    struct near_region_object *o)
{
	*o = (struct near_region_object){
		.name = name, .kind = kind, .flags = NEAR_REGION_COMMON | flags, .size = size};
	must(near_region_open_object(&region, o));
	return near_region_common(&region, o->offset);
}

static void make(const char *path, uint64_t ring_size, uint32_t mode, uint32_t clock)
{
	uint64_t stride = ring_size + NEAR__TRACE_PAGE;
	struct near_region_options options = {.flags = NEAR_CREATE,
					      .size = 64,
					      .common_size = (SLOTS + CPUS) * stride +
							     (UINT64_C(256) << 10),
					      .max_objects = 8};
	struct near_region_object o;

	must(near_region_open(&region, path, &options));
	session = (void *)define(NEAR__TRACE_SESSION_NAME, NEAR__TRACE_SESSION_KIND, 0,
				 sizeof(*session) + sizeof(uint64_t), &o);
	define(NEAR__TRACE_CONTROL_NAME, NEAR__TRACE_CONTROL_KIND, 0,
	       sizeof(struct near__trace_control), &o);
	points = define(NEAR__TRACE_POINTS_NAME, NEAR__TRACE_POINTS_KIND, NEAR_REGION_SPARSE,
			POINTS_SIZE, &o);
	must(near_region_populate(&region, &o, 0, POINTS_SIZE));
	rings = define(NEAR__TRACE_RINGS_NAME, NEAR__TRACE_RINGS_KIND, NEAR_REGION_SPARSE,
		       (SLOTS + CPUS) * stride, &ring_object);
	*session = (struct near__trace_session){
		.mode = mode,
		.clock = clock,
		.slots = SLOTS,
		.cpus = CPUS,
		.ring_size = ring_size,
		.ring_stride = stride,
		.pid = 4242,
		.number = 1,
		.begin = {BEGIN, UINT64_C(5000000000), UINT64_C(1700000000000000000), 50},
	};
	session->latest[0] = session->begin;
	session->latest[0].counter += UINT64_C(20000000000);
	session->latest[0].monotonic_ns += UINT64_C(10000000000);
	session->ended = 1;
	session->version = NEAR__TRACE_VERSION;
}

static void add_point_at(uint32_t id, uint32_t level, const char *name, const char *fields,
			 const char *place)
{
	size_t n = strlen(name) + 1, f = strlen(fields) + 1, l = strlen(place) + 1;
	struct near__trace_point_record *r = (void *)(points + session->points_bytes);

	*r = (struct near__trace_point_record){.size = (uint32_t)((sizeof(*r) + n + f + l + 7) &
								  ~(size_t)7),
					       .id = id,
					       .level = level,
					       .name_size = (uint32_t)n,
					       .fields_size = (uint32_t)f};
	memcpy(r->texts, name, n);
	memcpy(r->texts + n, fields, f);
	memcpy(r->texts + n + f, place, l);
	session->points_bytes += r->size;
}

static void add_point(uint32_t id, uint32_t level, const char *name, const char *fields)
{
	add_point_at(id, level, name, fields, "file.c:12");
}

/* ---- records ---- */

static struct near__trace_ring *ring(unsigned i)
{
	char *at = rings + i * session->ring_stride;
	struct near__trace_ring *r = (void *)(at + HEADER_AT);

	if (!(*near__trace_used(session) >> i & 1)) {
		must(near_region_populate(&region, &ring_object, i * session->ring_stride,
					  session->ring_stride));
		r->mask = session->ring_size - 1;
		*near__trace_used(session) |= UINT64_C(1) << i;
	}
	return r;
}

struct record {
	unsigned ring, id, tid, cpu, flags;
	uint64_t ns; /* since the begin */
};

static void put(struct record e, const void *payload, size_t size)
{
	struct near__trace_ring *r = ring(e.ring);
	char *data = rings + e.ring * session->ring_stride + NEAR__TRACE_PAGE;
	uint64_t words = size ? 2 + (size + 7) / 8 : 3, low = r->position % NEAR__TRACE_SUB_SIZE,
		 *out;

	if (low + words * 8 >= NEAR__TRACE_SUB_SIZE) {
		uint64_t next = r->position - low + NEAR__TRACE_SUB_SIZE;

		if (session->mode != NEAR__TRACE_OVERWRITE && next >= session->ring_size) {
			r->discarded++;
			return;
		}
		memset(data + (r->position & r->mask), 0, 8);
		r->position = next;
	}
	out = (uint64_t *)(data + (r->position & r->mask));
	memset(out, 0, words * 8);
	out[0] = e.tid | (uint64_t)e.cpu << NEAR__TRACE_CPU_SHIFT |
		 (uint64_t)e.id << NEAR__TRACE_ID_SHIFT | words << NEAR__TRACE_WORDS_SHIFT |
		 (uint64_t)e.flags << NEAR__TRACE_FLAGS_SHIFT;
	out[1] = session->clock == NEAR__TRACE_COUNTER     ? BEGIN + 2 * e.ns
		 : session->clock == NEAR__TRACE_MONOTONIC ? session->begin.monotonic_ns + e.ns
		 : session->clock == NEAR__TRACE_OWN       ? e.ns
							   : 0;
	if (size)
		memcpy(out + 2, payload, size);
	r->position += words * 8;
}

/* The packed values of an event. */
static char packed[4096];
static size_t packed_size;

static void pack(const void *data, size_t size)
{
	memcpy(packed + packed_size, data, size);
	packed_size += size;
}

#define PACK(type, value) pack(&(type){value}, sizeof(type))

static void pack_counted(const void *data, uint16_t count, size_t size)
{
	pack(&count, sizeof(count));
	pack(data, count * size);
}

/* ---- scenarios ---- */

static void types_event(struct record e)
{
	static const uint32_t numbers[] = {1, 2, 4000000000u};
	static const double halves[] = {.5, -1.25};
	static const char text[] = "a \"b\"\\,\n\xc3\xa9\xff";

	packed_size = 0;
	PACK(uint8_t, 1);
	PACK(uint8_t, 255);
	PACK(uint16_t, 65535);
	PACK(uint32_t, 4294967295u);
	PACK(uint64_t, UINT64_MAX);
	PACK(int8_t, -1);
	PACK(int16_t, -300);
	PACK(int32_t, -70000);
	PACK(int64_t, INT64_MIN);
	PACK(uint64_t, 0xdeadbeef);
	PACK(float, 1.5f);
	PACK(double, -2.25);
	PACK(uint64_t, 0x1000);
	PACK(int32_t, -2);
	pack_counted(text, sizeof(text) - 1, 1);
	pack_counted("\x01\xfe", 2, 1);
	pack_counted(numbers, 3, sizeof(*numbers));
	pack_counted(halves, 2, sizeof(*halves));
	pack_counted("", 0, 1);
	put(e, packed, packed_size);
}

static void basic(void)
{
	add_point(1, 4, "app:types",
		  "bool b;u8 a8;u16 a16;u32 a32;u64 a64;i8 s8;i16 s16;i32 s32;i64 s64;x64 hex;"
		  "f32 f;f64 string;ptr p;enum color{red=1,blue=-2} c;string text;bytes raw;"
		  "array_u32 numbers;array_f64 halves;string empty");
	add_point(2, 2, "app:begin", "u32 job");
	add_point(3, 5, "app:end", "u32 job;i32 result");
	add_point(7, 5, "app:nothing", "");
	types_event((struct record){.ring = 0, .id = 1, .tid = 100, .cpu = 1, .ns = 1000});
	for (uint32_t i = 0; i < 10; i++) {
		uint32_t job[2] = {i, (uint32_t)-1};
		struct record e = {.ring = i % 2, .id = 2, .tid = 101, .cpu = i % 2};

		e.ns = 1000000 * (i + UINT64_C(1));
		put(e, job, 4);
		e.id = 3;
		e.ring = 1;
		e.tid += i % 2; /* ends on another thread */
		e.ns += 1000 * (i + 1);
		put(e, job, 8);
	}
	put((struct record){.ring = 2, .id = 7, .tid = 102, .ns = 2000000}, NULL, 0);
}

static void part(struct record e, uint32_t serial, unsigned number, unsigned parts,
		 const char *data, size_t size)
{
	char payload[256];
	uint64_t first = serial | (uint64_t)number << 32 | (uint64_t)parts << 48;

	memcpy(payload, &first, 8);
	memcpy(payload + 8, data, size);
	e.flags |= NEAR__TRACE_PART;
	put(e, payload, size + 8);
}

/* The payloads of 600 bytes in three parts, on two rings, with other events between them. */
static void chains(void)
{
	static char data[608];
	struct record e = {.id = 1, .tid = 100};
	uint32_t one = 1;

	add_point(1, 6, "app:long", "string text");
	add_point(2, 6, "app:one", "u32 n");
	data[0] = (char)(598 & 0xff);
	data[1] = (char)(598 >> 8);
	for (unsigned i = 0; i < 598; i++)
		data[2 + i] = (char)('a' + i % 26);
	for (uint32_t i = 0; i < 6; i++) {
		e.ns = 10000 * (i + UINT64_C(1));
		e.tid = 100 + i % 2;
		e.ring = 0;
		if (i != 4) /* its begin is missing */
			part(e, i, 0, 3, data, 248);
		put((struct record){.id = 2, .tid = 200, .ring = 1, .ns = e.ns + 1}, &one, 4);
		e.ns += 2;
		e.ring = i % 2;
		if (i != 3) /* its middle is missing */
			part(e, i, 1, 0, data + 248, 248);
		put((struct record){.id = 2, .tid = 200, .ring = 1, .ns = e.ns + 1}, &one, 4);
		e.ns += 2;
		e.ring = 0;
		if (i == 5)
			e.flags = NEAR__TRACE_CUT;
		part(e, i, 2, 0, data + 496, 104);
	}
}

/* A string of 300,000 bytes; fields whose names all events have, too. */
static void large(void)
{
	static char data[6 + 300000];
	const size_t most = 248;
	struct record e = {.tid = 100, .cpu = 1};

	add_point(1, 6, "app:begin", "string key");
	add_point(2, 6, "app:end", "string key");
	add_point(3, 6, "app:common", "u32 cpu;u32 time;u32 pid;u32 tid;u32 event");
	data[0] = data[1] = (char)0xff; /* NEAR__TRACE_LONG */
	memcpy(data + 2, &(uint32_t){sizeof(data) - 6}, 4);
	memset(data + 6, 'k', sizeof(data) - 6);
	for (uint32_t i = 0; i < 2; i++) {
		e.id = i + 1;
		e.ns = 1000 * (i + UINT64_C(1));
		for (size_t at = 0, n = 0; at < sizeof(data); at += most)
			part(e, i, (unsigned)n++, at ? 0 : (sizeof(data) + most - 1) / most,
			     data + at, sizeof(data) - at < most ? sizeof(data) - at : most);
	}
	e.id = 3;
	put(e, (uint32_t[]){11, 12, 13, 14, 15}, 20);
}

static void floats(void)
{
	static const double doubles[] = {0,        -0.,    9.99, .1,   1. / 3,   1e15,
					 1e16,     1e22,   1e-4, 1e-5, 100.,     1e100,
					 1e17 / 3, 5e-324, NAN,  -NAN, HUGE_VAL, -HUGE_VAL};
	static const float singles[] = {0, 9.99f, .1f, 1.f / 3, 1e6f, 1234567, 1 << 24, 1e-5f};

	add_point(1, 6, "app:floats", "array_f64 doubles;array_f32 singles");
	packed_size = 0;
	pack_counted(doubles, sizeof(doubles) / sizeof(*doubles), sizeof(*doubles));
	pack_counted(singles, sizeof(singles) / sizeof(*singles), sizeof(*singles));
	put((struct record){.id = 1, .tid = 100}, packed, packed_size);
}

/* Of files that do not exist; of the last one at an address; of lines that are none. */
static void stacks(void)
{
	static const char *const lines[] = {
		"1000-5000 r-xp 00000100 00:01 7 /no/such",
		"2000-3000 r-xp 00000000 00:01 7 /no/such/program, \"1\"</script>",
		"3000-4000 r-xp 00000000 00:01 7",
		"3000-4000 r-xp 00000000 00:01 x /no/such",
		"3000 /",
		"",
	};
	static const uint64_t frames[] = {0x2001, 0x1fff, 0x3000, 0x4fff, 0x5000, 0, UINT64_MAX};

	add_point(1, 6, "app:call", "u32 n;array_x64 stack");
	add_point(2, 6, "app:other", "array_x32 stack;u64 stack");
	for (uint32_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		add_point_at(i + 3, 6, NEAR__TRACE_OBJECT, "", lines[i]);
	packed_size = 0;
	PACK(uint32_t, 7);
	pack_counted(frames, sizeof(frames) / sizeof(*frames), sizeof(*frames));
	put((struct record){.id = 1, .tid = 100}, packed, packed_size);
	packed_size = 0;
	pack_counted(&(uint32_t){0x2001}, 1, sizeof(uint32_t));
	PACK(uint64_t, 0x2001);
	put((struct record){.id = 2, .tid = 100, .ns = 1}, packed, packed_size);
}

/* Two tracepoints whose name or field no reader takes, and one that follows them. */
static void odd(void)
{
	add_point(1, 6, "shop:caf\xc3\xa9", "u32 id");
	add_point(2, 6, "shop:order", "u32 a$b");
	add_point(3, 6, "shop:sale", "enum shop::kind{shop::NEW=1} kind");
	for (uint32_t i = 1; i <= 3; i++)
		put((struct record){.id = i, .tid = 100, .ns = i}, &(uint32_t){1}, 4);
}

/* Fields whose names are those that CTF's lengths might have, or differ by an underscore. */
static void lengths(void)
{
	static const uint32_t numbers[] = {7, 8, 9};

	add_point(1, 6, "net:packet",
		  "bytes data;u32 data_length;u32 _data_length;array_u32 x;u32 _x;u32 __x;u32 x__;"
		  "u32 x_;u32 event;array_u32 _x_length;u32 id");
	packed_size = 0;
	pack_counted("abc", 3, 1);
	PACK(uint32_t, 1);
	PACK(uint32_t, 2);
	pack_counted(numbers, 2, sizeof(*numbers));
	for (uint32_t i = 3; i < 8; i++)
		PACK(uint32_t, i);
	pack_counted(numbers, 3, sizeof(*numbers));
	PACK(uint32_t, 8);
	put((struct record){.id = 1, .tid = 100, .ns = 1}, packed, packed_size);
}

static void many(uint32_t n)
{
	add_point(1, 6, "app:tick", "u32 n");
	for (uint32_t i = 0; i < n; i++)
		put((struct record){.ring = i % 7 % 2,
				    .id = 1,
				    .tid = 100 + i % 7,
				    .cpu = i % 2,
				    .ns = i * UINT64_C(100)},
		    &i, 4);
}

static uint64_t number(int argc, char **argv, int i, uint64_t otherwise)
{
	return argc > i ? strtoull(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	make(argv[1], number(argc, argv, 4, 256) << 10, (uint32_t)number(argc, argv, 5, 0),
	     (uint32_t)number(argc, argv, 6, NEAR__TRACE_COUNTER));
	if (strcmp(argv[2], "basic") == 0)
		basic();
	else if (strcmp(argv[2], "chains") == 0)
		chains();
	else if (strcmp(argv[2], "large") == 0)
		large();
	else if (strcmp(argv[2], "floats") == 0)
		floats();
	else if (strcmp(argv[2], "stacks") == 0)
		stacks();
	else if (strcmp(argv[2], "odd") == 0)
		odd();
	else if (strcmp(argv[2], "lengths") == 0)
		lengths();
	else
		many((uint32_t)number(argc, argv, 3, 1000));
	near_region_close(&region);
	return 0;
}
