//! Where the corpora come from: real bytes, cut out of real pools and real calls. `cargo xtask fuzz` begins with them.

mod calls;
mod compounds;
mod kernel;
mod locks;
mod pool;
mod trees;

/// An input: its target, what it is, and its bytes.
pub struct Seed {
    /// Name of the target.
    pub target: &'static str,
    /// What it is.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
    /// Whether the target believes it.
    pub is_believed: bool,
}

impl Seed {
    fn new(target: &'static str, name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { target, name: name.into(), bytes, is_believed: true }
    }

    /// Its bytes are of a sort that must be refused.
    fn refused(self) -> Self {
        Self { is_believed: false, ..self }
    }
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Seed> {
    let mut seeds = calls::seeds();
    seeds.extend(compounds::seeds());
    seeds.extend(locks::seeds());
    seeds.extend(kernel::seeds());
    seeds.extend(pool::seeds());
    seeds.extend(trees::seeds());
    seeds
}

/// A blob as inputs hold it.
fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u16::try_from(bytes.len()).expect("seeds are small").to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Without the zeroes at its end.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..length]
}
