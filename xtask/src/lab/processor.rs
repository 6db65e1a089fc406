//! Whether the guest's kernel can run on this machine's processor.
//!
//! A user-mode kernel takes the registers of a process from the host and puts them back, all at once. Linux 6.1 does so
//! through a buffer of 2,696 bytes, enough for AVX-512. With AMX they are 11,008 bytes, the host refuses the rest, and
//! init dies before its first instruction (`put_fp_registers` on the guest's console). Later kernels ask for the size.

use anyhow::Result;

/// What is said where it cannot.
pub(crate) const UNSUITED: &str =
    "The processor has AMX registers, which the guest's kernel (Debian's user-mode-linux 6.1) cannot put back:";

/// The flag of a processor whose registers are too many.
const TOO_MANY: &str = "amx_tile";

pub(crate) fn suits_the_guest() -> Result<bool> {
    Ok(suits(&std::fs::read_to_string("/proc/cpuinfo")?))
}

fn suits(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    !flags.flat_map(str::split_whitespace).any(|flag| flag == TOO_MANY)
}

#[cfg(test)]
mod tests;
