//! Dates, in UTC: the one thing about time that a table of datasets shows.

/// `2026-11-21 10:30` of seconds since 1970-01-01 UTC.
pub(crate) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", rest / 3600, rest / 60 % 60)
}

/// `Sat Nov 21 10:30 2026` of the same, as zfs shows `creation`.
pub(crate) fn utc_as_zfs(seconds: u64) -> String {
    let rest = seconds % 86_400;
    in_words(seconds, &format!("{:>2}:{:02}", rest / 3600, rest / 60 % 60))
}

/// `Sat Nov 21 10:30:07 2026` of the same, as zpool tells of a scrub; scripts read it in this form, that of ctime(3).
pub(crate) fn utc_as_ctime(seconds: u64) -> String {
    let rest = seconds % 86_400;
    in_words(seconds, &format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60))
}

/// `2026-11-21.10:30:07` of nanoseconds since then, as `zpool history` has it.
pub(crate) fn utc_as_history(time_ns: u64) -> String {
    let seconds = time_ns / 1_000_000_000;
    format!("{}:{:02}", utc(seconds).replace(' ', "."), seconds % 60)
}

/// The day in words, with a time in it.
fn in_words(seconds: u64, time: &str) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    // The first of 1970 was a Thursday.
    let (weekday, month) = (WEEKDAYS[(days % 7) as usize], MONTHS[(month - 1) as usize]);
    format!("{weekday} {month} {day:>2} {time} {year:04}")
}

/// Year, month and day of a day number, by years that start in March: so the leap day is the last of a
/// year, and month lengths follow one formula (153 days in five months).
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_BEFORE_1970: u64 = 719_468; // From 0000-03-01.
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let shifted = days + DAYS_BEFORE_1970;
    let (era, day_of_era) = (shifted / DAYS_IN_400_YEARS, shifted % DAYS_IN_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{utc, utc_as_ctime, utc_as_history, utc_as_zfs};

    #[test]
    fn known_days() {
        let cases = [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_799, "2000-02-29 23:59"),
            (1_709_164_800, "2024-02-29 00:00"),
            (1_735_689_599, "2024-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(utc(seconds), expected);
        }
        assert_eq!(utc_as_zfs(0), "Thu Jan  1  0:00 1970");
        assert_eq!(utc_as_ctime(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(utc_as_history(951_868_799_999_999_999), "2000-02-29.23:59:59");
        assert_eq!(utc_as_ctime(951_868_799), "Tue Feb 29 23:59:59 2000");
        assert_eq!(utc_as_zfs(951_868_799), "Tue Feb 29 23:59 2000");
        assert_eq!(utc_as_zfs(1_735_689_599), "Tue Dec 31 23:59 2024");
    }
}
