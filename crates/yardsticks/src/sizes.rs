//! Files of many sizes as most clients send them, CREATE, UNSTABLE WRITEs and COMMIT, beside the same bytes as FILE_SYNC
//! WRITEs over a file that is there: what a COMMIT costs beyond the log's own time. Measured where the two differ most:
//! where the data disk is slow and the log is not, where both share one slow disk, and where one quick disk has all.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use tally_base::Size;
use tally_bench::random::Random;
use tally_bench::wire::{Connection, Handle, Stable, Target, random_u32};

use crate::Site;
use crate::figures::Figures;
use crate::filer::{Binaries, POOL, POOL_FILE, Setup, slowness};
use crate::load::{at_once, file_name, pieces};
use crate::report;
use crate::rivals::{Rival, Rivals, in_turns, key, print_ratios};

/// What `sizes` takes.
#[derive(Args)]
pub struct Sizes {
    #[command(flatten)]
    site: Site,
    #[command(flatten)]
    rivals: Rivals,
    /// Where.
    #[arg(long, value_delimiter = ',', default_value = "slow-data,one-disk,ssd")]
    places: Vec<Place>,
    /// Sizes, KiB.
    #[arg(long, value_delimiter = ',', default_value = "4,64,128,256,1024,4096,8192")]
    kibibytes: Vec<usize>,
    /// Most files of a size by each client in a run; fewer where all clients' would come to more than 256 MiB.
    #[arg(long, default_value_t = 32)]
    files: u64,
    /// Clients at once; if it is not said, one, and on this machine's disk also sixteen.
    #[arg(long, value_delimiter = ',')]
    clients: Vec<usize>,
    /// Time of the slow disk, milliseconds.
    #[arg(long, default_value_t = 8)]
    delay_ms: u64,
    /// What `logbias` this build's pool is set to, instead of what it has by itself: latency, throughput or auto.
    #[arg(long)]
    logbias: Option<String>,
}

/// Where log and data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    /// The data disk takes its time for whatever it is asked, ten things at once; the log is on this machine's.
    SlowData,
    /// One disk takes its time for each flush and durable write, one after the other, and has the log too.
    OneDisk,
    /// All on this machine's disk.
    Ssd,
}

/// Bytes of all files of a size in a run.
const RUN_BYTES_MAX: u64 = 256 << 20;
/// Files of a size that there are at least.
const FILES_MIN: u64 = 2;

const WHOLE: &str = "CREATE + UNSTABLE + COMMIT";
const CREATE: &str = "CREATE of it";
const SYNC: &str = "FILE_SYNC over a file";
const RATIO: &str = "UNSTABLE + COMMIT against FILE_SYNC";
const NEW_RATIO: &str = "against FILE_SYNC to a new file";
const GROUPS: &str = "groups a file";
const TURNS: &str = "turns a file beside CREATE's";
const BYTES: &str = "device bytes per byte";

impl Place {
    fn setup(self, delay_ms: u64) -> Setup {
        let slow = |rule| slowness(rule, POOL_FILE, delay_ms);
        match self {
            Self::SlowData => Setup { slowness: slow("--queued"), ..Setup::default() },
            Self::OneDisk => Setup { slowness: slow("--paced"), log_bytes: 0, ..Setup::default() },
            Self::Ssd => Setup::default(),
        }
    }

    fn title(self, delay_ms: u64) -> String {
        match self {
            Self::SlowData => format!("data disk of {delay_ms} ms, fast log"),
            Self::OneDisk => format!("log and data on one disk of {delay_ms} ms"),
            Self::Ssd => "one quick disk for all".to_owned(),
        }
    }
}

/// One row of a table.
struct Case {
    title: String,
    clients: usize,
    bytes: usize,
    files: u64,
}

impl Case {
    fn key(&self, rival: &str, what: &str) -> String {
        key(&self.row(), rival, what)
    }

    fn row(&self) -> String {
        format!("{}, x{}, {}", self.title, self.clients, Size(self.bytes as u64))
    }
}

impl Sizes {
    /// Runs all places, each time on new pools.
    pub fn run(&self) -> Result<()> {
        ensure!(self.kibibytes.iter().chain(&self.clients).all(|number| *number > 0), "nothing of nothing");
        let binaries = Binaries::build()?;
        let folder = self.site.folder()?;
        let mut figures = Figures::default();
        for place in &self.places {
            let cases = self.cases(*place);
            let mut names = Vec::new();
            for run in 0..self.site.runs {
                let rivals = self.rivals.start(&binaries, &place.setup(self.delay_ms), &folder)?;
                names = rivals.iter().map(|rival| rival.name).collect();
                if let Some(logbias) = &self.logbias {
                    rivals[0].command(&["dataset", "set", &format!("logbias={logbias}"), POOL])?;
                }
                for case in &cases {
                    for turn in in_turns(rivals.len(), run) {
                        case.measure(&rivals[turn], &mut figures)?;
                    }
                }
            }
            print(&figures, &cases, &names);
        }
        report::save("sizes", &figures)
    }

    fn cases(&self, place: Place) -> Vec<Case> {
        let clients: &[usize] = match (place, &self.clients[..]) {
            (Place::Ssd, []) => &[1, 16],
            (_, []) => &[1],
            (_, clients) => clients,
        };
        let case = |clients: usize, kibibytes: usize| {
            let bytes = kibibytes << 10;
            let files = files_each(self.files, bytes, clients);
            Case { title: place.title(self.delay_ms), clients, bytes, files }
        };
        clients.iter().flat_map(|clients| self.kibibytes.iter().map(move |bytes| case(*clients, *bytes))).collect()
    }
}

/// How many files of a size each client makes.
fn files_each(most: u64, bytes: usize, clients: usize) -> u64 {
    (RUN_BYTES_MAX / (bytes * clients) as u64).clamp(FILES_MIN, most.max(FILES_MIN))
}

impl Case {
    fn measure(&self, rival: &Rival, figures: &mut Figures) -> Result<()> {
        let target = rival.target();
        let root = Connection::mount(&target)?;
        let folder = Connection::open(target.nfs)?.mkdir(&root, &format!("sizes-{:08x}", random_u32()?))?;
        let of_create = self.turns_of_a_create(rival, &target, &folder)?;
        // Not counted: whoever is measured first would pay for all memory that the server has from the system, which on a
        // virtual machine costs more than what is written to it.
        self.write_files(&target, &folder, "first", write_and_commit)?;
        let before = rival.write_all_out()?;
        let (created, committed) = self.write_files(&target, &folder, "committed", write_and_commit)?;
        let ended = rival.status()?;
        let settled = rival.write_all_out()?;
        let synced = self.write_over(rival, &target, &folder)?;
        rival.write_all_out()?;
        let (_, synced_anew) = self.write_files(&target, &folder, "synced", write_stable)?;
        let mut add = |what, unit, value| figures.add(&self.key(rival.name, what), unit, value);
        add(WHOLE, "ms", created + committed);
        add(CREATE, "ms", created);
        add(SYNC, "ms", synced);
        add(RATIO, "", committed / synced);
        add(NEW_RATIO, "", committed / synced_anew);
        let files = (self.files * self.clients as u64) as f64;
        if let (Some(before), Some(ended), Some(settled)) = (before, ended, settled) {
            add(GROUPS, "", (ended.txg_open - before.txg_open) as f64 / files);
            add(TURNS, "", (ended.turns() - before.turns()) as f64 / files - of_create);
            let written = settled.written_bytes() - before.written_bytes();
            add(BYTES, "", written as f64 / (files * self.bytes as f64));
        }
        Ok(())
    }

    /// What the data disks have to do for a file that stays empty: nothing where the log has a disk of its own.
    fn turns_of_a_create(&self, rival: &Rival, target: &Target, folder: &Handle) -> Result<f64> {
        let Some(before) = rival.write_all_out()? else { return Ok(0.0) };
        let mut connection = Connection::open(target.nfs)?;
        for file in 0..self.files {
            connection.create(folder, &format!("empty-{file}"))?;
        }
        let after = rival.status()?.map_or(0, |status| status.turns());
        Ok((after - before.turns()) as f64 / self.files as f64)
    }

    /// Makes all files, and writes each with `write`; gives the milliseconds of each for its CREATE, and from there to the
    /// last reply.
    fn write_files(
        &self,
        target: &Target,
        folder: &Handle,
        name: &str,
        write: fn(&mut Connection, &Handle, &[u8]) -> Result<()>,
    ) -> Result<(f64, f64)> {
        let (_, times) = at_once(target.nfs, self.clients, |client, connection| {
            let folder = connection.mkdir(folder, &format!("{name}-{client}"))?;
            let mut noise = Noise::new(self.bytes)?;
            let (mut created, mut committed) = (Duration::ZERO, Duration::ZERO);
            for number in 0..self.files {
                let data = noise.draw();
                let started = Instant::now();
                let file = connection.create(&folder, &file_name(number))?;
                let behind_create = started.elapsed();
                write(connection, &file, data)?;
                created += behind_create;
                committed += started.elapsed() - behind_create;
            }
            Ok((created, committed))
        })?;
        Ok((self.mean(times.iter().map(|(created, _)| *created)), self.mean(times.iter().map(|(_, rest)| *rest))))
    }

    /// Writes the same over files that are there, as FILE_SYNC WRITEs one after the other; the milliseconds of each.
    fn write_over(&self, rival: &Rival, target: &Target, folder: &Handle) -> Result<f64> {
        let mut connection = Connection::open(target.nfs)?;
        let mut files = Vec::new();
        for client in 0..self.clients {
            let file = connection.create(folder, &format!("over-{client}"))?;
            write_and_commit(&mut connection, &file, Noise::new(self.bytes)?.draw())?;
            files.push(file);
        }
        rival.write_all_out()?;
        let (_, times) = at_once(target.nfs, self.clients, |client, connection| {
            let mut noise = Noise::new(self.bytes)?;
            let mut taken = Duration::ZERO;
            for _ in 0..self.files {
                let data = noise.draw();
                let started = Instant::now();
                write_stable(connection, &files[client], data)?;
                taken += started.elapsed();
            }
            Ok(taken)
        })?;
        Ok(self.mean(times.into_iter()))
    }

    fn mean(&self, of_clients: impl Iterator<Item = Duration>) -> f64 {
        of_clients.sum::<Duration>().as_secs_f64() * 1000.0 / (self.files * self.clients as u64) as f64
    }
}

/// Content that is another one each time.
struct Noise {
    random: Random,
    buffer: Vec<u8>,
}

impl Noise {
    fn new(bytes: usize) -> Result<Self> {
        Ok(Self { random: Random::new(random_u32()?.into(), 0), buffer: vec![0; bytes] })
    }

    fn draw(&mut self) -> &[u8] {
        self.random.fill(&mut self.buffer);
        &self.buffer
    }
}

/// One WRITE after the other.
fn write_stable(connection: &mut Connection, file: &Handle, data: &[u8]) -> Result<()> {
    for (offset, piece) in pieces(data) {
        connection.write(file, offset, piece, Stable::FileSync)?;
    }
    Ok(())
}

/// All WRITEs are sent before the first reply is waited for, as the kernel's client sends what it has gathered.
fn write_and_commit(connection: &mut Connection, file: &Handle, data: &[u8]) -> Result<()> {
    for (offset, piece) in pieces(data) {
        connection.send_write(file, offset, piece, Stable::Unstable)?;
    }
    let (mut taken, mut verifiers) = (0, Vec::new());
    for _ in pieces(data) {
        let written = connection.receive_any_write(Stable::Unstable)?;
        taken += written.count;
        verifiers.push(written.verifier);
    }
    ensure!(taken == data.len(), "WRITEs of {} bytes took {taken}", data.len());
    let verifier = connection.commit(file)?;
    ensure!(verifiers.iter().all(|before| *before == verifier), "the server says that it may have lost what it had");
    Ok(())
}

fn print(figures: &Figures, cases: &[Case], rivals: &[&str]) {
    let columns = [CREATE, SYNC, RATIO, NEW_RATIO, GROUPS, TURNS, BYTES];
    for rival in rivals {
        println!("\n| {rival} | {WHOLE}, ms | {} |", columns.join(" | "));
        println!("|---|{}", "---:|".repeat(columns.len() + 1));
        for case in cases {
            let whole = figures.spread(&case.key(rival, WHOLE)).unwrap_or_default();
            let medians = columns.map(|what| figures.median(&case.key(rival, what)));
            println!("| {} | {whole} | {} |", case.row(), medians.join(" | "));
        }
    }
    let rows: Vec<String> = cases.iter().map(Case::row).collect();
    print_ratios(figures, &rows, rivals, WHOLE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_at_most_its_bytes_and_at_least_two_files() {
        let files = |kibibytes: usize, clients| files_each(32, kibibytes << 10, clients);
        assert_eq!([files(4, 1), files(1024, 1), files(8192, 1), files(1024, 16)], [32, 32, 32, 16]);
        assert_eq!([files(4096, 16), files(8192, 16), files(65536, 16), files_each(1, 4096, 1)], [4, 2, 2, 2]);
    }
}
