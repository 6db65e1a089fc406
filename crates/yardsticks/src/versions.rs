//! What a promise costs over NFSv4.1 beside the same over NFSv3: one server, one pool, requests of both by turns, so that whatever drifts meets both.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tally_bench::wire::{Attributes, Connection, Handle, Target, random_u32};
use tally_wire::ask::{self, BOTH};
use tally_wire::bitmap;
use tally_wire::nfs4::{
    Createhow4, Fattr4, Fattr4Value, Getattr4Args, NfsArgop4, NfsResop4, Nfstime4, Open4Args, Open4Res, OpenClaim4,
    OpenOwner4, Openflag4, Setattr4Args, Settime4, Stateid4,
};

use crate::Site;
use crate::figures::{Bar, Figures};
use crate::filer::{Binaries, Filer, POOL, Setup};
use crate::floor::{Floor, Turn};
use crate::load::{self, FILE_BYTES, Load, file_name, joined, noise};
use crate::session::{Session, handle, put, told};

/// What `versions` takes.
#[derive(Args)]
pub struct Versions {
    #[command(flatten)]
    site: Site,
    /// Pairs of lone SETATTRs in each run.
    #[arg(long, default_value_t = 20_000)]
    pairs: usize,
    /// Files that each version unpacks in each run, on one connection.
    #[arg(long, default_value_t = 1024)]
    files: u64,
    /// Files that each of 64 connections makes in each turn.
    #[arg(long, default_value_t = 64)]
    creates: u64,
    /// Clients that are connected, have a session and do nothing. One address may have 2,048, and those of the other loads are among them.
    #[arg(long, default_value_t = 1000)]
    idle: usize,
}

const CONNECTIONS: usize = 64;
/// Turns of creates in each run.
const TURNS: usize = 4;
/// What Linux asks for behind a change: type, change, size, fsid, id, mode, links, owners, space used, times.
const LOOKED_AT: [u32; 13] = [1, 3, 4, 8, 20, 33, 35, 36, 37, 45, 47, 52, 53];
/// The stateid that stands for the present one (RFC 8881 §8.2.3).
const PRESENT: Stateid4 = Stateid4 { seqid: 1, other: [0; 12] };
/// And the one that stands for no state.
const ANONYMOUS: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };

const OVER: &str = "lone SETATTR, version 4.1's round trip over version 3's, median of pairs";
const UNTAR: &str = "untar, version 4.1's time over version 3's";
const OVER_FLOOR: &str = "untar, version 4.1's time over the floor's";
const CREATES: &str = "64 sessions, creates/s over version 3's";
const IDLE: &str = "idle mounts, memory of each";

impl Versions {
    /// Runs both against one server.
    pub fn run(&self) -> Result<()> {
        let binaries = Binaries::build()?;
        let folder = self.site.folder()?;
        let mut figures = Figures::default();
        for _ in 0..self.site.runs {
            let setup = Setup { pool_bytes: 4 << 30, ..Setup::default() };
            let filer = Filer::make(&binaries, setup, &folder)?;
            let target = filer.target(POOL);
            self.lone(&target, &mut figures)?;
            self.untar(&target, &mut figures)?;
            self.creates(&target, &mut figures)?;
            self.idle(&filer, &mut figures)?;
        }
        figures.finish("versions")?;
        figures.row("bench versions", OVER, Bar::AtMost(4.0));
        figures.row("bench versions", UNTAR, Bar::Stated);
        figures.row("bench versions", OVER_FLOOR, Bar::AtMost(1.3));
        figures.row("bench versions", CREATES, Bar::AtLeast(0.9));
        figures.row("bench versions", IDLE, Bar::AtMost(16.0));
        Ok(())
    }

    /// One SETATTR of either, by turns, on one pair of connections.
    fn lone(&self, target: &Target, figures: &mut Figures) -> Result<()> {
        let (mut third, mut fourth) = (Connection::open(target.nfs)?, Session::open(target.nfs)?);
        let root = Connection::mount(target)?;
        let old = third.create(&root, &format!("third-{:08x}", random_u32()?))?;
        let new = third.create(&root, &format!("fourth-{:08x}", random_u32()?))?;
        let mut requests = [0o600, 0o601].map(|mode| {
            let look = NfsArgop4::OpGetattr(Getattr4Args { attr_request: bitmap(&LOOKED_AT) });
            fourth.request(&[put(&new), set(&[Fattr4Value::Fattr4Mode(mode)]), look])
        });
        let mut differences = Vec::with_capacity(self.pairs);
        let (mut old_times, mut new_times) = (Vec::new(), Vec::new());
        for pair in 0..self.pairs {
            let mode = Attributes { mode: Some(0o600 + (pair % 2) as u32), ..Attributes::default() };
            let mut of_third = || timed(|| third.set_attributes(&old, mode));
            let request = &mut requests[pair % 2];
            let mut of_fourth = || timed(|| fourth.ask(request).map(drop));
            // ABBA: what the one leaves behind meets both.
            let (before, after) = if pair / 2 % 2 == 0 {
                (of_third()?, of_fourth()?)
            } else {
                let after = of_fourth()?;
                (of_third()?, after)
            };
            differences.push(after.as_secs_f64() - before.as_secs_f64());
            old_times.push(before.as_secs_f64());
            new_times.push(after.as_secs_f64());
        }
        figures.add("lone SETATTR, version 3, median", "µs", 1e6 * crate::report::median(old_times));
        figures.add("lone SETATTR, version 4.1, median", "µs", 1e6 * crate::report::median(new_times));
        figures.add(OVER, "µs", 1e6 * crate::report::median(differences));
        Ok(())
    }

    /// What tar sends as root for files of 4 KiB: version 3 six requests, Linux over version 4 an OPEN, a WRITE, three SETATTRs and a CLOSE, which changes nothing.
    fn untar(&self, target: &Target, figures: &mut Figures) -> Result<()> {
        let (mut third, mut fourth) = (Connection::open(target.nfs)?, Session::open(target.nfs)?);
        let root = Connection::mount(target)?;
        let places = [
            third.mkdir(&root, &format!("third-untar-{:08x}", random_u32()?))?,
            third.mkdir(&root, &format!("fourth-untar-{:08x}", random_u32()?))?,
        ];
        let data = noise(FILE_BYTES)?;
        // Before the server has anything to put on its disks.
        let floor = self.untar_by_the_floor(&mut fourth, &places[1], &data)?;
        let (mut old, mut new) = (Duration::ZERO, Duration::ZERO);
        for file in 0..self.files {
            let mut of_third = || timed(|| Load::Untar.make_file(&mut third, &places[0], file, &data).map(drop));
            let mut of_fourth = || timed(|| untar(&mut |ops| fourth.run(ops), &places[1], file, &data));
            if file % 2 == 0 {
                old += of_third()?;
                new += of_fourth()?;
            } else {
                new += of_fourth()?;
                old += of_third()?;
            }
        }
        figures.add("untar, version 4.1 by the floor, a file", "µs", 1e6 * floor.as_secs_f64() / self.files as f64);
        figures.add(OVER_FLOOR, "", new.as_secs_f64() / floor.as_secs_f64());
        figures.add("untar, version 3, a file", "µs", 1e6 * old.as_secs_f64() / self.files as f64);
        figures.add("untar, version 4.1, a file", "µs", 1e6 * new.as_secs_f64() / self.files as f64);
        figures.add(UNTAR, "", new.as_secs_f64() / old.as_secs_f64());
        Ok(())
    }

    /// The same compounds answered by a bare loop, with what the server answers to one file's.
    fn untar_by_the_floor(&self, session: &mut Session, folder: &Handle, data: &[u8]) -> Result<Duration> {
        let mut turns = Vec::new();
        let mut listen = |ops: &[NfsArgop4]| {
            let mut request = session.request(ops);
            let results = session.ask(&mut request)?.to_vec();
            let durable_bytes = ops.iter().find_map(|op| match op {
                NfsArgop4::OpWrite(_) => Some(8192),
                NfsArgop4::OpOpen(_) | NfsArgop4::OpSetattr(_) => Some(4096),
                _ => None,
            });
            let told = told(&results)?;
            turns.push(Turn { durable_bytes, results });
            Ok(told)
        };
        untar(&mut listen, folder, self.files, data)?;
        let floor = Floor::in_turns(&self.site.folder()?, turns)?;
        let mut client = Session::unasked(floor.target().nfs)?;
        timed(|| (0..self.files).try_for_each(|file| untar(&mut |ops| client.run(ops), folder, file, data)))
    }

    /// Files by 64 connections at once: CREATE, and a compound of OPEN and CLOSE.
    fn creates(&self, target: &Target, figures: &mut Figures) -> Result<()> {
        let root = Connection::mount(target)?;
        for turn in 0..TURNS {
            let (mut old, mut new) = (0.0, 0.0);
            let turns = if turn % 2 == 0 { [3, 4] } else { [4, 3] };
            for version in turns {
                let name = format!("creates-{:08x}", random_u32()?);
                let mut connection = Connection::open(target.nfs)?;
                let folder = connection.mkdir(&root, &name)?;
                let places = (0..CONNECTIONS).map(|index| connection.mkdir(&folder, &format!("client-{index}")));
                let places = places.collect::<Result<Vec<_>>>()?;
                if version == 3 {
                    let (elapsed, _) = load::at_once(target.nfs, CONNECTIONS, |index, connection| {
                        let place = &places[index];
                        (0..self.creates).try_for_each(|file| connection.create(place, &file_name(file)).map(drop))
                    })?;
                    old = elapsed.as_secs_f64();
                } else {
                    new = self.create_in_sessions(target, &places)?.as_secs_f64();
                }
            }
            figures.add(CREATES, "", old / new);
        }
        Ok(())
    }

    fn create_in_sessions(&self, target: &Target, places: &[Handle]) -> Result<Duration> {
        // Encoded before the clock runs, as version 3's client has next to nothing to encode.
        let create = |session: &Session, place: &Handle, file| {
            let how = Createhow4::Unchecked4(Fattr4::of(&[Fattr4Value::Fattr4Mode(0o644)]));
            session.request(&[put(place), open(file, how), ask::close(&PRESENT)])
        };
        let clients = places.iter().map(|place| {
            let session = Session::open(target.nfs)?;
            let requests: Vec<_> = (0..self.creates).map(|file| create(&session, place, file)).collect();
            Ok((session, requests))
        });
        let mut clients = clients.collect::<Result<Vec<_>>>()?;
        let began = Instant::now();
        std::thread::scope(|scope| {
            let workers = clients.iter_mut().map(|(session, requests)| {
                scope.spawn(move || requests.iter_mut().try_for_each(|request| session.ask(request).map(drop)))
            });
            let workers: Vec<_> = workers.collect();
            workers.into_iter().try_for_each(|worker| joined(worker.join()))
        })?;
        Ok(began.elapsed())
    }

    /// Clients that do nothing.
    fn idle(&self, filer: &Filer, figures: &mut Figures) -> Result<()> {
        ensure!(self.idle > 0, "no idle clients");
        let target = filer.target(POOL);
        // What comes with the first ones of many is not theirs.
        let _first = (0..64).map(|_| Session::open(target.nfs)).collect::<Result<Vec<_>>>()?;
        let before = filer.resident_bytes()?;
        let mut clients = (0..self.idle).map(|_| Session::open(target.nfs)).collect::<Result<Vec<_>>>()?;
        for client in &mut clients {
            client.mount(&target.export)?;
        }
        let after = filer.resident_bytes()?;
        figures.add(IDLE, "KiB", after.saturating_sub(before) as f64 / 1024.0 / self.idle as f64);
        Ok(())
    }
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}

fn set(values: &[Fattr4Value]) -> NfsArgop4 {
    NfsArgop4::OpSetattr(Setattr4Args { stateid: ANONYMOUS, obj_attributes: Fattr4::of(values) })
}

fn open(file: u64, how: Createhow4) -> NfsArgop4 {
    NfsArgop4::OpOpen(Open4Args {
        seqid: 0,
        share_access: BOTH,
        share_deny: 0,
        owner: OpenOwner4 { clientid: 0, owner: b"bench".into() },
        openhow: Openflag4::Open4Create(how),
        claim: OpenClaim4::ClaimNull(file_name(file).into_bytes().into()),
    })
}

fn untar(
    run: &mut dyn FnMut(&[NfsArgop4]) -> Result<Vec<NfsResop4>>,
    folder: &Handle,
    file: u64,
    data: &[u8],
) -> Result<()> {
    let look = || NfsArgop4::OpGetattr(Getattr4Args { attr_request: bitmap(&LOOKED_AT) });
    let how = Createhow4::Guarded4(Fattr4::of(&[Fattr4Value::Fattr4Mode(0o600)]));
    let told = run(&[put(folder), open(file, how), look(), NfsArgop4::OpGetfh])?;
    let opened = told.iter().find_map(|told| match told {
        NfsResop4::OpOpen(Open4Res::Nfs4Ok(opened)) => Some(opened.stateid.clone()),
        _ => None,
    });
    let stateid = opened.context("an OPEN without a stateid")?;
    let file = handle(told)?;
    run(&[put(&file), ask::write(&stateid, 0, data), look()])?;
    let time = || Settime4::SetToClientTime4(Nfstime4 { seconds: 1_700_000_000, nseconds: 0 });
    let sets: [&[Fattr4Value]; 3] = [
        &[Fattr4Value::Fattr4TimeAccessSet(time()), Fattr4Value::Fattr4TimeModifySet(time())],
        &[Fattr4Value::Fattr4Owner(b"1000".into()), Fattr4Value::Fattr4OwnerGroup(b"1000".into())],
        &[Fattr4Value::Fattr4Mode(0o644)],
    ];
    for values in sets {
        run(&[put(&file), set(values), look()])?;
    }
    run(&[put(&file), ask::close(&stateid)])?;
    Ok(())
}
