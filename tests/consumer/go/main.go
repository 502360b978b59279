// SPDX-License-Identifier: MIT

// A Go program: goroutines on all threads count by the inline functions of a header.
package main

/*
#cgo pkg-config: nearcpu
#include <nearcpu/counter.h>
#include <nearcpu/rseq.h>
#include <stdlib.h>

static void add(struct near_counter *c, int n)
{
	for (int i = 0; i < n; i++)
		near_counter_add(c, 1);
}

static int is_live(void)
{
	struct near_rseq_status status;

	near_rseq_status(&status, sizeof(status));
	return status.live;
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

const (
	routines = 16
	calls    = 100
	adds     = 1000
)

func main() {
	counter := (*C.struct_near_counter)(C.calloc(1, C.sizeof_struct_near_counter))
	if C.near_counter_init(counter) != 0 {
		os.Exit(1)
	}
	var live sync.Map
	var all sync.WaitGroup
	for i := 0; i < routines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			runtime.LockOSThread() // a thread of its own, which ends with it
			for n := 0; n < calls; n++ {
				C.add(counter, adds)
				runtime.Gosched()
			}
			live.Store(C.is_live() != 0, true)
		}()
	}
	all.Wait()
	total := int64(C.near_counter_read(counter))
	_, isLive := live.Load(true)
	fmt.Printf("%d, rseq %v\n", total, isLive)
	if total != routines*calls*adds {
		os.Exit(1)
	}
	C.near_counter_destroy(counter)
}
