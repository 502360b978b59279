/* SPDX-License-Identifier: MIT */
/* Seats: which processes share a space, and which of them have ended. idspace/shared.h has the
 * protocol. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unique.h"
#include "idspace/shared.h"

#define SEATS_SIZE 64
#define TRIES 100 /* to take a seat */
_Static_assert(sizeof(struct near__seats) <= SEATS_SIZE, "near__seats");
NEAR__UNIQUE(near__seats, SEATS_SIZE);

static struct near__fork_turn turn;

/* False: there is no descriptor, or the program has closed it, so that it may be another file. */
static bool is_same_file(const struct near_shared_ids *s)
{
	struct stat now;

	return s->fd >= 0 && fstat(s->fd, &now) == 0 && (uint64_t)now.st_ino == s->inode &&
	       (uint64_t)now.st_dev == s->device;
}

/* ---- fork ---- */

static void seats_visit_locks(near__fork_step *step)
{
	step(&near__seats.lock);
}

static void seats_leave_child(void)
{
	for (struct near_shared_ids *s = near__seats.open; s; s = s->next) {
		if (is_same_file(s))
			close(s->fd);
		s->fd = -1;
		__atomic_store_n(&s->seat, 0, __ATOMIC_RELAXED);
	}
}

NEAR__FORK_HANDLERS(seats, &turn, seats_visit_locks, seats_visit_locks, seats_leave_child)

__attribute__((constructor)) static void seats_watch_forks(void)
{
	NEAR__FORK_REGISTER(seats, &near__seats.watches_forks);
}

/* ---- locks ---- */

/* Of the seat's byte. False: a living process has it. */
static bool set_lock(const struct near_shared_ids *s, unsigned seat, short type)
{
	struct flock lock = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)near_region_file_offset(s->region, &s->words[seat]),
		.l_len = 1,
	};

	return fcntl(s->fd, F_OFD_SETLK, &lock) == 0;
}

/* A program that closed the descriptor has lost the lock. If it has the region's file by the same
 * number again, the lock is its own again, unless another process has found the seat without it. */
static void check_seat(const struct near_shared_ids *s)
{
	unsigned seat = (unsigned)(s->seat >> SEAT_SHIFT) - 1;

	if (is_same_file(s) && set_lock(s, seat, F_WRLCK) &&
	    __atomic_load_n(&s->words[seat], __ATOMIC_ACQUIRE))
		return;
	near_lock_unlock(&near__seats.lock); /* a handler of SIGABRT may fork */
	near__die("near_shared_ids: the program has closed the descriptor that has its seat");
}

static bool is_own(const struct near_shared_ids *s, unsigned seat)
{
	return s->seat == (uint64_t)(seat + 1) << SEAT_SHIFT;
}

/* With the lock on the seat, whose process ended. Release, both: pair with the acquire of the
 * thread that takes the id, and of the one that takes the seat. */
static void take_back(struct near_shared_ids *s, unsigned seat)
{
	uint64_t n = 0;

	for (uint64_t id = 0; id < s->ids; id++) {
		uint64_t *owner = &s->owners[id].owner;

		if (__atomic_load_n(owner, __ATOMIC_RELAXED) >> SEAT_SHIFT != seat + 1)
			continue;
		__atomic_store_n(owner, LEFT, __ATOMIC_RELEASE);
		shared_clear_bit(s, id);
		n++;
	}
	shared_count(s, EXITS, n);
	__atomic_store_n(&s->words[seat], 0, __ATOMIC_RELEASE);
}

void near__seats_search(struct near_shared_ids *s)
{
	int saved = errno;

	if (!s->seat)
		return;
	check_seat(s);
	for (unsigned i = 0; i < s->seats; i++) {
		if (!__atomic_load_n(&s->words[i], __ATOMIC_ACQUIRE) || is_own(s, i) ||
		    !set_lock(s, i, F_WRLCK))
			continue;
		/* Again: its process may have left it by itself in between. */
		if (__atomic_load_n(&s->words[i], __ATOMIC_ACQUIRE))
			take_back(s, i);
		set_lock(s, i, F_UNLCK);
	}
	errno = saved;
}

/* ---- the seat of this process ---- */

static int open_again(struct near_shared_ids *s)
{
	struct stat file;
	int fd = near_region_reopen(s->region);

	if (fd < 0)
		return near__reason_set(
			s, fd, "the region's file cannot be opened again (is /proc mounted?)");
	if (fstat(fd, &file)) {
		close(fd);
		return near__reason_set(s, -EBADF, "the region's file has no status");
	}
	s->fd = fd;
	s->inode = (uint64_t)file.st_ino;
	s->device = (uint64_t)file.st_dev;
	return 0;
}

static bool take_first_free(struct near_shared_ids *s)
{
	for (unsigned i = 0; i < s->seats; i++) {
		if (!set_lock(s, i, F_WRLCK))
			continue;
		if (__atomic_load_n(&s->words[i], __ATOMIC_ACQUIRE))
			take_back(s, i);
		__atomic_store_n(&s->words[i], (uint64_t)getpid(), __ATOMIC_RELAXED);
		__atomic_store_n(&s->seat, (uint64_t)(i + 1) << SEAT_SHIFT, __ATOMIC_RELAXED);
		return true;
	}
	return false;
}

/* While a process takes back the ids of another one, it has the lock on its seat. */
static bool take_free(struct near_shared_ids *s)
{
	for (unsigned i = 0; i < TRIES; i++) {
		if (take_first_free(s))
			return true;
		sched_yield();
	}
	return false;
}

int near__seat_take(struct near_shared_ids *s)
{
	int saved = errno, err;

	if (s->seat)
		return 0;
	err = open_again(s);
	if (!err && !take_free(s)) {
		close(s->fd);
		s->fd = -1;
		err = near__reason_set(
			s, -EUSERS,
			"each seat has a process that lives; make the space with more seats");
	}
	errno = saved;
	return err;
}

void near__seat_leave(struct near_shared_ids *s)
{
	int saved = errno;

	if (s->seat) {
		check_seat(s);
		take_back(s, (unsigned)(s->seat >> SEAT_SHIFT) - 1);
		close(s->fd);
	}
	s->fd = -1;
	s->seat = 0;
	errno = saved;
}
