/* SPDX-License-Identifier: MIT */
/* The objects of the operations, and calls: each inline function of the library once, out of line,
 * so each sequence is in the program once, and every operation that reaches it counts. */
#ifndef NEARCPU_TESTS_OBJECTS_H
#define NEARCPU_TESTS_OBJECTS_H

#include <nearcpu/detail/blocks.h>
#include <nearcpu/counter.h>
#include <nearcpu/fifo.h>
#include <nearcpu/histogram.h>
#include <nearcpu/idspace.h>
#include <nearcpu/mutex.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu.h>
#include <nearcpu/refcount.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/shared_counters.h>
#include <nearcpu/stack.h>

#include "ops.h"

#define OPS_FIRST_COUNT 100
#define OPS_SHARED_INDEX 1
#define OPS_VALUE 2       /* recorded in histograms of values up to 3, with a bucket each, */
#define OPS_GREAT_VALUE 9 /* and of greater ones */
#define OPS_FIRST_NODES 3
#define OPS_OWN_REFS 2
#define OPS_FIRST_REFS (1 + 2 * OPS_OWN_REFS) /* the owner's, and each actor's own */
#define OPS_OWN_NODES 4
#define OPS_QUEUED 2 /* nodes that the queue begins with, which has room for one more */
#define OPS_FIRST_QUEUED (OPS_FIRST_NODES + 2 * OPS_OWN_NODES)
#define OPS_FIRST_MOVED (OPS_FIRST_QUEUED + OPS_QUEUED)
#define OPS_MOVED 16             /* nodes that an array begins with */
#define OPS_BLOCKS_NODES 2       /* the last: in a list of blocks, and in that array */
#define OPS_LIST 2               /* the limit of a list: one node more */
#define OPS_ROOM (OPS_MOVED + 2) /* of an array: one node more */
#define OPS_NODES (OPS_FIRST_MOVED + OPS_MOVED + OPS_BLOCKS_NODES)

/* A slot of what blocks.c operates on. */
struct ops_blocks {
	struct near__entry entry;
	struct near__array array;
	uint64_t words[OPS_ROOM];
	uint64_t was; /* the array's position, if it was closed */
};

#define OPS_CALLS 2 /* of each actor */

/* What rcu.c operates on. */
struct ops_rcu {
	struct near_rcu domain;
	unsigned version; /* 0 in the beginning, then 1 and that of the actor's number */
	bool freed[3];
	bool failed;
	near_rcu_token left_open[2];
	struct near_rcu_head heads[2 * OPS_CALLS];
	unsigned char ran[2 * OPS_CALLS];
};

#define OPS_IDS_COUNT 8
#define OPS_IDS_WORKERS 4 /* of each actor */

/* What idspace.c operates on. */
struct ops_ids {
	struct near_idspace space;
	struct near_worker workers[2][OPS_IDS_WORKERS];
};

#define OPS_EVENTS 8   /* of each actor */
#define OPS_SESSIONS 3 /* one, and what each actor may begin */
#define OPS_PATH 64

struct ops_session {
	struct near__trace_run *run; /* unmapped when it has ended */
	int file;
	size_t size, rings, used; /* of the file; where these are in it */
};

/* What trace.c operates on. */
struct ops_trace {
	struct ops_session sessions[OPS_SESSIONS];
	unsigned begun;
	enum ops_setup setup; /* that the sessions are made for */
	bool is_used;         /* by an operation, since then */
	bool first_is_odd;    /* the slot that the process began on */
	const char *failed;
};

struct ops_objects {
	struct near_counter counter;
	struct near_stack stack;
	struct near_refcount refcount;
	struct near_shared_counters shared,
		untouched;                       /* the second is what the first is made from */
	struct near_histogram histogram, summed; /* the second has an exact sum */
	/* In a region, likewise; what the region is made from. */
	struct near_histogram regional, regional_summed;
	struct near_region region, untouched_region;
	uint64_t *peak; /* of the example */
	struct near_rwlock rwlock;
	struct near_queue queue;
	struct ops_rcu rcu;
	struct ops_trace trace;
	struct ops_ids ids;
	volatile int64_t guarded[2]; /* by it: equal, but inside of a writer */
	bool torn;                   /* a reader found them different */
	struct ops_blocks *blocks;
	bool moved_stay;   /* the setup has no slot: these nodes are in no list */
	uint64_t zeros[4]; /* in front of the nodes: the base of lists of blocks */
	struct near_stack_node nodes[OPS_NODES];
	int64_t sections; /* guarded by ops_mutex[0] */
	int64_t bias;     /* what refcount.exact holds besides the count */
	unsigned released;
	enum ops_setup setup;
	unsigned made; /* a bit for each object */
};

/* What can be observed, in letters and numbers. No stdio: the emulator runs this thousands of
 * times. */
struct ops_text {
	char *at, *end;
};
void put(struct ops_text *t, const char *s);
void put_number(struct ops_text *t, int64_t value);
/* Both. */
void put_field(struct ops_text *t, const char *name, int64_t value);

/* How the objects of one kind are made, and judged. Where there is no function, there is nothing to
 * do. */
struct ops_kind {
	bool (*create)(void);       /* false: there is no memory */
	void (*fill)(void);         /* in OPS_FALLBACK by a thread that is not live */
	void (*begin)(void);        /* the rest, by a live thread */
	void (*enter)(void);        /* opens the thread's slot */
	void (*enter_closed)(void); /* in OPS_FALLBACK instead */
	void (*destroy)(void);
	void (*describe)(struct ops_text *t, const struct actor *a, const struct actor *b);
	/* NULL, or what is wrong. */
	const char *(*conserved)(const struct actor *a, const struct actor *b);
};
/* By object; by this name the emulator knows them. */
extern const struct ops_kind *const ops_kinds[OPS_OBJECTS];
/* Whether the kind of this object was made, and this object is the first of the kind. */
bool ops_is_kind(unsigned object);
extern const struct ops_kind kind_counter, kind_refcount, kind_shared, kind_example, kind_rwlock,
	kind_fifo,  /* kinds.c */
	kind_nodes, /* nodes.c: stack, queue, blocks and array */
	kind_histogram, kind_mutex, kind_rcu, kind_trace, kind_ids; /* in files of their own */

extern struct ops_objects ops_objects;
/* One for both actors, and one of each. By this name the emulator knows them. */
extern struct near_mutex ops_mutex[3];
extern struct near_fifo ops_fifo;
/* Memory of the first slot where a sequence stores what nobody reads before its commit: the cells
 * of the queue, an array of blocks; and of the tracer's file all
 * but the headers of rings. By this name, too. */
#define OPS_CELLS 7
#define OPS_TRACE_CELLS 2 /* from here on: of the tracer */
struct ops_cells {
	uint64_t at, bytes;
};
extern struct ops_cells ops_cells[OPS_CELLS];

#define OBJ ops_objects

void call_add(int64_t n);
void call_add_shared(int64_t n);
void call_record(struct near_histogram *h, uint64_t value, uint64_t n);
void call_push(struct near_stack_node *node);
void call_push_chain(struct near_stack_node *first, struct near_stack_node *last);
struct near_stack_node *call_pop(void);
void call_get(void);
void call_put(void);
bool call_try_get(void);
bool call_try_get_live(void);
void call_lock(struct near_mutex *m);
void call_unlock(struct near_mutex *m);
void call_raise_to(struct actor *me, uint64_t n);
bool call_try_read_lock(void);
void call_read_unlock(void);
int call_queue_put(void *element);

/* Adds a result to the actor's. */
void result(struct actor *me, const void *value);
void number(struct actor *me, int64_t value);

/* A node of the actor that was not pushed yet; and a node that an operation took. */
struct near_stack_node *own_node(struct actor *me);
void node_result(struct actor *me, const struct near_stack_node *node);

/* Its number, or -1: it is none. */
int node_id(const void *node);

/* Opens the slot of this CPU, where the thread has one. False: there is no memory. */
bool open_region(const struct near_region *r);

/* Runs an operation as a thread that is not live, by the words that vfork's assembly sets. */
void not_live(void (*run)(struct actor *me), struct actor *me);

/* The operations of blocks.c, and what nodes.c needs. */
void block_push(struct actor *me);
void block_push_by_cid(struct actor *me);
void block_pop(struct actor *me);
void block_pop_by_cid(struct actor *me);
void block_push_again(struct actor *me);
void array_push(struct actor *me);
void array_pop(struct actor *me);
void array_take16(struct actor *me);
void array_put16(struct actor *me);
void array_close(struct actor *me);
void blocks_enter(void);
void blocks_fill(void);
/* False: a node is there twice, or what is there is none. */
bool blocks_mark(unsigned char *seen);

/* The operations of rcu.c. */
void rcu_read(struct actor *me);
void rcu_read_slow(struct actor *me);
void rcu_read_nested(struct actor *me);
void rcu_leave_fallback(struct actor *me);
void rcu_synchronize(struct actor *me);
void rcu_call(struct actor *me);
void rcu_batch(struct actor *me);

/* The operations of trace.c, and what it needs of trace_records.c. */
void trace_event(struct actor *me);
void trace_pair(struct actor *me);
void trace_text(struct actor *me);
void trace_eight(struct actor *me);
void trace_sixteen(struct actor *me);
void trace_chain(struct actor *me);
void trace_restart(struct actor *me);
void trace_snapshot(struct actor *me);
const char *trace_conserved(const struct actor *a, const struct actor *b);
/* The events in the rings, each with the ring's number. */
void trace_list(char *out, unsigned size, const struct actor *a, const struct actor *b);

/* The operations of idspace.c. */
void ids_acquire(struct actor *me);
void ids_acquire_slow(struct actor *me);
void ids_acquire_two(struct actor *me);
void ids_release(struct actor *me);
void ids_release_foreign(struct actor *me);
void ids_exchange(struct actor *me);
void ids_hand_over(struct actor *me);
void ids_drain(struct actor *me);

/* The operations of locks.c. */
void rwlock_read(struct actor *me);
void rwlock_read_nested(struct actor *me);
void rwlock_read_slow(struct actor *me);
void rwlock_write(struct actor *me);
void rwlock_downgrade(struct actor *me);
void rwlock_write_read(struct actor *me);
void mutex_use(struct actor *me);
void mutex_try(struct actor *me);
void mutex_alone(struct actor *me);

#endif
