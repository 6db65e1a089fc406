//! Labels and uberblocks, slot by slot.

use tally_base::{Txg, VdevGuid};
use tally_disk::Disk;
use tally_members::choose::{Candidate, choose};
use tally_members::label::{
    self, FORMAT_VERSION, FailMode, HangLimit, Label, PoolConfig, PoolState, Supplement, Unreadable, VdevClass,
    VdevKind,
};
use tally_members::uberblock::{self, Uberblock};

use super::devices::Device;
use super::fact::{Fact, Part, Source, Value};
use super::view::PoolView;
use super::{Detail, Report};
use crate::pool::RootArea;

/// The pool in one line, and what must be said before everything else.
pub(super) fn say_pool(report: &mut Report<'_>, view: &PoolView<'_>) {
    let Some((source, config)) = &view.config else {
        let fact = Fact::new(Part::Pool, "pool").with("pool", view.pool).damaged(
            "no label of it is valid; its devices, in order of path, are taken for the data vdevs, and its log cannot \
             be found",
        );
        return report.say(Detail::Summary, &fact);
    };
    let fact = Fact::new(Part::Pool, "pool")
        .at(source.clone())
        .with("name", config.name.as_str())
        .with("pool", config.pool)
        .with("version", FORMAT_VERSION)
        .with("state", state_word(config.state))
        .with("host", config.host.name.as_str())
        .with("created", config.created)
        .with("sequence", config.sequence)
        .with("open_gen", config.open_gen)
        .with("synced_txg", config.synced_txg);
    report.say(Detail::Summary, &fact);
    say_supplement(report, source, &config.supplement);
    say_features(report, source, config);
    if config.state == PoolState::Active {
        let fact = Fact::new(Part::Pool, "pool").at(source.clone()).note(format!(
            "not exported: in use by {}, or that machine crashed; if it is in use now, this picture may be torn",
            config.host.name
        ));
        report.say(Detail::Summary, &fact);
    }
    for (vdev, leg) in view.missing_legs() {
        let fact = Fact::new(Part::Pool, "leg").with("leg", leg.guid).with("vdev", vdev.index);
        let fact = fact.with_all(vec![("path", text(&leg.path))]).note("no device that was given is this leg");
        report.say(Detail::Summary, &fact);
    }
}

/// A device of no pool that can be read: one of another format says so, and of others only one that was named is told of.
pub(super) fn say_stranger(report: &mut Report<'_>, device: &Device) {
    let fact = Fact::new(Part::Pool, "device").at(device.at(0)).with("bytes", device.disk.geometry().size);
    let nothing = "no valid label and no valid uberblock: not a leg of any pool, or every copy is damaged";
    match label::read(device.disk.as_ref()) {
        Ok(_) => {}
        Err(Unreadable::Damaged) => {
            report.say(Detail::Summary, &fact.damaged("its labels are damaged, and it has no valid uberblock"));
        }
        Err(Unreadable::NoLabel | Unreadable::Io(_)) if device.is_named => {
            report.say(Detail::Summary, &fact.damaged(nothing));
        }
        Err(Unreadable::NoLabel | Unreadable::Io(_)) => {}
        Err(other) => report.say(Detail::Summary, &fact.note(other.to_string())),
    }
}

/// Settings and accepted losses, where there are any.
fn say_supplement(report: &mut Report<'_>, source: &Source, supplement: &Supplement) {
    if supplement.failmode != FailMode::default() {
        let fact = Fact::new(Part::Pool, "pool").at(source.clone()).with("failmode", supplement.failmode.word());
        report.say(Detail::Summary, &fact);
    }
    for loss in &supplement.losses {
        let fact = Fact::new(Part::Pool, "accepted loss").at(source.clone()).with("time", loss.time);
        report.say(Detail::Summary, &fact.with("txg", loss.txg).note(loss.lines.join("; ")));
    }
}

/// What somebody has allowed beyond the format, and what is in use of it.
fn say_features(report: &mut Report<'_>, source: &Source, config: &PoolConfig) {
    let notes = &config.feature_notes;
    if config.hang_limit != HangLimit::default() {
        let fact = Fact::new(Part::Pool, "pool").at(source.clone());
        report.say(Detail::Summary, &fact.with("hang_limit", config.hang_limit.to_string()));
    }
    if !notes.compatibility.is_empty() {
        let limit = notes.compatibility.as_str();
        report.say(Detail::Summary, &Fact::new(Part::Pool, "pool").at(source.clone()).with("compatibility", limit));
    }
    for (line, is_active) in config.features_unknown(&[]) {
        let fact = Fact::new(Part::Pool, "feature").at(source.clone()).with("set", line.set.word());
        let fact = fact.with("bit", usize::from(line.bit)).with("name", line.name).with("since", line.since);
        report.say(Detail::Summary, &fact.with("state", if is_active { "active" } else { "enabled" }));
    }
}

fn text(path: &std::path::Path) -> Value {
    Value::Text(path.to_string_lossy().into_owned())
}

fn state_word(state: PoolState) -> &'static str {
    match state {
        PoolState::Active => "active",
        PoolState::Exported => "exported",
        PoolState::Destroyed => "destroyed",
    }
}

/// Every leg, and every slot of its labels.
pub(super) fn say_labels(report: &mut Report<'_>, view: &PoolView<'_>) {
    for device in &view.devices {
        say_leg(report, view, device);
        for slot in &device.slots {
            let fact = Fact::new(Part::Labels, "label slot").at(device.at(slot.offset));
            let fact = fact.with("label", slot.label).with("slot", slot.slot);
            match &slot.content {
                Ok(Some(label)) => report.say(Detail::Lines, &slot_fields(fact, label)),
                Ok(None) => report.say(Detail::Verbose, &fact.note("never written")),
                Err(why) => report.say(Detail::Summary, &fact.damaged(why)),
            }
        }
    }
    if let Some((_, config)) = &view.config {
        say_config(report, view, config);
    }
}

fn say_leg(report: &mut Report<'_>, view: &PoolView<'_>, device: &Device) {
    let count = |wanted: fn(&Result<Option<Label>, String>) -> bool| {
        device.slots.iter().filter(|slot| wanted(&slot.content)).count()
    };
    let fact = Fact::new(Part::Labels, "leg").at(device.at(0)).with("bytes", device.disk.geometry().size);
    let of_config = view.vdevs.iter().find_map(|(config, vdev)| {
        let leg = vdev.legs.iter().find(|leg| leg.path == device.path)?;
        Some((config, leg))
    });
    let fact = match of_config {
        Some((config, leg)) => fact
            .with("leg", leg.guid)
            .with("vdev", config.index)
            .with("class", class_word(config.class))
            .with("stale", leg.is_stale),
        None => fact,
    };
    let fact = fact
        .with_some("sequence", device.label().map(|(_, label)| label.config.sequence))
        .with_some("open_gen", device.label().map(|(_, label)| label.config.open_gen))
        .with("slots_valid", count(|content| matches!(content, Ok(Some(_)))))
        .with("slots_blank", count(|content| matches!(content, Ok(None))));
    report.say(Detail::Summary, &fact);
    if let Some(spare) = device.label().map(|(_, label)| label).filter(|label| label.is_spare()) {
        let fact = Fact::new(Part::Labels, "leg").at(device.at(0)).with("spare", spare.leg);
        report.say(Detail::Summary, &fact.note("it waits as a spare, and has nothing of the pool"));
    } else if view.config.is_some() && of_config.is_none() {
        let why =
            "the newest configuration has no place for this device: another copy of a leg, or one that was detached";
        report.say(Detail::Summary, &Fact::new(Part::Labels, "leg").at(device.at(0)).note(why));
    }
}

fn slot_fields(fact: Fact, label: &Label) -> Fact {
    let config = &label.config;
    fact.with("pool", config.pool)
        .with("leg", label.leg)
        .with("version", FORMAT_VERSION)
        .with("sequence", config.sequence)
        .with("open_gen", config.open_gen)
        .with("open_id", Value::Hex(config.open_id))
        .with("synced_txg", config.synced_txg)
        .with("state", state_word(config.state))
        .with("compat", config.features.compat)
        .with("ro_compat", config.features.ro_compat)
        .with("incompat", config.features.incompat)
}

/// What the newest configuration says of vdevs and lanes.
fn say_config(report: &mut Report<'_>, view: &PoolView<'_>, config: &PoolConfig) {
    let source = view.config.as_ref().map(|(source, _)| source.clone());
    for vdev in &config.vdevs {
        let fact = Fact::new(Part::Labels, "vdev")
            .at(source.clone())
            .with("vdev", vdev.index)
            .with("guid", vdev.guid)
            .with("class", class_word(vdev.class))
            .with("kind", if vdev.kind == VdevKind::Mirror { "mirror" } else { "disk" })
            .with("data_bytes", vdev.data_bytes)
            .with_some("ring_start", vdev.ring.map(|ring| ring.start))
            .with_some("ring_bytes", vdev.ring.map(|ring| ring.length))
            .with("removed", vdev.removed);
        report.say(Detail::Lines, &fact);
        for leg in &vdev.legs {
            let fact = Fact::new(Part::Labels, "vdev leg").at(source.clone()).with("vdev", vdev.index);
            let fact = fact.with("leg", leg.guid).with("path", text(&leg.path)).with("slot", leg.slot);
            let fact = fact.with("bytes", leg.size).with("joined_txg", leg.joined_txg);
            let fact = fact.with_some("stale_since", leg.stale_since);
            report.say(Detail::Lines, &fact.with_some("offline", leg.is_offline.then_some(true)));
            for missed in leg.missed.ranges() {
                let fact = Fact::new(Part::Labels, "missed groups").at(source.clone()).with("leg", leg.guid);
                report.say(Detail::Lines, &fact.with("from", missed.from).with("to", missed.to));
            }
        }
    }
    for spare in &config.spares {
        let fact = Fact::new(Part::Labels, "spare").at(source.clone()).with("spare", spare.guid);
        let fact = fact.with("path", text(&spare.path)).with("bytes", spare.size);
        let fact = fact.with("in_use", config.leg(spare.guid).is_some());
        report.say(Detail::Lines, &fact.with_some("stands_for", spare.stands_for));
    }
    for rewind in &config.rewinds {
        let fact = Fact::new(Part::Labels, "rewind").at(source.clone()).with("time", rewind.time);
        let fact = fact.with("kept_txg", rewind.kept).with("kept_gen", rewind.kept_gen);
        let fact = fact.with("dropped_txg", rewind.dropped).with("open_gen", rewind.open_gen);
        report.say(Detail::Summary, &fact.with("depth", rewind.depth));
    }
    for section in &config.carried {
        let fact = Fact::new(Part::Labels, "section").at(source.clone()).with("section", section.id);
        let fact = fact.with("bytes", section.bytes.len());
        let why = if section.must_be_known {
            "not known to this program, which may therefore only read the pool"
        } else {
            "not known to this program, which carries it along"
        };
        report.say(Detail::Lines, &fact.note(why));
    }
    for line in &config.lanes {
        let fact = Fact::new(Part::Labels, "lane")
            .at(source.clone())
            .with("lane", line.lane)
            .with("vdev", line.vdev)
            .with("bytes", line.size)
            .with("frame_bytes_max", line.frame_bytes_max)
            .with("frames_in_flight_max", line.frames_in_flight_max)
            .with("legset_gen", line.legset_gen)
            .with("legs", line.legset.len())
            .with("left", line.left.len())
            .with("legset", listed(line.legset.iter().map(VdevGuid::to_string)));
        // Who has left a lane knows its leg set up to this generation.
        let left = listed(line.left.iter().map(|(guid, last)| format!("{guid}:{last}")));
        report.say(Detail::Lines, &fact.with_some("left_with", Some(left).filter(|left| !left.is_empty())));
    }
}

fn listed(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(" ")
}

fn class_word(class: VdevClass) -> &'static str {
    match class {
        VdevClass::Data => "data",
        VdevClass::Log => "log",
    }
}

/// Every uberblock slot, and which one an import would take.
pub(super) fn say_uberblocks(report: &mut Report<'_>, view: &PoolView<'_>) {
    for device in &view.devices {
        let (mut valid, mut blank) = (0usize, 0usize);
        for slot in &device.uberblocks {
            let fact = Fact::new(Part::Uberblocks, "uberblock").at(device.at(slot.offset)).with("label", slot.label);
            match &slot.content {
                Ok(Some(found)) => {
                    valid += 1;
                    report.say(Detail::Lines, &uberblock_fields(fact, found));
                    say_checkpoints(report, device, slot.offset, found);
                    if found.pool != view.pool {
                        let fact = Fact::new(Part::Uberblocks, "uberblock").at(device.at(slot.offset));
                        report.say(Detail::Lines, &fact.note("of another pool"));
                    }
                }
                Ok(None) => blank += 1,
                Err(why) => report.say(Detail::Summary, &fact.damaged(why)),
            }
        }
        let newest = device.uberblocks().map(|(_, found)| found.txg).max();
        let fact = Fact::new(Part::Uberblocks, "uberblocks").at(device.at(tally_members::label::UBERBLOCK_RING_OFFSET));
        let fact = fact.with("valid", valid).with("blank", blank).with_some("newest_txg", newest);
        report.say(Detail::Summary, &fact);
    }
    say_choice(report, view);
}

fn say_choice(report: &mut Report<'_>, view: &PoolView<'_>) {
    let candidates: Vec<_> = view
        .devices
        .iter()
        .map(|device| Candidate {
            leg: device.label().map_or(VdevGuid(0), |(_, label)| label.leg),
            stale: view
                .vdevs
                .iter()
                .any(|(_, vdev)| vdev.legs.iter().any(|leg| leg.path == device.path && leg.is_stale)),
            uberblocks: device.uberblocks().map(|(_, found)| found.clone()).collect(),
        })
        .collect();
    let label_txg = view.devices.iter().flat_map(|device| device.labels()).map(|(_, label)| label.config.synced_txg);
    let source = view.uberblocks.first().map(|(source, _)| source.clone());
    let rewinds = view.config.as_ref().map_or(&[][..], |(_, config)| &config.rewinds);
    match choose(view.pool, &candidates, label_txg.max().unwrap_or(Txg(0)), rewinds) {
        Ok(chosen) => {
            let fact = Fact::new(Part::Uberblocks, "newest uberblock").at(source);
            report.say(Detail::Summary, &uberblock_fields(fact, &chosen.uberblock));
        }
        Err(why) => {
            report.say(Detail::Summary, &Fact::new(Part::Uberblocks, "newest uberblock").at(source).damaged(why));
        }
    }
}

fn uberblock_fields(fact: Fact, found: &Uberblock) -> Fact {
    fact.with("txg", found.txg)
        .with("open_gen", found.open_gen)
        .with("time", found.time)
        .with("time_lease", found.time_lease)
        .with("clean", found.clean)
        .with("config_sequence", found.config_sequence)
        .with("lanes", found.lanes.len())
        .with_some("rewind_depth", RootArea::decode(&found.root).ok().map(|area| area.depth))
        .with("hash", Value::Hex(found.hash()))
        .with("previous", Value::Hex(found.previous))
}

fn say_checkpoints(report: &mut Report<'_>, device: &Device, offset: u64, found: &Uberblock) {
    for (lane, checkpoint) in &found.lanes {
        let fact = Fact::new(Part::Uberblocks, "checkpoint").at(device.at(offset)).with("lane", *lane);
        report.say(Detail::Verbose, &checkpoint_fields(fact, checkpoint));
    }
}

/// A lane's line in an uberblock.
pub(super) fn checkpoint_fields(fact: Fact, checkpoint: &tally_intent::Checkpoint) -> Fact {
    fact.with("epoch", format!("{:032x}", checkpoint.epoch))
        .with("tail_pos", checkpoint.tail_pos)
        .with("tail_seq", checkpoint.tail_seq)
        .with("next_lsn", checkpoint.next_lsn)
        .with("durable_lsn", checkpoint.durable_lsn)
}

/// Looks at the uberblocks once more: a pool that has moved on was looked at while it was in use.
pub(super) fn say_movement(report: &mut Report<'_>, view: &PoolView<'_>) {
    let newest_now = |disk: &dyn Disk| {
        let slots = uberblock::read_all(disk).into_iter();
        slots.filter_map(|slot| slot.content.ok().flatten()).map(|found| found.rank()).max()
    };
    for device in &view.devices {
        let before = device.uberblocks().map(|(_, found)| found.rank()).max();
        if newest_now(device.disk.as_ref()) != before {
            let fact = Fact::new(Part::Pool, "pool").at(device.at(tally_members::label::UBERBLOCK_RING_OFFSET));
            let why =
                "it was written while it was looked at: this picture is torn, and what looks like damage may be none";
            return report.say(Detail::Summary, &fact.note(why));
        }
    }
}
