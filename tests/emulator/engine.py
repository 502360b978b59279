# SPDX-License-Identifier: MIT
"""A CPU of a machine: one emulator, on the machine's memory.

A machine has two. A hook costs a call into Python wherever it is, also in runs that nothing is to
stop, which are most: those are left to the one that has no hooks."""

import ctypes

import unicorn

import cpu as cpus


class Engine:
    def __init__(self, cpu, memory):
        self._memory = memory
        self._areas = ()  # those that the emulator has
        self.emulator = unicorn.Uc(cpu.uc_arch, cpu.uc_mode)
        cpus.prepare(self.emulator, cpu)

    def map(self):
        """Maps what the memory has now. What changed and changed back costs nothing.

        Regions of the emulator are replaced as wholes: splitting one would copy it. To change the
        protection of a whole one costs little."""
        areas = self._memory.areas
        if areas is self._areas:
            return
        new, old = ({(a, b): p for a, b, p in x} for x in (areas, self._areas))
        for a, b in old.keys() - new.keys():
            self.emulator.mem_unmap(a, b - a)
        for (a, b), p in new.items():
            if (a, b) not in old:
                host = ctypes.c_void_p(self._memory.host + a)
                self.emulator.mem_map_ptr(a, b - a, p, host)
            elif p != old[a, b]:
                self.emulator.mem_protect(a, b - a, p)
        self._areas = areas
