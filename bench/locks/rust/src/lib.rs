// SPDX-License-Identifier: MIT
//! The rows of Rust: the loops of window.h around parking_lot's mutex and std's.

use lock_api::RawMutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

const LINE: usize = 128;

#[repr(C, align(128))]
struct Lock([u8; LINE]);

#[repr(C, align(128))]
struct Count(u64);

/// struct window of window.h.
#[repr(C)]
pub struct Window {
    lock: Lock,
    count: Count,
    stop: AtomicU32,
    inside: u32,
    outside: u32,
    writes: u32,
    threads: u32,
}

/// struct window_thread of window.h.
#[repr(C, align(128))]
pub struct Thread {
    window: *mut Window,
    index: u32,
    done: u64,
    counted: u64,
}

extern "C" {
    fn window_rounds(rounds: u32);
    fn window_record(ns: u64);
}

#[inline(always)]
fn spin(rounds: u32) {
    if rounds != 0 {
        unsafe { window_rounds(rounds) };
    }
}

#[inline(always)]
unsafe fn run<const TIMED: bool>(t: *mut Thread, mut section: impl FnMut(*mut Window, &mut dyn FnMut())) {
    let w = (*t).window;
    let mut n = 0;
    while (*w).stop.load(Ordering::Relaxed) == 0 {
        let began = TIMED.then(Instant::now);
        section(w, &mut || {
            if let Some(began) = began {
                window_record(began.elapsed().as_nanos() as u64);
            }
        });
        spin((*w).outside);
        n += 1;
    }
    (*t).done = n;
    (*t).counted = n;
}

unsafe fn parking_lot<const TIMED: bool>(t: *mut Thread) {
    let lock = &*((*(*t).window).lock.0.as_ptr() as *const parking_lot::RawMutex);
    run::<TIMED>(t, |w, taken| {
        lock.lock();
        if TIMED {
            taken();
        }
        (*w).count.0 += 1;
        spin((*w).inside);
        lock.unlock();
    });
}

unsafe fn std_mutex<const TIMED: bool>(t: *mut Thread) {
    let lock = &*((*(*t).window).lock.0.as_ptr() as *const std::sync::Mutex<()>);
    run::<TIMED>(t, |w, taken| {
        let _guard = lock.lock().unwrap();
        if TIMED {
            taken();
        }
        (*w).count.0 += 1;
        spin((*w).inside);
    });
}

#[no_mangle]
pub unsafe extern "C" fn near_bench_parking_lot_init(w: *mut Window) {
    ((*w).lock.0.as_mut_ptr() as *mut parking_lot::RawMutex).write(parking_lot::RawMutex::INIT);
}

#[no_mangle]
pub unsafe extern "C" fn near_bench_parking_lot_work(t: *mut Thread) {
    parking_lot::<false>(t)
}

#[no_mangle]
pub unsafe extern "C" fn near_bench_parking_lot_timed(t: *mut Thread) {
    parking_lot::<true>(t)
}

#[no_mangle]
pub unsafe extern "C" fn near_bench_rust_std_init(w: *mut Window) {
    ((*w).lock.0.as_mut_ptr() as *mut std::sync::Mutex<()>).write(std::sync::Mutex::new(()));
}

#[no_mangle]
pub unsafe extern "C" fn near_bench_rust_std_work(t: *mut Thread) {
    std_mutex::<false>(t)
}

#[no_mangle]
pub unsafe extern "C" fn near_bench_rust_std_timed(t: *mut Thread) {
    std_mutex::<true>(t)
}
