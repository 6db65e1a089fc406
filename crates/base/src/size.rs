//! Byte counts as people write and read them, in the form that `zfs` and `zpool` made familiar: powers of
//! 1024, one letter, at most five characters (`512B`, `1.50K`, `128K`, `10G`).

use std::fmt;

const UNITS: &[u8] = b"BKMGTPE";

/// A byte count that prints in at most five characters, rounded: for tables, never for arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` keeps widths and alignment that a table asks for.
        f.pad(&text(self.0))
    }
}

fn text(bytes: u64) -> String {
    let mut power = 0;
    while power + 1 < UNITS.len() && bytes >> (10 * (power + 1)) != 0 {
        power += 1;
    }
    let unit = char::from(UNITS[power]);
    let scale = 1_u64 << (10 * power);
    if bytes.is_multiple_of(scale) {
        return format!("{}{unit}", bytes / scale);
    }
    #[allow(clippy::cast_precision_loss)] // Three digits are shown.
    let value = bytes as f64 / scale as f64;
    // As many decimals as fit five characters; four digits before the point can only come from rounding up.
    let decimals = [2, 1].into_iter().find(|decimals| format!("{value:.decimals$}{unit}").len() <= 5);
    format!("{value:.*}{unit}", decimals.unwrap_or(0))
}

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeError {
    /// As it was typed, for the message.
    pub text: String,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        // Most likely somebody thought of a unit that need not be said.
        if is_part_of_a_byte(text) {
            return write!(
                f,
                "'{text}' is no number of bytes: write it with its unit, like {text}G, or a whole number"
            );
        }
        write!(f, "'{text}' is not a size: write a number with an optional unit, like 4096, 128K, 1.5G or 2T")
    }
}

impl std::error::Error for SizeError {}

impl std::str::FromStr for Size {
    type Err = SizeError;

    /// Reads `128K`, `1.5g`, `10GiB`, `512`, `512B`. Fractions of a byte are cut off behind a unit; `0.5` alone, and what
    /// would be cut off to nothing, is no size.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        parse(text.trim()).map(Self).ok_or_else(|| SizeError { text: text.into() })
    }
}

fn parse(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let scale = 1_u128 << (10 * power_of(unit)?);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let whole = u128::from(whole.parse::<u64>().ok()?);
    let bytes = whole * scale + part * scale / divisor;
    // 0 means "none" to whoever sets a quota.
    let is_cut_off = part > 0 && (scale == 1 || bytes == 0);
    u64::try_from(bytes).ok().filter(|_| !is_cut_off)
}

/// Whether it is a number with a fraction, and nothing behind it.
fn is_part_of_a_byte(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.trim().split_once('.').is_some_and(|(whole, fraction)| is_number(whole) && is_number(fraction))
}

/// The power of 1024 of a unit: `K`, `KB` and `KiB` are the same.
fn power_of(unit: &str) -> Option<usize> {
    let unit = unit.to_ascii_uppercase();
    let letter = unit.strip_suffix("IB").or_else(|| unit.strip_suffix('B')).unwrap_or(&unit);
    match letter.as_bytes() {
        [] if !unit.starts_with('I') => Some(0),
        [letter] => UNITS.iter().position(|known| known == letter).filter(|&power| power > 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
