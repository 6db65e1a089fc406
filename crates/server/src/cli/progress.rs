//! A progress bar on stderr, if somebody looks.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::control::message::Progress;

/// Appears with the first progress, and goes when it is cleared or dropped.
#[derive(Default)]
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// Shows how far something is.
    pub fn show(&mut self, progress: &Progress) {
        if std::io::stderr().is_terminal() {
            self.show_on(ProgressDrawTarget::stderr, progress);
        }
    }

    fn show_on(&mut self, target: impl FnOnce() -> ProgressDrawTarget, progress: &Progress) {
        let bar = self.0.get_or_insert_with(|| ProgressBar::with_draw_target(None, target()));
        bar.set_style(style(progress.total > 0));
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        bar.set_message(progress.what.clone());
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

/// Where nobody knows how much there is in all, nothing is said of the part that is done.
fn style(is_total_known: bool) -> ProgressStyle {
    let template = if is_total_known { "{msg} {bar:30} {percent}% {elapsed}" } else { "{msg} {elapsed}" };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// A terminal that keeps what is written to it.
    #[derive(Clone, Debug, Default)]
    struct Paper(Arc<Mutex<String>>);

    impl TermLike for Paper {
        fn width(&self) -> u16 {
            100
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A command that waited for a disk that hung stood at 100 %.
    #[test]
    fn what_nobody_knows_the_end_of_is_at_no_percent() {
        for (done, total, percent) in [(0, 0, None), (7, 0, None), (1, 4, Some("25%"))] {
            let paper = Paper::default();
            let target = || ProgressDrawTarget::term_like(Box::new(paper.clone()));
            let mut bar = Bar::default();
            bar.show_on(target, &Progress { what: "replaying".into(), done, total });
            let text = paper.0.lock().unwrap().clone();
            assert!(text.contains("replaying"), "{text}");
            assert_eq!(text.contains('%'), percent.is_some(), "{text}");
            assert!(percent.is_none_or(|percent| text.contains(percent)), "{text}");
        }
    }
}
