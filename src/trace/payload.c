/* SPDX-License-Identifier: MIT */
/* near_trace: payloads with strings, bytes and arrays. They are gathered into one record, cut, or
 * split into a chain of records. */
#include "trace/trace.h"

#include <string.h>

#define MOST_PIECES 71 /* with those of a context */
#define RECORD ((size_t)256)
#define PART (RECORD - sizeof(uint64_t)) /* of a chain; its first word says which it is */
#define MOST_PARTS 65535

/* The pieces as one sequence of bytes. */
struct source {
	const struct near__trace_piece *pieces;
	unsigned n;
	size_t sizes[MOST_PIECES]; /* of the data, perhaps cut */
	unsigned piece;            /* where the next byte is */
	size_t at;
};

/* The length before the data: 2 bytes, or 6. */
static size_t length_size(const struct source *s, unsigned i)
{
	if (!s->pieces[i].element)
		return 0;
	return s->sizes[i] / s->pieces[i].element < NEAR__TRACE_LONG ? 2 : 6;
}

static size_t source_total(const struct source *s)
{
	size_t n = 0;

	for (unsigned i = 0; i < s->n; i++)
		n += length_size(s, i) + s->sizes[i];
	return n;
}

/* Shortens the last strings and arrays until no more than `most` bytes are left, if that is
 * possible. */
static bool source_cut(struct source *s, size_t most)
{
	bool was_cut = false;

	for (unsigned i = s->n; i-- > 0 && source_total(s) > most;) {
		size_t element = s->pieces[i].element, more = source_total(s) - most;

		if (!element || !s->sizes[i])
			continue;
		more = (more + element - 1) / element * element;
		s->sizes[i] -= more < s->sizes[i] ? more : s->sizes[i];
		was_cut = true;
	}
	return was_cut;
}

static void put_length(unsigned char *to, const struct source *s, unsigned i)
{
	size_t n = s->sizes[i] / s->pieces[i].element;
	uint16_t low = n < NEAR__TRACE_LONG ? (uint16_t)n : NEAR__TRACE_LONG;
	uint32_t all = (uint32_t)n;

	memcpy(to, &low, sizeof(low));
	memcpy(to + sizeof(low), &all, sizeof(all));
}

/* Copies what remains, up to n bytes. */
static size_t source_take(struct source *s, char *to, size_t n)
{
	size_t taken = 0;

	while (taken < n && s->piece < s->n) {
		size_t head = length_size(s, s->piece), data = s->sizes[s->piece], some;
		unsigned char length[6];
		const char *from;

		if (s->at == head + data) {
			s->piece++;
			s->at = 0;
			continue;
		}
		if (s->at < head) {
			put_length(length, s, s->piece);
			from = (const char *)length + s->at;
			some = head - s->at;
		} else {
			from = (const char *)s->pieces[s->piece].data + (s->at - head);
			some = head + data - s->at;
		}
		some = some < n - taken ? some : n - taken;
		memcpy(to + taken, from, some);
		s->at += some;
		taken += some;
	}
	return taken;
}

/* Fills the rest of the last word with zeros. Returns the words. */
static unsigned take_words(struct source *s, uint64_t *words, size_t n)
{
	size_t bytes = source_take(s, (char *)words, n);

	memset((char *)words + bytes, 0, -bytes % sizeof(uint64_t));
	return (unsigned)((bytes + 7) / 8);
}

/* Of this thread's chains; without a block, of all threads'. Atomic: a signal handler may take the
 * next number. */
static uint32_t next_serial(void)
{
	struct near__trace_thread *mine = near__trace_thread_own();

	return __atomic_add_fetch(mine ? &mine->chain : &near__trace.chain, 1, __ATOMIC_RELAXED);
}

/* What has found no room is missing, and so is the rest. */
static void write_chain(struct near_trace_point *p, struct source *s, size_t bytes, uint64_t flags)
{
	uint64_t parts = (bytes + PART - 1) / PART, words[RECORD / 8];
	uint32_t serial = next_serial();

	for (uint64_t i = 0; i < parts; i++) {
		unsigned n = take_words(s, words + 1, PART) + 1;

		words[0] = serial | i << 32 | (i ? 0 : parts << 48);
		if (!near__trace_write(p, words, n, flags | NEAR__TRACE_PART, i > 0))
			return;
	}
}

/* The common case. Returns the bytes; more than RECORD: it does not fit. */
static size_t pieces_gather(char *to, const struct near__trace_piece *pieces, unsigned n)
{
	size_t at = 0;

	for (unsigned i = 0; i < n; i++) {
		size_t size = pieces[i].size, element = pieces[i].element;
		uint16_t length = (uint16_t)(element <= 1 ? size : size / element);

		if (size > RECORD || at + size + sizeof(length) > RECORD)
			return RECORD + 1;
		if (element) {
			memcpy(to + at, &length, sizeof(length));
			at += sizeof(length);
		}
		if (size)
			memcpy(to + at, pieces[i].data, size);
		at += size;
	}
	return at;
}

/* Some that would fit are not gathered. */
__attribute__((noinline)) static void
write_slowly(struct near_trace_point *p, const struct near__trace_piece *pieces, unsigned n)
{
	struct source s = {.pieces = pieces, .n = n < MOST_PIECES ? n : MOST_PIECES};
	uint64_t words[RECORD / 8], flags = 0;
	size_t bytes;

	for (unsigned i = 0; i < s.n; i++)
		s.sizes[i] = pieces[i].size;
	bytes = source_total(&s);
	if (bytes > RECORD &&
	    source_cut(&s, p->level & NEAR_TRACE_CUT ? RECORD : PART * MOST_PARTS)) {
		flags = NEAR__TRACE_CUT;
		bytes = source_total(&s);
	}
	if (bytes > RECORD) {
		write_chain(p, &s, bytes, flags);
		return;
	}
	near__trace_write(p, words, take_words(&s, words, RECORD), flags, false);
}

/* Apart, and with a frame pointer, which the next function reads: that is not called last. */
__attribute__((noinline)) static void words_choose(struct near_trace_point *p,
						   const uint64_t *words, size_t size)
{
	near__trace_choose(p, words, NULL, (unsigned)((size + 7) / 8), __builtin_frame_address(0));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void near__trace_words(struct near_trace_point *p, const uint64_t *words, size_t size)
{
	if (near__trace_is_watched(p))
		near__trace_watch();
	else if (near__trace_is_filtered(p))
		words_choose(p, words, size);
	else
		near__trace_write(p, words, (unsigned)((size + 7) / 8), 0, false);
}

/* Apart: near__trace_pieces has no stack frame for it. */
__attribute__((noinline)) void near__trace_write_pieces(struct near_trace_point *p,
							const struct near__trace_piece *pieces,
							unsigned n)
{
	uint64_t words[RECORD / 8];
	size_t bytes = pieces_gather((char *)words, pieces, n);

	if (bytes > RECORD) {
		write_slowly(p, pieces, n);
		return;
	}
	n = (unsigned)((bytes + 7) / 8);
	memset((char *)words + bytes, 0, -bytes % sizeof(uint64_t));
	near__trace_write(p, words, n, 0, false);
}

void near__trace_record(struct near_trace_point *p, const void *payload,
			const struct near__trace_piece *pieces, unsigned n)
{
	if (pieces)
		near__trace_write_pieces(p, pieces, n);
	else
		near__trace_write(p, payload, n, 0, false);
}

/* As words_choose. */
__attribute__((noinline)) static void
pieces_choose(struct near_trace_point *p, const struct near__trace_piece *pieces, unsigned n)
{
	near__trace_choose(p, NULL, pieces, n, __builtin_frame_address(0));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void near__trace_pieces(struct near_trace_point *p, const struct near__trace_piece *pieces,
			unsigned n)
{
	if (near__trace_is_watched(p))
		near__trace_watch();
	else if (near__trace_is_filtered(p))
		pieces_choose(p, pieces, n);
	else
		near__trace_write_pieces(p, pieces, n);
}
