/* SPDX-License-Identifier: MIT */
/* Writers whose events are checked: what each has written is in the files, once, whole and in
 * order, unless it is counted as discarded, was overwritten or removed. */
#ifndef NEARCPU_TESTS_WRITERS_H
#define NEARCPU_TESTS_WRITERS_H

#include "traces.h"

#define WRITERS 3u /* the last one is a signal handler of the first one's thread */
#define MOST (1u << 18)
#define MOST_FILES 512u
#define CHAIN 600u /* bytes, in 3 records */

NEAR_TRACEPOINT(test, number, NEAR_TRACE_INFO, (u64, value));
NEAR_TRACEPOINT(test, words, NEAR_TRACE_INFO, (u64, value), (u64, twice), (u64, thrice));
NEAR_TRACEPOINT(test, bytes, NEAR_TRACE_INFO, (u64, value), (bytes, data));

/* In memory of this process: what each writer was about to do, and what it has done. */
struct progress {
	uint64_t begun[WRITERS], done[WRITERS];
	uint32_t tids[WRITERS];
	uint32_t started;
};

/* ---- writers ---- */

static unsigned length_of(uint64_t n)
{
	return n % 64 ? (unsigned)(n * 7 % 240) : CHAIN;
}

/* The value has the writer, too. Every 64th payload has several records. */
static void write_one(unsigned writer, uint64_t n)
{
	uint64_t value = (uint64_t)writer << 56 | n;
	char data[CHAIN];

	if (n % 8 == 0 && (writer < 2 || n % 64)) {
		memset(data, (int)(n % 251), sizeof(data));
		near_trace_test_bytes(value, data, length_of(n));
	} else if (n % 4 == 0) {
		near_trace_test_words(value, value * 2, value * 3);
	} else {
		near_trace_test_number(value);
	}
}

static struct progress *mine;

static bool write_next(unsigned writer)
{
	uint64_t n = mine->begun[writer] + 1;

	if (n == MOST)
		return false;
	__atomic_store_n(&mine->begun[writer], n, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	write_one(writer, n);
	__atomic_store_n(&mine->done[writer], n, __ATOMIC_RELEASE);
	return true;
}

static void write_in_handler(int signal)
{
	write_next(WRITERS - 1);
}

static bool ends;

/* Moves from one CPU to another now and then. */
static void write_all(unsigned writer)
{
	__atomic_store_n(&mine->tids[writer], (uint32_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED) && write_next(writer))
		if (mine->done[writer] % 4096 == 0)
			unit_pin((unsigned)(mine->done[writer] / 4096 + writer) % 2, NULL);
}

static void *write_in_thread(void *unused)
{
	write_all(1);
	return NULL;
}

static void block_alarms(int how)
{
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(how, &alarm, NULL);
}

/* Only this thread has the handler. */
static void *write_with_handler(void *unused)
{
	block_alarms(SIG_UNBLOCK);
	unit_timer(50, write_in_handler);
	write_all(0);
	unit_timer(0, NULL);
	return NULL;
}

enum { OVERWRITE, STOP, STREAM, STREAM_AND_REMOVE, KINDS };

static void start(unsigned kind)
{
	unit_pin(0, NULL); /* the first call, before there are threads */
	unit_unpin();
	traces_start((struct near_trace_options){
		.mode = (enum near_trace_mode)(kind < KINDS - 1 ? kind : STREAM),
		.ring_size = 256 << 10,
		.file_size = 256 << 10,
		.files = kind == STREAM ? MOST_FILES : 2});
	__atomic_store_n(&mine->started, 1, __ATOMIC_RELEASE);
}

/* ---- what is in the files of a process ---- */

static struct {
	pid_t pid;
	const struct progress *progress;
	unsigned count;
	struct trace_file files[MOST_FILES]; /* the session's is the last one */
	char paths[MOST_FILES][100];
	uint64_t times[WRITERS][MOST];  /* of events; 0: not found */
	unsigned char parts[MOST];      /* of each chain, by serial number; of writers 0 and 1 */
	uint64_t last[WRITERS];         /* of this ring */
	uint64_t ring_first, ring_last; /* times */
	bool is_snapshot;
	bool removes; /* the stream removes its first files */
	bool lacks;   /* the ring's first records */
	uint64_t events;
} found;

static void check_bytes(const struct trace_record *r, uint64_t n)
{
	uint16_t length;

	memcpy(&length, r->payload + 8, sizeof(length));
	CHECK(length == length_of(n) && r->words == (10 + length + 7u) / 8);
	for (unsigned i = 0; i < length; i++)
		CHECK((unsigned char)r->payload[10 + i] == n % 251);
}

static void check_payload(const struct trace_record *r, uint64_t value)
{
	uint64_t n = value & (MOST - 1), writer = value >> 56;

	if (n % 8 == 0 && (writer < 2 || n % 64))
		check_bytes(r, n);
	else if (n % 4 == 0)
		CHECK(r->words == 3 && r->head[3] == value * 2 && r->head[4] == value * 3);
	else
		CHECK(r->words == 1);
}

/* Returns false for the later records of a chain. */
static bool take_part(const struct trace_record *r, uint64_t *value)
{
	uint32_t writer = r->tid == found.progress->tids[1], serial = (uint32_t)r->head[2];
	unsigned char *parts = &found.parts[(serial * 2 + writer) % MOST];

	CHECK(r->tid == found.progress->tids[writer]);
	found.events += ++*parts == 3;
	CHECK(*parts <= 3);
	if (r->head[2] >> 32 & 0xffff)
		return false;
	*value = r->head[3];
	CHECK((*value & (MOST - 1)) == serial * 64 && r->head[2] >> 48 == 3);
	return true;
}

static void see(const struct trace_record *r, void *unused)
{
	uint64_t value = r->head[2], n;
	unsigned writer;

	CHECK(r->time >= found.ring_last);
	found.ring_last = r->time;
	found.ring_first = found.ring_first ? found.ring_first : r->time;
	if (r->flags && !take_part(r, &value))
		return;
	if (!r->flags) {
		check_payload(r, value);
		found.events++;
	}
	writer = (unsigned)(value >> 56);
	n = value & (MOST - 1);
	CHECK(writer < WRITERS && n && n <= found.progress->begun[writer]);
	CHECK(!found.times[writer][n] && n > found.last[writer]);
	found.times[writer][n] = r->time;
	found.last[writer] = n;
}

static void add_file(const char *path, void *unused)
{
	struct trace_file f;

	if (!traces_try_open(&f, path))
		return;
	if (f.session->pid != (uint64_t)found.pid) {
		traces_close(&f);
		return;
	}
	CHECK(found.count < MOST_FILES);
	snprintf(found.paths[found.count], sizeof(found.paths[0]), "%s", path);
	found.files[found.count++] = f;
}

static bool is_before(const struct trace_file *a, const struct trace_file *b)
{
	if (a->session->mode != b->session->mode)
		return b->session->mode == NEAR__TRACE_STREAM;
	return a->session->number < b->session->number;
}

static void sort_files(void)
{
	for (unsigned i = 1; i < found.count; i++)
		for (unsigned k = i; k && is_before(&found.files[k], &found.files[k - 1]); k--) {
			struct trace_file f = found.files[k];

			found.files[k] = found.files[k - 1];
			found.files[k - 1] = f;
		}
}

/* Of files of a stream each goes on where the one before it ends; the first ones may be removed.
 * Returns where the rest is in the session's ring. */
static uint64_t read_stream(unsigned ring)
{
	uint64_t end = 0;

	for (unsigned i = 0; i + 1 < found.count; i++) {
		struct near__trace_ring *r = traces_ring(&found.files[i], ring);

		if (!r || !r->position)
			continue;
		CHECK(r->read == end || (!end && found.removes));
		traces_read_ring(&found.files[i], ring, 0, see, NULL);
		found.lacks |= r->read > end;
		end = r->read + r->position;
	}
	return end;
}

/* A process that is killed between two stores has moved a sub-buffer that it has, too. */
static uint64_t begin_of(const struct trace_file *f, unsigned ring)
{
	uint64_t oldest = traces_oldest(f, ring), read = traces_ring(f, ring)->read, moved;
	uint64_t end = traces_ring(f, ring)->position;

	if (f->session->mode != NEAR__TRACE_STREAM)
		return oldest;
	moved = read_stream(ring);
	if (moved) {
		CHECK(read == moved || read + NEAR__TRACE_SUB_SIZE == moved);
		CHECK(moved >= oldest);
		return moved;
	}
	CHECK(!read || found.removes || found.is_snapshot);
	read = read < end ? read : end; /* it has moved more since the snapshot's begin */
	return read > oldest ? read : oldest;
}

/* Returns the time before which records may be missing: they were overwritten, or removed. */
static uint64_t read_logical_ring(unsigned ring)
{
	const struct trace_file *f = &found.files[found.count - 1];
	uint64_t from;

	found.ring_first = found.ring_last = 0;
	found.lacks = false;
	memset(found.last, 0, sizeof(found.last));
	if (!traces_ring(f, ring))
		return 0;
	from = begin_of(f, ring);
	found.lacks |= from && (f->session->mode != NEAR__TRACE_STREAM || !found.ring_first);
	traces_read_ring(f, ring, from, see, NULL);
	if (!found.lacks && !found.is_snapshot)
		return 0;
	return found.ring_first ? found.ring_first : UINT64_MAX;
}

static uint64_t read_rings(void)
{
	uint64_t since = 0;

	found.events = 0;
	memset(found.parts, 0, sizeof(found.parts));
	for (unsigned i = 0; i < WRITERS; i++)
		memset(found.times[i], 0,
		       (found.progress->begun[i] + 1) * sizeof(found.times[i][0]));
	for (unsigned i = 0; i < found.files[found.count - 1].count; i++) {
		uint64_t t = read_logical_ring(i);

		since = t > since ? t : since;
	}
	return since;
}

/* ---- what must be there ---- */

/* How many of the events that are done are missing, from the first one after `since` on. */
static uint64_t missing(unsigned writer, uint64_t since, uint64_t done)
{
	uint64_t n = 1, count = 0;

	while (since && n <= done && found.times[writer][n] <= since)
		n++;
	for (; n <= done; n++)
		count += !found.times[writer][n];
	return count;
}

/* Of the event in progress a part may be there, and another one counted as discarded. A snapshot
 * counts the payloads that are cut after it has counted what the rings discard. */
static void check_events(const uint64_t *done)
{
	const struct trace_file *f = &found.files[found.count - 1];
	uint64_t cut = found.is_snapshot ? 0 : f->session->chains_cut, n = 0;
	uint64_t lost = traces_discarded(f), since = read_rings();

	for (unsigned i = 0; i < WRITERS; i++)
		n += missing(i, since, done[i]);
	CHECK(lost >= cut && n <= lost - cut + WRITERS);
	if (!since && !found.is_snapshot)
		CHECK(lost - cut <= n + 2 * WRITERS);
}

#endif
