//! Numbers, opaque data and lists (RFC 4506 §4).

use std::fmt;
use std::ops::Deref;

use crate::dice::Dice;

/// Something that XDR describes.
pub trait Xdr: Sized + Clone + fmt::Debug + PartialEq {
    /// Appends it. Bounds are not looked at: a test may send what is too long.
    fn encode(&self, out: &mut Vec<u8>);

    /// Takes one off the front.
    fn decode(from: &mut &[u8]) -> Result<Self, Undecodable>;

    /// Any one that is within its bounds, with lists of a few.
    fn random(dice: &mut Dice) -> Self;
}

/// Why bytes are none of what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecodable {
    /// They end.
    Short,
    /// Something follows.
    LeftOver(usize),
    /// A length above its bound.
    TooLong(u32),
    /// Padding that is not zero.
    Padding,
    /// A number that this enumeration, or this union, does not have.
    Unknown(&'static str, u32),
}

/// Its bytes.
pub fn encode<T: Xdr>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
    out
}

/// What these bytes are, all of them.
pub fn decode<T: Xdr>(mut bytes: &[u8]) -> Result<T, Undecodable> {
    let value = T::decode(&mut bytes)?;
    if bytes.is_empty() { Ok(value) } else { Err(Undecodable::LeftOver(bytes.len())) }
}

fn take<'a>(from: &mut &'a [u8], count: usize) -> Result<&'a [u8], Undecodable> {
    let (taken, rest) = from.split_at_checked(count).ok_or(Undecodable::Short)?;
    *from = rest;
    Ok(taken)
}

fn take_padding(from: &mut &[u8], behind: usize) -> Result<(), Undecodable> {
    let padding = take(from, behind.next_multiple_of(4) - behind)?;
    if padding.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(Undecodable::Padding) }
}

fn pad(out: &mut Vec<u8>, behind: usize) {
    out.resize(out.len() + behind.next_multiple_of(4) - behind, 0);
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Xdr for $type {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend(self.to_be_bytes());
            }

            fn decode(from: &mut &[u8]) -> Result<Self, Undecodable> {
                let bytes = take(from, size_of::<Self>())?;
                Ok(Self::from_be_bytes(bytes.try_into().expect("as many were taken")))
            }

            /// Half of them are small, as counts are.
            fn random(dice: &mut Dice) -> Self {
                let bits = dice.throw();
                (if bits & 1 == 0 { bits >> 60 } else { bits }) as Self
            }
        }
    )*};
}

number!(u32, i32, u64, i64);

impl Xdr for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::from(*self).encode(out);
    }

    fn decode(from: &mut &[u8]) -> Result<Self, Undecodable> {
        match u32::decode(from)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Undecodable::Unknown("bool", other)),
        }
    }

    fn random(dice: &mut Dice) -> Self {
        dice.below(2) == 1
    }
}

/// Opaque data of a fixed length.
impl<const N: usize> Xdr for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
        pad(out, N);
    }

    fn decode(from: &mut &[u8]) -> Result<Self, Undecodable> {
        let bytes = take(from, N)?.try_into().expect("as many were taken");
        take_padding(from, N)?;
        Ok(bytes)
    }

    fn random(dice: &mut Dice) -> Self {
        std::array::from_fn(|_| dice.throw() as u8)
    }
}

/// Opaque data, or a string, of at most `MAX` bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Opaque<const MAX: u32>(pub Vec<u8>);

impl<const MAX: u32> Xdr for Opaque<MAX> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.0.len() as u32).encode(out);
        out.extend_from_slice(&self.0);
        pad(out, self.0.len());
    }

    fn decode(from: &mut &[u8]) -> Result<Self, Undecodable> {
        let length = bounded(from, MAX)?;
        let bytes = take(from, length)?.to_vec();
        take_padding(from, length)?;
        Ok(Self(bytes))
    }

    fn random(dice: &mut Dice) -> Self {
        let length = dice.below(10).min(MAX.into());
        Self((0..length).map(|_| dice.throw() as u8).collect())
    }
}

/// At most `MAX` of something.
#[derive(Clone, PartialEq, Eq)]
pub struct List<T, const MAX: u32>(pub Vec<T>);

impl<T: Xdr, const MAX: u32> Xdr for List<T, MAX> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.0.len() as u32).encode(out);
        self.0.iter().for_each(|one| one.encode(out));
    }

    fn decode(from: &mut &[u8]) -> Result<Self, Undecodable> {
        let count = bounded(from, MAX)?;
        // No room is made before the bytes are there: the count is not believed.
        (0..count).map(|_| T::decode(from)).collect::<Result<_, _>>().map(Self)
    }

    fn random(dice: &mut Dice) -> Self {
        let count = dice.below(3).min(MAX.into());
        Self((0..count).map(|_| T::random(dice)).collect())
    }
}

fn bounded(from: &mut &[u8], most: u32) -> Result<usize, Undecodable> {
    let length = u32::decode(from)?;
    if length > most { Err(Undecodable::TooLong(length)) } else { Ok(length as usize) }
}

/// One, or none; by this a list is linked, too.
impl<T: Xdr> Xdr for Option<Box<T>> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(one) = self {
            one.encode(out);
        }
    }

    fn decode(from: &mut &[u8]) -> Result<Self, Undecodable> {
        if bool::decode(from)? { T::decode(from).map(|one| Some(Box::new(one))) } else { Ok(None) }
    }

    fn random(dice: &mut Dice) -> Self {
        bool::random(dice).then(|| Box::new(T::random(dice)))
    }
}

impl<const MAX: u32> Deref for Opaque<MAX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const MAX: u32> fmt::Debug for Opaque<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl<const MAX: u32, B: AsRef<[u8]>> From<B> for Opaque<MAX> {
    fn from(bytes: B) -> Self {
        Self(bytes.as_ref().to_vec())
    }
}

impl<T, const MAX: u32> Deref for List<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: fmt::Debug, const MAX: u32> fmt::Debug for List<T, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T, const MAX: u32> From<Vec<T>> for List<T, MAX> {
    fn from(all: Vec<T>) -> Self {
        Self(all)
    }
}

#[cfg(test)]
mod tests;
