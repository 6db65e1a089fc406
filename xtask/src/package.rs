//! `cargo xtask package`: the Debian package, by Debian's own tools from packaging/debian, and what lintian and mandoc say of it.
//!
//! The program is built as always, for cargo fetches what a build of Debian's own would not; debhelper does the rest: maintainer scripts, symbols in a package
//! of their own, dependencies by the libraries that are linked. All of it happens below `target/package`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;

use tally_lab::tally::Tally;
use tally_lab::{cargo, guests, image, packages};

mod licences;

/// Completions: of which shell, and the name of the file.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "tally.bash"), ("zsh", "_tally"), ("fish", "tally.fish")];
/// How the names of units end.
const UNITS: [&str; 3] = [".service", ".timer", ".path"];
/// What of packaging/ makes the package, and what is made of that.
const APART: [&str; 2] = ["debian", "Containerfile"];
/// What Debian's tools make of this machine's is named so.
const NAME: &str = "tally";

/// What the task takes.
#[derive(Args)]
pub(crate) struct Package {
    /// Do not look at it with lintian and mandoc.
    #[arg(long)]
    unchecked: bool,
    /// Install it on a Debian that systemd boots, upgrade it under load, boot again, remove it and purge it
    #[arg(long)]
    boot: bool,
    /// Build the image of packaging/Containerfile, run it with Podman, and see whether it serves
    #[arg(long)]
    image: bool,
    /// With `--boot`: keep the disks and the console, and say where.
    #[arg(long, requires = "boot")]
    keep: bool,
}

impl Package {
    /// Makes it, and says where it is; a skip without Debian's tools.
    pub(crate) fn run(&self) -> Result<Tally> {
        if !packages::ensure(&packages::PACKAGE)? {
            return Ok(Tally::SKIPPED);
        }
        let tree = Tree::new(&cargo::build_tally()?)?;
        let package = tree.build()?;
        println!("{}", package.display());
        tree.check_whole(&package)?;
        let mut total = Tally::PASSED;
        if !self.unchecked {
            total += tree.check_pages()?;
            total += check(&package)?;
        }
        if self.image {
            total += image::try_image(&tree.folder)?;
        }
        if self.boot {
            total += guests::run_booted(&package, &tree.newer(&package)?, self.keep)?;
        }
        Ok(total)
    }
}

/// The folder that it is made in.
struct Tree {
    folder: PathBuf,
    source: PathBuf,
    built: PathBuf,
}

impl Tree {
    /// With the program, its pages and its completions in it.
    fn new(program: &Path) -> Result<Self> {
        let folder = cargo::target_folder().join("package");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
        }
        let (source, built) = (folder.join("source"), folder.join("built"));
        fs::create_dir_all(built.join("completions"))?;
        fs::write(built.join("third-party"), licences::text()?)?;
        fs::copy(program, built.join(NAME))?;
        cargo::step(Command::new(program).arg("man").arg(built.join("man")))?;
        for (shell, file) in COMPLETIONS {
            let script = Command::new(program).args(["completions", shell]).output()?;
            ensure!(script.status.success(), "tally completions {shell}: {}", script.status);
            fs::write(built.join("completions").join(file), script.stdout)?;
        }
        let packaging = cargo::workspace().join("packaging");
        for page in fs::read_dir(packaging.join("man"))? {
            let page = page?.path();
            fs::copy(&page, built.join("man").join(page.file_name().context("a page has a name")?))?;
        }
        cargo::step(Command::new("cp").arg("-R").arg(packaging.join("debian")).arg(folder.join("debian")))?;
        fs::create_dir_all(&source)?;
        fs::rename(folder.join("debian"), source.join("debian"))?;
        fs::create_dir(source.join("units"))?;
        for file in fs::read_dir(&packaging)? {
            let file = file?.path();
            if file.is_file() {
                let name = file.file_name().and_then(|name| name.to_str()).context("a file's name")?;
                fs::copy(&file, source.join(place(name)))?;
            }
        }
        cargo::step(Command::new("cp").arg("-R").arg(packaging.join("events.d")).arg(&source))?;
        fs::copy(cargo::workspace().join("CHANGELOG.md"), source.join("CHANGELOG.md"))?;
        Ok(Self { folder, source, built })
    }

    /// Nothing of packaging/ is left out but what makes the package, or is made of it: whatever lies there is in the package, unchanged.
    fn check_whole(&self, package: &Path) -> Result<()> {
        let files = self.folder.join("files");
        cargo::step(Command::new("dpkg-deb").arg("--extract").args([package, &files]))?;
        let pages = files.join("usr/share/man");
        // Some are links to others.
        cargo::step(
            Command::new("find").arg(&pages).args(["-type", "f", "-name", "*.gz", "-exec", "gunzip", "{}", "+"]),
        )?;
        let contents = |folder: &Path, apart: &[&str]| {
            let found = below(folder, apart)?.into_iter().map(|file| Ok((fs::read(&file)?, file)));
            found.collect::<Result<Vec<_>>>()
        };
        let packaged: BTreeSet<_> = contents(&files, &[])?.into_iter().map(|(bytes, _)| bytes).collect();
        for (bytes, file) in contents(&cargo::workspace().join("packaging"), &APART)? {
            let advice = "is not in the package: install it in packaging/debian/rules";
            ensure!(packaged.contains(&bytes), "{} {advice}", file.display());
        }
        Ok(())
    }

    /// Where the package is.
    fn build(&self) -> Result<PathBuf> {
        let mut build = Command::new("dpkg-buildpackage");
        build.args(["--build=binary", "--no-sign", "--jobs-force=2"]).current_dir(&self.source);
        cargo::step(build.env("TALLY_BUILT", &self.built).stdin(Stdio::null()))?;
        let made = fs::read_dir(&self.folder)?.filter_map(|entry| Some(entry.ok()?.path()));
        let is_it = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("tally_") && path.extension().is_some_and(|is| is == "deb")
        };
        made.into_iter().find(is_it).context("dpkg-buildpackage made no package")
    }

    /// The same with a newer version's number, for an upgrade.
    fn newer(&self, package: &Path) -> Result<PathBuf> {
        let (files, newer) = (self.folder.join("newer"), self.folder.join("newer.deb"));
        cargo::step(Command::new("dpkg-deb").arg("--raw-extract").args([package, &files]))?;
        let control = files.join("DEBIAN/control");
        let lines = fs::read_to_string(&control)?;
        let newer_line =
            |line: &str| if line.starts_with("Version: ") { format!("{line}+newer\n") } else { format!("{line}\n") };
        fs::write(&control, lines.lines().map(newer_line).collect::<String>())?;
        cargo::step(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).args([&files, &newer]))?;
        Ok(newer)
    }

    /// What mandoc has to say of a page is a failure.
    fn check_pages(&self) -> Result<Tally> {
        let mut pages: Vec<_> =
            fs::read_dir(self.built.join("man"))?.map(|page| Ok(page?.path())).collect::<Result<_>>()?;
        pages.sort();
        ensure!(!pages.is_empty(), "there are no pages");
        let said = Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).args(pages).output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        eprint!("{said}");
        Ok(if said.is_empty() { Tally::PASSED } else { Tally::FAILED })
    }
}

/// Where a file of packaging/ is looked for below the source: debhelper takes the daemon's unit and users from beside the control file, and further units
/// from where they are installed.
fn place(name: &str) -> PathBuf {
    let folder = match name {
        "tally.service" | "tally.sysusers" => "debian",
        _ if UNITS.iter().any(|kind| name.ends_with(kind)) => "units",
        _ => "",
    };
    Path::new(folder).join(name)
}

/// All files below a folder, but for entries of its own.
fn below(folder: &Path, apart: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (kind, is_apart) = (entry.file_type()?, apart.iter().any(|name| *name == entry.file_name()));
        if kind.is_dir() && !is_apart {
            files.extend(below(&entry.path(), &[])?);
        } else if kind.is_file() && !is_apart {
            files.push(entry.path());
        }
    }
    Ok(files)
}

/// What lintian has to say is a failure, unless it stands in the package with a reason.
fn check(package: &Path) -> Result<Tally> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--tag-display-limit", "0"]).arg(package).stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        lintian.arg("--allow-root");
    }
    Ok(if lintian.status()?.success() { Tally::PASSED } else { Tally::FAILED })
}
