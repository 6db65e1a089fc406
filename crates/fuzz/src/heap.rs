//! How much memory an input may take: what is live at the same moment beyond what was live before, in bytes.
//!
//! The bound is of the form *a constant and a multiple of the input*, because that is what the decoders promise: a length
//! that is announced takes nothing before the bytes are there. The account is the whole process's, so one body runs at a
//! time.

use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Runs `body`; panics if it had more than `bytes_max` on the heap at any moment.
pub(crate) fn at_most<T>(bytes_max: usize, body: impl FnOnce() -> T) -> T {
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let result = body();
    let peak = HEAP.peak_usage().saturating_sub(before);
    assert!(peak <= bytes_max, "{peak} bytes of heap were taken, and {bytes_max} are allowed");
    result
}

#[cfg(test)]
mod tests;
