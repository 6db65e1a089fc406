//! What clients of NFSv4 hold: `tally client` and `tally stat sessions`, `opens` and `locks`.

use clap::{Args, Subcommand};

use super::console::{Console, Failure, Session, ask, print_json, print_reply};
use super::table::{Align, Table, TableArgs};
use super::words::harmless;
use crate::control::holdings::{
    ClientReport, FileReport, GraceReport, Held, LockReport, OpenReport, Owner, Page, SessionReport,
};
use crate::control::message::{Reply, Request};

/// The commands on clients.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// List the clients of NFSv4, those whose leases are over too: they keep what they have until somebody is in their way
    List(HeldArgs),
    /// End clients of NFSv4: all that they have open and locked is others' to have, and they may not claim it again
    Evict {
        /// Do not ask
        #[arg(short = 'y', long)]
        yes: bool,
        /// Only show who would be ended
        #[arg(short = 'n')]
        dry_run: bool,
        /// A client's id, or an address: all clients that came from there
        #[arg(value_name = "ID|ADDRESS")]
        client: String,
    },
}

/// Words of the lists.
#[derive(Clone, Debug, Args)]
pub struct HeldArgs {
    /// Only of this client, or of all from this address
    #[arg(value_name = "ID|ADDRESS")]
    client: Option<String>,

    /// At most so many lines (up to 10,000)
    #[arg(short = 'l', long, value_name = "COUNT", default_value_t = 1000)]
    limit: u64,

    #[command(flatten)]
    table: TableArgs,
}

impl HeldArgs {
    fn request(&self, what: Held) -> Request {
        Request::Holdings { what, client: self.client.clone(), most: self.limit }
    }
}

/// `tally client`.
pub(super) fn client(session: Session<'_>, command: &ClientCommand, console: &mut Console<'_>) -> Result<(), Failure> {
    match command {
        ClientCommand::List(args) => list(session, Held::Clients, args, console),
        ClientCommand::Evict { yes, dry_run, client } => evict(session, client, (*yes, *dry_run), console),
    }
}

/// One of the lists.
pub(super) fn list(
    session: Session<'_>,
    what: Held,
    args: &HeldArgs,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let reply = ask(session, &args.request(what), console)?;
    let more = match &reply {
        Reply::Clients(list) => list.page.more,
        Reply::Sessions(page) => page.more,
        Reply::Opens(page) => page.more,
        Reply::Locks(page) => page.more,
        _ => return Err(Failure::Mismatch),
    };
    let graces = if let Reply::Clients(list) = &reply { list.graces.clone() } else { Vec::new() };
    print_reply(session.json, reply, console, &|reply| match reply {
        Reply::Clients(list) => Some(clients(&list.page, args.table)),
        Reply::Sessions(page) => Some(sessions(page, args.table)),
        Reply::Opens(page) => Some(opens(page, args.table)),
        Reply::Locks(page) => Some(locks(page, args.table)),
        _ => None,
    })?;
    for grace in graces.iter().filter(|_| !session.json) {
        writeln!(console.err, "{}", waits(grace))?;
    }
    if more > 0 && !session.json {
        writeln!(
            console.err,
            "and {more} more; --limit COUNT shows more of them, an ID or ADDRESS those of one client"
        )?;
    }
    Ok(())
}

/// Shows who is meant, asks, and ends those that were shown and nobody else.
fn evict(
    session: Session<'_>,
    client: &str,
    (yes, dry_run): (bool, bool),
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let look = Request::Holdings { what: Held::Clients, client: Some(client.into()), most: u64::MAX };
    let Reply::Clients(list) = ask(session, &look, console)? else { return Err(Failure::Mismatch) };
    if dry_run && session.json {
        return print_json(Reply::Clients(list), console);
    }
    console.err.write_all(clients(&list.page, TableArgs::default()).as_bytes())?;
    if dry_run {
        return Ok(());
    }
    if !yes && !console.agrees("End them, with all that they have open and locked?")? {
        return Err(Failure::NotAgreed);
    }
    let order = Request::ClientEvict { clients: list.page.shown.into_iter().map(|shown| shown.id).collect() };
    let reply = ask(session, &order, console)?;
    print_reply(session.json, reply, console, &|_| None)
}

/// Why nothing new is opened or locked in a pool.
fn waits(GraceReport { pool, clients, came, seconds_left }: &GraceReport) -> String {
    format!(
        "{pool}: {came} of {clients} clients that had something open before this start have claimed what they want of it; others that open or \
         lock something wait for the rest, {seconds_left} s at most if nobody claims anything meanwhile"
    )
}

fn clients(page: &Page<ClientReport>, style: TableArgs) -> String {
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("ADDRESS", Align::Left),
        ("VERSION", Align::Left),
        ("OPENS", Align::Right),
        ("LOCKS", Align::Right),
        ("SESSIONS", Align::Right),
        ("SINCE", Align::Right),
        ("SILENT", Align::Right),
        ("STATE", Align::Left),
        ("NAME", Align::Left),
    ]);
    for client in &page.shown {
        let counts = [client.opens, client.locks, client.sessions].map(|count| count.to_string());
        let ages = [client.since_seconds, client.silent_seconds].map(|seconds| age(seconds, style));
        let state = if client.courtesy { "courtesy" } else { "active" };
        let before = [client.id.clone(), client.address.clone(), client.version.clone()].into_iter();
        let cells = before.chain(counts).chain(ages).chain([state.to_owned(), shown(&client.name, style)]);
        table.row(cells.collect());
    }
    table.print(style)
}

fn sessions(page: &Page<SessionReport>, style: TableArgs) -> String {
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("CLIENT", Align::Left),
        ("ADDRESS", Align::Left),
        ("SLOTS", Align::Right),
        ("BUSY", Align::Right),
        ("CONNECTIONS", Align::Right),
        ("CALLBACKS", Align::Right),
        ("NAME", Align::Left),
    ]);
    for one in &page.shown {
        let counts = [u64::from(one.slots), one.slots_in_use, one.connections, one.callback_connections];
        let whose = [one.id.clone(), one.owner.client.clone(), address(&one.owner)].into_iter();
        let cells = whose.chain(counts.map(|count| count.to_string())).chain([shown(&one.owner.client_name, style)]);
        table.row(cells.collect());
    }
    table.print(style)
}

fn opens(page: &Page<OpenReport>, style: TableArgs) -> String {
    let mut table = Table::new(&[
        ("CLIENT", Align::Left),
        ("ADDRESS", Align::Left),
        ("ACCESS", Align::Left),
        ("DENY", Align::Left),
        ("SINCE", Align::Right),
        ("STATE", Align::Left),
        ("DATASET", Align::Left),
        ("PATH", Align::Left),
    ]);
    for open in &page.shown {
        table.row(vec![
            open.owner.client.clone(),
            address(&open.owner),
            open.access.clone(),
            open.deny.clone(),
            age(open.since_seconds, style),
            state(open.revoked.as_ref()),
            open.file.dataset.clone(),
            path(&open.file),
        ]);
    }
    table.print(style)
}

fn locks(page: &Page<LockReport>, style: TableArgs) -> String {
    let mut table = Table::new(&[
        ("CLIENT", Align::Left),
        ("ADDRESS", Align::Left),
        ("TYPE", Align::Left),
        ("FIRST", Align::Right),
        ("LAST", Align::Right),
        ("SINCE", Align::Right),
        ("STATE", Align::Left),
        ("OWNER", Align::Left),
        ("DATASET", Align::Left),
        ("PATH", Align::Left),
    ]);
    let byte = |byte: Option<u64>| byte.map_or_else(|| "-".into(), |byte| byte.to_string());
    let last = |last: Option<u64>| if last == Some(u64::MAX) { "end".into() } else { byte(last) };
    for lock in &page.shown {
        table.row(vec![
            lock.owner.client.clone(),
            address(&lock.owner),
            lock.kind.clone(),
            byte(lock.first),
            last(lock.last),
            age(lock.since_seconds, style),
            if lock.waits { "waits".into() } else { state(lock.revoked.as_ref()) },
            shown(&lock.lock_owner, style),
            lock.file.dataset.clone(),
            path(&lock.file),
        ]);
    }
    table.print(style)
}

/// As much of a name as a line has.
const NAME_CHARS_MAX: usize = 60;

fn shown(name: &str, style: TableArgs) -> String {
    match name.chars().count() {
        0 => "-".into(),
        1..=NAME_CHARS_MAX => name.to_owned(),
        _ if style.exact => name.to_owned(),
        _ => name.chars().take(NAME_CHARS_MAX - 1).chain(['…']).collect(),
    }
}

fn address(owner: &Owner) -> String {
    if owner.address.is_empty() { "-".into() } else { owner.address.clone() }
}

fn state(revoked: Option<&String>) -> String {
    revoked.map_or_else(|| "held".into(), |why| format!("revoked ({why})"))
}

/// Names are whatever clients have made them.
fn path(file: &FileReport) -> String {
    match &file.path {
        Some(path) => harmless(path),
        None if file.not_looked_up => format!("(object {})", file.object),
        None => format!("(no name, object {})", file.object),
    }
}

fn age(seconds: u64, style: TableArgs) -> String {
    match seconds {
        exact if style.exact => exact.to_string(),
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}min", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner { client: "0000000700000001".into(), client_name: "Linux NFSv4.2 a".into(), address: "10.0.0.7".into() }
    }

    #[test]
    fn clients_are_told_with_what_they_have_and_whether_they_are_late() {
        let client = ClientReport {
            id: "0000000700000001".into(),
            name: "Linux NFSv4.2 a".into(),
            address: "10.0.0.7".into(),
            version: "4.2".into(),
            since_seconds: 7200,
            silent_seconds: 100,
            courtesy: true,
            sessions: 1,
            opens: 12,
            locks: 3,
            ..ClientReport::default()
        };
        let expected = "\
ID                ADDRESS   VERSION  OPENS  LOCKS  SESSIONS  SINCE  SILENT  STATE     NAME
0000000700000001  10.0.0.7  4.2         12      3         1     2h    100s  courtesy  Linux NFSv4.2 a
";
        assert_eq!(clients(&Page { shown: vec![client], more: 0 }, TableArgs::default()), expected);
    }

    #[test]
    fn what_is_open_and_locked_is_told_by_path_and_without_what_moves_the_cursor() {
        let file =
            FileReport { dataset: "tank".into(), object: 7, path: Some("/a\u{1b}[2Jb".into()), not_looked_up: false };
        let (access, deny) = ("both".to_owned(), "none".to_owned());
        let open = OpenReport { file: file.clone(), owner: owner(), access, deny, ..OpenReport::default() };
        let gone = OpenReport {
            file: FileReport { path: None, ..file.clone() },
            revoked: Some("admin".into()),
            ..open.clone()
        };
        let slow = OpenReport { file: FileReport { not_looked_up: true, ..gone.file.clone() }, ..open.clone() };
        let plain = TableArgs { plain: true, exact: true };
        let text = opens(&Page { shown: vec![open, gone, slow], more: 0 }, plain);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("0000000700000001\t10.0.0.7\tboth\tnone\t0\theld\ttank\t/a"), "{text}");
        assert!(!text.contains('\u{1b}') && lines[1].ends_with("revoked (admin)\ttank\t(no name, object 7)"), "{text}");
        assert!(lines[2].ends_with("\theld\ttank\t(object 7)"), "{text}");
        let lock = LockReport {
            file,
            owner: owner(),
            lock_owner: "pid".into(),
            kind: "write".into(),
            first: Some(5),
            last: Some(u64::MAX),
            ..LockReport::default()
        };
        let waits = LockReport { waits: true, since_seconds: 7, ..lock.clone() };
        let text = locks(&Page { shown: vec![lock, waits], more: 0 }, plain);
        assert!(text.contains("\twrite\t5\tend\t0\theld\tpid\ttank\t"), "{text}");
        assert!(text.contains("\twrite\t5\tend\t7\twaits\tpid\ttank\t"), "{text}");
    }

    #[test]
    fn a_grace_says_who_is_waited_for_and_for_how_long() {
        let text = waits(&GraceReport { pool: "tank".into(), clients: 5, came: 2, seconds_left: 61 });
        assert!(text.starts_with("tank: 2 of 5 clients ") && text.contains(", 61 s at most"), "{text}");
    }
}
