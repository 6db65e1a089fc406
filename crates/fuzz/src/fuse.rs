//! What a kernel may send, or whoever holds a descriptor that is taken for one: messages, each a blob of the input.

use tally_fuse::wire::{self, Op};

use crate::heap;
use crate::input::Input;

/// A message is read where it lies.
const HEAP_BYTES: usize = 64 << 10;
/// It is copied once, for its length to be set right.
const HEAP_FACTOR: usize = 4;

/// Whether one of them was taken for something that is asked. The first byte says whether lengths are left as they are: else each head has its own, as every other one is refused.
pub(crate) fn messages(data: &[u8]) -> bool {
    heap::at_most(HEAP_BYTES + HEAP_FACTOR * data.len(), || {
        let mut input = Input::new(data);
        let is_left = input.u8() & 1 == 1;
        let mut is_believed = false;
        while !input.is_empty() {
            let mut message = input.blob().to_vec();
            let length = (message.len() as u32).to_ne_bytes();
            if let Some(place) = message.get_mut(..4).filter(|_| !is_left) {
                place.copy_from_slice(&length);
            }
            is_believed |= is_believed_one(&message);
        }
        is_believed
    })
}

fn is_believed_one(message: &[u8]) -> bool {
    let Ok(request) = wire::decode(message) else { return false };
    assert_eq!(wire::header(message), Ok(request.header), "whose it is does not go by what it asks");
    let (names, data) = parts(&request.op);
    assert!(names.iter().flatten().all(|name| !name.contains(&0)), "a name ends with its NUL: {request:?}");
    let bytes = |part: &Option<&[u8]>| part.map_or(0, <[u8]>::len);
    let all: usize = names.iter().chain([&data]).map(bytes).sum();
    assert!(all + HEAD_BYTES <= message.len(), "it asks with more than there is: {request:?}");
    !matches!(request.op, Op::Unknown { .. })
}

/// What every message begins with.
const HEAD_BYTES: usize = 40;

/// Its names, and its data.
fn parts<'a>(op: &Op<'a>) -> ([Option<&'a [u8]>; 2], Option<&'a [u8]>) {
    match *op {
        Op::Lookup { name }
        | Op::MkNod { name, .. }
        | Op::MkDir { name, .. }
        | Op::Unlink { name }
        | Op::RmDir { name }
        | Op::Link { name, .. }
        | Op::Create { name, .. }
        | Op::GetXattr { name, .. }
        | Op::RemoveXattr { name } => ([Some(name), None], None),
        Op::Symlink { name, target } => ([Some(name), Some(target)], None),
        Op::Rename { name, new_name, .. } => ([Some(name), Some(new_name)], None),
        Op::SetXattr { name, value, .. } => ([Some(name), None], Some(value)),
        Op::Write { data, .. } => ([None; 2], Some(data)),
        _ => ([None; 2], None),
    }
}
