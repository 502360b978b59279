/* SPDX-License-Identifier: MIT */
/* child: a part of unit.h, for tests that fork. */
#ifndef NEARCPU_TESTS_CHILD_H
#define NEARCPU_TESTS_CHILD_H

/* The exit status of a child that runs `run`, 0 if it returns. -1: killed by *signal. */
static inline int unit_wait(pid_t child, int *signal)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -2;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	if (signal)
		*signal = WTERMSIG(status);
	return -1;
}

/* Much later than any time limit of ctest, which ends a test and the children that it waits for. */
#define UNIT_ORPHAN_ENDS_S 1200

/* Whether the child of a process whose threads allocate may allocate, too. AddressSanitizer's
 * allocator is not made for it (before LLVM 17): one of those threads may have had its lock. */
#define UNIT_CHILD_ALLOCATES (!UNIT_SANITIZED)

/* In a new child. cmocka's handlers would go on with the tests after a fault. */
static inline void unit_begin_child(void)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	struct rlimit none = {0, 0};

	for (size_t i = 0; i < LENGTH(faults); i++)
		signal(faults[i], SIG_DFL);
	setrlimit(RLIMIT_CORE, &none);
	signal(SIGALRM, SIG_DFL);
	alarm(UNIT_ORPHAN_ENDS_S);
}

/* The last child of this thread. */
static __thread pid_t unit_child;

static inline pid_t unit_fork_here(void)
{
	fflush(NULL);
	unit_child = fork();
	if (unit_child == 0)
		unit_begin_child();
	return unit_child;
}

static inline void unit_run_child(void (*run)(void *), void *arg)
{
	unit_begin_child();
	run(arg);
	_exit(0);
}

static inline pid_t unit_fork(void (*run)(void *), void *arg)
{
	if (unit_fork_here() == 0) {
		run(arg);
		_exit(0);
	}
	return unit_child;
}

/* Memory that this process shares with its children. */
static inline void *unit_shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* True in the child. The parent asserts that it ends with 0; 77 skips the test. */
static inline bool unit_is_child(pid_t child)
{
	int signal = 0, status;

	if (child == 0)
		return true;
	assert_true(child > 0);
	status = unit_wait(child, &signal);
	if (status == 77)
		skip();
	if (status)
		fail_msg("status %d of the child, signal %d", status, signal);
	return false;
}

/* The statement that follows runs in a child, which must end with 0, as it does after it. */
#define IN_CHILD() for (pid_t unit_pid = unit_fork_here(); unit_is_child(unit_pid); _exit(0))

/* Asserts that a child that runs `run` comes back with 0; skips the test if it does with 77. */
static inline void unit_in_child(void (*run)(void *), void *arg)
{
	IN_CHILD()
		run(arg);
}

/* A test whose body, which follows, runs in a child. It is skipped where `unless` holds. */
#define UNIT_CHILD(name, unless)                                                                   \
	static void name##_in_child(void *unused);                                                 \
	static void name(void **state)                                                             \
	{                                                                                          \
		if (unless)                                                                        \
			skip();                                                                    \
		unit_in_child(name##_in_child, NULL);                                              \
	}                                                                                          \
	static void name##_in_child(void *unused)

/* Returns where to read the standard error of the new child; in the child, -1. */
static inline int unit_fork_captured(void)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	if (unit_fork_here() == 0)
		dup2(ends[1], 2);
	close(ends[1]);
	if (unit_child)
		return ends[0];
	close(ends[0]);
	return -1;
}

static inline int unit_wait_captured(int end, char *text, size_t size, int *signal)
{
	size_t used = 0;
	ssize_t n;

	while (used < size - 1 && (n = read(end, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	close(end);
	assert_true(unit_child > 0);
	return unit_wait(unit_child, signal);
}

/* Runs `run` in a child; what it writes to standard error comes back in `text`. */
static inline int unit_capture(void (*run)(void *), void *arg, char *text, size_t size, int *signal)
{
	int end = unit_fork_captured();

	if (end < 0) {
		run(arg);
		_exit(0);
	}
	return unit_wait_captured(end, text, size, signal);
}

/* True in the child, whose `end` is -1. The parent asserts that abort() ends the child after
 * exactly this line. */
static inline bool unit_is_dying(int end, const char *line)
{
	char text[4096], expected[256];
	int signal = 0;

	if (end < 0)
		return true;
	snprintf(expected, sizeof(expected), "nearcpu: %s\n", line);
	assert_int_equal(unit_wait_captured(end, text, sizeof(text), &signal), -1);
	assert_int_equal(signal, SIGABRT);
	/* qemu-user adds a line of its own. */
	if (strncmp(text + strcspn(text, "\n"), "\nqemu: ", 7) == 0)
		text[strcspn(text, "\n") + 1] = '\0';
	assert_string_equal(text, expected);
	return false;
}

/* The statement that follows, in a child, must stop the process by abort() after exactly this line
 * on standard error. */
#define DIES(line)                                                                                 \
	for (int unit_end = unit_fork_captured(); unit_is_dying(unit_end, line); _exit(0))

/* The same for a function. */
static inline void unit_dies(void (*run)(void *), void *arg, const char *line)
{
	DIES(line)
		run(arg);
}

/* A function for unit_dies and the like, which makes these calls. */
#define UNIT_CALLS(name, ...)                                                                      \
	static void name(void *unused)                                                             \
	{                                                                                          \
		(void)(__VA_ARGS__);                                                               \
	}

#endif
