//! What must hold of every type.

use crate::codec::{Xdr, decode, encode};
use crate::dice::Dice;

/// A type that the RFCs define, and what can be asked of it without knowing which one it is.
pub struct Kind {
    /// The RFC's name.
    pub name: &'static str,
    /// Draws a value, which must come back from its bytes, as must these from it; gives them.
    pub round_trip: fn(&mut Dice) -> Vec<u8>,
    /// If bytes begin with a value, it must encode to those that were taken. How many these are.
    pub again: fn(&[u8]) -> Option<usize>,
}

impl Kind {
    pub(crate) const fn of<T: Xdr>(name: &'static str) -> Self {
        Self { name, round_trip: round_trip::<T>, again: again::<T> }
    }
}

fn round_trip<T: Xdr>(dice: &mut Dice) -> Vec<u8> {
    let value = T::random(dice);
    let bytes = encode(&value);
    let found: T = decode(&bytes).unwrap_or_else(|error| panic!("{error:?} in {value:?}"));
    assert_eq!(found, value);
    assert_eq!(encode(&found), bytes, "{value:?}");
    bytes
}

fn again<T: Xdr>(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    let value = T::decode(&mut rest).ok()?;
    let taken = bytes.len() - rest.len();
    assert_eq!(encode(&value), bytes[..taken], "{value:?}");
    Some(taken)
}
