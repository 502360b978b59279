/* SPDX-License-Identifier: MIT */
/* nearcpu trace record --sched: what the scheduler does, to a trace file of its own.
 *
 * perf_event_open(2) gives a buffer for each CPU, in the order of times. A thread of this command
 * copies their records to rings, one for each CPU, of a file of src/trace/format.h: what reads the
 * program's files reads it, too. The newest stay. The file is whole whenever this process ends.
 *
 * Times are those of the counter, as the program's events have them. perf's are
 * CLOCK_MONOTONIC_RAW, which has the counter's rate without corrections. Both are read before each
 * copy, and times interpolated between two such readings. The error is that of one reading, half of
 * the time between two readings of the clock: 10 to 50 ns, several times less than a thread takes
 * from an event to the kernel's switch. Without a counter both have CLOCK_MONOTONIC, and no error.
 * perf's own clock is no choice: in virtual machines its relation to the counter is not known. */
#include "trace/print.h"
#include "trace/trace.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/text.h"
#include "region/region.h"

#define BUFFER ((size_t)512 << 10) /* of a CPU: what the kernel lets each user lock, by default */
#define PERIOD_MS 20               /* some 600,000 switches a second */
#define NAMES 8192u
#define WAKING "/sys/kernel/tracing/events/sched/sched_waking/id"
#define RAW_PID 60 /* of the one woken, in such a sample: after 36 and 24 bytes */

/* As struct near__trace_point_record. `task` is the thread that runs or is woken, as of stat
 * --between sched:wake,sched:run --by task. */
enum point { RUN = 1, STOP, WAKE };
struct point_record {
	uint32_t size, id, level, name_size, fields_size, flags;
	char texts[80];
};
#define POINT(id, name, fields)                                                                    \
	{                                                                                          \
		sizeof(struct point_record), id, NEAR_TRACE_INFO, sizeof(name), sizeof(fields), 0, \
			name "\0" fields                                                           \
	}
static const struct point_record points[] = {
	POINT(RUN, "sched:run", "u32 process;u32 task;string thread"),
	POINT(STOP, "sched:stop", "u32 process;enum why{waits=0,preempted=1,ended=2} why"),
	POINT(WAKE, "sched:wake", "u32 process;u32 task;string thread"),
};

struct event {
	uint64_t head, time;
	uint32_t process, value; /* the task, or why */
	uint16_t length;
	char thread[22];
};

union part {
	struct perf_event_header head;
	uint64_t word;
	uint32_t half[2];
};

struct buffer {
	struct perf_event_mmap_page *page;
	const char *data;
	uint64_t tail, head;
	struct near__trace_ring *ring;
};

static struct recorder {
	struct buffer *buffers;
	unsigned count;
	bool all;
	struct near__trace_moment from, to; /* between these, times are interpolated */
	struct pollfd end;                  /* an eventfd */
	pthread_t thread;
	char *path;
	struct near_region region;
	struct near__trace_session *session;
	struct name {
		uint64_t time;
		uint32_t tid;
		char name[16];
	} names[NAMES]; /* a cache, by the tid */
} recorder;

/* ---- clocks ---- */

static uint64_t time_of(const struct recorder *s, uint64_t raw)
{
	const struct near__trace_moment *from = &s->from, *to = &s->to;
	__int128 ticks = (__int128)(int64_t)(raw - from->monotonic_ns) *
			 (int64_t)(to->counter - from->counter);

	ticks /= (int64_t)(to->monotonic_ns - from->monotonic_ns);
	return near_clock() ? from->counter + (uint64_t)ticks : raw;
}

/* ---- the file ---- */

#define OBJECT(kind, size)                                                                         \
	{                                                                                          \
		NEAR__TRACE_##kind##_NAME, NULL, NEAR__TRACE_##kind##_KIND, NEAR_REGION_COMMON,    \
			size, {0}, 0                                                               \
	}

/* All blocks exist: a store into a hole would be a SIGBUS on a full disk. */
static int file_make(struct recorder *s, uint64_t size)
{
	uint64_t stride = size + NEAR__TRACE_PAGE, rings = (s->count + 1) * stride;
	struct near_region_object o[] = {
		OBJECT(SESSION, sizeof(*s->session) + (s->count / 64 + 1) * sizeof(uint64_t)),
		OBJECT(POINTS, REGION_PAGE),
		OBJECT(RINGS, rings),
	};
	struct near_region_options options = {NEAR_CREATE, 8,  rings + 16 * REGION_PAGE, 8, o,
					      3,           {0}};
	char *at;
	int err = access(s->path, F_OK) ? near_region_open(&s->region, s->path, &options) : -EEXIST;

	if (err)
		return err;
	s->session = (void *)near_region_common(&s->region, o[0].offset);
	s->session->clock = near_clock() ? NEAR__TRACE_COUNTER : NEAR__TRACE_MONOTONIC;
	s->session->slots = s->count;
	s->session->cpus = 1; /* a reader wants some */
	s->session->flags = NEAR__TRACE_IS_SCHED;
	s->session->ring_size = size;
	s->session->ring_stride = stride;
	s->session->pid = (uint64_t)getpid();
	near__trace_read_moment(&s->session->begin);
	s->session->latest[0] = s->session->begin;
	memcpy(near_region_common(&s->region, o[1].offset), points, sizeof(points));
	s->session->points_bytes = sizeof(points);
	for (struct buffer *b = s->buffers; b < s->buffers + s->count; b++) {
		at = near_region_common(&s->region, o[2].offset + NEAR__TRACE_PAGE);
		b->ring =
			(struct near__trace_ring *)(at + (b - s->buffers) * (ptrdiff_t)stride) - 1;
		b->ring->mask = size - 1;
	}
	/* Release: a reader that finds it finds the rest. */
	__atomic_store_n(&s->session->version, NEAR__TRACE_VERSION, __ATOMIC_RELEASE);
	return 0;
}

static void ring_put(struct near__trace_ring *r, const struct event *e, uint64_t size)
{
	char *data = (char *)(r + 1);
	uint64_t at = r->position, next = (at | (NEAR__TRACE_SUB_SIZE - 1)) + 1;

	if (at + size + sizeof(uint64_t) > next) {
		memset(data + (at & r->mask), 0, sizeof(uint64_t));
		__atomic_store_n(&r->position, next, __ATOMIC_RELEASE);
		/* Before what it overwrites: pairs with the barrier of a reader that copied it. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		at = next;
	}
	memcpy(data + (at & r->mask), e, size);
	/* Release: commits the record. */
	__atomic_store_n(&r->position, at + size, __ATOMIC_RELEASE);
}

/* ---- events ---- */

/* The CPUs' records are not taken in the order of their times. */
static void set_name(struct recorder *s, uint32_t tid, const char *name, uint64_t time)
{
	struct name *n = &s->names[tid % NAMES];

	if (n->tid == tid && n->time > time)
		return;
	n->tid = tid;
	n->time = time;
	snprintf(n->name, sizeof(n->name), "%.*s", (int)strcspn(name, "\n"), name);
}

static const char *name_of(struct recorder *s, uint32_t tid)
{
	char name[sizeof(s->names->name) + 1];

	if (s->names[tid % NAMES].tid != tid) {
		read_text(word("/proc/%u/comm", tid).text, name, sizeof(name));
		set_name(s, tid, name, 0);
	}
	return s->names[tid % NAMES].name;
}

/* Of the record at the tail, which goes on at the begin of the data. */
static union part part_at(const struct buffer *b, size_t at)
{
	union part p;

	memcpy(&p, b->data + ((b->tail + at) & (BUFFER - 1)), sizeof(p));
	return p;
}

/* ids: where the record has process, thread, time and CPU. */
static void put(struct recorder *s, const struct buffer *b, size_t ids, enum point point,
		uint32_t value)
{
	struct event e = {.process = part_at(b, ids).half[0], .value = value};
	uint32_t tid = part_at(b, ids).half[1], cpu = part_at(b, ids + 16).half[0];
	uint64_t size = offsetof(struct event, length);

	if (tid == UINT32_MAX) /* the idle thread; one that has ended */
		tid = e.process = 0;
	if (!tid && point != WAKE)
		return;
	if (point != STOP) {
		e.length = (uint16_t)strlen(strcpy(e.thread, name_of(s, value)));
		size = (offsetof(struct event, thread) + e.length + 7) & ~UINT64_C(7);
	}
	e.time = time_of(s, part_at(b, ids + 8).word);
	e.head = tid | (uint64_t)cpu << NEAR__TRACE_CPU_SHIFT |
		 (uint64_t)point << NEAR__TRACE_ID_SHIFT | size / 8 << NEAR__TRACE_WORDS_SHIFT;
	ring_put(b->ring, &e, size);
}

static void take_name(struct recorder *s, const struct buffer *b, struct perf_event_header h)
{
	uint64_t time = part_at(b, h.size - 16).word;
	union part first = part_at(b, 8), third = part_at(b, 16);

	if (h.type == PERF_RECORD_COMM)
		set_name(s, first.half[1], (char *)(union part[]){third, part_at(b, 24)}, time);
	if (h.type == PERF_RECORD_FORK) /* the thread, and that which made it */
		set_name(s, third.half[0], name_of(s, third.half[1]), time);
}

static void take_event(struct recorder *s, const struct buffer *b, struct perf_event_header h)
{
	size_t ids = h.size - 24; /* by sample_id_all */
	uint32_t tid = part_at(b, ids).half[1];
	bool stops = h.misc & PERF_RECORD_MISC_SWITCH_OUT;

	switch (h.type) {
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		put(s, b, ids, stops ? STOP : RUN,
		    stops ? (h.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0 : tid);
		break;
	case PERF_RECORD_COMM: /* by exec, too: the program was switched in before */
		put(s, b, ids, RUN, tid);
		break;
	case PERF_RECORD_EXIT:
		put(s, b, ids, STOP, 2);
		break;
	case PERF_RECORD_SAMPLE:
		put(s, b, 8, WAKE, part_at(b, RAW_PID - 4).half[1]);
		break;
	case PERF_RECORD_LOST:
		s->session->discarded += part_at(b, 16).word;
		break;
	}
}

/* Names first, as a thread may run on several CPUs. Records that come after the clocks are read
 * stay. */
static void recorder_drain(struct recorder *s)
{
	struct buffer *end = s->buffers + s->count;

	/* Acquire and release: pair with the kernel's. */
	for (struct buffer *b = s->buffers; b < end; b++)
		b->head = __atomic_load_n(&b->page->data_head, __ATOMIC_ACQUIRE);
	s->from = s->to;
	near__trace_read_clock(&s->to, CLOCK_MONOTONIC_RAW);
	for (struct buffer *b = s->buffers; b < end; b++) {
		for (; b->tail != b->head; b->tail += part_at(b, 0).head.size)
			take_name(s, b, part_at(b, 0).head);
		b->tail = b->page->data_tail;
	}
	for (struct buffer *b = s->buffers; b < end; b++) {
		for (; b->tail != b->head; b->tail += part_at(b, 0).head.size)
			take_event(s, b, part_at(b, 0).head);
		__atomic_store_n(&b->page->data_tail, b->tail, __ATOMIC_RELEASE);
	}
	near__trace_store_moment(s->session);
}

static void *recorder_run(void *arg)
{
	struct recorder *s = arg;

	while (poll(&s->end, 1, PERIOD_MS) == 0)
		recorder_drain(s);
	return NULL;
}

/* ---- begin and end ---- */

static int open_event(const struct recorder *s, const struct perf_event_attr *a, int cpu)
{
	return (int)syscall(SYS_perf_event_open, a, s->all ? -1 : 0, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Of one CPU. Without `all` of what this process starts, from the next exec on. */
static int open_events(struct recorder *s, int cpu, uint64_t waking)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *map;
	int fd;

	a.size = sizeof(a);
	a.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	a.context_switch = a.comm = a.task = a.sample_id_all = a.use_clockid = 1;
	a.clockid = near_clock() ? CLOCK_MONOTONIC_RAW : CLOCK_MONOTONIC;
	a.disabled = a.enable_on_exec = a.inherit = a.exclude_kernel = !s->all;
	fd = open_event(s, &a, cpu);
	if (fd < 0)
		/* The CPU is off, or the kernel has none of this number: without /sys it is unknown
		 * how many there are. */
		return errno == ENODEV || (errno == EINVAL && cpu) ? 0 : errno;
	map = mmap(NULL, page + BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	s->buffers[s->count++] = (struct buffer){.page = (void *)map, .data = map + page};
	a.type = PERF_TYPE_TRACEPOINT;
	a.config = waking;
	a.sample_type |= PERF_SAMPLE_RAW;
	a.sample_period = 1;
	a.context_switch = a.comm = a.task = 0;
	return s->all && ioctl(open_event(s, &a, cpu), PERF_EVENT_IOC_SET_OUTPUT, fd) ? errno : 0;
}

static int open_all(struct recorder *s)
{
	int cpus = (int)near_cpus(), err;
	const char *hint = "";
	char text[16] = "";

	if (s->all)
		read_text(WAKING, text, sizeof(text));
	err = s->all && !*text ? EACCES : 0;
	allow_files();
	s->buffers = allocate_zeros((size_t)cpus, sizeof(*s->buffers));
	for (int cpu = 0; cpu < cpus && !err; cpu++)
		err = open_events(s, cpu, strtoull(text, NULL, 10));
	if (!err)
		return EXIT_DONE;
	if (err < 0)
		hint = ": kernel.perf_event_mlock_kb and 'ulimit -l' are too small";
	else if (err == EMFILE)
		hint = ": 'ulimit -n' is too small for a file per CPU";
	if (err != EACCES && err != EPERM)
		return failure("trace", "--sched: %s%s", strerror(err < 0 ? -err : err), hint);
	read_text("/proc/sys/kernel/perf_event_paranoid", text, sizeof(text));
	return failure("trace", "%s: %s (kernel.perf_event_paranoid is %d): it needs %s",
		       s->all ? "--sched-all" : "--sched", strerror(err), atoi(text),
		       s->all ? "root, and " WAKING
			      : "at most 2 there, and a container that allows perf_event_open");
}

int trace_sched_start(const char *folder, const char *ring, bool all)
{
	struct recorder *s = &recorder;
	char *unit;
	uint64_t n = strtoull(ring, &unit, 10),
		 size = NEAR__TRACE_LEAST_SUBS * NEAR__TRACE_SUB_SIZE;
	int err;

	n <<= *unit == 'k' ? 10 : *unit == 'm' ? 20 : *unit == 'g' ? 30 : 0;
	while (size < n && size < UINT64_C(1) << 30)
		size *= 2;
	s->all = all;
	if (open_all(s))
		return EXIT_FAILED;
	if (asprintf(&s->path, "%s/sched-%d.trace", folder, (int)getpid()) < 0)
		out_of_memory();
	err = file_make(s, size);
	/* What came before the file is left out. */
	for (struct buffer *b = s->buffers; b < s->buffers + s->count; b++)
		b->page->data_tail = b->tail =
			__atomic_load_n(&b->page->data_head, __ATOMIC_ACQUIRE);
	s->end = (struct pollfd){.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
	if (!err && s->end.fd < 0)
		err = -errno;
	near__trace_read_clock(&s->to, CLOCK_MONOTONIC_RAW);
	err = err ? err : -pthread_create(&s->thread, NULL, recorder_run, s);
	return err ? failure("trace", "cannot make '%s': %s", s->path, strerror(-err)) : EXIT_DONE;
}

void trace_sched_stop(bool has_run)
{
	struct recorder *s = &recorder;

	eventfd_write(s->end.fd, 1);
	pthread_join(s->thread, NULL);
	recorder_drain(s);
	__atomic_store_n(&s->session->ended, 1, __ATOMIC_RELEASE);
	if (!has_run)
		unlink(s->path);
}
