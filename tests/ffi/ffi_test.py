#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The functions of libnearcpu-ffi work by dlopen.

usage: ffi_test.py LIBRARY
"""
import ctypes
import sys
import threading
import unittest

LIBRARY = sys.argv[1]


class Ffi(unittest.TestCase):
    def setUp(self):
        self.lib = ctypes.CDLL(LIBRARY)
        self.lib.near_ffi_size.restype = ctypes.c_size_t

    def make(self, name):
        size = self.lib.near_ffi_size(name.encode())
        self.assertGreater(size, 0)
        return (ctypes.c_uint64 * (size // 8 + 1))()

    def test_counter(self):
        counter = self.make("counter")
        self.lib.near_counter_read.restype = ctypes.c_int64
        self.assertEqual(self.lib.near_counter_init(counter), 0)

        def add():
            for _ in range(1000):
                self.lib.near_counter_add(counter, ctypes.c_int64(3))

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.lib.near_counter_read(counter), 12000)
        self.lib.near_counter_destroy(counter)

    def test_mutex(self):
        mutex = self.make("mutex")
        self.lib.near_mutex_try_lock.restype = ctypes.c_bool
        self.lib.near_mutex_lock(mutex)
        self.assertFalse(self.lib.near_mutex_try_lock(mutex))
        self.lib.near_mutex_unlock(mutex)
        self.assertTrue(self.lib.near_mutex_try_lock(mutex))
        self.lib.near_mutex_unlock(mutex)

    def test_what_zeros_are_not(self):
        sem, barrier = self.make("sem"), self.make("barrier")
        self.lib.near_sem_try_wait.restype = ctypes.c_bool
        self.lib.near_sem_init(sem, 1)
        self.assertTrue(self.lib.near_sem_try_wait(sem))
        self.assertFalse(self.lib.near_sem_try_wait(sem))
        self.lib.near_barrier_init(barrier, 1)
        self.assertEqual(self.lib.near_barrier_wait(barrier), 1)

    def test_histogram(self):
        histogram = self.make("histogram")
        snapshot = self.make("histogram_snapshot")
        self.assertEqual(self.lib.near_histogram_init(histogram, None), 0)
        for value in range(100):
            self.lib.near_histogram_record(histogram, ctypes.c_uint64(value))
        self.assertEqual(self.lib.near_histogram_read(histogram, snapshot), 0)
        self.assertEqual(snapshot[0], 100)
        self.lib.near_histogram_snapshot_free(snapshot)
        self.lib.near_histogram_destroy(histogram)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
