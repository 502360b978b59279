/* SPDX-License-Identifier: MIT */
/* NEAR_CONF: the parser against a table and against a second parser, the warnings, setuid
 * programs. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <nearcpu/seq.h>

#include "base/conf.h"
#include "team.h"

/* ---- the parser ---- */

static struct {
	const char *begin, *end; /* the text that is parsed */
	char said[1024];         /* "what item;" for each warning */
	int count;
} warned;

static void note(const char *what, const char *item, size_t len)
{
	size_t used = strlen(warned.said);

	assert_true(item >= warned.begin && item + len <= warned.end);
	assert_int_not_equal(len, 0);
	assert_null(memchr(item, ',', len));
	snprintf(warned.said + used, sizeof(warned.said) - used, "%s %.*s;", what, (int)len, item);
	warned.count++;
}

static struct near__conf parse(const char *text)
{
	struct near__conf conf;

	memset(&conf, 0x5a, sizeof(conf));
	memset(&warned, 0, sizeof(warned));
	warned.begin = text;
	warned.end = text ? text + strlen(text) : text;
	near__conf_parse(&conf, text, note);
	return conf;
}

static const struct {
	const char *text;
	/* rseq_off, fence_off, slot, lock_check, pool_check, rcu_check, few_calls */
	struct near__conf conf;
	const char *said;
} texts[] = {
	{NULL, {0, 0, 0, 0, 0, 0, 0}, ""},
	{"", {0, 0, 0, 0, 0, 0, 0}, ""},
	{"rseq:on", {0, 0, 0, 0, 0, 0, 0}, ""},
	{"rseq:off", {1, 0, 0, 0, 0, 0, 0}, ""},
	{"fence:on", {0, 0, 0, 0, 0, 0, 0}, ""},
	{"fence:off", {0, 1, 0, 0, 0, 0, 0}, ""},
	{"calls:all", {0, 0, 0, 0, 0, 0, 0}, ""},
	{"calls:few", {0, 0, 0, 0, 0, 0, 1}, ""},
	{"slot:auto", {0, 0, NEAR__SLOT_AUTO, 0, 0, 0, 0}, ""},
	{"slot:cpu", {0, 0, NEAR__SLOT_BY_CPU, 0, 0, 0, 0}, ""},
	{"slot:cid", {0, 0, NEAR__SLOT_BY_CID, 0, 0, 0, 0}, ""},
	{"rseq:off,fence:off,slot:cid", {1, 1, NEAR__SLOT_BY_CID, 0, 0, 0, 0}, ""},
	{"slot:cpu,slot:auto,rseq:off,rseq:on", {0, 0, NEAR__SLOT_AUTO, 0, 0, 0, 0}, ""},
	{",,rseq:off,,,slot:cpu,,", {1, 0, NEAR__SLOT_BY_CPU, 0, 0, 0, 0}, ""},
	{",", {0, 0, 0, 0, 0, 0, 0}, ""},
	{"speed:fast", {0, 0, 0, 0, 0, 0, 0}, "unknown key speed:fast;"},
	{"speed:fast,rseq:off", {1, 0, 0, 0, 0, 0, 0}, "unknown key speed:fast;"},
	{"rseq:off,speed", {1, 0, 0, 0, 0, 0, 0}, "unknown key speed;"},
	{"rseq", {0, 0, 0, 0, 0, 0, 0}, "bad value rseq;"},
	{"rseq:", {0, 0, 0, 0, 0, 0, 0}, "bad value rseq:;"},
	{"rseq:of", {0, 0, 0, 0, 0, 0, 0}, "bad value rseq:of;"},
	{"rseq:offf", {0, 0, 0, 0, 0, 0, 0}, "bad value rseq:offf;"},
	{"rseq:OFF", {0, 0, 0, 0, 0, 0, 0}, "bad value rseq:OFF;"},
	{"rseq:off ", {0, 0, 0, 0, 0, 0, 0}, "bad value rseq:off ;"},
	{"rseq=off", {0, 0, 0, 0, 0, 0, 0}, "unknown key rseq=off;"},
	{"rseq:off:on", {0, 0, 0, 0, 0, 0, 0}, "bad value rseq:off:on;"},
	{"rseq:cpu,slot:off", {0, 0, 0, 0, 0, 0, 0}, "bad value rseq:cpu;bad value slot:off;"},
	{"rse:off", {0, 0, 0, 0, 0, 0, 0}, "unknown key rse:off;"},
	{"rseqq:off", {0, 0, 0, 0, 0, 0, 0}, "unknown key rseqq:off;"},
	{" rseq:off", {0, 0, 0, 0, 0, 0, 0}, "unknown key  rseq:off;"},
	{":off", {0, 0, 0, 0, 0, 0, 0}, "unknown key :off;"},
	{":", {0, 0, 0, 0, 0, 0, 0}, "unknown key :;"},
	{"slot:cpu;rseq:off", {0, 0, 0, 0, 0, 0, 0}, "bad value slot:cpu;rseq:off;"},
	{"lock_check:0", {0, 0, 0, NEAR__LOCK_CHECK_OFF, 0, 0, 0}, ""},
	{"lock_check:1", {0, 0, 0, NEAR__LOCK_CHECK_TELLS, 0, 0, 0}, ""},
	{"lock_check:2,rseq:off", {1, 0, 0, NEAR__LOCK_CHECK_STOPS, 0, 0, 0}, ""},
	{"lock_check:3", {0, 0, 0, 0, 0, 0, 0}, "bad value lock_check:3;"},
	{"lock_check:on", {0, 0, 0, 0, 0, 0, 0}, "bad value lock_check:on;"},
	{"lock_check:", {0, 0, 0, 0, 0, 0, 0}, "bad value lock_check:;"},
	{"lock_check:1,lock_check", {0, 0, 0, 1, 0, 0, 0}, "bad value lock_check;"},
	{"pool_check:1", {0, 0, 0, 0, 1, 0, 0}, ""},
	{"pool_check:1,pool_check:0", {0, 0, 0, 0, 0, 0, 0}, ""},
	{"pool_check:2", {0, 0, 0, 0, 0, 0, 0}, "bad value pool_check:2;"},
	{"rcu_check:1", {0, 0, 0, 0, 0, 1, 0}, ""},
	{"\xff\xfe,fence:off", {0, 1, 0, 0, 0, 0, 0}, "unknown key \xff\xfe;"},
};

static void check_conf(struct near__conf conf, struct near__conf expected)
{
	assert_int_equal(conf.rseq_off, expected.rseq_off);
	assert_int_equal(conf.fence_off, expected.fence_off);
	assert_int_equal(conf.slot, expected.slot);
	assert_int_equal(conf.lock_check, expected.lock_check);
	assert_int_equal(conf.pool_check, expected.pool_check);
	assert_int_equal(conf.rcu_check, expected.rcu_check);
	assert_int_equal(conf.few_calls, expected.few_calls);
}

static void each_text_has_its_settings_and_warnings(void **state)
{
	for (size_t i = 0; i < LENGTH(texts); i++) {
		check_conf(parse(texts[i].text), texts[i].conf);
		assert_string_equal(warned.said, texts[i].said);
	}
}

/* A second parser, made differently: it finds whole items in a table. */
static int expect_item(const char *item, struct near__conf *conf)
{
	const struct {
		const char *item;
		int *field, value;
	} items[] = {
		{"rseq:on", &conf->rseq_off, 0},
		{"rseq:off", &conf->rseq_off, 1},
		{"fence:on", &conf->fence_off, 0},
		{"fence:off", &conf->fence_off, 1},
		{"calls:all", &conf->few_calls, 0},
		{"calls:few", &conf->few_calls, 1},
		{"slot:auto", &conf->slot, NEAR__SLOT_AUTO},
		{"slot:cpu", &conf->slot, NEAR__SLOT_BY_CPU},
		{"slot:cid", &conf->slot, NEAR__SLOT_BY_CID},
		{"lock_check:0", &conf->lock_check, 0},
		{"lock_check:1", &conf->lock_check, 1},
		{"lock_check:2", &conf->lock_check, 2},
	};

	if (*item == '#')
		return 0;
	for (size_t i = 0; i < LENGTH(items); i++) {
		if (strcmp(item, items[i].item) == 0) {
			*items[i].field = items[i].value;
			return 0;
		}
	}
	return 1;
}

static void check_against_the_second_parser(const char *text)
{
	struct near__conf expected = {0};
	char copy[256], *rest = copy, *item;
	int warnings = 0;

	strcpy(copy, text);
	while ((item = strsep(&rest, ",")))
		if (*item)
			warnings += expect_item(item, &expected);
	check_conf(parse(text), expected);
	assert_int_equal(warned.count, warnings);
}

static void append_piece(char *text, uint64_t *seed)
{
	static const char *const pieces[] = {"rseq", "fence", "slot",       ":",   ":",   ",",
					     ",",    "on",    "off",        "cpu", "cid", "auto",
					     "x",    " ",     "lock_check", "1",   "2",   "calls",
					     "few",  "all",   "#"};
	size_t used = strlen(text);

	if (unit_random(seed) % 8) {
		strcpy(text + used, pieces[unit_random(seed) % LENGTH(pieces)]);
	} else {
		text[used] = (char)(1 + unit_random(seed) % 255);
		text[used + 1] = '\0';
	}
}

/* The text ends where its page ends: to read on is a fault. */
static void random_texts_are_read_like_the_second_parser_does(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = unit_map(2 * page, MAP_PRIVATE);
	unsigned rounds = unit_scale(100000);
	uint64_t seed = 1;

	assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
	for (unsigned i = 0; i < rounds; i++) {
		char text[256] = "";
		unsigned n = unit_random(&seed) % 24;
		char *end;

		while (n--)
			append_piece(text, &seed);
		end = pages + page - strlen(text) - 1;
		strcpy(end, text);
		check_against_the_second_parser(end);
	}
	munmap(pages, 2 * page);
}

/* ---- the process ---- */

static void read_settings(unsigned number)
{
	CHECK(near_slots() > 0);
	near_slot();
}

static void read_from_threads(void *conf)
{
	setenv("NEAR_CONF", conf, 1);
	team_run(8, read_settings);
	near_slots();
	near_cid();
}

/* What is written to standard error, with these settings. */
static const char *warnings_of(const char *conf)
{
	static char text[4096];

	assert_int_equal(unit_capture(read_from_threads, (void *)(uintptr_t)conf, text,
				      sizeof(text), NULL),
			 0);
	return text;
}

static void each_warning_is_printed_once(void **state)
{
	static const char tail[] = "ignored; nearcpu(7) lists the settings\n";
	char expected[512];

	snprintf(expected, sizeof(expected),
		 "nearcpu: NEAR_CONF: unknown key 'speed:11' %s"
		 "nearcpu: NEAR_CONF: bad value 'slot:none' %s"
		 "nearcpu: NEAR_CONF: bad value 'rseq' %s",
		 tail, tail, tail);
	assert_string_equal(warnings_of("speed:11,slot:none,slot:cpu,rseq"), expected);
	assert_string_equal(warnings_of("slot:cid"), "");
	assert_string_equal(warnings_of("#peed:11"), "");
}

static void a_long_item_is_cut(void **state)
{
	const char *quoted, *closed;
	char item[301];

	memset(item, 'a', 300);
	item[300] = '\0';
	quoted = strchr(warnings_of(item), '\'');
	assert_non_null(quoted);
	closed = strchr(quoted + 1, '\'');
	assert_non_null(closed);
	assert_int_equal(closed - quoted - 1, 64);
}

UNIT_CHILD(without_standard_error_nothing_happens, false)
{
	close(2);
	setenv("NEAR_CONF", "speed:11,rseq:off", 1);
	CHECK(near_slots() > 0);
}

struct effect {
	const char *conf, *why, *slot_why;
};

static void see_effect(const struct effect *effect)
{
	struct near_rseq_status status;

	setenv("NEAR_CONF", effect->conf, 1);
	near_rseq_status(&status, sizeof(status));
	if (effect->why) {
		CHECK(!status.live);
		CHECK(!NEAR__HAS_SEQ || strstr(status.why, effect->why));
	}
	if (effect->slot_why && status.has_cid)
		CHECK(strstr(status.slot_why, effect->slot_why));
	if (strstr(effect->conf, "slot:cpu"))
		CHECK(status.slot_kind == NEAR_SLOT_CPU);
	if (strstr(effect->conf, "slot:cid") && status.has_cid)
		CHECK(status.slot_kind == NEAR_SLOT_CID);
}

static void settings_have_their_effect(void **state)
{
	static struct effect effects[] = {
		{"rseq:off", "NEAR_CONF=rseq:off", NULL},
		{"fence:off", "NEAR_CONF=fence:off", NULL},
		{"calls:few", "NEAR_CONF=calls:few", NULL},
		{"slot:cpu", NULL, "NEAR_CONF=slot:cpu"},
		{"slot:cid", NULL, "NEAR_CONF=slot:cid"},
		{"slot:cpu,rseq:off", "NEAR_CONF=rseq:off", NULL},
	};

	for (size_t i = 0; i < LENGTH(effects); i++)
		IN_CHILD()
			see_effect(&effects[i]);
}

/* ---- setuid ---- */

/* What `conf_test secure` prints, in the copy of this program that is setuid. */
static int print_secure(void)
{
	struct near__conf conf;

	near__conf_read(&conf);
	printf("%lu %d %d\n", getauxval(AT_SECURE), conf.rseq_off, conf.slot);
	return 0;
}

static void copy_program(const char *to)
{
	char buffer[65536];
	int in = open("/proc/self/exe", O_RDONLY),
	    out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0700);
	ssize_t n;

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, buffer, sizeof(buffer))) > 0)
		assert_int_equal(write(out, buffer, (size_t)n), n);
	close(in);
	close(out);
}

static void run_copy(void *path)
{
	dup2(2, 1);
	setenv("NEAR_CONF", "rseq:off,slot:cpu,speed:11", 1);
	execl(path, path, "secure", NULL);
	_exit(127);
}

/* Only root can give a file to another user. */
static void setuid_programs_ignore_the_variable(void **state)
{
	char directory[] = "/tmp/nearcpu-conf-XXXXXX", path[64], text[1024];
	int status;

	if (geteuid() != 0 || unit_emulated())
		skip();
	assert_non_null(mkdtemp(directory));
	assert_int_equal(chmod(directory, 0755), 0);
	snprintf(path, sizeof(path), "%s/copy", directory);
	copy_program(path);
	status = unit_capture(run_copy, path, text, sizeof(text), NULL);
	if (status == 0 && strncmp(text, "nearcpu", 7) == 0 && chown(path, 65534, 65534) == 0 &&
	    chmod(path, 04755) == 0)
		status = unit_capture(run_copy, path, text, sizeof(text), NULL);
	else
		status = -1;
	unlink(path);
	rmdir(directory);
	if (status || strstr(text, "\n0 "))
		skip(); /* a file system, or a process (PR_SET_NO_NEW_PRIVS), without setuid */
	assert_string_equal(text, "1 0 0\n");
}

static void the_library_has_the_version_of_its_headers(void **state)
{
	assert_int_equal(near_version(), NEAR_VERSION);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "secure") == 0)
		return print_secure();
	return UNIT_TESTS(each_text_has_its_settings_and_warnings,
			  random_texts_are_read_like_the_second_parser_does,
			  each_warning_is_printed_once, a_long_item_is_cut,
			  without_standard_error_nothing_happens, settings_have_their_effect,
			  setuid_programs_ignore_the_variable,
			  the_library_has_the_version_of_its_headers);
}
