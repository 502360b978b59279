/* SPDX-License-Identifier: MIT */
/* The metadata of a CTF trace. Readers take one underscore away from the names of fields: with it,
 * no name is a word of the language. They refuse two names that differ by an underscore before
 * them, so that one of these gets a number. */
#include "trace/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static const char types[] =
	"typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
	"typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
	"typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n\n";

static const char stream[] = "typealias integer { size = 64; align = 8; signed = false;\n"
			     "\tmap = clock.monotonic.value; } := clock_t;\n\n"
			     "stream {\n\tid = 0;\n"
			     "\tpacket.context := struct {\n"
			     "\t\tclock_t timestamp_begin;\n\t\tclock_t timestamp_end;\n"
			     "\t\tuint64_t content_size;\n\t\tuint64_t packet_size;\n"
			     "\t\tuint64_t packet_seq_num;\n\t\tuint64_t events_discarded;\n"
			     "\t\tuint32_t cpu_id;\n\t};\n"
			     "\tevent.header := struct { uint32_t id; clock_t timestamp; };\n"
			     "\tevent.context := struct { uint32_t _vpid; uint32_t _vtid; };\n};\n";

/* LTTng's, which viewers have names for, of those of near_trace. */
static const unsigned levels[] = {3, 3, 4, 5, 6, 11, 14};

static void print_trace(FILE *out, const unsigned char u[16])
{
	fprintf(out,
		"trace {\n\tmajor = 1;\n\tminor = 8;\n"
		"\tuuid = \"%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		"%02x%02x%02x%02x%02x%02x\";\n"
		"\tbyte_order = %s;\n"
		"\tpacket.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; "
		"};\n};\n\n",
		u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		u[13], u[14], u[15], __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "le" : "be");
}

/* Of the first file; the programs of others are in the events' process numbers. */
static void print_environment(FILE *out, const struct trace *t)
{
	const struct trace_file *f = &t->files[0];
	int64_t offset = f->realtime > 0 ? f->realtime : 0;

	fprintf(out,
		"env {\n\tdomain = \"nearcpu\";\n\ttracer_name = \"nearcpu\";\n"
		"\ttracer_version = \"%s\";\n\tprocname = \"%s\";\n\tvpid = %" PRIu64
		";\n\tprocesses = %u;\n};\n\n",
		NEARCPU_VERSION, f->program, f->session.pid & INT32_MAX, t->file_count);
	fprintf(out,
		"clock {\n\tname = \"monotonic\";\n\tdescription = \"CLOCK_MONOTONIC\";\n"
		"\tfreq = 1000000000;\n\toffset_s = %" PRId64 ";\n\toffset = %" PRId64
		";\n\tabsolute = false;\n};\n\n",
		offset / 1000000000, offset % 1000000000);
}

static void print_enum(FILE *out, const struct trace_field *f)
{
	fputs("enum : integer { size = 32; align = 8; signed = true; } {", out);
	for (unsigned i = 0; i < f->label_count; i++)
		fprintf(out, "%s \"%s\" = %" PRId64, i ? "," : "", f->labels[i].name,
			f->labels[i].value);
	fputs(" }", out);
}

static void print_type(FILE *out, const struct trace_field *f)
{
	bool is_signed = f->kind == TRACE_SIGNED || f->kind == TRACE_ENUM;

	if (f->kind == TRACE_STRING)
		fputs("string { encoding = UTF8; }", out);
	else if (f->kind == TRACE_FLOAT)
		fprintf(out, "floating_point { exp_dig = %d; mant_dig = %d; align = 8; }",
			f->size == 4 ? 8 : 11, f->size == 4 ? 24 : 53);
	else if (f->kind == TRACE_BOOL)
		fputs("enum : uint8_t { \"false\" = 0, \"true\" = 1 }", out);
	else if (f->kind == TRACE_ENUM && f->label_count)
		print_enum(out, f);
	else
		fprintf(out, "integer { size = %u; align = 8; signed = %s; base = %d; }",
			8 * f->size, is_signed ? "true" : "false",
			f->kind == TRACE_HEX || f->kind == TRACE_BYTES ? 16 : 10);
}

/* ---- names ---- */

static bool is_taken(char *const *names, unsigned n, const char *name)
{
	name += strspn(name, "_");
	for (unsigned i = 0; i < n; i++)
		if (names[i] && strcmp(names[i] + strspn(names[i], "_"), name) == 0)
			return true;
	return false;
}

/* names[n] = the first of HEAD NAME TAIL, HEAD NAME TAIL_2 and so on that is none of the first
 * n. */
static void add_name(char **names, unsigned n, const char *head, const char *name, const char *tail)
{
	char number[16] = "";

	for (unsigned i = 2;; i++) {
		if (asprintf(&names[n], "%s%s%s%s", head, name, tail, number) < 0)
			out_of_memory();
		if (!is_taken(names, n, names[n]))
			return;
		free(names[n]);
		names[n] = NULL;
		snprintf(number, sizeof(number), "_%u", i);
	}
}

/* Those of the fields, then those of the lengths of sequences: a field keeps its name. */
static void make_names(char **names, const struct trace_point *p)
{
	unsigned n = p->field_count;

	for (unsigned i = 0; i < n; i++)
		add_name(names, i, "_", p->fields[i].name, "");
	for (unsigned i = 0; i < n; i++)
		if (p->fields[i].counted && p->fields[i].kind != TRACE_STRING)
			add_name(names, n + i, "__", p->fields[i].name, "_length");
}

static void print_fields(FILE *out, const struct trace_point *p)
{
	unsigned n = p->field_count;
	char **names = allocate_zeros(2 * (size_t)n, sizeof(*names));

	make_names(names, p);
	for (unsigned i = 0; i < n; i++) {
		if (names[n + i])
			fprintf(out, "\t\tuint32_t %s;\n", names[n + i]);
		fputs("\t\t", out);
		print_type(out, &p->fields[i]);
		fprintf(out, " %s", names[i]);
		if (names[n + i])
			fprintf(out, "[%s]", names[n + i]);
		fputs(";\n", out);
	}
	for (unsigned i = 0; i < 2 * n; i++)
		free(names[i]);
	free(names);
}

static void print_point(FILE *out, const struct trace_point *p)
{
	fprintf(out, "\nevent {\n\tid = %u;\n\tname = \"%s\";\n\tstream_id = 0;\n", p->index,
		p->name);
	if (p->level < sizeof(levels) / sizeof(*levels))
		fprintf(out, "\tloglevel = %u;\n", levels[p->level]);
	fputs("\tfields := struct {\n", out);
	print_fields(out, p);
	fputs("\t};\n};\n", out);
}

void trace_ctf_metadata(FILE *out, const struct trace *t, const unsigned char uuid[16])
{
	fputs("/* CTF 1.8 */\n\n", out);
	fputs(types, out);
	print_trace(out, uuid);
	print_environment(out, t);
	fputs(stream, out);
	for (unsigned i = 0; i < t->point_count; i++)
		print_point(out, t->points[i]);
}
