// SPDX-License-Identifier: MIT
//! The row of the crate papaya: the loops of rows.h, in Rust. An operation has a guard of its own
//! (`pin`), as in the documentation; papaya allocates each pair of key and value singly.

use papaya::HashMap;
use std::ffi::{c_char, c_void};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::Instant;

// As in rows.h.
const KEYS: u64 = 100_000;
const DRAWS: usize = 1 << 17;
const WRITES: u32 = 1 << 31;

#[repr(C, align(128))]
struct Line([u8; 128]);

/// struct window of window.h.
#[repr(C)]
pub struct Window {
    lock: Line,
    count: Line,
    stop: AtomicU32,
    rest: [u32; 5],
}

/// struct window_thread of window.h.
#[repr(C, align(128))]
pub struct Thread {
    window: *mut Window,
    index: u32,
    done: u64,
    counted: u64,
}

/// struct window_row of window.h. The program calls the functions init, work and timed.
#[repr(C)]
pub struct Row {
    name: *const c_char,
    missing: *const c_char,
    init: unsafe extern "C" fn(*mut Window),
    work: unsafe extern "C" fn(*mut Thread),
    timed: unsafe extern "C" fn(*mut Thread),
    is_unlocked: bool,
    unused: [*const c_void; 4],
}

unsafe impl Sync for Row {}

extern "C" {
    static map_draws: [u32; DRAWS];
    fn window_record(ns: u64);
    fn window_give_up(what: *const c_char, why: *const c_char) -> !;
}

const fn text(terminated: &'static [u8]) -> *const c_char {
    terminated.as_ptr().cast()
}

/// hash_of of rows.h: the finalizer of MurmurHash3.
struct Finalizer;
struct Finalized(u64);

impl BuildHasher for Finalizer {
    type Hasher = Finalized;

    #[inline]
    fn build_hasher(&self) -> Finalized {
        Finalized(0)
    }
}

impl Hasher for Finalized {
    #[inline]
    fn write_u64(&mut self, key: u64) {
        let key = (key ^ key >> 33).wrapping_mul(0xff51afd7ed558ccd);
        let key = (key ^ key >> 33).wrapping_mul(0xc4ceb9fe1a85ec53);
        self.0 = key ^ key >> 33;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!()
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

type Map = HashMap<u64, u64, Finalizer>;

static MAP: OnceLock<Map> = OnceLock::new();

#[inline(always)]
fn read(map: &Map, key: u64) -> bool {
    map.pin().get(&key) == Some(&!key)
}

#[inline(always)]
fn write(map: &Map, key: u64) {
    map.pin().insert(key, !key);
}

/// As in the others, the table is made for its keys.
fn fill() -> Map {
    let map = HashMap::builder().capacity(KEYS as usize).hasher(Finalizer).build();

    for key in 1..=KEYS {
        write(&map, key);
    }
    if !(1..=KEYS).all(|key| read(&map, key)) {
        unsafe { window_give_up(text(b"error\0"), text(b"wrong result: a key was not found\0")) };
    }
    map
}

unsafe extern "C" fn init(_: *mut Window) {
    MAP.get_or_init(fill);
}

/// MAP_LOOP of rows.h.
#[inline(always)]
unsafe fn run<const TIMED: bool>(t: *mut Thread) {
    let map = MAP.get().unwrap();
    let w = (*t).window;
    let first = (*t).index as usize * (DRAWS / 8 + 7);
    let mut n = first;
    let mut wrong = 0;

    while (*w).stop.load(Ordering::Relaxed) == 0 {
        let draw = map_draws[n % DRAWS];
        let began = TIMED.then(Instant::now);

        if draw & WRITES != 0 {
            write(map, (draw & !WRITES) as u64);
        } else {
            wrong += !read(map, draw as u64) as u64;
        }
        if let Some(began) = began {
            window_record(began.elapsed().as_nanos() as u64);
        }
        n += 1;
    }
    (*t).done = (n - first) as u64;
    (*t).counted = wrong;
}

unsafe extern "C" fn work(t: *mut Thread) {
    run::<false>(t)
}

unsafe extern "C" fn timed(t: *mut Thread) {
    run::<true>(t)
}

#[no_mangle]
pub static map_row: Row = Row {
    name: text(b"papaya\0"),
    missing: std::ptr::null(),
    init,
    work,
    timed,
    is_unlocked: false,
    unused: [std::ptr::null(); 4],
};
