//! A progress bar on stderr, if somebody looks.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::control::message::Progress;

/// Appears with the first progress, and goes when it is cleared or dropped.
#[derive(Default)]
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// Shows how far something is.
    pub fn show(&mut self, progress: &Progress) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let bar = self.0.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg} {bar:30} {percent}% {elapsed}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_message(progress.what.clone());
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    }

    /// Takes it off the screen, for what is said next.
    pub fn clear(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}
