/* SPDX-License-Identifier: MIT */
/* usage: metrics [PORT]
 * A shop whose metrics Prometheus collects from http://127.0.0.1:PORT/metrics, by one thread and
 * plain sockets. Without a port the program asks itself once, and prints what it got. */
#include <nearcpu/metrics.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct near_metrics metrics;
static struct near_counter orders;
static struct near_gauge stock;
static struct near_histogram latency; /* in nanoseconds */
static struct near_family payments;

static void define(const char *name, const char *help, enum near_metric_kind kind, void *object)
{
	struct near_metric *metric = (struct near_metric *)calloc(1, sizeof(*metric));

	if (!metric)
		abort();
	metric->name = name;
	metric->help = help;
	metric->kind = kind;
	if (object == &payments)
		metric->family = &payments;
	else
		metric->object = object;
	if (kind == NEAR_METRIC_HISTOGRAM) {
		metric->unit = "seconds";
		metric->least = 1 << 20; /* a millisecond */
		metric->most = 1 << 26;
	}
	if (near_metrics_add(&metrics, metric))
		abort();
}

/* A customer may choose any kind of payment; they fill no memory. */
static void pay(const char *kind, const char *result)
{
	const char *values[] = {kind, result};

	near_counter_add((struct near_counter *)near_family_get(&payments, values), 1);
}

static void sell(void)
{
	for (int i = 1; i <= 1000; i++) {
		near_counter_add(&orders, 1);
		near_gauge_set(&stock, 5000 - i);
		near_histogram_record_double(&latency, i % 100 / 1000.);
		pay(i % 10 ? "card" : "cash", i % 250 ? "ok" : "refused");
	}
}

/* ---- /metrics ---- */

static int send_piece(void *argument, const char *text, size_t size)
{
	int fd = *(int *)argument;

	while (size) {
		ssize_t n = write(fd, text, size);

		if (n < 0)
			return -1;
		text += n;
		size -= (size_t)n;
	}
	return 0;
}

static void answer(int fd)
{
	char request[4096] = "", head[256];
	ssize_t n = read(fd, request, sizeof(request) - 1); /* scrapers send it at once */
	enum near_metrics_format format = strstr(request, "application/openmetrics-text")
						  ? NEAR_METRICS_OPENMETRICS
						  : NEAR_METRICS_PROMETHEUS;

	if (n <= 0 || strncmp(request, "GET /metrics", 12) != 0)
		return;
	snprintf(head, sizeof(head), "HTTP/1.0 200 OK\r\nContent-Type: %s\r\n\r\n",
		 format == NEAR_METRICS_OPENMETRICS ? NEAR_METRICS_OPENMETRICS_TYPE
						    : NEAR_METRICS_PROMETHEUS_TYPE);
	if (send_piece(&fd, head, strlen(head)) == 0)
		near_metrics_write(&metrics, format, send_piece, &fd);
}

static void *serve(void *argument)
{
	int listener = *(int *)argument, fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		answer(fd);
		close(fd);
	}
	return NULL;
}

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
		perror("metrics");
		exit(1);
	}
	return fd;
}

static void *answer_once(void *argument)
{
	answer(*(int *)argument);
	close(*(int *)argument);
	return NULL;
}

/* As a scraper, which accepts OpenMetrics. */
static void collect(int fd)
{
	static const char request[] =
		"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n";
	FILE *in = fdopen(fd, "r");
	char line[256];

	if (!in || write(fd, request, sizeof(request) - 1) < 0)
		exit(1);
	while (fgets(line, sizeof(line), in) && *line != '\r')
		;
	while (fgets(line, sizeof(line), in))
		fputs(line, stdout);
	fclose(in);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int listener, ends[2];
	struct near_histogram_options options;

	memset(&options, 0, sizeof(options));
	options.units = 1e9;
	signal(SIGPIPE, SIG_IGN);
	if (near_counter_init(&orders) || near_histogram_init(&latency, &options) ||
	    near_family_init(&payments, NEAR_METRIC_COUNTER, "kind,result", 3, NULL))
		return 1;
	define("shop_orders", "Orders that were paid.", NEAR_METRIC_COUNTER, &orders);
	define("shop_stock", "Goods that are left.", NEAR_METRIC_GAUGE, &stock);
	define("shop_latency_seconds", "From order to answer.", NEAR_METRIC_HISTOGRAM, &latency);
	define("shop_payments", "Of all kinds.", NEAR_METRIC_COUNTER, &payments);
	if (argc > 1 && near_histogram_keep_exemplars(&latency))
		return 1;
	near_histogram_record_exemplar(&latency, 100000000, "4bf92f3577b34da6a3ce929d0e0e4736");
	sell();
	pay("shells", "ok");
	pay("beads", "ok");
	if (argc > 1) {
		listener = listen_at(argv[1]);
		return serve(&listener) != NULL;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    pthread_create(&thread, NULL, answer_once, &ends[0]))
		return 1;
	collect(ends[1]);
	pthread_join(thread, NULL);
	return 0;
}
