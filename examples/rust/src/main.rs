// SPDX-License-Identifier: MIT
//! A counter that threads change by calls of libnearcpu-ffi, and by a sequence in Rust. With the
//! argument "bench": what both cost.
mod near_abi;

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::hint::black_box;
use std::time::Instant;

extern "C" {
    fn near_ffi_size(kind: *const c_char) -> usize;
    fn near_counter_init(counter: *mut c_void) -> c_int;
    fn near_counter_add(counter: *mut c_void, n: i64);
    fn near_counter_read(counter: *const c_void) -> i64;
    fn near_counter_destroy(counter: *mut c_void);
}

/// Its words are on the heap, where they stay: Rust moves values, and threads use their address. C
/// code changes them through shared references, which only an `UnsafeCell` allows.
struct Counter(Box<[UnsafeCell<u64>]>);

// SAFETY: the library's functions may be called by all threads, except for init and destroy, which
// `new` and `drop` call.
unsafe impl Sync for Counter {}

impl Counter {
    fn new() -> Self {
        let size = unsafe { near_ffi_size(c"counter".as_ptr()) };
        let counter = Counter((0..size.div_ceil(8)).map(|_| UnsafeCell::new(0)).collect());

        assert_eq!(unsafe { near_counter_init(counter.address()) }, 0);
        counter
    }

    fn address(&self) -> *mut c_void {
        UnsafeCell::raw_get(self.0.as_ptr()).cast()
    }

    fn add(&self, n: i64) {
        unsafe { near_counter_add(self.address(), n) }
    }

    #[inline(always)]
    fn add_inlined(&self, n: i64) {
        // The first word is constant from init on.
        unsafe { near_abi::counter_add(*self.0[0].get() as near_abi::Object, n) }
    }

    fn read(&self) -> i64 {
        unsafe { near_counter_read(self.address()) }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        unsafe { near_counter_destroy(self.address()) }
    }
}

const THREADS: i64 = 6;
const ADDS: i64 = 200_000;

fn count() -> i64 {
    let counter = Counter::new();

    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ADDS {
                    counter.add(1);
                    counter.add_inlined(1);
                }
            });
        }
    });
    counter.read()
}

/// Nanoseconds of a call, the median of 11 rounds.
fn time(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 20_000_000;
    let mut rounds: Vec<f64> = (0..11)
        .map(|_| {
            let start = Instant::now();
            (0..CALLS).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();

    rounds.sort_by(f64::total_cmp);
    rounds[5]
}

fn main() {
    let counted = count();

    println!("{counted} of {}", 2 * THREADS * ADDS);
    if std::env::args().nth(1).as_deref() == Some("bench") {
        let counter = Counter::new();
        println!(
            "inlined {:.2} ns",
            time(|| black_box(&counter).add_inlined(1))
        );
        println!("called  {:.2} ns", time(|| black_box(&counter).add(1)));
    }
    std::process::exit(i32::from(counted != 2 * THREADS * ADDS));
}
