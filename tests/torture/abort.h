/* SPDX-License-Identifier: MIT */
/* What the files of abort_test share. */
#ifndef NEARCPU_TESTS_TORTURE_ABORT_H
#define NEARCPU_TESTS_TORTURE_ABORT_H

#include "operations/ops.h"

/* The index modes, as near__self.index_mode names them: by cid, by cpu, and by node and cid,
 * which on node 0 is the cid again. One process can try all three, one after the other, since each
 * thread takes its own word for it. */
enum mode { BY_CID, BY_CPU, BY_NODE, MODES };

/* False: this process cannot be in that mode. */
bool choose_mode(int which);

/* ops_reset, in the mode that was chosen. */
void reset(enum ops_setup setup, enum ops_object object);

/* Runs the operation alone; of the sequences, those that it ran are then `reached`. */
void learn_reached(enum ops_setup setup, enum ops_object object, const struct op *op);

/* abort_taken.c */
void registration_taken_at_each_instruction(void **state);

#endif
