//! What stands in the catalog beside datasets: jobs, damage, commands and events.

use super::fact::{Fact, Part, Source};
use super::trees::class_word;
use super::{Detail, Report};
use crate::key::{Class, Key};
use crate::pool::{Command, Event, Line, job_of, join_of, line_of, schedule_of};

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
        Class::Job if let Some(join) = join_of(key, value) => join.map(|job| {
            fact.clone()
                .with("kind", "join")
                .with("leg", job.leg)
                .with_some("replaces", job.replaces)
                .with("began", job.began)
                .with("ran_ms", u64::try_from(job.ran.as_millis()).unwrap_or(u64::MAX))
                .with_some("settled", job.settled)
                .with("is_brought", job.is_brought)
                .with("copied_bytes", job.report.copied_bytes)
                .with("unreadable_bytes", job.report.unreadable_bytes)
                .with("checked_bytes", job.secured.checked_bytes)
                .with_some("cursor", job.cursor.map(|cursor| format!("{} {:?}", cursor.dataset, cursor.key)))
        }),
        Class::Job => job_of(key, value).map(|job| {
            let report = &job.report;
            fact.clone()
                .with("kind", "scrub")
                .with("state", format!("{:?}", job.state).to_lowercase())
                .with("began", job.began)
                .with("began_txg", job.began_txg)
                .with("changed", job.changed)
                .with("ran_ms", u64::try_from(job.ran.as_millis()).unwrap_or(u64::MAX))
                .with("total_bytes", job.total_bytes)
                .with("checked_bytes", report.checked_bytes)
                .with("repaired", report.repaired_count)
                .with("lost", report.lost_count)
                .with("given_up", report.given_up_count)
                .with_some("leaked_bytes", report.space.map(|space| space.leaked_bytes))
                .with_some("given_back_bytes", report.space.map(|space| space.given_bytes))
                .with_some("space_alarms", report.space.map(|space| space.alarm_count))
                .with_some("cursor", job.cursor.map(|cursor| format!("{} {:?}", cursor.dataset, cursor.key)))
        }),
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
