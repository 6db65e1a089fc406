//! `tally pool import --rewind`: shows what going back gives up, asks, and does it.

use std::path::Path;

use super::console::{Console, Failure, Session, ask, print_reply};
use super::pool::ImportArgs;
use crate::control::message::{Reply, Request};

/// Carries it out.
pub(super) fn run(
    session: Session<'_>,
    args: &ImportArgs,
    here: &Path,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let look = args.rewind_request(here, true).map_err(Failure::Usage)?;
    let shown = match ask(session, &look, console)? {
        Reply::Rewind(shown) => shown,
        _ => return Err(Failure::Mismatch),
    };
    if args.only_looks() {
        return print_reply(session.json, Reply::Rewind(shown), console, &|reply| match reply {
            Reply::Rewind(shown) => Some(shown.lines.join("\n") + "\n"),
            _ => None,
        });
    }
    for line in &shown.lines {
        writeln!(console.err, "{line}")?;
    }
    if !args.is_agreed() && !console.agrees("Give that up?")? {
        return Err(Failure::NotAgreed);
    }
    let mut order = look;
    if let Request::PoolRewind { to, from, look, .. } = &mut order {
        // What was shown, and nothing else.
        (*to, *from, *look) = (Some(shown.to), Some(shown.from), false);
    }
    let reply = ask(session, &order, console)?;
    print_reply(session.json, reply, console, &|_| None)
}
