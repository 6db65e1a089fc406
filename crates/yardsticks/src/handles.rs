//! Handles that a client should not have: whether any of them is accepted, of millions.
//!
//! All go over the wire to a live server, several under way on each connection. Each has to be refused with the status
//! that its kind deserves, and at the end, as at the start, every genuine handle has to be accepted.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use tally_bench::random::Random;
use tally_bench::wire::{Connection, Handle, random_u32};

use crate::Site;
use crate::filer::{Binaries, Filer, Setup};
use crate::load;
use crate::report;

/// Genuine handles of each dataset.
const GENUINE: usize = 256;
/// Requests of one kind that are under way at once on a connection.
const DEPTH: usize = 64;
/// Longest handle that NFSv3 has.
const HANDLE_BYTES_MAX: usize = 64;

/// Statuses of NFSv3.
const OK: u32 = 0;
const ACCES: u32 = 13;
const ROFS: u32 = 30;
const STALE: u32 = 70;
const BADHANDLE: u32 = 10_001;

/// What `handles` takes.
#[derive(Args)]
pub struct Handles {
    #[command(flatten)]
    site: Site,
    /// Forged handles in all.
    #[arg(long, default_value_t = 10_000_000)]
    handles: u64,
    /// Connections, each with its own thread.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Where randomness starts; drawn and printed if not given.
    #[arg(long)]
    seed: Option<u64>,
}

/// How a handle was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
enum Kind {
    /// Random bytes of any length.
    Random,
    /// The right length, version, pool and dataset, a small object number; a random rest.
    Guessed,
    /// Genuine but for one bit.
    Flipped,
    /// Genuine, and cut off or lengthened.
    Cut,
    /// The first words of one genuine handle and the rest of one of another dataset.
    Grafted,
    /// Genuine, of the pool of another server.
    OtherPool,
    /// Genuine, of a dataset that the rules have closed to this client since.
    Forbidden,
    /// Genuine, of a dataset exported read-only, and used to change the file's mode.
    ReadOnly,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Random,
        Self::Guessed,
        Self::Flipped,
        Self::Cut,
        Self::Grafted,
        Self::OtherPool,
        Self::Forbidden,
        Self::ReadOnly,
    ];

    fn may_answer(self, status: u32) -> bool {
        match self {
            Self::Forbidden => status == ACCES,
            Self::ReadOnly => status == ROFS,
            _ => status == BADHANDLE || status == STALE,
        }
    }
}

/// Genuine handles, by where they come from.
struct Genuine {
    open: Vec<Handle>,
    closed: Vec<Handle>,
    read_only: Vec<Handle>,
    other_pool: Vec<Handle>,
}

/// How often each status came for a kind.
type Answers = BTreeMap<(Kind, u32), u64>;

impl Handles {
    /// Runs it; fails if a handle was accepted that should not be.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let setup = || Setup { pool_bytes: 256 << 20, log_bytes: 32 << 20, ..Setup::default() };
        let folder = self.site.folder()?;
        let (filer, other) = (Filer::make(&binaries, setup(), &folder)?, Filer::make(&binaries, setup(), &folder)?);
        let genuine = Genuine::collect(&filer, &other)?;
        genuine.check(&filer)?;
        let seed = self.seed.map_or_else(|| random_u32().map(u64::from), Ok)?;
        println!("seed {seed}");
        let mut answers = Answers::new();
        for run in 0..self.site.runs {
            let (time, brought) = load::at_once(filer.target("tank").nfs, self.connections, |index, connection| {
                let stream = (run * self.connections + index) as u64;
                self.forge(connection, &genuine, Random::new(seed, stream))
            })?;
            for ((kind, status), count) in brought.into_iter().flatten() {
                *answers.entry((kind, status)).or_default() += count;
            }
            let seconds = time.as_secs_f64();
            println!("run {run}: {} handles in {seconds:.0} s, {:.0}/s", self.handles, self.handles as f64 / seconds);
        }
        genuine.check(&filer)?;
        tell(&answers)
    }

    /// What one connection sends of them.
    fn forge(&self, connection: &mut Connection, genuine: &Genuine, mut random: Random) -> Result<Answers> {
        let batches = (self.handles / self.connections as u64).div_ceil(DEPTH as u64);
        let mut answers = Answers::new();
        for batch in 0..batches {
            let kind = Kind::ALL[batch as usize % Kind::ALL.len()];
            for _ in 0..DEPTH {
                let forged = genuine.forge(kind, &mut random);
                match kind {
                    Kind::ReadOnly => connection.send_mode(&forged, 0o777)?,
                    _ => connection.send_getattr(&forged)?,
                }
            }
            for _ in 0..DEPTH {
                *answers.entry((kind, connection.receive_status()?)).or_default() += 1;
            }
        }
        Ok(answers)
    }
}

/// Prints what came back. A status that a kind should not get is an error.
fn tell(answers: &Answers) -> Result<()> {
    for ((kind, status), count) in answers {
        println!("{:<12} status {status:>5}: {count}", format!("{kind:?}"));
    }
    let counts: Vec<_> = answers.iter().map(|((kind, status), count)| (kind, status, count)).collect();
    report::save("handles", &counts)?;
    let of = |wanted: &dyn Fn(Kind, u32) -> bool| {
        answers.iter().filter(|((kind, status), _)| wanted(*kind, *status)).map(|(_, count)| count).sum::<u64>()
    };
    let (all, accepted) = (of(&|_, _| true), of(&|_, status| status == OK));
    println!(
        "| `cargo xtask bench handles` | forged and forbidden handles accepted, of {all} | 0 | {accepted} | {} |",
        ["**no**", "yes",][usize::from(accepted == 0)]
    );
    ensure!(accepted == 0, "{accepted} handles were accepted");
    let odd = of(&|kind, status| !kind.may_answer(status));
    ensure!(odd == 0, "{odd} handles were refused with a status that their kind should not get");
    Ok(())
}

impl Genuine {
    fn collect(filer: &Filer, other: &Filer) -> Result<Self> {
        for dataset in ["open", "closed", "readonly"] {
            filer.command(&["dataset", "create", &format!("tank/{dataset}")])?;
        }
        let of = |filer: &Filer, dataset: &str| make_files(filer, &format!("tank/{dataset}"));
        let genuine = Self {
            open: of(filer, "open")?,
            closed: of(filer, "closed")?,
            read_only: of(filer, "readonly")?,
            other_pool: make_files(other, "tank")?,
        };
        let rules = [("closed", "10.9.8.0/24(rw)"), ("readonly", "127.0.0.1(ro,no_root_squash)")];
        for (dataset, rule) in rules {
            filer.command(&["dataset", "set", &format!("sharenfs={rule}"), &format!("tank/{dataset}")])?;
        }
        Ok(genuine)
    }

    /// Genuine handles work where the rules let them.
    fn check(&self, filer: &Filer) -> Result<()> {
        let mut connection = Connection::open(filer.target("tank").nfs)?;
        for handle in self.open.iter().chain(&self.read_only) {
            connection.send_getattr(&handle.0)?;
            let status = connection.receive_status()?;
            ensure!(status == OK, "a genuine handle is answered with status {status}");
        }
        Ok(())
    }

    fn forge(&self, kind: Kind, random: &mut Random) -> Vec<u8> {
        let open = &random.pick(&self.open).0;
        match kind {
            Kind::Random => {
                let length = random.below(HANDLE_BYTES_MAX + 1);
                random.bytes(length)
            }
            // Version, pool and dataset are the first three words; object and generation are small numbers.
            Kind::Guessed => {
                let mut forged = open.clone();
                let rest = random.bytes(open.len() - 24);
                forged[24..].copy_from_slice(&rest);
                for number in [24..32, 32..40] {
                    forged[number].copy_from_slice(&(random.below(1000) as u64).to_be_bytes());
                }
                forged
            }
            Kind::Flipped => {
                let mut forged = open.clone();
                let bit = random.below(forged.len() * 8);
                forged[bit / 8] ^= 1 << (bit % 8);
                forged
            }
            Kind::Cut => {
                let mut forged = open.clone();
                let length = (open.len() + 1 + random.below(HANDLE_BYTES_MAX)) % (HANDLE_BYTES_MAX + 1);
                forged.resize(length, 0);
                forged
            }
            Kind::Grafted => {
                let mut forged = random.pick(&self.closed).0.clone();
                let words = 3 + random.below(3);
                forged[..words * 8].copy_from_slice(&open[..words * 8]);
                forged
            }
            Kind::OtherPool => random.pick(&self.other_pool).0.clone(),
            Kind::Forbidden => random.pick(&self.closed).0.clone(),
            Kind::ReadOnly => random.pick(&self.read_only).0.clone(),
        }
    }
}

fn make_files(filer: &Filer, dataset: &str) -> Result<Vec<Handle>> {
    let target = filer.target(dataset);
    let root = Connection::mount(&target)?;
    let mut connection = Connection::open(target.nfs)?;
    (0..GENUINE).map(|index| connection.create(&root, &format!("f{index}"))).collect()
}
