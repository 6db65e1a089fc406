//! `tally man`: a page of the manual for each command, from its grammar.
//!
//! What is told by `--help` and what `man` shows are one text. Pages that are no command's are written by hand, in packaging/man.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Command, CommandFactory, ValueHint};
use clap_mangen::Man;

use super::args::Cli;

/// Commands for administrators (man-pages(7)).
const SECTION: &str = "8";

/// Of the newest release, or of what will be one.
const DATE: &str = "2026-11-30";

/// Words of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Where the pages go
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

impl ManArgs {
    /// Writes all of them.
    pub(super) fn write(&self) -> io::Result<()> {
        let mut root = Cli::command();
        root.build();
        fs::create_dir_all(&self.dir)?;
        write_with_all_below(&root, &self.dir)
    }
}

fn write_with_all_below(command: &Command, dir: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut page = Vec::new();
    let source = format!("tally {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).section(SECTION).date(DATE).manual("Tallystick").source(source);
    man.render(&mut page)?;
    fs::write(dir.join(format!("{name}.{SECTION}")), without_idle_breaks(page))?;
    let shown = |below: &&Command| !below.is_hide_set() && below.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|below| write_with_all_below(below, dir))
}

/// A line is broken where a paragraph ends anyway, of which mandoc complains.
fn without_idle_breaks(page: Vec<u8>) -> Vec<u8> {
    let Ok(text) = String::from_utf8(page) else { unreachable!("help is text") };
    text.replace("\n.br\n\n.br\n", "\n.sp\n").into_bytes()
}
