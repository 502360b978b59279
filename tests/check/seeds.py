# SPDX-License-Identifier: MIT
"""Sequences with one fault each, and the sound one that they were made from.

The sound one adds `value` to a word of the thread's slot, and leaves early if the word is zero.
A seed replaces parts of it; a part is a function from the CPU to text.
"""
from dataclasses import dataclass, field

PARTS = {
    "ahead": lambda c: "",
    "before": lambda c: "",
    "arm": lambda c: c.address("t", "descriptor") + "\n" + c.store8("t", "area", 8),
    "index": lambda c: c.load4("slot", "area", 4),
    "slot": lambda c: c.shift("slot", 6) + "\n" + c.add("slot", "base"),
    "load": lambda c: c.load8("v", "slot", 0),
    "leave": lambda c: c.if_zero("v", "exit"),
    "middle": lambda c: "middle:",
    "change": lambda c: c.add("v", "value"),
    "early": lambda c: "",
    "commit": lambda c: c.store8("v", "slot", 0),
    "end": lambda c: "end:",
    "after": lambda c: "",
    "handler": lambda c: c.jump("exit"),
    "signature": lambda c: c.signature_text,
    "place": lambda c: '.section __rseq_cs, "aw"\n.balign 32',
    "head": lambda c: ".4byte 0, 0",
    "words": lambda c: ".8byte start, end - start, abort",
    "lists": lambda c: '.section __rseq_cs_ptr_array, "aw"\n.8byte descriptor',
    "more": lambda c: "",
}

FUNCTION = """
.text
{ahead}
.globl _start
.type _start, %function
_start:
{before}
{arm}
start:
{index}
{slot}
{load}
{leave}
{middle}
{change}
{early}
{commit}
{end}
{after}
{number}
{ret}
exit:
{zero}
{ret}
{nop}
{nop}
{signature}
abort:
{handler}
.size _start, . - _start
{place}
descriptor:
{head}
{words}
{lists}
{more}
"""


@dataclass
class Seed:
    name: str
    finds: set
    parts: dict = field(default_factory=dict)
    cpus: tuple = ("x86_64", "aarch64", "riscv64")

    def source(self, cpu):
        parts = {name: part(cpu) for name, part in {**PARTS, **self.parts}.items()}
        return FUNCTION.format(**parts, number=cpu.number("v", 1), zero=cpu.number("v", 0),
                               ret=cpu.ret(), nop=cpu.nop()).replace("\n\n", "\n") + "\n"


def other_function(body, name="other_function"):
    """A function of its own, behind the one with the sequence."""
    return lambda c: (f".text\n.type {name}, %function\n{name}:\n" + body(c) +
                      f"\n{c.ret()}\n.size {name}, . - {name}")


def cached_pointer(c):
    """A pointer over the edge of the area, as TCMalloc has it, made at the beginning of the
    function: to be seen in a stripped file, too, where no symbol has its address."""
    return (c.copy("other", "area") + "\n" + c.add_number("other", -4) +
            ("\n" + c.nop()) * {"x86_64": 60}.get(c.name, 40))


def second_descriptor(c):
    return ('.section __rseq_cs, "aw"\n.balign 32\nsecond:\n.4byte 0, 0\n'
            ".8byte start, end - start, abort")


def slot_before(c):
    """The address of a slot, by an index that was read before: an argument."""
    return c.shift("other", 6) + "\n" + c.add("other", "base")


# An index that nobody loads: the argument.
NO_INDEX = lambda c: c.copy("slot", "other")

# A register that a call leaves alone.
SAVED = {"x86_64": "%rbx", "aarch64": "x19", "riscv64": "s1"}

SOUND = Seed("sound", set())
# What is right, though it is similar to faults.
ALSO_SOUND = [
    Seed("armed-inside", set(), {
        "arm": lambda c: c.address("t", "descriptor"),
        "index": lambda c: c.store8("t", "area", 8) + "\n" + c.load4("slot", "area", 4)}),
    Seed("compares-index", set(), {
        "arm": lambda c: (PARTS["arm"](c) + "\n"),
        "index": lambda c: c.load4("v", "area", 24) + "\n" + c.copy("slot", "other")}),
    Seed("retries", set(), {
        "arm": lambda c: "again:\n" + PARTS["arm"](c), "handler": lambda c: c.jump("again")}),
    Seed("exit-to-the-cold-part", set(), {
        "leave": lambda c: c.if_zero("v", "_start.cold"),
        "more": other_function(lambda c: c.nop(), "_start.cold")}),
    Seed("private-store", set(), {
        "early": lambda c: c.store8("v", "other", 8)}),
    Seed("value-compared", set(), {
        "before": lambda c: slot_before(c) + "\n" + c.load8("other", "other", 0),
        "change": lambda c: c.if_differ("v", "other", "exit") + "\n" + c.add("other", "value"),
        "commit": lambda c: c.store8("other", "slot", 0)}),
    Seed("value-under-a-mark", set(), {
        "before": lambda c: c.load8("v", "other", 0),
        "index": lambda c: c.load8("t", "area", -4) + "\n" + c.if_zero("t", "exit"),
        "slot": lambda c: c.copy("slot", "other"), "load": lambda c: ""}),
    Seed("value-of-another-place", set(), {
        "before": lambda c: slot_before(c) + "\n" + c.load8("other", "other", 8),
        "load": lambda c: c.copy("v", "other")}),
    Seed("value-of-another-object", set(), {
        "before": lambda c: c.load8("other", "other", 0), "load": lambda c: c.copy("v", "other")}),
    Seed("value-of-the-object", set(), {
        "before": lambda c: c.load8("other", "base", 0), "load": lambda c: c.copy("v", "other")}),
    Seed("index-as-value", set(), {
        "slot": lambda c: "", "load": lambda c: c.copy("v", "slot"),
        "commit": lambda c: c.store8("v", "other", 0)}),
    Seed("vector-commit", set(), {"commit": lambda c: "movups %xmm0, (%r8)"}, ("x86_64",)),
    Seed("vector-load", set(), {"early": lambda c: "movups 8(%r8), %xmm0"}, ("x86_64",)),
    Seed("behind-the-end", set(), {
        "early": lambda c: c.copy("t", "v") + "\n" + c.shift("t", 3) + "\n" +
        c.add("t", "slot") + "\n" + c.store8("value", "t", 0)}),
    Seed("listed-exit", set(), {
        "more": lambda c: '.section __rseq_exit_point_array, "aw"\n.8byte start, exit'}),
    Seed("in-read-only-data", set(), {
        "place": lambda c: ".section .data.rel.ro, \"aw\"\n.balign 32", "lists": lambda c: ""}),
    Seed("through-stack", set(), {
        "before": lambda c: c.store8("area", "sp", 16) + "\n" + c.load8("other", "sp", 16),
        "index": lambda c: c.load4("slot", "other", 4)}),
    Seed("result-of-a-call", set(), {
        # By way of a PLT: the register that had the area has what the function returned.
        "ahead": lambda c: "plt:\n" + c.jump_to("value"),
        "before": lambda c: "\n".join((
            c.copy(SAVED[c.name], "area"), c.copy("v", "area"), c.call("plt"), c.number("t", 0),
            c.store4("t", "v", 4), c.copy("area", SAVED[c.name])))}),
    Seed("jump-over-signature", set(), {
        "arm": lambda c: PARTS["arm"](c) + "\n" + c.jump("start") + "\n.balign 4\n" +
        c.signature_text.replace(".balign 4\n", "") + "\nhandler:\n" + c.jump("exit"),
        "words": lambda c: ".8byte start, end - start, handler"}),
]

SEEDS = [
    Seed("descriptor-missing", {"descriptor-missing"}, {
        "lists": lambda c: '.section __rseq_cs_ptr_array, "aw"\n.8byte descriptor, 8'}),
    Seed("descriptor-alignment", {"descriptor-alignment"}, {
        "place": lambda c: ".data\n.balign 32\n.8byte 1"}),
    Seed("descriptor-version", {"descriptor-version"}, {"head": lambda c: ".4byte 1, 0"}),
    Seed("descriptor-flags", {"descriptor-flags"}, {"head": lambda c: ".4byte 0, 1"}),
    Seed("descriptor-unlisted", {"descriptor-unlisted", "arm-unseen", "index-unseen"}, {
        "more": second_descriptor}),
    Seed("range-empty", {"range-empty"}, {"words": lambda c: ".8byte start, 0, abort"}),
    Seed("range-wraps", {"range-outside"}, {"words": lambda c: ".8byte start, start - end, abort"}),
    Seed("range-no-code", {"range-outside"}, {
        "words": lambda c: ".8byte descriptor, 16, abort"}),
    Seed("abort-inside", {"abort-inside"}, {
        "arm": lambda c: PARTS["arm"](c) + "\n" + c.jump("start") + "\n.balign 4\n" +
        c.signature_text.replace(".balign 4\n", ""),
        "words": lambda c: ".8byte start, end - start, start"}),
    Seed("abort-outside", {"abort-outside"}, {
        "words": lambda c: ".8byte start, end - start, nowhere",
        "more": lambda c: f".data\n.balign 4\n.4byte {c.signature:#x}\nnowhere:\n.8byte 0"}),
    Seed("abort-signature", {"abort-signature"}, {"signature": lambda c: ".4byte 0x12345678"}),
    Seed("coverage", {"coverage"}, {"words": lambda c: ".8byte start, end - start - 1, abort"}),
    Seed("call", {"call"}, {
        "early": lambda c: c.call("other_function"), "more": other_function(lambda c: c.nop())}),
    Seed("system-call", {"system-call"}, {"early": lambda c: c.system_call()}),
    Seed("trap", {"trap"}, {"early": lambda c: c.trap()}),
    Seed("indirect-branch", {"indirect-branch"}, {
        "leave": lambda c: c.if_zero("v", "1f") + "\n" + c.jump("2f") + "\n1:\n" +
        c.jump_to("other") + "\n2:"}),
    Seed("return", {"indirect-branch"}, {
        "leave": lambda c: c.if_zero("v", "1f") + "\n" + c.jump("2f") + "\n1:\n" + c.ret() +
        "\n2:"}),
    Seed("atomic", {"atomic"}, {"early": lambda c: c.atomic("value", "other")}),
    Seed("stack", {"stack"}, {"early": lambda c: c.add_number("sp", 16)}),
    Seed("branch-split", {"branch-split"}, {
        "leave": lambda c: c.if_zero("v", "2f + 2"), "early": lambda c: "2:\n" + c.wide("t")},
         ("x86_64", "riscv64")),
    Seed("loop", {"loop"}, {
        "early": lambda c: c.add_number("value", 1) + "\n" + c.if_zero("value", "middle")}),
    Seed("loop-by-counter", {"loop"}, {"early": lambda c: "loop middle"}, ("x86_64",)),
    Seed("exit-outside", {"exit-outside"}, {
        "leave": lambda c: c.if_zero("v", "nowhere"),
        "more": lambda c: ".data\nnowhere:\n.8byte 0"}),
    Seed("exit-unlisted", {"exit-unlisted"}, {
        "more": lambda c: '.section __rseq_exit_point_array, "aw"\n.8byte start, _start'}),
    Seed("exit-far", {"exit-far"}, {
        "leave": lambda c: c.if_zero("v", "other_function"),
        "more": other_function(lambda c: c.nop())}),
    Seed("entry-inside", {"entry-inside"}, {"more": other_function(lambda c: c.jump("middle"))}),
    Seed("entry-by-condition", {"entry-inside"}, {
        "after": lambda c: c.if_zero("other", "middle")}),
    Seed("entry-by-counter", {"entry-inside"}, {"after": lambda c: "loop middle"}, ("x86_64",)),
    Seed("entry-by-zero-counter", {"entry-inside"}, {
        "after": lambda c: "jrcxz middle"}, ("x86_64",)),
    Seed("entry-unarmed", {"entry-unarmed"}, {"more": other_function(lambda c: c.jump("start"))}),
    Seed("retry-unarmed", {"retry-unarmed", "entry-unarmed"}, {
        "handler": lambda c: c.jump("start")}),
    Seed("commit-none", {"commit-none"}, {"commit": lambda c: c.nop()}),
    Seed("commit-not-last", {"commit-not-last"}, {
        "commit": lambda c: PARTS["commit"](c) + "\n" + c.add("t", "v")}),
    Seed("commit-then-jump", {"commit-not-last"}, {
        "commit": lambda c: PARTS["commit"](c) + "\n" + c.jump("exit")}),
    Seed("commit-outside", {"commit-outside"}, {
        "commit": lambda c: "", "after": PARTS["commit"]}),
    Seed("commit-twice", {"commit-twice"}, {"early": lambda c: c.store8("value", "slot", 0)}),
    Seed("commit-twice-by-exchange", {"commit-twice"}, {
        "early": lambda c: "cmpxchgq %r9, (%r8)"}, ("x86_64",)),
    Seed("index-missing", {"index-missing"}, {"index": NO_INDEX}),
    Seed("index-outside", {"index-outside"}, {
        "before": lambda c: c.load4("other", "area", 4), "index": NO_INDEX}),
    Seed("index-not-used", {"index-outside"}, {
        "before": slot_before, "load": lambda c: c.load8("v", "other", 0),
        "commit": lambda c: c.store8("v", "other", 0)}),
    Seed("value-outside", {"value-outside"}, {
        "before": lambda c: slot_before(c) + "\n" + c.load8("other", "other", 0),
        "load": lambda c: c.copy("v", "other")}),
    Seed("value-outside-with-compared-index", {"value-outside"}, {
        "before": lambda c: c.load8("v", "other", 0),
        "index": lambda c: c.load4("t", "area", 4) + "\n" + c.if_zero("t", "exit"),
        "slot": lambda c: c.copy("slot", "other"), "load": lambda c: ""}),
    Seed("arm-unseen", {"arm-unseen", "index-unseen"}, {"arm": lambda c: ""}),
    Seed("arm-other-descriptor", {"arm-unseen", "index-unseen"}, {
        "arm": lambda c: c.address("t", "second") + "\n" + c.store8("t", "area", 8),
        "lists": lambda c: PARTS["lists"](c) + ", second", "more": second_descriptor}),
    Seed("kernel-field-cpu", {"kernel-field"}, {
        "before": lambda c: c.store4("value", "area", 4)}),
    Seed("kernel-field-node", {"kernel-field"}, {
        "early": lambda c: c.store4("value", "area", 20)}),
    Seed("kernel-field-cid", {"kernel-field"}, {
        "early": lambda c: c.store4("value", "area", 24)}),
    Seed("kernel-field-overlay", {"kernel-field"}, {
        "before": lambda c: c.store8("value", "area", -4)}),
    Seed("kernel-field-vector", {"kernel-field"}, {
        "before": lambda c: "vmovdqu %ymm0, (%rdi)"}, ("x86_64",)),
    Seed("kernel-field-commit", {"kernel-field"}, {
        "commit": lambda c: c.store4("v", "area", 0)}),
    Seed("kernel-field-behind-trap", {"kernel-field"}, {
        "ahead": lambda c: c.trap_with_reason(), "before": cached_pointer,
        "commit": lambda c: c.store8("v", "other", 0)}),
    Seed("kernel-field-behind-unknown", {"kernel-field"}, {
        "ahead": lambda c: c.unknown(), "before": cached_pointer,
        "commit": lambda c: c.store8("v", "other", 0)}),
    Seed("kernel-field-reset", {"kernel-field-reset"}, {
        "before": lambda c: c.number("t", 0) + "\n" + c.store4("t", "area", 4)}),
    Seed("early-update", {"early-update"}, {
        "early": lambda c: c.load8("t", "slot", 8) + "\n" + c.add_number("t", 1) + "\n" +
        c.store8("t", "slot", 8)}),
    Seed("early-update-in-memory", {"early-update"}, {
        "early": lambda c: "incq 8(%r8)"}, ("x86_64",)),
    Seed("early-store", {"early-store"}, {"early": lambda c: c.store8("value", "slot", 8)}),
    Seed("early-store-vector", {"early-store"}, {
        "early": lambda c: "movaps %xmm0, 16(%r8)"}, ("x86_64",)),
    Seed("early-store-x87", {"early-store"}, {"early": lambda c: "fstpl 8(%r8)"}, ("x86_64",)),
    Seed("reads-own-store", {"reads-own-store"}, {
        "early": lambda c: c.store8("v", "other", 8) + "\n" + c.load8("v", "other", 8)}),
]
