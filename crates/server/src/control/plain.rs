//! What a daemon says, made fit for a terminal.
//!
//! Its words hold names that others chose: files by which damage is told, hosts, devices. A control character among them
//! could move the cursor, hide what went before, or have the terminal answer in the person's name. So each is written out
//! as `\u001b` is, but for line ends, which our own messages have. It is done to the answer as it comes, before anything
//! looks at it: whatever is printed later, in a table or in JSON, is plain.

/// The line of JSON with each control character in its strings written out.
pub(super) fn plain(line: Vec<u8>) -> Vec<u8> {
    if !line.contains(&b'\\') && !line.iter().any(|byte| matches!(byte, 0x7f | 0xc2)) {
        return line;
    }
    let mut out = Vec::with_capacity(line.len() + 16);
    let mut rest = &line[..];
    while let Some((&first, behind)) = rest.split_first() {
        let taken = match (first, behind) {
            (b'\\', [b'u', digits @ ..]) if is_control(digits) => {
                out.push(b'\\');
                1
            }
            (b'\\', [b'b' | b'f' | b'r' | b't', ..]) => {
                out.push(b'\\');
                1
            }
            (b'\\', [_, ..]) => 2,
            (0x7f, _) => {
                out.extend_from_slice(b"\\\\u007f");
                rest = behind;
                continue;
            }
            (0xc2, [second @ 0x80..=0x9f, after @ ..]) => {
                out.extend_from_slice(format!("\\\\u00{second:02x}").as_bytes());
                rest = after;
                continue;
            }
            _ => 1,
        };
        let (copied, left) = rest.split_at(taken);
        out.extend_from_slice(copied);
        rest = left;
    }
    out
}

/// Whether four hexadecimal digits are a control character's, other than a line end's.
fn is_control(digits: &[u8]) -> bool {
    let digits = digits.get(..4).and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    number.and_then(char::from_u32).is_some_and(|letter| letter.is_control() && letter != '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let line = serde_json::to_vec(text).unwrap();
        serde_json::from_slice(&plain(line)).unwrap()
    }

    #[test]
    fn control_characters_are_written_out_and_nothing_else_changes() {
        for (text, expected) in [
            ("plain", "plain"),
            ("two\nlines", "two\nlines"),
            ("\u{1b}[2Jgone", "\\u001b[2Jgone"),
            ("a\rb\tc\u{8}\u{c}", "a\\rb\\tc\\b\\f"),
            ("\u{7f}\u{9b}31m", "\\u007f\\u009b31m"),
            ("\\u001b is said, \\\\ too", "\\u001b is said, \\\\ too"),
            ("\"é ü 漢 \u{1f980}\" ©", "\"é ü 漢 \u{1f980}\" ©"),
            ("\0", "\\u0000"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    /// A daemon that is none may write an escape in any of JSON's ways, and cut it short.
    #[test]
    fn other_ways_to_write_it() {
        for (line, expected) in [
            (&b"\"\\u001B\\u0085\\u000a\\u00e9\\ud83e\\udd80\""[..], "\\u001B\\u0085\né\u{1f980}"),
            (b"\"\\\\\\u001b\"", "\\\\u001b"),
        ] {
            assert_eq!(serde_json::from_slice::<String>(&plain(line.to_vec())).unwrap(), expected);
        }
        for cut in [&b"\"\\"[..], b"\"\\u", b"\"\\u00", b"\"\xc2", b"\\u001"] {
            assert!(serde_json::from_slice::<String>(&plain(cut.to_vec())).is_err());
        }
    }
}
