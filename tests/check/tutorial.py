# SPDX-License-Identifier: MIT
"""Push and pop of a free list per CPU, after the form of Justine Tunney's page "Restartable
Sequences" (2026): assembly by hand, the descriptors in plain read-only data and in no section that
tools know, and the store to rseq_cs as the first instruction of the sequence itself.

The thread's struct rseq is a thread-local variable of the program's own; a list has a head for each
CPU, 64 bytes apart.
"""

X86_64 = """
	.section .tdata,"awT"
	.balign 32
	.globl	__rseq
__rseq:	.zero	64
	.size	__rseq, 64
	.type	__rseq, @object

	.section .data.rel.ro,"aw"
	.balign 32
.Lpush:	.long	0, 0
	.quad	.Lpush_start, .Lpush_end - .Lpush_start, .Lpush_abort
	.balign 32
.Lpop:	.long	0, 0
	.quad	.Lpop_start, .Lpop_end - .Lpop_start, .Lpop_abort

	.text
	.globl	_start, push, pop
	.type	push, @function
	.type	pop, @function
_start:
push:	mov	__rseq@gottpoff(%rip), %r8
.Lpush_again:
	lea	.Lpush(%rip), %rax
.Lpush_start:
	mov	%rax, %fs:8(%r8)
	mov	%fs:4(%r8), %ecx
	shl	$6, %rcx
	mov	(%rdi,%rcx), %rdx
	mov	%rdx, (%rsi)
	mov	%rsi, (%rdi,%rcx)
.Lpush_end:
	ret
	.byte	0x0f, 0xb9, 0x3d
	.long	0x53053053
.Lpush_abort:
	jmp	.Lpush_again
	.size	push, . - push

pop:	mov	__rseq@gottpoff(%rip), %r8
.Lpop_again:
	lea	.Lpop(%rip), %rdx
.Lpop_start:
	mov	%rdx, %fs:8(%r8)
	mov	%fs:4(%r8), %ecx
	shl	$6, %rcx
	mov	(%rdi,%rcx), %rax
	test	%rax, %rax
	jz	.Lpop_end
	mov	(%rax), %rsi
	mov	%rsi, (%rdi,%rcx)
.Lpop_end:
	ret
	.byte	0x0f, 0xb9, 0x3d
	.long	0x53053053
.Lpop_abort:
	jmp	.Lpop_again
	.size	pop, . - pop
"""

AARCH64 = """
	.section .tdata,"awT"
	.balign 32
	.globl	__rseq
	.type	__rseq, %tls_object
__rseq:	.zero	64
	.size	__rseq, 64

	.section .data.rel.ro,"aw"
	.balign 32
.Lpush:	.word	0, 0
	.xword	.Lpush_start, .Lpush_end - .Lpush_start, .Lpush_abort
	.balign 32
.Lpop:	.word	0, 0
	.xword	.Lpop_start, .Lpop_end - .Lpop_start, .Lpop_abort

	.text
	.globl	_start, push, pop
	.type	push, %function
	.type	pop, %function
_start:
push:	mrs	x8, tpidr_el0
	adrp	x9, :gottprel:__rseq
	ldr	x9, [x9, :gottprel_lo12:__rseq]
	add	x8, x8, x9
.Lpush_again:
	adrp	x2, .Lpush
	add	x2, x2, :lo12:.Lpush
.Lpush_start:
	str	x2, [x8, #8]
	ldr	w3, [x8, #4]
	add	x3, x0, x3, lsl #6
	ldr	x4, [x3]
	str	x4, [x1]
	str	x1, [x3]
.Lpush_end:
	ret
	.inst	0xd428bc00
.Lpush_abort:
	b	.Lpush_again
	.size	push, . - push

pop:	mrs	x8, tpidr_el0
	adrp	x9, :gottprel:__rseq
	ldr	x9, [x9, :gottprel_lo12:__rseq]
	add	x8, x8, x9
	mov	x5, x0
.Lpop_again:
	adrp	x2, .Lpop
	add	x2, x2, :lo12:.Lpop
.Lpop_start:
	str	x2, [x8, #8]
	ldr	w3, [x8, #4]
	add	x3, x5, x3, lsl #6
	ldr	x0, [x3]
	cbz	x0, .Lpop_end
	ldr	x4, [x0]
	str	x4, [x3]
.Lpop_end:
	ret
	.inst	0xd428bc00
.Lpop_abort:
	b	.Lpop_again
	.size	pop, . - pop
"""

SOURCES = {"x86_64": X86_64, "aarch64": AARCH64}
