/* SPDX-License-Identifier: MIT */
/* usage: prefork [PORT]
 * A pre-fork server: its workers count into one region, and are killed by kill -9; the parent
 * starts others, and has the metrics of all. With a port it serves http://127.0.0.1:PORT/metrics;
 * else a worker kills itself, and the text is printed. */
#include <nearcpu/metrics.h>

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 3
#define REQUESTS 1000

static struct near_metrics metrics;
static struct near_region region;
static struct near_shared_counters good, bad;
static struct near_histogram latency; /* in nanoseconds */

/* [open] */
/* Before the first fork: the children have it all. */
static int open_metrics(void)
{
	static struct near_histogram_options options; /* 0: the defaults */

	options.units = 1e9;
	if (near_region_open(&region, NULL, NULL) ||
	    near_shared_counters_open(&good, &region, "shop_requests_total", "code=\"200\"",
				      NULL) ||
	    near_shared_counters_open(&bad, &region, "shop_requests_total", "code=\"500\"", NULL) ||
	    near_histogram_open(&latency, &region, "shop_latency_seconds", NULL, &options)) {
		fprintf(stderr, "prefork: %s\n", near_region_error(&region));
		return -1;
	}
	return 0;
}
/* [/open] */

/* [worker] */
static void work(int requests, int killed_at)
{
	for (int i = 1; i <= requests; i++) {
		near_shared_counters_add(i % 100 ? &good : &bad, 0, 1);
		near_histogram_record(&latency, (uint64_t)i % 100 * 100000);
		if (i == killed_at)
			raise(SIGKILL);
	}
}

static void start_worker(bool serving, int killed_at)
{
	struct timespec moment = {0, 100000000};
	pid_t parent = getpid();

	if (fork())
		return;
	while (serving && getppid() == parent) {
		work(100, 0);
		nanosleep(&moment, NULL);
	}
	work(serving ? 0 : REQUESTS, killed_at);
	_exit(0);
}
/* [/worker] */

/* [text] */
static int send_piece(void *fd, const char *text, size_t size)
{
	return write(*(int *)fd, text, size) == (ssize_t)size ? 0 : -1;
}

static void add(const char *name, const char *labels, enum near_metric_kind kind, void *object)
{
	struct near_metric *m = (struct near_metric *)calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->name = name;
	m->labels = labels;
	m->kind = kind;
	m->object = object;
	m->least = 1 << 20; /* of the histogram: the bounds that are written, 1 ms and 17 ms */
	m->most = 1 << 24;
	if (near_metrics_add(&metrics, m))
		abort();
}

static void add_metrics(void)
{
	add("shop_requests_total", "code=\"200\"", NEAR_METRIC_SHARED, &good);
	add("shop_requests_total", "code=\"500\"", NEAR_METRIC_SHARED, &bad);
	add("shop_latency_seconds", NULL, NEAR_METRIC_HISTOGRAM, &latency);
}
/* [/text] */

/* [serve] */
static void serve(int listener)
{
	static const char head[] = "HTTP/1.0 200 OK\r\nContent-Type: " NEAR_METRICS_PROMETHEUS_TYPE
				   "\r\n\r\n";
	struct pollfd ready = {listener, POLLIN, 0};
	char request[4096];

	for (int i = 0; i < WORKERS; i++)
		start_worker(true, 0);
	for (;;) {
		if (poll(&ready, 1, 100) == 1) {
			int fd = accept(listener, NULL, NULL);

			if (fd >= 0 && read(fd, request, sizeof(request)) > 0 &&
			    send_piece(&fd, head, sizeof(head) - 1) == 0)
				near_metrics_write(&metrics, NEAR_METRICS_PROMETHEUS, send_piece,
						   &fd);
			close(fd);
		}
		while (waitpid(-1, NULL, WNOHANG) > 0) /* one was killed */
			start_worker(true, 0);
	}
}
/* [/serve] */

static int listen_at(const char *port)
{
	struct sockaddr_in address;
	int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

	memset(&address, 0, sizeof(address));
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons((uint16_t)atoi(port));
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 8)) {
		perror("prefork");
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	int status, out = STDOUT_FILENO;

	signal(SIGPIPE, SIG_IGN); /* a scraper that goes */
	if (open_metrics())
		return 1;
	add_metrics();
	if (argc > 1)
		serve(listen_at(argv[1]));
	/* [demonstration] */
	for (int i = 0; i < WORKERS; i++)
		start_worker(false, i == 1 ? 700 : 0);
	while (wait(&status) > 0)
		if (WIFSIGNALED(status))
			start_worker(false, 0);
	/* [/demonstration] */
	return near_metrics_write(&metrics, NEAR_METRICS_PROMETHEUS, send_piece, &out);
}
