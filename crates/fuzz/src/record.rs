//! A log record.

use bytes::Bytes;
use tally_base::{DatasetId, Dseq, Txg};
use tally_fs::inspect::FsWords;
use tally_fs::record::Record;
use tally_intent::{RecordHead, RecordShape};
use tally_store::inspect::Words;

use crate::heap;
use crate::input::Input;

/// A record has lists of parts, and each part of it has words.
const HEAP_BYTES: usize = 256 << 10;
const HEAP_FACTOR: usize = 256;

/// Kinds below this, and the form above.
const KINDS: u8 = 32;

/// A kind, a form and a body.
pub(crate) fn body(data: &[u8]) -> bool {
    heap::at_most(HEAP_BYTES + HEAP_FACTOR * data.len(), || {
        let mut input = Input::new(data);
        let name = input.u8();
        let shape = RecordShape { form: name / KINDS, flags: 0 };
        let kind = u16::from(name % KINDS);
        let head = RecordHead { dataset: DatasetId(1), dseq: Dseq(1), txg: Txg(1), kind, shape };
        let body = Bytes::copy_from_slice(input.rest());
        let Ok(record) = Record::decode(shape.form, &body) else {
            assert!(FsWords.record(&head, &body).is_err(), "what cannot be replayed has no words");
            return false;
        };
        let mut again = record.encode_head();
        record.data_parts().for_each(|part| again.extend_from_slice(part));
        assert_eq!(Record::decode(shape.form, &again.into()).as_ref(), Ok(&record), "what was written reads the same");
        if let Ok(words) = FsWords.record(&head, &body) {
            for (_, value) in words.fields.iter().chain(words.parts.iter().flat_map(|(_, fields)| fields)) {
                let _ = value.to_string();
            }
        }
        true
    })
}
