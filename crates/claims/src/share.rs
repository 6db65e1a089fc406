//! What an open may do, and what it denies to others (table D7; RFC 8881 §9.7, §18.18; rules V32).
//!
//! | row | asked | then |
//! |---|---|---|
//! | a | to open what nobody else has open | granted |
//! | b | to open for what another denies | refused |
//! | c | to deny what another has opened for | refused |
//! | d | to open beside opens that neither deny nor are denied it | granted |
//! | e | to open once more, by the holder himself | his own open is not in his way; what he has is the union |
//! | f | to downgrade to the union of some pairs that were opened | these stay, the others are forgotten |
//! | g | to downgrade to anything else, be it less than he has | refused, nothing is changed |
//! | h | to read or write, what another's open denies | refused |
//! | i | to read or write, what only his own open denies | granted |
//! | j | to read or write, by nobody's open | refused by any open that denies it |
//!
//! Why pairs and not the union alone: who opened (READ, deny WRITE) and then (WRITE, deny NONE) may close the second and keep the first. From the union (BOTH, deny WRITE) alone
//! (READ, deny NONE) would look as good, and a deny would be lost on which somebody relies. There are twelve pairs, so a set of them fits into 16 bits, however often each was opened.

/// What an open may do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access(u8);

impl Access {
    /// To read.
    pub const READ: Self = Self(1);
    /// To write.
    pub const WRITE: Self = Self(2);
    /// To do both.
    pub const BOTH: Self = Self(3);

    /// From READ = 1 and WRITE = 2, as protocols say it. An open that may do nothing is none.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            1..=3 => Some(Self(bits as u8)),
            _ => None,
        }
    }

    /// READ = 1 and WRITE = 2.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Whether it may do all of that.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What an open keeps others from doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deny(u8);

impl Deny {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// To read.
    pub const READ: Self = Self(1);
    /// To write.
    pub const WRITE: Self = Self(2);
    /// To do either.
    pub const BOTH: Self = Self(3);

    /// From READ = 1 and WRITE = 2, as protocols say it.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0..=3 => Some(Self(bits as u8)),
            _ => None,
        }
    }

    /// READ = 1 and WRITE = 2.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }
}

/// A share reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    /// What the open may do.
    pub access: Access,
    /// What others may not.
    pub deny: Deny,
}

impl Share {
    /// Opens for that and denies nothing, as most do. Reading and writing asks for no more.
    #[must_use]
    pub const fn only(access: Access) -> Self {
        Self { access, deny: Deny::NONE }
    }

    /// All that either opens for, and all that either denies.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { access: Access(self.access.0 | other.access.0), deny: Deny(self.deny.0 | other.deny.0) }
    }

    /// Whether two holders cannot have both (rows b, c and h).
    #[must_use]
    pub const fn conflicts_with(self, other: Self) -> bool {
        self.access.0 & other.deny.0 | self.deny.0 & other.access.0 != 0
    }
}

/// Which pairs of access and deny a holder has opened an object with and not given up: a bit for each, never none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened(u16);

/// Pairs whose access, or whose deny, has READ or WRITE in it.
const ACCESS_READ: u16 = 0xF0F0;
const ACCESS_WRITE: u16 = 0xFF00;
const DENY_READ: u16 = 0xAAAA;
const DENY_WRITE: u16 = 0xCCCC;

impl Opened {
    pub(crate) const fn new(share: Share) -> Self {
        Self(1 << (share.access.0 << 2 | share.deny.0))
    }

    /// With one that is opened besides (row e).
    pub(crate) const fn and(self, share: Share) -> Self {
        Self(self.0 | Self::new(share).0)
    }

    /// The union of all.
    pub(crate) const fn share(self) -> Share {
        Share {
            access: Access(self.any(ACCESS_READ) | self.any(ACCESS_WRITE) << 1),
            deny: Deny(self.any(DENY_READ) | self.any(DENY_WRITE) << 1),
        }
    }

    /// What is left when all is given up that goes beyond this (row f); nothing where that is no union of what was opened (row g).
    pub(crate) fn downgraded(self, to: Share) -> Option<Self> {
        let left = Self(self.0 & !beyond(to));
        // Of none the union is no access, which is no share.
        (left.0 != 0 && left.share() == to).then_some(left)
    }

    const fn any(self, of: u16) -> u8 {
        (self.0 & of != 0) as u8
    }
}

/// How many opens of an object have each bit: READ and WRITE of their access, then of what they deny.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts([u16; 4]);

impl Counts {
    pub(crate) fn add(&mut self, share: Share) {
        self.0.iter_mut().zip(bits(share)).for_each(|(count, bit)| *count += bit);
    }

    pub(crate) fn remove(&mut self, share: Share) {
        self.0.iter_mut().zip(bits(share)).for_each(|(count, bit)| *count -= bit);
    }

    /// Of all but that one.
    pub(crate) fn without(mut self, own: Option<Share>) -> Self {
        own.into_iter().for_each(|own| self.remove(own));
        self
    }

    /// Whether one of them cannot be beside this (rows b, c and h).
    pub(crate) fn conflict_with(self, share: Share) -> bool {
        let [reads, writes, no_reads, no_writes] = self.0.map(|count| count > 0);
        let [may_read, may_write, denies_reads, denies_writes] = bits(share).map(|bit| bit > 0);
        no_reads && may_read || no_writes && may_write || reads && denies_reads || writes && denies_writes
    }
}

fn bits(share: Share) -> [u16; 4] {
    [share.access.0 & 1, share.access.0 >> 1, share.deny.0 & 1, share.deny.0 >> 1].map(u16::from)
}

/// Pairs with something in them that this share has not.
fn beyond(share: Share) -> u16 {
    let unless = |has: u8, pairs: u16| if has == 0 { pairs } else { 0 };
    unless(share.access.0 & 1, ACCESS_READ)
        | unless(share.access.0 & 2, ACCESS_WRITE)
        | unless(share.deny.0 & 1, DENY_READ)
        | unless(share.deny.0 & 2, DENY_WRITE)
}

#[cfg(test)]
mod tests;
