/* SPDX-License-Identifier: MIT */
/* near_metrics: named metrics of a process, and their text for Prometheus and OpenMetrics.
 *
 * A registry is a list of metrics: objects with a name, a help text, a unit and labels, which the
 * program defines, mostly as static data. near_metrics_write gives their text to a function, piece
 * by piece: to a socket, for /metrics. What belongs to one name stands together.
 *
 * Cost:      write: .2 us for each line, .6 for that of a histogram, which has one for each power
 *            of two (AMD Turin). What counts pays nothing.
 * Memory:    112 bytes for each metric, the program's. A write needs 3 KiB of stack, and no other
 *            memory but for regions, whose objects it sorts: 88 bytes for each.
 * Safety:    any thread, not signal handlers. Fork: the child has the whole registry, and writes
 *            its own values. errno is left alone. No lock is held while the function is called.
 * Order:     write has each metric that was added before. Its values are not of one moment; the
 *            count of a histogram is the sum of its buckets.
 * Fallback:  that of the objects.
 *
 * Concurrent with:   add  remove  write
 *            add     yes   yes     yes
 *            remove  yes   yes      no
 *            write   yes    no     yes
 *
 *     static struct near_metrics metrics;
 *     static struct near_counter hits;
 *     static struct near_metric hits_metric = {.name = "shop_requests", .help = "HTTP requests.",
 *                                              .kind = NEAR_METRIC_COUNTER, .object = &hits};
 *     NEAR_EARLY(hits, near_counter_init(&hits));
 *     NEAR_EARLY(hits_metric, near_metrics_add(&metrics, &hits_metric));
 *
 *     near_metrics_write(&metrics, NEAR_METRICS_OPENMETRICS, send_piece, &socket);
 *
 * Source: the text formats 0.0.4 of Prometheus and 1.0.0 of OpenMetrics.
 */
#ifndef NEARCPU_METRICS_H
#define NEARCPU_METRICS_H

#include <nearcpu/gauge.h>
#include <nearcpu/histogram.h>
#include <nearcpu/shared_counters.h>

NEAR__BEGIN_DECLS

enum near_metric_kind {
	NEAR_METRIC_COUNTER = 1, /* a near_counter that only rises; its name gets `_total` */
	NEAR_METRIC_UPDOWN,      /* a near_counter, written as a gauge */
	NEAR_METRIC_GAUGE,       /* a near_gauge */
	NEAR_METRIC_HISTOGRAM,   /* a near_histogram */
	NEAR_METRIC_CALL,        /* a gauge that `call` returns */
	NEAR_METRIC_SHARED,      /* near_shared_counters; of several each has a label `index` */
	NEAR_METRIC_REGION,      /* what a near_region has of these; without a name */
};

#define NEAR_METRIC_LABELS 512 /* bytes, with the terminating 0 */

struct near_family;

/* Constant while it is registered; what is not set is 0. */
struct near_metric {
	const char *name;   /* as of a near_region_object */
	const char *help;   /* UTF-8; it and the unit are those of the first of a name */
	const char *unit;   /* "seconds": then the name ends with it, as "shop_wait_seconds" */
	const char *labels; /* as of a near_region_object, but for their size */
	enum near_metric_kind kind;
	void *object;
	const struct near_family *family; /* of that kind, instead of an object */
	double (*call)(void *object);
	double units; /* that make 1 in the text: nanoseconds as seconds have 1e9; default 1, or
		       * that of the histogram */
	/* Of a histogram, in its unit: smaller and greater bounds are not written; 0: all are. */
	uint64_t least, most;
	uint64_t reserved[2];     /* 0 */
	struct near_metric *next; /* private */
};

/* Private; all 0: nothing is registered. */
struct near_metrics {
	struct near_metric *first;
};

/* Registers a metric, which stays until it is removed. Returns 0; -EEXIST: its name and labels are
 * there; -EINVAL: it is not as above, or of another kind than those of its name, or a counter whose
 * name ends with `_total`. */
NEAR_API int near_metrics_add(struct near_metrics *m, struct near_metric *metric);

/* Removes it, if it is there. Requires that no write runs. */
NEAR_API void near_metrics_remove(struct near_metrics *m, struct near_metric *metric);

enum near_metrics_format {
	NEAR_METRICS_PROMETHEUS,
	NEAR_METRICS_OPENMETRICS, /* as application/openmetrics-text */
};

/* Values of Content-Type. */
#define NEAR_METRICS_PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define NEAR_METRICS_OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Takes the next piece of a text. Returns 0, or what near_metrics_write then returns at once. */
typedef int near_metrics_take(void *argument, const char *text, size_t size);

/* Gives the text to `take`, in pieces of at most 1 KiB. Shared counters are counters in Prometheus'
 * format; as they may fall, in OpenMetrics only if their name ends with `_total`, else of unknown
 * type. Returns 0; what `take` returns; -ENOMEM; -EBADMSG: a region has a damaged histogram, which
 * a text that is whole otherwise leaves out. */
NEAR_API int near_metrics_write(const struct near_metrics *m, enum near_metrics_format format,
				near_metrics_take *take, void *argument);

/* A family has an object, its member, for each combination of label values that the program meets,
 * up to a number of them. All others share one member, whose labels are "_other_": clients
 * cannot fill the memory of a server by the values that they choose.
 *
 * Cost:      get of a member that is there: 33 ns for two short values (AMD Turin), no lock. A
 *            program keeps what it got.
 * Memory:    16 to 32 bytes for each member that may be; for each that is its labels and object.
 * Safety:    get: any thread, not signal handlers. Fork: the child has the whole family.
 * Order:     get acquires what the get that added the member released.
 * Fallback:  that of the objects.
 *
 * Concurrent with:     get  overflows  write  destroy
 *          get         yes     yes      yes      no
 *          overflows   yes     yes      yes      no
 *          write       yes     yes      yes      no
 */
#define NEAR_FAMILY_MEMBERS (1u << 20)

struct near__family_member;

/* Private. */
struct near_family {
	struct near__family_member **table, *other;
	const char *names;
	enum near_metric_kind kind;
	unsigned bits, members, count;
	uint64_t overflows;
	const struct near_histogram_options *options;
};

/* A family of counters, gauges or histograms (UPDOWN: counters), of at most `members`, with labels
 * of these names: "method,code". The strings, and `options` of histograms, which may be
 * NULL, stay as they are while it is used. Returns 0; -EINVAL: another kind, bad names, too many
 * members, or a wrong option; -E2BIG: as near_histogram_init; -ENOMEM. */
NEAR_API int near_family_init(struct near_family *f, enum near_metric_kind kind, const char *names,
			      unsigned members, const struct near_histogram_options *options);

/* Frees it and its members. Requires that nobody uses them. */
NEAR_API void near_family_destroy(struct near_family *f);

/* The near_counter, near_gauge or near_histogram of these values, one for each name, valid until
 * the family is destroyed; it is added, once, if it is not there. Returns that of "_other_" if
 * there is no room or no memory, or the values are not UTF-8, have control characters, or make
 * labels of more than 500 bytes. */
NEAR_API void *near_family_get(struct near_family *f, const char *const *values);

/* How often near_family_get has returned that of "_other_". */
NEAR_API uint64_t near_family_overflows(const struct near_family *f);

/* Private: the next member from *i on, and its labels; NULL: there is none. */
void *near__family_next(const struct near_family *f, size_t *i, const char **labels);

NEAR__END_DECLS

#endif
