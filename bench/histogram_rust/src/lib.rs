// SPDX-License-Identifier: MIT
//! The row of the crate hdrhistogram in histogram.c: each thread has a Recorder, whose histogram is
//! its own until a refresh of the shared one collects it.

use hdrhistogram::sync::{Recorder, SyncHistogram};
use hdrhistogram::Histogram;

/// Buckets for two decimal digits: 128 for each power of two, the next to near_histogram's 32.
#[no_mangle]
pub extern "C" fn near_bench_hdr_new() -> *mut SyncHistogram<u64> {
    match Histogram::new_with_bounds(1, u64::MAX / 2, 2) {
        Ok(histogram) => Box::into_raw(Box::new(histogram.into())),
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
/// `shared` is from near_bench_hdr_new.
#[no_mangle]
pub unsafe extern "C" fn near_bench_hdr_recorder(
    shared: *mut SyncHistogram<u64>,
) -> *mut Recorder<u64> {
    Box::into_raw(Box::new((*shared).recorder()))
}

/// Records `iterations` of the `count` values, a power of two, in turn.
///
/// # Safety
/// `recorder` is from near_bench_hdr_recorder, and only this thread uses it.
#[no_mangle]
pub unsafe extern "C" fn near_bench_hdr_record(
    recorder: *mut Recorder<u64>,
    values: *const u64,
    count: u64,
    iterations: u64,
) {
    let recorder = &mut *recorder;
    for i in 0..iterations {
        recorder.saturating_record(*values.add((i & (count - 1)) as usize));
    }
}

/// # Safety
/// `recorder` is from near_bench_hdr_recorder, and its thread has ended.
#[no_mangle]
pub unsafe extern "C" fn near_bench_hdr_end(recorder: *mut Recorder<u64>) {
    drop(Box::from_raw(recorder));
}

/// How many values were recorded. Requires that all recorders were ended.
///
/// # Safety
/// `shared` is from near_bench_hdr_new.
#[no_mangle]
pub unsafe extern "C" fn near_bench_hdr_count(shared: *mut SyncHistogram<u64>) -> u64 {
    (*shared).refresh();
    (*shared).len()
}
