//! Bitmaps, and `fattr4` (RFC 7530 §3.3.7, §5): which attributes, and then their values in the order of their numbers, as opaque data. XDR cannot say which
//! value is of what type, but each is of the type that is called like its number: `Fattr4Value` is gathered from those.

use crate::codec::Undecodable;
use crate::nfs4::{Bitmap4, Fattr4, Fattr4Value};

/// These numbers as a bitmap, without words that say nothing.
#[must_use]
pub fn bitmap(numbers: &[u32]) -> Bitmap4 {
    let mut words = Vec::new();
    for number in numbers {
        let at = (number / 32) as usize;
        words.resize(words.len().max(at + 1), 0);
        words[at] |= 1 << (number % 32);
    }
    words.into()
}

/// Numbers that are in a bitmap, rising.
#[must_use]
pub fn numbers(bitmap: &Bitmap4) -> Vec<u32> {
    let bits = bitmap.iter().zip(0..).flat_map(|(word, at)| (0..32).map(move |bit| (word >> bit & 1, at * 32 + bit)));
    bits.filter(|(bit, _)| *bit == 1).map(|(_, number)| number).collect()
}

impl Fattr4 {
    /// These attributes, each of which may be there once.
    #[must_use]
    pub fn of(values: &[Fattr4Value]) -> Self {
        let mut values: Vec<_> = values.iter().collect();
        values.sort_by_key(|value| value.on());
        let mut bytes = Vec::new();
        values.iter().for_each(|value| value.encode_arm(&mut bytes));
        let map: Vec<_> = values.iter().map(|value| value.on()).collect();
        Self { attrmask: bitmap(&map), attr_vals: bytes.into() }
    }

    /// The attributes that it has; nothing may be left over.
    pub fn values(&self) -> Result<Vec<Fattr4Value>, Undecodable> {
        let mut rest = &*self.attr_vals;
        let values = numbers(&self.attrmask).into_iter().map(|number| Fattr4Value::decode_arm(number, &mut rest));
        let values = values.collect::<Result<_, _>>()?;
        if rest.is_empty() { Ok(values) } else { Err(Undecodable::LeftOver(rest.len())) }
    }
}

impl Fattr4Value {
    /// What is told of it in a `fattr4`, without the bitmap.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encode_arm(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests;
