//! What stands in the catalog beside datasets: jobs, damage, commands and events.

use super::fact::{Fact, Part, Source};
use super::trees::class_word;
use super::{Detail, Report};
use crate::key::{Class, Key};
use crate::marks;
use crate::pool::{Command, Event, JoinJob, Line, ScrubJob, SecureReport, job_of, join_of, line_of, schedule_of};

/// A command that changed the pool, or an event.
pub(super) fn say_told(report: &mut Report<'_>, source: Option<Source>, key: &Key, value: &[u8]) {
    let fact = Fact::new(Part::Trees, class_word(key.class)).at(source);
    let fact = match key.class {
        Class::Event => Event::decode(key, value).map(|event| {
            let fact = fact.clone().with("number", key.object).with("time", event.time);
            fact.with("class", event.class).with("text", event.text)
        }),
        _ => Command::decode(key, value).map(|command| {
            let fact = fact.clone().with("number", key.object).with("time", command.time);
            fact.with("user", command.user).with("host", command.host).with("words", command.words)
        }),
    }
    .map_err(|why| fact.with("key", format!("{key:?}")).damaged(why));
    match fact {
        Ok(fact) => report.say(Detail::Verbose, &fact),
        Err(fact) => report.say(Detail::Summary, &fact),
    }
}

/// What the pool remembers beside its datasets. A form that is not known is no damage: another program has written it.
pub(super) fn say_kept(report: &mut Report<'_>, source: Option<Source>, key: &Key, value: &[u8]) {
    let fact = Fact::new(Part::Trees, class_word(key.class)).at(source);
    let said = match key.class {
        Class::Job if let Some(every) = schedule_of(key, value) => {
            Ok(fact.clone().with("kind", "schedule").with("scrub", every.word()))
        }
        Class::Job if let Some(join) = join_of(key, value) => join.map(|job| join_fields(fact.clone(), &job)),
        Class::Job => job_of(key, value).map(|job| scrub_fields(fact.clone(), &job)),
        _ => line_of(key, value).map(|line| match line {
            Line::Beyond(count) => fact.clone().with("dataset", key.object).with("not_listed", count),
            Line::Place(object, spot, met) => fact
                .clone()
                .with("dataset", key.object)
                .with("object", object)
                .with("spot", format!("{spot:?}"))
                .with("first_txg", met.first)
                .with("last_txg", met.last)
                .with("by_read", met.by_read)
                .with("by_scrub", met.by_scrub)
                .with_some("block", met.block.map(|block| format!("{} written {}", block.dva, block.written))),
        }),
    };
    let fact = said.unwrap_or_else(|_| {
        fact.with("key", format!("{key:?}")).with("bytes", value.len()).note("in a form that is not known here")
    });
    report.say(Detail::Lines, &fact);
}

fn join_fields(fact: Fact, job: &JoinJob) -> Fact {
    let unread = job.report.unread.first().map(|range| format!("{}..{}", range.start, range.end));
    let fact = fact
        .with("kind", "join")
        .with("leg", job.leg)
        .with_some("replaces", job.replaces)
        .with("returns", job.returns)
        .with("began", job.began)
        .with("ran_ms", u64::try_from(job.ran.as_millis()).unwrap_or(u64::MAX))
        .with_some("settled", job.settled)
        .with("is_brought", job.is_brought)
        .with("is_copied", job.is_copied)
        .with("copied_bytes", job.report.copied_bytes)
        .with("unreadable_bytes", job.report.unreadable_bytes)
        .with_some("unreadable_first", unread);
    let fact = secured_fields(fact, &job.secured).with("hides", job.secured.hides);
    fact.with_some("cursor", job.cursor.map(|cursor| format!("{} {:?}", cursor.dataset, cursor.key)))
}

fn scrub_fields(fact: Fact, job: &ScrubJob) -> Fact {
    let space = job.report.space;
    let fact = fact
        .with("kind", "scrub")
        .with("state", format!("{:?}", job.state).to_lowercase())
        .with("began", job.began)
        .with("began_txg", job.began_txg)
        .with("changed", job.changed)
        .with("ran_ms", u64::try_from(job.ran.as_millis()).unwrap_or(u64::MAX))
        .with("total_bytes", job.total_bytes);
    secured_fields(fact, &job.report)
        .with("in_parts", job.in_parts)
        .with("has_gaps", job.has_gaps)
        .with_some("leaked_bytes", space.map(|space| space.leaked_bytes))
        .with_some("leaks_hidden", space.map(|space| space.hidden))
        .with_some("given_back_bytes", space.map(|space| space.given_bytes))
        .with_some("space_alarms", space.map(|space| space.alarm_count))
        .with_some("cursor", job.cursor.map(|cursor| format!("{} {:?}", cursor.dataset, cursor.key)))
}

/// What came of a walk so far, block by block.
fn secured_fields(fact: Fact, report: &SecureReport) -> Fact {
    fact.with("checked_bytes", report.checked_bytes)
        .with("repaired", report.repaired_count)
        .with("repaired_bytes", report.repaired_bytes)
        .with("lost", report.lost_count)
        .with("unread", report.unread_count)
        .with("given_up", report.given_up_count)
}

/// What a request of a session has changed ([`crate::marks`]).
pub(super) fn say_mark(report: &mut Report<'_>, source: Option<Source>, key: &Key, value: &[u8]) {
    let fact = Fact::new(Part::Trees, class_word(key.class)).at(source);
    let fact = match marks::said(key, value) {
        Ok((place, dataset, txg)) => fact
            .with("session", hex(&place.session))
            .with("slot", place.slot)
            .with("sequence", place.sequence)
            .with("operation", place.operation)
            .with("dataset", dataset)
            .with("txg", txg),
        Err(why) => fact.with("key", format!("{key:?}")).damaged(why),
    };
    report.say(Detail::Lines, &fact);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
