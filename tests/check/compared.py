# SPDX-License-Identifier: MIT
"""The form of librseq and of the kernel's own tests, in C: the address of the area comes from a
function, C code reads the index before, the sequence compares it, and exits are listed."""

HEAD = """
#include <stddef.h>
#include <stdint.h>

struct area {
	uint32_t cpu_id_start, cpu_id;
	uint64_t rseq_cs;
	uint32_t flags, node_id, mm_cid;
};

extern ptrdiff_t area_offset;
int add(long *v, long expect, long n, uint32_t cpu);

static struct area *area_get(void)
{
	return (struct area *)((char *)__builtin_thread_pointer() + area_offset);
}

#define TABLE \\
	".pushsection __rseq_cs, \\"aw\\"\\n.balign 32\\n3:\\n.4byte 0, 0\\n" \\
	".8byte 1f, 2f - 1f, 4f\\n.popsection\\n" \\
	".pushsection __rseq_cs_ptr_array, \\"aw\\"\\n.8byte 3b\\n.popsection\\n" \\
	".pushsection __rseq_exit_point_array, \\"aw\\"\\n.8byte 1f, %l[differs]\\n.popsection\\n"

int add(long *v, long expect, long n, uint32_t cpu)
{
	__asm__ volatile goto(TABLE
"""

TAIL = """
		:: [cpu] "r"(cpu), [id] "m"(area_get()->cpu_id), [cs] "m"(area_get()->rseq_cs),
		   [v] "m"(*v), [expect] "r"(expect), [n] "r"(n)
		: "memory", "cc", TEMPORARY
		: aborted, differs);
	return 0;
aborted:
	return -1;
differs:
	return 1;
}
"""

CODE = {
    "x86_64": ("rax", r"""
		"leaq 3b(%%rip), %%rax\n movq %%rax, %[cs]\n"
		"1: cmpl %[cpu], %[id]\n jnz 4f\n"
		"cmpq %[v], %[expect]\n jnz %l[differs]\n"
		"addq %[n], %[v]\n 2:\n"
		".pushsection __rseq_failure, \"ax\"\n .byte 0x0f, 0xb9, 0x3d\n .long 0x53053053\n"
		"4: jmp %l[aborted]\n .popsection\n"
    """),
    "aarch64": ("x15", r"""
		"adrp x15, 3b\n add x15, x15, :lo12:3b\n str x15, %[cs]\n"
		"1: ldr w15, %[id]\n sub w15, w15, %w[cpu]\n cbnz w15, 4f\n"
		"ldr x15, %[v]\n sub x15, x15, %[expect]\n cbnz x15, %l[differs]\n"
		"ldr x15, %[v]\n add x15, x15, %[n]\n str x15, %[v]\n 2:\n"
		"b 5f\n .inst 0xd428bc00\n 4: b %l[aborted]\n 5:\n"
    """),
    "riscv64": ("t6", r"""
		"la t6, 3b\n sd t6, %[cs]\n"
		"1: lw t6, %[id]\n bne t6, %[cpu], 4f\n"
		"ld t6, %[v]\n beq t6, %[expect], 6f\n j %l[differs]\n"
		"6: ld t6, %[v]\n add t6, t6, %[n]\n sd t6, %[v]\n 2:\n"
		"j 5f\n .balign 4\n .4byte 0xf1401073\n 4: j %l[aborted]\n 5:\n"
    """),
}


def source(cpu):
    temporary, code = CODE[cpu.name]
    return HEAD + code + TAIL.replace("TEMPORARY", f'"{temporary}"')
