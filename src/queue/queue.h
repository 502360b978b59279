/* SPDX-License-Identifier: MIT */
/* The rings of near_queue, and the argument for its paths.
 *
 * A ring has a head and a tail, numbers of elements that never wrap, never decrease, and never
 * repeat. Only a thread on the slot moves the tail of a slot's ring, by a sequence; that of a
 * fallback slot's ring a thread that holds the slot's lock. Any thread moves a head, by CAS.
 *
 * What can interleave, and what orders it (models/queue.pml, models/queue.cc):
 *
 * - Two puts on one slot. The first is aborted, or has committed; what it stored in the cell at the
 *   tail the second one overwrites. The next thread on the slot sees what the one before stored:
 *   gate.h.
 * - A put and a get. The tail is stored with release, after the element, and loaded with acquire.
 *   The get loads the element before its CAS of the head. A put overwrites a cell only if the head
 *   has left it: so if it did, the CAS fails, since a head never returns. The CAS has release, so
 *   that the load of the element is over; the put's store depends on the limit, by a branch, and
 *   the limit was stored after a load of the head with acquire.
 * - A thread that raises the limit and has left the slot, or was preempted before its store. Any
 *   head that was ever loaded plus the capacity is a valid limit: if it is too low, the next put
 *   loads the head again.
 * - Two gets. One CAS fails. `seen` is a tail that some get has loaded: it saves the others the
 *   cache line that the puts write. Stored with release and loaded with acquire it stands for that
 *   tail.
 * - A get that finds all rings empty, one after the other. It adds up their tails as it goes, and
 *   then once more: tails only grow, so if the sum is the same none has changed, and between the
 *   two scans all rings were empty together.
 * - A get by the thread whose last two gets found this queue empty. If the sum of the tails is what
 *   it was, none has changed until the first of them was loaded, and the queue was empty then: a
 *   thread that polls loads the tails alone. The queue's number is no other one's, not even that of
 *   a later queue at its address; who shares a thread's storage remembers nothing.
 * - A getter that goes to sleep, and a put. The getter enters the parking lot and sets GETTERS;
 *   fences; scans all tails. The put stores the tail, then loads `state`, with no fence between
 *   them. The getter's membarrier is a full barrier on the CPU of the put: if the store was before
 *   it, the getter finds the element; else the load is after it as well, and finds GETTERS. The put
 *   then wakes one sleeper for each element. A sleeper is woken only by that, so while one sleeps
 *   there are at least as many woken threads that have not got yet as elements: each of those takes
 *   one, or finds the queue empty at one moment.
 * - Membarriers are expensive where getters sleep often. FENCES makes each put fence between the
 *   two, and then load `state` again. The getter that sets it makes a membarrier after that, and
 *   then sets FENCED. From then on each put that the membarrier did not order itself finds FENCES;
 *   so a getter that finds FENCED as it sets GETTERS needs a fence alone. Only FENCED allows to
 *   clear both. A put that loads `state` after they were cleared finds GETTERS, which was set
 *   before. In a process without membarrier they are always set.
 * - A putter that goes to sleep, and a get. It enters the parking lot at its ring, sets the ring's
 *   `putters`, and checks whether the ring is still full. The get moves the head, then loads
 *   `putters`. All four are sequentially consistent: one of the two finds the other. A get wakes
 *   one putter for each element that it took. A putter that was woken may run on another slot by
 *   then: so after its next attempt it wakes another one, if the ring that it slept for has room.
 * - Close, and a put. Close changes `open`, fences, and takes each lock of fallback slots once: all
 *   puts that found the queue open have committed or been aborted. Then it sets CLOSED: a get that
 *   loads it first, and then finds the queue empty, finds it empty for good. A get that finds the
 *   queue empty between the two makes the close complete. A thread that goes to sleep loads `open`
 *   after it entered the lot, and close searches the lot after it changed that.
 * - A watch is a getter that sleeps in epoll_wait. The put that wakes it writes to its descriptor,
 *   then sets WOKEN; a thread that leaves the lot waits for that, so that nothing is written later.
 *   A watch that was notified counts as a woken thread that has not got yet: so near_watch_disarm
 *   wakes another one.
 * - A join, and a task that is done. `done` of a slot is a counter. A join loads those of all
 *   slots, then all tails. A get acquires the tail of the put, and done releases: so the tails
 *   count each element whose done was counted, and if both sums are the same, all that was put was
 *   done when the first tail was loaded. The joiner enters the lot and sets `joiners`, fences and
 *   sums; near_queue_done adds, fences and loads `joiners`: one of the two finds the other. A done
 *   that finds it sums as well; the last of several finds what the others added
 *   (models/queue_join.pml).
 * - A signal handler. The parking lot and the fallback's lock exclude it.
 * - fork. The child's heads and tails are those of one moment each, and a head never passes a tail:
 *   the tail was stored, and visible, before a get could load it. It holds the fallback's locks
 *   (percpu_fork.c). The parking lot of the child is empty; GETTERS and `putters` may be left
 *   over, which costs the next put or get a search. FENCES may be left without FENCED: then
 *   each sleep in the child makes a membarrier.
 * - The child of a vfork is not live: it uses fallback slots, as a thread of its own would.
 * - A killed process takes the memory with it. */
#ifndef NEARCPU_QUEUE_INTERNAL_H
#define NEARCPU_QUEUE_INTERNAL_H

#include <nearcpu/queue.h>

#include "base/block.h"
#include "parking/lot.h"
#include "percpu/percpu.h"

/* Of near_queue.state. */
#define GETTERS 1u /* sleep, or did */
#define FENCES 2u  /* puts fence before they load this word */
#define FENCED 4u  /* and all puts know */
#define CLOSED 8u  /* no put follows */

/* Of ring.putters. */
#define PUTTERS 1u /* sleep, or did */

/* Of near_queue.joiners. */
#define JOINERS 1u /* sleep, or did */

/* Of a thread, for all queues. Without a block it remembers nothing. */
struct near__queue_thread {
	uint32_t slot, turn;  /* get.c */
	uint32_t fenced_puts; /* one after the other that found no sleeper */
	uint64_t empty;       /* the number of the queue that its last get found empty, or 0, */
	uint64_t empty_tails; /* and the sum of its tails then, if the get before did so, too */
};
NEAR__BLOCK_PART(near__queue_thread, struct near__queue_thread, queue);

struct ring {
	uint64_t tail;
	uint64_t limit;
	int64_t done;
	uint64_t head __attribute__((aligned(64)));
	uint64_t seen;
	uint32_t putters;
	void *cells[] __attribute__((aligned(64)));
};
_Static_assert(offsetof(struct ring, limit) == 8, "the sequences in near_queue");
_Static_assert(offsetof(struct ring, cells) == 128, "the sequences in near_queue");

static inline struct ring *ring_of(const struct near_queue *q, unsigned slot)
{
	return near_percpu_at(q->p, slot);
}

/* Sequentially consistent: pairs with the store by close, for threads that go to sleep. */
static inline bool near__queue_is_open(const struct near_queue *q)
{
	return __atomic_load_n(&q->open, __ATOMIC_SEQ_CST) == NEAR__OPEN;
}

void near__queue_refuse(void) __attribute__((noreturn, cold));

/* Stops the program if the queue was destroyed. */
static inline void near__queue_check(const struct near_queue *q)
{
	if (NEAR__UNLIKELY(!q->p))
		near__queue_refuse();
}

/* Takes up to n elements; if `out` is NULL, it takes none, and returns 1 if there is one. -EAGAIN:
 * all rings were empty at one moment, *tails is the sum of their tails, the number of puts so far,
 * and the queue was open afterwards. -EPIPE: it is closed and empty. */
long near__queue_get(struct near_queue *q, void **out, size_t n, uint64_t *tails);

/* Puts an element: 0, -EPIPE; -EAGAIN: the ring *full was full at one moment. */
int near__queue_put(struct near_queue *q, void *element, struct ring **full);
bool near__queue_is_full(const struct near_queue *q, const struct ring *r);

/* Threads sleep at the address of a flag: GETTERS for elements, PUTTERS for room. Wakes up to n of
 * them, and returns whether others still sleep. */
bool near__queue_wake(uint32_t *flags, uint32_t flag, size_t n);

/* Enters the parking lot at the address of the flags, and sets the flag. Returns what they were.
 * Requires that the waiter is 0, except for `notify`. */
uint32_t near__queue_enter(struct near__waiter *w, uint32_t *flags, uint32_t flag);

/* The same for a watch. `flag` is GETTERS. */
uint32_t near__watch_arm(struct near_watch *w, uint32_t *flags);

/* An armed watch is armed no longer. Not like near_watch_disarm: the caller gets. */
void near__watch_reset(struct near_watch *w);

#endif
