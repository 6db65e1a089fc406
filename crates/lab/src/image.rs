//! The image of `packaging/Containerfile`: whether it can be built from the package without a registry, and whether what runs in it serves files that are there
//! behind a stop, and behind a kill in a container of another name.
//!
//! Podman runs it, on the network of this machine and with a store of its own below `target/lab`, so that neither images nor rules for packets of the machine
//! are touched. `debian:12-slim` is made of Debian's archive here, under the name that the Containerfile has for it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit};

use crate::guests::bare_root;
use crate::tally::Tally;
use crate::{cargo, packages, port};

const BASE: &str = "docker.io/library/debian:12-slim";
const IMAGE: &str = "localhost/tally:tried";
const CONTAINER: &str = "tally-tried";
const VOLUME: &str = "tally-tried";
/// The user that the image has for it.
const USER_ID: &str = "999";
/// What the server in it may take until it answers: it makes a pool of files.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Builds it from the package that lies in a folder, and tries it. A skip where there is no Podman.
pub fn try_image(folder: &Path) -> Result<Tally> {
    if !rustix::process::geteuid().is_root() || !packages::ensure(&packages::IMAGE)? {
        eprintln!("The image is tried by root with Podman; it is skipped.");
        return Ok(Tally::SKIPPED);
    }
    println!("== lab: an image");
    let podman = Podman::new()?;
    podman.clear()?;
    podman.build(folder)?;
    let tried = Trial { podman: &podman, port: port::free_port()?, tally: Tally::default() }.run();
    podman.clear()?;
    if let Ok(tally) = &tried {
        println!("== lab: an image: {tally}");
    }
    tried
}

/// Podman with a store of its own.
struct Podman {
    folder: PathBuf,
    runtime: &'static str,
}

impl Podman {
    fn new() -> Result<Self> {
        let folder = cargo::target_folder().join("lab/image");
        fs::create_dir_all(&folder)?;
        // Where a machine has both hierarchies of control groups, the other one refuses.
        let runtime = if packages::present("runc") { "runc" } else { "crun" };
        Ok(Self { folder: folder.canonicalize()?, runtime })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("podman");
        command.arg("--root").arg(self.folder.join("store")).arg("--runroot").arg(self.folder.join("run"));
        command.args(["--runtime", self.runtime, "--cgroup-manager", "cgroupfs"]).args(words).stdin(Stdio::null());
        command
    }

    /// What a command of it prints, if it succeeds.
    fn says(&self, words: &[&str]) -> Option<String> {
        let output = self.command(words).stderr(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The base that the Containerfile names, then the image.
    fn build(&self, package_folder: &Path) -> Result<()> {
        if self.says(&["image", "exists", BASE]).is_none() {
            let (root, archive) = (bare_root()?, self.folder.join("base.tar"));
            let files = Command::new("tar")
                .arg("-C")
                .arg(root)
                .args(["--exclude=./var/cache/apt/*", "-c", "."])
                .stdout(File::create(&archive)?)
                .status()?;
            ensure!(files.success(), "tar: {files}");
            let path = archive.to_str().context("a path of letters")?;
            cargo::step(self.command(&["import", "--quiet", path, BASE]).stdout(Stdio::null()))?;
            fs::remove_file(archive)?;
        }
        let file = cargo::workspace().join("packaging/Containerfile");
        // Docker's form: the other one has no health checks.
        let mut build = self.command(&[
            "build",
            "--format",
            "docker",
            "--pull=never",
            "--network",
            "none",
            "--quiet",
            "--tag",
            IMAGE,
            "--file",
        ]);
        cargo::step(build.arg(file).arg(package_folder).stdout(Stdio::null()))
    }

    /// Removes what a run leaves, and what one that was cut off has left.
    fn clear(&self) -> Result<()> {
        let quiet = |words: &[&str]| self.command(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
        quiet(&["rm", "--force", "--time", "10", CONTAINER])?;
        quiet(&["volume", "rm", "--force", VOLUME])?;
        Ok(())
    }
}

/// A server in a container, and what is asked of it.
struct Trial<'a> {
    podman: &'a Podman,
    port: u16,
    tally: Tally,
}

impl Trial<'_> {
    fn run(mut self) -> Result<Tally> {
        self.start()?;
        self.check("it serves as a user of its own", self.inside(&["id", "-u"]).as_deref() == Some(USER_ID));
        self.check("its health check succeeds", self.podman.says(&["healthcheck", "run", CONTAINER]).is_some());
        let rules = "sharenfs=127.0.0.1(rw,no_root_squash,insecure)";
        self.check("its commands find the server", self.inside(&["tally", "dataset", "set", rules, "tank"]).is_some());
        let [first, second] = ["first", "second"].map(|name| self.podman.folder.join(name));
        for (path, seed) in [(&first, 1), (&second, 2)] {
            let bytes: Vec<u8> = (0..3_000_000_u64).map(|at| (at * seed % 251) as u8).collect();
            fs::write(path, bytes)?;
        }
        self.check("a client writes", self.write(&first, "first"));
        self.check("it ends when it is told to", self.podman.says(&["stop", "--time", "60", CONTAINER]).is_some());
        let ended = self.podman.says(&["inspect", "--format", "{{.State.ExitCode}}", CONTAINER]);
        self.check("with status 0", ended.as_deref() == Some("0"));
        cargo::step(self.podman.command(&["start", CONTAINER]).stdout(Stdio::null()).stderr(Stdio::null()))?;
        self.wait()?;
        self.check("what was written is there behind a stop", self.reads("first", &first));
        self.check("a client writes again", self.write(&second, "second"));
        cargo::step(self.podman.command(&["kill", CONTAINER]).stdout(Stdio::null()).stderr(Stdio::null()))?;
        cargo::step(self.podman.command(&["rm", "--force", CONTAINER]).stdout(Stdio::null()).stderr(Stdio::null()))?;
        self.start()?;
        self.check(
            "and behind a kill, in another container",
            self.reads("first", &first) && self.reads("second", &second),
        );
        self.check("a volume that has lost its name gets no other one", self.ends_without_a_name());
        if self.tally.failed > 0 {
            cargo::step(&mut self.podman.command(&["logs", CONTAINER]))?;
        }
        Ok(self.tally)
    }

    /// Another container over the same volume.
    fn start(&self) -> Result<()> {
        let (volume, port) = (format!("{VOLUME}:/var/lib/tally"), self.port.to_string());
        // Podman asks for more than it may give away where this machine is a container itself.
        let files = getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 16).min(1 << 16);
        let limits = [format!("nofile={files}:{files}"), "nproc=4096:4096".to_owned()];
        let mut run =
            self.podman.command(&["run", "--detach", "--name", CONTAINER, "--network", "host", "--volume", &volume]);
        // Whoever runs it may say another home: what it needs it finds by its path.
        run.args(["--env", "HOME=/", "--ulimit", &limits[0], "--ulimit", &limits[1], IMAGE]);
        run.args(["--listen", "127.0.0.1", "--port", &port, "--http", "off", "--rpcbind", "off", "--size", "128M"]);
        let said = run.output()?;
        ensure!(said.status.success(), "podman run: {}", String::from_utf8_lossy(&said.stderr));
        self.wait()
    }

    /// Whether it ends at a start where its name is an empty line, which a shell takes for nothing.
    fn ends_without_a_name(&self) -> bool {
        self.inside(&["sh", "-c", "echo > /var/lib/tally/host-id"]);
        self.podman.says(&["stop", "--time", "60", CONTAINER]);
        self.podman.says(&["start", CONTAINER]);
        let began = Instant::now();
        loop {
            match self
                .podman
                .says(&["inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}", CONTAINER])
                .as_deref()
            {
                Some("exited 1") => return true,
                _ if began.elapsed() > START_LIMIT => return false,
                _ => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Until it answers.
    fn wait(&self) -> Result<()> {
        let began = Instant::now();
        while self.inside(&["tally", "pool", "list"]).is_none() {
            if began.elapsed() > START_LIMIT {
                cargo::step(&mut self.podman.command(&["logs", CONTAINER]))?;
                anyhow::bail!("the server in the container has not answered for {} s", START_LIMIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// What a command in the container prints, if it succeeds.
    fn inside(&self, words: &[&str]) -> Option<String> {
        self.podman.says(&[&["exec", CONTAINER], words].concat())
    }

    fn address(&self, name: &str) -> String {
        format!("nfs://127.0.0.1/tank/{name}?nfsport={0}&mountport={0}", self.port)
    }

    fn write(&self, path: &Path, name: &str) -> bool {
        let copied = Command::new("nfs-cp").arg(path).arg(self.address(name)).stdin(Stdio::null()).output();
        copied.is_ok_and(|output| output.status.success())
    }

    fn reads(&self, name: &str, path: &Path) -> bool {
        let read = Command::new("nfs-cat").arg(self.address(name)).stdin(Stdio::null()).output();
        read.is_ok_and(|output| output.status.success() && fs::read(path).is_ok_and(|bytes| bytes == output.stdout))
    }

    fn check(&mut self, what: &str, is_so: bool) {
        println!("{} {what}", if is_so { "ok  " } else { "FAIL" });
        self.tally += if is_so { Tally::PASSED } else { Tally::FAILED };
    }
}
