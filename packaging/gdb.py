# SPDX-License-Identifier: MIT
"""Shows Nearcpu's structures in gdb, of a process and of a core file.

It reads memory alone: nothing runs in the process. The public headers declare the structures, so
the debugging information of the program is enough; what needs that of the library reports it. What
the library alone declares is repeated here by offsets: the header of an arena (percpu.c), the
copies of a slot (stack.c, queue.h, rcu.h, blocks.h), bits of locks (mutex.h, rwlock.h). The test
gdb compares.
"""
import struct

import gdb
import gdb.printing

STRIDE_SHIFT = 20  # copies of an object are 1 MiB apart
ARENA_HEADER = 64 << 10  # it ends where slot 0 begins
ARENA_MARK = 0x6e656172617265ff
STATE = "_0_2"  # NEAR__STATE of api.h
MOST = 10000  # nodes that are counted


class Unknown(Exception):
    """Why a structure cannot be shown."""


# ---- memory ----

def words(address, count, size=8):
    """Unsigned numbers of `size` bytes each: 8 or 4."""
    order = ">" if "big" in gdb.execute("show endian", to_string=True) else "<"
    data = gdb.selected_inferior().read_memory(address, count * size)
    return struct.unpack("%s%d%s" % (order, count, "Q" if size == 8 else "I"), data)


def pointer_size():
    return gdb.lookup_type("char").pointer().sizeof


def signed(number, bits=64):
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def copies(p):
    """The slots in use of per-CPU object p, and the addresses of their copies."""
    if not p:
        raise Unknown("not initialised, or destroyed")
    arena = (p >> STRIDE_SHIFT << STRIDE_SHIFT) - ARENA_HEADER
    size = pointer_size()
    try:
        is_arena = words(arena, 1)[0] == ARENA_MARK ^ arena
    except (gdb.MemoryError, OverflowError):
        is_arena = False
    if not is_arena:
        raise Unknown("no per-CPU memory at %#x" % p)
    slots, = words(arena + 20 + 2 * size, 1, 4)
    used, = words(arena + 24 + 2 * size, 1, size)
    for slot in range(slots):
        if words(used + slot // 64 * 8, 1)[0] >> slot % 64 & 1:
            yield slot, p + (slot << STRIDE_SHIFT)


def copy_words(p, count, size=8):
    """Of each slot in use, its number and the first words of its copy."""
    for slot, address in copies(int(p)):
        try:
            yield slot, words(address, count, size)
        except gdb.MemoryError:  # opened and never written: core files do not have it
            yield slot, [0] * count


# ---- text, and elements with their names ----

def counter(c):
    copied = sum(n for _, (n,) in copy_words(c["p"], 1))
    return signed(copied - int(c["base"]))


def histogram_counts(h):
    size, precision, bases = int(h["buckets"]), int(h["precision"]), int(h["bases"])
    if not h["p"] and bases and h["region"]["base"]:
        raise Unknown("in a region, which nearcpu stats shows")
    if not h["p"] or not (0 < precision < 11 and 0 < size <= 65 << precision):
        raise Unknown("not initialised, or destroyed")
    total = [-n for n in words(bases, size)] if bases else [0] * size
    for _, copy in copy_words(h["p"], size):
        total = [a + b for a, b in zip(total, copy)]
    return [n & (1 << 64) - 1 for n in total]


def histogram_bucket(h, i):
    """Its least and its greatest value."""
    precision, most, end = int(h["precision"]), int(h["max"]), (1 << 64) - 1
    if most < end and i + 1 >= int(h["buckets"]):
        return most + 1, end
    shift = max((i >> precision) - 1, 0)
    low = i - (shift << precision) << shift
    return low, low + (1 << shift) - 1


def histogram(h):
    """The line of near_histogram_snapshot_text, less the mean."""
    counts = histogram_counts(h)
    count, below, found = sum(counts), 0, {}
    ranks = [("min", min(count, 1))]
    for name, part in (("p50", 5000), ("p90", 9000), ("p99", 9900), ("p99.9", 9990),
                       ("p99.99", 9999), ("max", 10000)):
        ranks.append((name, -(-count * part // 10000)))
    for i, n in enumerate(counts):
        below += n
        for name, rank in ranks:
            if n and rank <= below and name not in found:
                found[name] = histogram_bucket(h, i)[name != "min"]
    return "  ".join(["count %d" % count] +
                     ["%s %d" % (name, found.get(name, 0)) for name, _ in ranks])


def stack_nodes(s):
    size = pointer_size()
    for slot, (node,) in copy_words(s["p"], 1, size):
        seen = set()
        while node and node not in seen:
            yield "slot %d[%d]" % (slot, len(seen)), node
            seen.add(node)
            node, = words(node, 1, size)
        if node:
            raise Unknown("a list has a cycle at %#x" % node)


def stack(s):
    count = 0
    for _ in stack_nodes(s):
        count += 1
        if count > MOST:
            return "near_stack of more than %d" % MOST
    return "near_stack of %d" % count


def queue_elements(q):
    size = pointer_size()
    for slot, ring in copy_words(q["p"], 9):
        cells = int(q["p"]) + (slot << STRIDE_SHIFT) + 128
        for i in range(ring[8], ring[0]):  # from its head to its tail
            at = cells + (i & int(q["mask"])) * size
            yield "slot %d[%d]" % (slot, i - ring[8]), words(at, 1, size)[0]


def queue(q):
    return "near_queue of %d, capacity %d per slot%s" % (
        sum(ring[0] - ring[8] for _, ring in copy_words(q["p"], 9)), int(q["capacity"]),
        "" if int(q["open"]) == 1 else ", closed")


def fifo_elements(f):
    size = pointer_size()
    for i in range(int(f["count"])):
        at = (int(f["first"]) + i) % int(f["capacity"])
        yield "[%d]" % i, words(int(f["cells"]) + at * size, 1, size)[0]


def fifo(f):
    if not f["cells"] or not int(f["count"]) <= int(f["capacity"]) <= 1 << 30:
        raise Unknown("not initialised, or destroyed")
    return "near_fifo of %d, capacity %d%s" % (int(f["count"]), int(f["capacity"]),
                                               ", closed" if f["closed"] else "")


def pool(p):
    positions = (n for _, (n,) in copy_words(p["array"], 1))
    idle = sum(n - 16 >> 3 for n in positions if n > 16)
    try:
        rest = p["rest"].dereference()
        idle, live, size = idle + int(rest["count"]), int(rest["live"]), int(rest["size"])
    except gdb.error:
        return "%d idle in slots; the rest needs debugging information of libnearcpu" % idle
    return "%d objects of %d bytes: %d idle, %d in use" % (live, size, idle, live - idle)


def thread_name(tid):
    """Of the thread that the word of a lock names."""
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] == tid:
            return "tid %d (thread %d)" % (tid, thread.num)
    return "tid %d (no thread of this process)" % tid


def mutex_state(m):
    """Its holder or 0, and its flags: those of a parent process count as clear."""
    word, lot = int(m["word"]), gdb.lookup_global_symbol("near__lot" + STATE)
    if word == 0xffffffff:
        raise Unknown("destroyed")
    is_old = lot and (int(lot.value()["forks"]) ^ word >> 5) & 31
    return word >> 10, 0 if is_old else word & 31


def mutex(m, again=""):
    holder, flags = mutex_state(m)
    text = "held by " + thread_name(holder) + again if holder else "free"
    return text + "".join(what for flag, what in (
        (1, ", threads wait"), (4, ", threads await a condition"),
        (2, ", a woken thread is to take it"), (16, ", reserved for that")) if flags & flag)


def recursive_mutex(m):
    again = int(m["again"])
    return mutex(m["mutex"], ", %d times" % (again + 1) if again else "")


def rwlock(l):
    word, copied = int(l["word"]), int(l["copies"])
    if word & 16:
        raise Unknown("destroyed")
    holder, flags = mutex_state(l["writers"])
    readers = signed(word >> 40, 24)
    readers += sum(signed(n) for _, (n,) in copy_words(copied, 1)) if copied else 0
    text = "readers: %d" % readers if readers else "free"
    if holder and not readers and not word & 1 and word >> 5 & 0x7fff == 1:
        text = "held for writing by " + thread_name(holder)
    elif holder:
        text += ", " + thread_name(holder) + " waits to write"
    return text + (", threads wait" if word & 4 or flags & 1 else "")


def rcu(d):
    inside = [0, 0]
    for _, slot in copy_words(d["slots"], 4):
        out0, out1, in0, in1 = (n & (1 << 63) - 1 for n in slot)
        inside = [inside[0] + in0 - out0, inside[1] + in1 - out1]
    if d["phase"] != d["slots"].cast(d["phase"].type):
        inside.reverse()
    return ("grace periods: %d begun, %d done; sections: %d of this phase, %d of the one before; "
            "callbacks: %d pending, of %d bytes" % (
                int(d["begun"]), int(d["done"]), *inside, counter(d["called"]) - int(d["ran"]),
                counter(d["called_bytes"]) - int(d["ran_bytes"])))


# ---- registration ----

NONE = (lambda value: ())
STRUCTURES = (
    ("near_counter", counter, NONE), ("near_gauge", lambda g: int(g["value"]), NONE),
    ("near_histogram", histogram, NONE), ("near_stack", stack, stack_nodes),
    ("near_pool", pool, NONE), ("near_queue", queue, queue_elements),
    ("near_fifo", fifo, fifo_elements), ("near_mutex", mutex, NONE),
    ("near_recursive_mutex", recursive_mutex, NONE), ("near_rwlock", rwlock, NONE),
    ("near_rcu", rcu, NONE))


class Printer:
    def __init__(self, value, text, elements):
        self.value, self.text, self.elements = value, text, elements

    def to_string(self):
        try:
            return self.text(self.value)  # a number: in the format of print
        except (Unknown, gdb.error) as why:
            return "<%s>" % why

    def children(self):
        to = gdb.lookup_type("void").pointer()
        try:
            for name, address in self.elements(self.value):
                yield name, gdb.Value(address).cast(to)
        except (Unknown, gdb.error, ZeroDivisionError):
            return


def register():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("nearcpu")
    for name, text, elements in STRUCTURES:
        printers.add_printer(name, "^%s$" % name, lambda value, text=text, elements=elements:
                             Printer(value, text, elements))
    gdb.printing.register_pretty_printer(gdb.current_objfile(), printers, replace=True)


register()
