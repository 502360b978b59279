/* SPDX-License-Identifier: MIT */
/* A trace as CTF 1.8: a folder with a stream for each CPU. Packets are made in memory, and appended
 * to the stream's file, which is open no longer than that: there may be thousands of CPUs. */
#include "trace/print.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/text.h"

#define MOST_CPUS 16384
#define PACKET ((size_t)64 << 10) /* then it is written */
#define MAGIC 0xC1FC1FC1

struct packet_head {
	uint32_t magic;
	unsigned char uuid[16];
	uint32_t stream_id;
	uint64_t begin, end, content, size, number, discarded;
	uint32_t cpu;
} __attribute__((packed));

struct event_head {
	uint32_t id;
	uint64_t ns;
	uint32_t pid, tid;
} __attribute__((packed));

struct stream {
	struct packet_head head;   /* of the packet that is made */
	struct memory_file packet; /* with room for the head */
};

struct ctf {
	const char *folder;
	int fd;
	bool made; /* the folder */
	unsigned char uuid[16];
	struct stream *streams[MOST_CPUS];
	uint64_t events;
	unsigned count; /* of streams */
	int err;
};

/* ---- packets ---- */

static int packet_append(struct ctf *c, const char *name, const char *data, size_t size)
{
	int fd = openat(c->fd, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	int err = fd < 0 ? -errno : 0;

	if (!err)
		err = write_at(fd, data, size, AT_END);
	if (fd >= 0 && close(fd) && !err)
		err = -errno;
	return err;
}

static struct word name_of(uint32_t cpu)
{
	return word("stream_%u", cpu);
}

static size_t packet_size(const struct stream *s)
{
	return (size_t)ftell(s->packet.file);
}

static void begin_packet(struct stream *s)
{
	rewind(s->packet.file);
	fwrite(&s->head, sizeof(s->head), 1, s->packet.file);
}

static void write_packet(struct ctf *c, struct stream *s)
{
	size_t size = packet_size(s);

	s->head.content = s->head.size = size * 8;
	fflush(s->packet.file);
	memcpy(s->packet.text, &s->head, sizeof(s->head));
	if (!c->err)
		c->err = packet_append(c, name_of(s->head.cpu).text, s->packet.text, size);
	s->head.number++;
	s->head.begin = s->head.end;
	begin_packet(s);
}

/* ---- events ---- */

static struct stream *stream_of(struct ctf *c, const struct trace_event *e)
{
	struct stream *s = c->streams[e->cpu];

	if (s)
		return s;
	s = allocate_zeros(1, sizeof(*s));
	s->head = (struct packet_head){.magic = MAGIC, .begin = e->ns, .cpu = e->cpu};
	memcpy(s->head.uuid, c->uuid, sizeof(c->uuid));
	memory_open(&s->packet);
	begin_packet(s);
	c->count++;
	return c->streams[e->cpu] = s;
}

/* Strings end with 0 there, and lengths have 32 bits. */
static void put_field(FILE *out, const struct trace_field *f, const struct trace_value *v)
{
	if (f->kind == TRACE_STRING) {
		fwrite(v->data, 1, strnlen(v->data, v->count), out);
		putc_unlocked(0, out);
		return;
	}
	if (f->counted)
		fwrite(&v->count, sizeof(v->count), 1, out);
	fwrite(v->data, f->size, v->count, out);
}

static void put_event(struct ctf *c, const struct trace_event *e)
{
	struct stream *s = stream_of(c, e);
	struct event_head head = {e->point->index, e->ns, (uint32_t)e->pid, e->tid};

	fwrite(&head, sizeof(head), 1, s->packet.file);
	if (e->point->fixed_size != UINT32_MAX)
		fwrite(e->payload, 1, e->point->fixed_size, s->packet.file);
	else
		for (struct trace_cursor f = trace_fields(e); trace_next_field(&f);)
			put_field(s->packet.file, f.field, &f.value);
	s->head.end = e->ns;
	c->events++;
	if (packet_size(s) >= PACKET)
		write_packet(c, s);
}

static void add_discarded(struct ctf *c, struct stream *s, uint64_t n)
{
	if (!n)
		return;
	/* A reader counts from the first packet on. */
	if (s->head.number == 0)
		write_packet(c, s);
	s->head.discarded += n;
}

static struct stream *first_stream(const struct ctf *c)
{
	unsigned i = 0;

	while (i < MOST_CPUS - 1 && !c->streams[i])
		i++;
	return c->streams[i];
}

/* A ring's events that found no room are counted where its last event was; those for which there
 * was no ring, and those of rings without events, in the first stream. */
static void end_streams(struct ctf *c, const struct trace *t)
{
	uint64_t rest = trace_lost(t, LOST_DISCARDED);

	for (unsigned i = 0; i < t->ring_count; i++) {
		const struct trace_ring *r = &t->rings[i];
		struct stream *s = c->streams[r->last_cpu];

		if (!s)
			continue;
		add_discarded(c, s, r->discarded);
		rest -= r->discarded;
	}
	if (first_stream(c))
		add_discarded(c, first_stream(c), rest);
	for (unsigned i = 0; i < MOST_CPUS; i++)
		if (c->streams[i] && (packet_size(c->streams[i]) > sizeof(struct packet_head) ||
				      c->streams[i]->head.discarded))
			write_packet(c, c->streams[i]);
}

/* ---- the folder ---- */

static int open_folder(struct ctf *c)
{
	c->made = mkdir(c->folder, 0777) == 0;
	if (!c->made && errno != EEXIST)
		return failure("trace", "cannot make '%s': %s", c->folder, strerror(errno));
	c->fd = open(c->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->fd < 0)
		return failure("trace", "cannot open '%s': %s", c->folder, strerror(errno));
	if (!c->made && faccessat(c->fd, "metadata", F_OK, 0) == 0)
		return failure("trace", "'%s' has a trace already: remove it first", c->folder);
	return EXIT_DONE;
}

static void remove_all(struct ctf *c)
{
	for (unsigned i = 0; i < MOST_CPUS; i++)
		if (c->streams[i])
			unlinkat(c->fd, name_of(i).text, 0);
	unlinkat(c->fd, "metadata", 0);
	if (c->made)
		rmdir(c->folder);
}

static int write_metadata(struct ctf *c, const struct trace *t)
{
	struct memory_file text;
	int err;

	trace_ctf_metadata(memory_open(&text), t, c->uuid);
	memory_close(&text);
	err = packet_append(c, "metadata", text.text, text.size);
	free(text.text);
	return err;
}

/* The same for the same trace. */
static void make_uuid(struct ctf *c, const struct trace *t)
{
	uint64_t words[2] = {UINT64_C(0x9e3779b97f4a7c15), t->file_count};

	for (unsigned i = 0; i < t->file_count; i++) {
		const struct near__trace_session *s = &t->files[i].session;

		words[0] =
			(words[0] ^ s->begin.realtime_ns ^ s->pid) * UINT64_C(0xd1342543de82ef95);
		words[1] = (words[1] ^ s->begin.counter ^ s->number) * UINT64_C(0xaf251af3b0f025b5);
	}
	memcpy(c->uuid, words, sizeof(c->uuid));
}

static int write_all(struct ctf *c, struct trace *t)
{
	struct trace_event e;
	int code = open_folder(c);

	if (code)
		return code;
	make_uuid(c, t);
	while (!c->err && !trace_must_stop(stdout) && trace_next(t, &e))
		put_event(c, &e);
	end_streams(c, t);
	if (!c->err)
		c->err = write_metadata(c, t);
	code = child_report_interrupt("trace");
	if (!code && c->err)
		code = failure("trace", "cannot write to '%s': %s", c->folder, strerror(-c->err));
	if (code)
		remove_all(c);
	else
		printf("%llu events in %u streams\n", (unsigned long long)c->events, c->count);
	return code;
}

int trace_ctf(struct trace *t, const char *folder)
{
	struct ctf *c = allocate_zeros(1, sizeof(*c));
	int code;

	c->folder = folder;
	c->fd = -1;
	code = write_all(c, t);
	for (unsigned i = 0; i < MOST_CPUS; i++)
		if (c->streams[i]) {
			memory_close(&c->streams[i]->packet);
			free(c->streams[i]->packet.text);
			free(c->streams[i]);
		}
	if (c->fd >= 0)
		close(c->fd);
	free(c);
	return code;
}
