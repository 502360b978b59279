// SPDX-License-Identifier: MIT
//! A counter's add, inlined by the layout of near_abi(7). On other CPUs than x86_64 it is a call.

/// The first word of `struct near_counter`: the object that has a copy for each slot.
pub type Object = *mut i64;

extern "C" {
    fn near__counter_add_slow(p: Object, n: i64);
}

/// Adds to the copy of the local slot. False: the sequence was aborted, or the slot is not open.
///
/// # Safety
/// `p` is the object of an initialised counter.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn try_add(p: Object, n: i64) -> bool {
    let arena = (p as usize) & !((1 << 20) - 1);

    std::arch::asm!(
        ".pushsection __rseq_cs, \"aw?\"", // the descriptor
        ".balign 32",
        "73:",
        ".4byte 0, 0",
        ".8byte 71f, 72f - 71f, 74f",
        ".popsection",
        ".pushsection __rseq_cs_ptr_array, \"aw?\"",
        ".8byte 73b",
        ".popsection",
        "movq near__self_0_2@gottpoff(%rip), {mode}",
        "movq %fs:({mode}), {area}", // before the index mode
        "movl %fs:8({mode}), {mode:e}",
        "leaq 73b(%rip), {t}",
        "movq {t}, 8({area})", // rseq_cs
        "71:",
        "movl 4({area}), {t:e}", // slot = cpu_id
        "testl {t:e}, {t:e}",
        "js {failed}", // no longer registered
        "cmpl $1, {mode:e}",
        "je 75f",
        "movl 24({area}), {t:e}", // slot = mm_cid
        "jb 75f",
        "movl {mode:e}, {t:e}", // slot = mm_cid + node_id * mode
        "imull 20({area}), {t:e}",
        "addl 24({area}), {t:e}",
        "75:",
        "shlq $20, {t}",
        "cmpl $1, ({arena}, {t})", // open?
        "jne {failed}",
        "leaq ({p}, {t}), {t}",
        "movq ({t}), {mode}",
        "leaq ({mode}, {n}), {mode}",
        "movq {mode}, ({t})", // the commit
        "72:",
        ".pushsection .text.near_abort, \"ax?\", @progbits",
        ".byte 0x0f, 0xb9, 0x3d",
        ".long 0x53053053",
        "74:",
        "jmp {failed}",
        ".popsection",
        area = out(reg) _,
        mode = out(reg) _,
        t = out(reg) _,
        arena = in(reg) arena,
        p = in(reg) p,
        n = in(reg) n,
        failed = label { return false },
        options(att_syntax, nostack)
    );
    true
}

#[cfg(not(target_arch = "x86_64"))]
unsafe fn try_add(_: Object, _: i64) -> bool {
    false
}

#[cold]
#[inline(never)]
unsafe fn add_slow(p: Object, n: i64) {
    near__counter_add_slow(p, n)
}

/// # Safety
/// `p` is the object of an initialised counter.
#[inline(always)]
pub unsafe fn counter_add(p: Object, n: i64) {
    if !try_add(p, n) {
        add_slow(p, n)
    }
}
