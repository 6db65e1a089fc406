//! Panics of the tree are findings: no message of their own, and where they were for the trace.

use std::cell::Cell;

thread_local! {
    /// Where this thread has panicked last.
    pub(crate) static PANICKED_AT: Cell<String> = const { Cell::new(String::new()) };
}

/// Runs `work` without the standard message of a panic: a panic of the tree is a finding with a trace of its own.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        PANICKED_AT.set(place);
    }));
    let value = work();
    std::panic::set_hook(hook);
    value
}
