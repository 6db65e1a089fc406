//! Names of an RFC in Rust's manner.

/// A type or a variant: `nfs_fh4` is `NfsFh4`, `GETATTR4args` is `Getattr4Args`, `NFS4ERR_NOENT` is `Nfs4ErrNoent`.
pub(crate) fn camel(name: &str) -> String {
    name.split('_').map(part).collect()
}

/// One part of a name: a capital at its start and behind a number, and none elsewhere.
fn part(part: &str) -> String {
    let mut begins = true;
    let letters = part.chars().map(|letter| {
        let cased = if begins { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        begins = letter.is_ascii_digit();
        cased
    });
    letters.collect()
}

/// A field.
pub(crate) fn snake(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    // The only words of Rust that the protocol has.
    if ["type", "ref", "match", "where"].contains(&name.as_str()) { format!("r#{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::{camel, snake};

    #[test]
    fn names_are_turned() {
        let turned = [
            ("nfs_fh4", "NfsFh4"),
            ("GETATTR4args", "Getattr4Args"),
            ("NFS4ERR_NOENT", "Nfs4ErrNoent"),
            ("nfsv4_1_file_layout4", "Nfsv41FileLayout4"),
            ("ascii_REQUIRED4", "AsciiRequired4"),
        ];
        for (name, expected) in turned {
            assert_eq!(camel(name), expected);
        }
        assert_eq!((snake("type"), snake("obj_attributes")), ("r#type".into(), "obj_attributes".into()));
    }
}
