/* SPDX-License-Identifier: MIT */
/* ids: what the files of `nearcpu ids` share.
 *
 * ptrace stops a thread when it begins, a few times until the kernel knows its rseq area, and when
 * it ends. In between it runs freely: its area is read from outside. */
#ifndef NEARCPU_IDS_H
#define NEARCPU_IDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/machine.h"

/* Bounds of the memory that a long run takes. */
enum { IDS_MOST_PROCESSES = 1 << 14, IDS_MOST_LANES = 1 << 16, IDS_MOST_SPANS = 1 << 19 };

/* Of what data may have copies. */
enum ids_data {
	IDS_POSSIBLE, /* CPUs of this machine */
	IDS_CPUS,     /* CPUs that the process used */
	IDS_ALIVE,    /* threads, with memory that is reused when one has ended */
	IDS_EVER,     /* threads, with memory that is kept */
	IDS_CIDS,     /* up to the highest that was seen */
	IDS_PAIRS,    /* of node and cid */
	IDS_KINDS,
};

/* In rising order. */
struct id_set {
	uint32_t *ids;
	unsigned count;
};

struct ids_process {
	pid_t pid;
	char name[20]; /* of the last program that it executed */
	struct id_set cids, cpus, nodes, pairs;
	unsigned now[IDS_KINDS], most[IDS_KINDS];
	unsigned index; /* among those that are kept */
	bool kept;
};

/* Where a thread ran; -1: unknown. */
struct ids_place {
	int cpu, cid, node;
};

/* A thread ran at least once in each interval between two samples from begin to end, in us. */
struct ids_span {
	uint64_t begin, end;
	uint32_t lane;
	struct ids_place place;
};

/* A thread that the page shows. */
struct ids_lane {
	pid_t tid;
	uint32_t process; /* index */
	char name[20];
};

struct ids_thread {
	pid_t tid;
	struct ids_process *process;
	uint64_t area; /* its address; 0: the kernel knows none */
	uint32_t area_size;
	unsigned stops; /* that are left, at system calls, to learn the area */
	unsigned tries; /* interrupts for the same purpose, so far */
	int run_fd;     /* of its CPU time, or -1 */
	uint64_t run_ns, born;
	struct ids_span span; /* begin == end: none yet */
};

struct ids {
	/* Options. */
	char *const *argv;
	uint64_t interval; /* us */
	uint64_t size;     /* bytes of a copy */

	struct machine machine;
	bool with_cid;       /* the kernel writes cids */
	bool with_areas;     /* it also reports where */
	bool unreadable;     /* memory of some process cannot be read */
	pid_t pid;           /* of the program */
	int status;          /* as of waitpid */
	bool started, ended; /* exec succeeded; the program was reaped */
	bool stopped, terminal;
	double begin_s, end_s;

	pid_t *tids; /* of the threads alive; the index is that of `threads` */
	struct ids_thread **threads;
	unsigned thread_count;
	unsigned without_area, others; /* threads that ended without one; processes not kept */
	uint64_t samples, last_sample;
	unsigned now[IDS_KINDS], most[IDS_KINDS]; /* of all processes together */
	unsigned largest[IDS_KINDS];              /* of one */
	unsigned process_total, thread_total;
	struct id_set cpus, nodes;

	struct ids_process **processes; /* that are kept */
	unsigned process_count;
	struct ids_lane *lanes;
	unsigned lane_count;
	struct ids_span *spans; /* of each lane in the order of time */
	unsigned span_count;
	uint64_t gap; /* spans with the same ids that are no further apart are one */
};

/* ---- follow.c ---- */

/* Runs the program to its end. 0, or a negative errno if it could not be started; -EPERM: ptrace
 * is refused. */
int ids_follow(struct ids *f, int *exec_error);

/* Microseconds since the program began. */
uint64_t ids_now(const struct ids *f);

/* ---- sample.c ---- */

/* Where the thread has run since its last sample, if it has. */
void ids_sample(struct ids *f, struct ids_thread *t);
void ids_sample_all(struct ids *f);
/* The name of a thread or, as that of its first thread, of a process. */
void ids_read_name(pid_t pid, pid_t tid, char name[20]);
/* The process of a thread. */
pid_t ids_read_process(pid_t tid);
/* Whether this process observes the thread. */
bool ids_is_ours(pid_t tid);

/* ---- ids_record.c ---- */

struct ids_thread *ids_find(const struct ids *f, pid_t tid);
struct ids_thread *ids_add_thread(struct ids *f, pid_t tid);
/* The thread becomes the only one of its process, which executed another program. */
void ids_executed(struct ids *f, struct ids_thread *t, pid_t pid);
void ids_end_thread(struct ids *f, struct ids_thread *t);
void ids_add_place(struct ids *f, struct ids_thread *t, uint64_t begin, uint64_t end,
		   const struct ids_place *place);

/* ---- ids_report.c, ids_html.c ---- */

/* As text and in the JSON. */
extern const struct ids_data_name {
	const char *text, *key;
} ids_data_names[IDS_KINDS];
void ids_print(const struct ids *f);
/* A new object, or NULL without memory. */
json_t *ids_json(const struct ids *f);
int ids_html(const struct ids *f, const char *path);

/* Parts of the page, strings, which the build makes of files. */
extern const unsigned char ids_page_begin[], ids_page_data[], ids_page_view[];

#endif
