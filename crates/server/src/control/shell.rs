//! Commands that a person is shown to type.

/// A word as a shell takes it for one.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@,=".contains(&byte);
    if word.bytes().all(is_plain) && !word.is_empty() {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
