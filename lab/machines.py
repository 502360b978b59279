# SPDX-License-Identifier: MIT
"""The virtual machines, and the arguments of QEMU for one."""

from dataclasses import dataclass, replace

ALL = ("x86_64", "aarch64", "riscv64")
CONSOLES = {"x86_64": "ttyS0", "aarch64": "ttyAMA0", "riscv64": "ttyS0"}
# no_timer_check: on a busy host the emulated timer appears broken.
KERNEL_WORDS = {"x86_64": "no_timer_check tsc=reliable", "aarch64": "", "riscv64": ""}
# With a thread for each of many CPUs, guests report soft lock-ups. With one thread for all, a CPU
# runs for up to 100 ms until it is another one's turn, which takes spinning threads very long.
MOST_IN_PARALLEL = 8
# On riscv64 with the classic interrupt controllers, kernels leave fences on other CPUs to the
# firmware (OpenSBI), and both hang when CPUs go offline at that time: 6.12 and 7.2, and with
# lab_plain too, which has nothing of this library. With IMSICs the kernel interrupts them itself.
BOARDS = {
    "x86_64": ["-M", "q35", "-cpu", "max", "-accel", "tcg,thread=multi"],
    "aarch64": ["-M", "virt,gic-version=3", "-cpu", "cortex-a72",
                "-accel", "tcg,thread=multi"],
    "riscv64": ["-M", "virt,aia=aplic-imsic,aclint=on", "-accel", "tcg,thread=multi"],
}


@dataclass(frozen=True)
class Machine:
    """A machine. `online`: it begins with 2 CPUs, then these come. `small`: CPUs and `online` where
    only 8 can be had. `seconds`: until init must have spoken, on a busy host. `fine`: interrupts
    arrive between any two instructions; else QEMU lets them in only where a jump ends a block, so
    that hardly any sequence is ever aborted by chance. `cpu`: another one than its board's.
    `kernels`: only these; before 6.3 slots are indexed by cpu, so that there is less to test."""
    name: str
    text: str
    cpus: int = 8
    nodes: int = 4
    memory: int = 1024
    without_memory: tuple = ()
    online: tuple = ()
    small: tuple = ()
    architectures: tuple = ALL
    kernels: tuple = ("6.1", "6.12", "newest")
    seconds: int = 150
    fine: bool = False
    cpu: str = ""

    def on(self, arch):
        """The machine as it is on an architecture."""
        if arch == "riscv64" and self.small:
            return replace(self, cpus=self.small[0], online=self.small[1])
        return self

    def plan(self):
        """The lines for init that complete this machine."""
        return ["\t".join(("online", *map(str, self.online)))] if self.online else []

    def _topology(self):
        with_memory = [n for n in range(self.nodes) if n not in self.without_memory]
        share = self.memory // len(with_memory)
        each = self.cpus // self.nodes
        words = ["-smp", f"{self.cpus},sockets={self.nodes},cores={each},threads=1",
                 "-m", f"{share * len(with_memory)}M"]
        for node in range(self.nodes):
            numa = f"node,nodeid={node},cpus={node * each}-{node * each + each - 1}"
            if node in with_memory:
                words += ["-object", f"memory-backend-ram,id=m{node},size={share}M"]
                numa += f",memdev=m{node}"
            words += ["-numa", numa]
        return words

    def command(self, emulator, kernel, initrd):
        """What starts it; the console is standard output."""
        board = list(BOARDS[kernel.arch])
        if self.cpu:
            board[board.index("-cpu") + 1] = self.cpu
        if self.cpus > MOST_IN_PARALLEL and not self.online:
            board = [word.replace("thread=multi", "thread=single") for word in board]
        if self.fine:
            board = [word.replace("tcg,", "tcg,one-insn-per-tb=on,") for word in board]
        words = ["quiet", "panic=-1", f"console={CONSOLES[kernel.arch]}",
                 KERNEL_WORDS[kernel.arch]]
        if self.online:
            words.append("maxcpus=2")
        return [str(emulator.program(kernel.arch)), *board, *self._topology(),
                *emulator.firmware(), "-kernel", str(kernel.image), "-initrd", str(initrd),
                "-nographic", "-nodefaults", "-serial", "stdio", "-no-reboot",
                "-append", " ".join(word for word in words if word)]


MACHINES = {machine.name: machine for machine in (
    Machine("numa", "8 CPUs on 4 nodes"),
    Machine("memless", "8 CPUs on 4 nodes, one of them without memory", without_memory=(3,),
            kernels=("6.12", "newest")),
    Machine("fine", "2 CPUs on 2 nodes, interrupts between any two instructions", cpus=2, nodes=2,
            fine=True, architectures=("aarch64",), kernels=("newest",), seconds=300),
    # The CPU of the board has no pages of 16 KiB. The kernel of 64 KiB is built, see kernel_build.
    Machine("pages16k", "4 CPUs on 2 nodes, pages of 16 KiB", cpus=4, nodes=2, cpu="neoverse-n1",
            architectures=("aarch64",), kernels=("6.12-16k",)),
    Machine("pages64k", "4 CPUs on 2 nodes, pages of 64 KiB", cpus=4, nodes=2, cpu="neoverse-n1",
            architectures=("aarch64",), kernels=("6.12-64k",)),
    Machine("sparse", "2 CPUs and then 33 and 63 of 64 (riscv64: 5 and 7 of 8), 4 nodes",
            cpus=64, online=(33, 63), small=(8, (5, 7)), seconds=180),
    Machine("sparse128", "2 CPUs and then 127 of 128, 8 nodes", cpus=128, nodes=8, memory=2048,
            online=(127,), architectures=("aarch64",), kernels=("newest",), seconds=180),
    Machine("many", "64 CPUs on 4 nodes", cpus=64, memory=1536,
            architectures=("x86_64", "aarch64"), kernels=("6.12", "newest"), seconds=300),
)}
