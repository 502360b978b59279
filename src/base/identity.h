/* SPDX-License-Identifier: MIT */
/* identity: whether this process is the one that a part of the library knows: the program's, or a
 * child of fork() whose handlers have run. A part that asks the kernel for threads by their ids
 * needs to know: in another process the ids name other threads, or none.
 *
 * A process has a number, which each part records when it begins, and in its fork handler. Two
 * words answer whether the number is still that of this process:
 *
 * - The pid. It differs in a child that runs on this memory (of vfork(), of clone() with CLONE_VM),
 *   and mostly in a copy that was made without the handlers. But a process that is the first of a
 *   pid namespace has number 1, and so has its child in a namespace of its own.
 * - The number, in a page that the kernel zeroes in any copy of the memory (MADV_WIPEONFORK, Linux
 *   4.14). Where there is no such page, the pid alone decides.
 *
 * A system call clone() with CLONE_VM and CLONE_NEWPID, in the first process of a namespace, is not
 * noticed; nearcpu(7) excludes such calls. */
#ifndef NEARCPU_IDENTITY_H
#define NEARCPU_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

/* The number of this process, never 0. The first is for parts that begin: a child that runs on its
 * parent's memory gets its parent's number. The second is for fork handlers; all of a child get the
 * same number, which differs from the parent's. */
uint32_t near__identity_begin(void);
uint32_t near__identity_fork_child(void);

/* The pid of the process of this number; 0: this is a copy of its memory, or `number` is 0. Makes
 * no system call: children that run on the memory get the pid, too. */
uint32_t near__identity_pid(uint32_t number);

/* Whether this process has the number. */
bool near__identity_is(uint32_t number);

#endif
