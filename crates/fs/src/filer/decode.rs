//! Records of a long replay are decoded ahead of it, by a helper.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use parking_lot::Mutex;
use tally_base::Dseq;
use tally_base::codec::DecodeError;
use tally_disk::Within;
use tally_intent::recovery::RecoveredRecord;

use crate::record::{Record, newer};
use crate::replay::ReplayError;

/// Fewer records than this are not worth a helper.
const RECORDS_MIN: usize = 4 << 10;
/// Records that change hands at a time, and how many such batches may wait.
const BATCH: usize = 256;
const BATCHES_MAX: usize = 16;

/// A record's place, and what it says.
pub(super) type Decoded = (Dseq, Result<Record, ReplayError>);

/// The records in their order, decoded; beside the caller if there are many and somebody helps.
pub(super) fn decoded<'scope>(
    helpers: Within<'scope, '_>,
    records: Vec<RecoveredRecord>,
) -> Box<dyn Iterator<Item = Decoded> + 'scope> {
    // Each record's bytes are let go as soon as they are understood: a long log fills the memory.
    let decode = |record: RecoveredRecord| {
        let dseq = record.head.dseq;
        if let Some(what) = newer(&record.head) {
            return (dseq, Err(ReplayError::Newer { dseq, what }));
        }
        let decoded = Record::decode(record.head.shape.form, &record.body).map_err(|why| match why {
            DecodeError::Malformed(source) => ReplayError::Malformed { dseq, source },
            DecodeError::Newer(what) => ReplayError::Newer { dseq, what: what.into() },
        });
        (dseq, decoded)
    };
    let decoded = records.into_iter().map(decode);
    if decoded.len() < RECORDS_MIN {
        return Box::new(decoded);
    }
    // Whoever does it takes them: a helper, or the caller where there is none.
    let undone = Arc::new(Mutex::new(Some(decoded)));
    let for_helper = Arc::clone(&undone);
    let (sender, batches) = sync_channel::<Vec<Decoded>>(BATCHES_MAX);
    let begun = helpers.begin(move || {
        let Some(mut decoded) = for_helper.lock().take() else { return };
        while decoded.len() > 0 {
            // Whoever stops to listen has found a record that cannot be replayed.
            if sender.send(decoded.by_ref().take(BATCH).collect()).is_err() {
                return;
            }
        }
    });
    if begun.is_none() {
        return Box::new(undone.lock().take().into_iter().flatten());
    }
    Box::new(batches.into_iter().flatten())
}
