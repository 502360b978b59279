// SPDX-License-Identifier: MIT
//! The readers of the crates crossbeam-epoch and seize: each section has a guard, loads a pointer,
//! and what it points to. A thread of crossbeam's has its handle in a variable, so that no section
//! begins with a search for it.

use std::hint::black_box;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Once;

struct Crossbeam {
    collector: crossbeam_epoch::Collector,
    pointer: crossbeam_epoch::Atomic<i32>,
}

struct Seize {
    collector: seize::Collector,
    pointer: AtomicPtr<seize::Linked<i32>>,
}

/// Made by the first thread; never freed.
fn only<T>(once: &Once, place: &AtomicPtr<T>, make: fn() -> T) -> &'static T {
    once.call_once(|| place.store(Box::into_raw(Box::new(make())), Ordering::Release));
    unsafe { &*place.load(Ordering::Acquire) }
}

#[no_mangle]
pub extern "C" fn near_bench_crossbeam_read(n: u64) {
    static ONCE: Once = Once::new();
    static PLACE: AtomicPtr<Crossbeam> = AtomicPtr::new(std::ptr::null_mut());
    let all = only(&ONCE, &PLACE, || Crossbeam {
        collector: crossbeam_epoch::Collector::new(),
        pointer: crossbeam_epoch::Atomic::new(1),
    });
    let handle = all.collector.register();

    for _ in 0..n {
        let guard = handle.pin();
        let shared = all.pointer.load(Ordering::Acquire, &guard);
        black_box(unsafe { shared.as_ref().copied() });
    }
}

#[no_mangle]
pub extern "C" fn near_bench_seize_read(n: u64) {
    static ONCE: Once = Once::new();
    static PLACE: AtomicPtr<Seize> = AtomicPtr::new(std::ptr::null_mut());
    let all = only(&ONCE, &PLACE, || {
        let collector = seize::Collector::new();
        let pointer = AtomicPtr::new(collector.link_boxed(1));
        Seize { collector, pointer }
    });

    for _ in 0..n {
        use seize::Guard;
        let guard = all.collector.enter();
        let linked = guard.protect(&all.pointer, Ordering::Acquire);
        black_box(unsafe { **linked });
    }
}
