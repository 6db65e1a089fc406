//! The number of a start, by which hosts that lock by NFSv3 tell it from those before (NSM): odd, as of a server that is up, and higher each time. A host that is told a number that it knows claims nothing again, and
//! what it had is others'. So it is written down, durably, before anybody hears of it (N2); and pools that come later have another one, as if the server had started anew for them.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::state::replace_file;

/// The file's name in the data directory.
const NAME: &str = "nfs3-start";

/// Draws the next one.
pub(super) fn draw(data_dir: &Path) -> io::Result<u32> {
    let path = data_dir.join(NAME);
    let before = match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let number = next(before, seconds());
    replace_file(&path, format!("{number}\n").as_bytes())?;
    Ok(number)
}

/// Where nothing is known of those before, the time is behind all of them: a server starts less often than once in two seconds.
fn next(before: Option<u32>, seconds: u64) -> u32 {
    let next = before.map_or(seconds as u32 & 0x7fff_ffff, |before| before.wrapping_add(1));
    next | 1
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_a_higher_odd_number() {
        assert_eq!([next(None, 1_000), next(None, 1_001), next(Some(5), 0), next(Some(6), 9)], [1_001, 1_001, 7, 7]);
        let dir = tempfile::tempdir().unwrap();
        let first = draw(dir.path()).unwrap();
        let numbers = [draw(dir.path()).unwrap(), draw(dir.path()).unwrap()];
        assert_eq!((first % 2, numbers), (1, [first + 2, first + 4]));
        // What is there and is no number is no number of before.
        fs::write(dir.path().join(NAME), "x").unwrap();
        assert!(draw(dir.path()).unwrap() >= first);
    }
}
