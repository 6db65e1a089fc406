//! Words, numbers and marks of a `.x`.

/// One of them, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Splits a text. Comments, and lines that rpcgen hands on to the C compiler (`%`), are left out.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    for (at, line) in without_comments(text).lines().enumerate() {
        let mut rest = if line.trim_start().starts_with('%') { "" } else { line.trim_start() };
        while let Some(first) = rest.chars().next() {
            let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let word = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
            let (text, left) = rest.split_at(word.max(first.len_utf8()));
            found.push(Token { text: text.to_owned(), line: at + 1 });
            rest = left.trim_start();
        }
    }
    found
}

/// Comments become spaces, so that lines keep their numbers. In RFC 8276 there are comments within a comment.
fn without_comments(text: &str) -> String {
    let (mut left, mut depth, mut rest) = (String::new(), 0_usize, text);
    while let Some(letter) = rest.chars().next() {
        let mark = rest.get(..2).unwrap_or_default();
        let taken = match (mark, depth) {
            ("/*", _) | ("*/", 1..) => 2,
            _ => letter.len_utf8(),
        };
        match (mark, depth) {
            ("/*", _) => depth += 1,
            ("*/", 1..) => depth -= 1,
            (_, 1..) if letter != '\n' => left.push(' '),
            _ => left.push(letter),
        }
        rest = &rest[taken..];
    }
    left
}

#[cfg(test)]
mod tests {
    use super::tokens;

    #[test]
    fn comments_and_what_is_for_c_are_no_words() {
        let found = tokens("%#include <a>\ntypedef opaque /* a /* second */\n comment */ nfs_fh4<NFS4_FHSIZE>;\n%\nx");
        let texts: Vec<_> = found.iter().map(|token| token.text.as_str()).collect();
        assert_eq!(texts, ["typedef", "opaque", "nfs_fh4", "<", "NFS4_FHSIZE", ">", ";", "x"]);
        assert_eq!((found[2].line, found[7].line), (3, 5));
    }
}
