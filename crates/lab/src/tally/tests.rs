use super::Tally;

#[test]
fn reads_both_kinds_of_lines_and_no_others() {
    let cases = [
        ("12 passed, 0 failed, 3 skipped", Some((12, 0, 3))),
        (
            "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.02s",
            Some((7, 0, 1)),
        ),
        ("test result: FAILED. 6 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out", Some((6, 1, 0))),
        ("running 3 tests", None),
        ("ok   untar as root (7 s)", None),
        ("", None),
    ];
    for (line, expected) in cases {
        let expected = expected.map(|(passed, failed, skipped)| Tally { passed, failed, skipped });
        assert_eq!(Tally::parse(line), expected, "{line}");
    }
}

#[test]
fn a_run_without_tests_is_no_success() {
    assert!(Tally::default().into_result().is_err());
    assert!(Tally::FAILED.into_result().is_err());
    assert!(Tally::SKIPPED.into_result().is_ok());
}
