// SPDX-License-Identifier: MIT

// A Go program that knows names and sizes, but no header: goroutines call libnearcpu-ffi, and
// allocate by libnearcpu-alloc.
package main

/*
#cgo pkg-config: nearcpu-ffi nearcpu nearcpu-alloc
#include <stddef.h>
#include <stdint.h>

extern size_t near_ffi_size(const char *type);
extern int near_counter_init(void *counter);
extern void near_counter_add(void *counter, int64_t n);
extern int64_t near_counter_read(void *counter);
extern void near_mutex_lock(void *mutex);
extern void near_mutex_unlock(void *mutex);
extern void *near_calloc(size_t n, size_t size);
extern void near_free(void *p);
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

const (
	routines = 16
	rounds   = 2000
)

// Outside of Go's heap, which is not to be written to by others.
func create(kind *C.char) unsafe.Pointer {
	size := C.near_ffi_size(kind)
	if size == 0 {
		os.Exit(1)
	}
	return C.near_calloc(1, size)
}

func main() {
	counter := create(&[]C.char{'c', 'o', 'u', 'n', 't', 'e', 'r', 0}[0])
	mutex := create(&[]C.char{'m', 'u', 't', 'e', 'x', 0}[0])
	if C.near_counter_init(counter) != 0 {
		os.Exit(1)
	}
	guarded := 0
	var all sync.WaitGroup
	for i := 0; i < routines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := 0; n < rounds; n++ {
				block := C.near_calloc(1, 100)
				C.near_counter_add(counter, 3)
				C.near_free(block)
			}
		}()
	}
	all.Wait()
	C.near_mutex_lock(mutex)
	guarded++
	C.near_mutex_unlock(mutex)
	total := int64(C.near_counter_read(counter))
	fmt.Println(total, guarded)
	if total != 3*routines*rounds {
		os.Exit(1)
	}
	C.near_free(mutex)
	C.near_free(counter)
}
