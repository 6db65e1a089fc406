//! The body of a log record.

use bytes::Bytes;
use tally_fs::inspect::FsWords;
use tally_fs::record::Record;
use tally_store::inspect::Words;

use crate::heap;
use crate::input::Input;

/// A record has lists of parts, and each part of it has words.
const HEAP_BYTES: usize = 256 << 10;
const HEAP_FACTOR: usize = 256;

/// A kind and a body.
pub(crate) fn body(data: &[u8]) -> bool {
    heap::at_most(HEAP_BYTES + HEAP_FACTOR * data.len(), || {
        let mut input = Input::new(data);
        let kind = u16::from(input.u8());
        let body = Bytes::copy_from_slice(input.rest());
        let Ok(record) = Record::decode(&body) else {
            assert!(FsWords.record(kind, &body).is_err(), "what cannot be replayed has no words");
            return false;
        };
        let mut again = record.encode_head();
        record.data_parts().for_each(|part| again.extend_from_slice(part));
        assert_eq!(Record::decode(&again.into()).as_ref(), Ok(&record), "what was written reads the same");
        if let Ok(words) = FsWords.record(kind, &body) {
            for (_, value) in words.fields.iter().chain(words.parts.iter().flat_map(|(_, fields)| fields)) {
                let _ = value.to_string();
            }
        }
        true
    })
}
