/* SPDX-License-Identifier: MIT */
/* The rules, by what they are about: RULE(its enum, severity, name, reason, advice). The includer
 * defines RULE, and nearcpu-check(1) explains each rule. */

/* clang-format off */

/* The descriptor. */
RULE(DESCRIPTOR_MISSING, FAULT, "descriptor-missing",
     "a list names a descriptor that is not in the file",
     "let __rseq_cs_ptr_array hold addresses of descriptors only")
RULE(DESCRIPTOR_ALIGNMENT, FAULT, "descriptor-alignment",
     "the descriptor is not aligned to 32 bytes",
     "put .balign 32 before it")
RULE(DESCRIPTOR_VERSION, FAULT, "descriptor-version",
     "the version is not 0: the kernel kills the process",
     "let the first 4 bytes of the descriptor be 0")
RULE(DESCRIPTOR_FLAGS, FAULT, "descriptor-flags",
     "flags are set: since Linux 6.1 the kernel kills the process",
     "let the second 4 bytes of the descriptor be 0")
RULE(DESCRIPTOR_UNLISTED, NOTE, "descriptor-unlisted",
     "not in __rseq_cs_ptr_array, which lists others: debuggers will not know it",
     "add its address there")
RULE(RANGE_EMPTY, FAULT, "range-empty",
     "the sequence has no instruction",
     "let the length be the distance from its start to the byte behind the commit")
RULE(RANGE_OUTSIDE, FAULT, "range-outside",
     "the sequence does not lie in executable memory",
     "let start and length describe code; the length is not the address of the end")
RULE(ABORT_INSIDE, FAULT, "abort-inside",
     "the abort handler lies inside the sequence: the kernel kills the process",
     "move the handler behind the commit or into another section")
RULE(ABORT_OUTSIDE, FAULT, "abort-outside",
     "the abort handler is not in executable memory",
     "let the last word of the descriptor be the address of the handler")
RULE(ABORT_SIGNATURE, FAULT, "abort-signature",
     "no signature right before the abort handler: the kernel kills the process",
     "put the signature that was registered right before the handler's label")

/* Single instructions. */
RULE(COVERAGE, FAULT, "coverage",
     "the range does not end where an instruction ends",
     "let start and length cover whole instructions")
RULE(CALL, FAULT, "call",
     "a call: what is called runs outside of the range and is not restarted",
     "inline it, or call before the sequence")
RULE(SYSTEM_CALL, FAULT, "system-call",
     "a system call: kernels with CONFIG_DEBUG_RSEQ kill the process",
     "do it before or after the sequence")
RULE(TRAP, FAULT, "trap",
     "an instruction that traps: its signal aborts the sequence each time",
     "branch out of the sequence to what reports the error")
RULE(INDIRECT_BRANCH, FAULT, "indirect-branch",
     "a branch to an address in a register: it may leave the sequence",
     "use direct branches")
RULE(ATOMIC, WARNING, "atomic",
     "an atomic instruction: as expensive as what the sequence is to avoid",
     "use plain loads and stores; the sequence has the CPU for itself")
RULE(STACK, WARNING, "stack",
     "moves the stack pointer: after an abort it stays moved",
     "keep values in registers, or in stack memory reserved before")

/* Branches. */
RULE(BRANCH_SPLIT, FAULT, "branch-split",
     "a branch to the middle of an instruction",
     "let it branch to the start of an instruction")
RULE(LOOP, WARNING, "loop",
     "a loop: a sequence that is long enough is aborted each time",
     "bound it, and keep it far shorter than a time slice")
RULE(EXIT_OUTSIDE, FAULT, "exit-outside",
     "a branch to where no code is",
     "let it branch to code of this file")
RULE(EXIT_UNLISTED, WARNING, "exit-unlisted",
     "an exit that __rseq_exit_point_array does not list, while it lists others",
     "add it there: debuggers stop at the listed ones")
RULE(EXIT_FAR, NOTE, "exit-far",
     "an exit to another function",
     "see that it is meant")
RULE(ENTRY_INSIDE, FAULT, "entry-inside",
     "a branch from outside into the middle: what is before it has not run",
     "enter at the start only")
RULE(ENTRY_UNARMED, WARNING, "entry-unarmed",
     "a branch to the start passes by the store that arms the sequence",
     "branch to that store")
RULE(RETRY_UNARMED, FAULT, "retry-unarmed",
     "after an abort it runs again without being armed: the kernel has cleared rseq_cs",
     "let the handler branch to before the store to rseq_cs")

/* Data. */
RULE(COMMIT_NONE, WARNING, "commit-none",
     "the sequence stores nothing",
     "a sequence that only reads is fine if its reads need not be repeated together")
RULE(COMMIT_NOT_LAST, FAULT, "commit-not-last",
     "the last instruction is no store: an abort behind the commit repeats it",
     "end the range right behind the commit")
RULE(COMMIT_OUTSIDE, FAULT, "commit-outside",
     "the store that would commit is after the end: an abort no longer stops it",
     "end the range right behind that store")
RULE(COMMIT_TWICE, FAULT, "commit-twice",
     "stores to the same word as the commit: an abort in between leaves it half done",
     "store it once, at the end")
RULE(INDEX_MISSING, FAULT, "index-missing",
     "the sequence never reads which CPU it is on",
     "load cpu_id, mm_cid or node_id inside, or compare it there")
RULE(INDEX_OUTSIDE, FAULT, "index-outside",
     "the address of the commit was made from an index that was read before the start",
     "load the index inside, or compare it there: the thread may have moved since")
RULE(INDEX_UNSEEN, WARNING, "index-unseen",
     "no load of the index was seen; the area of the thread was not recognized",
     "see that the index is loaded inside the sequence")
RULE(VALUE_OUTSIDE, FAULT, "value-outside",
     "commits what was made from what was there before the start: later stores are lost",
     "load the word inside, or load it again there and compare")
RULE(ARM_UNSEEN, WARNING, "arm-unseen",
     "no store of the descriptor's address to rseq_cs was seen before the sequence",
     "see that each way to its start stores it, after each abort too")
RULE(KERNEL_FIELD, FAULT, "kernel-field",
     "writes a field that is the kernel's: since Linux 6.19 this can kill the process",
     "write nothing but rseq_cs; keep values of your own elsewhere")
RULE(KERNEL_FIELD_RESET, WARNING, "kernel-field-reset",
     "sets a field of the kernel's to a constant",
     "do so only while the area is not registered")
RULE(EARLY_UPDATE, FAULT, "early-update",
     "changes before the commit what it read before: after an abort it is changed twice",
     "keep the new value in a register, and store it at the end")
RULE(EARLY_STORE, WARNING, "early-store",
     "stores to a fixed place of the slot before the commit: an abort leaves it there",
     "store to private memory before the commit")
RULE(READS_OWN_STORE, WARNING, "reads-own-store",
     "reads what it has stored itself",
     "keep the value in a register")
