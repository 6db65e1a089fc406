use super::*;

#[test]
fn a_list_goes_on_with_what_is_not_in_it() {
    let names = || ["all", "sync", "atime"].map(str::to_owned).to_vec();
    assert_eq!(one_more("", names()), ["all", "sync", "atime"]);
    assert_eq!(one_more("sync,a", names()), ["sync,all", "sync,atime"]);
    assert_eq!(one_more("sync,atime,", names()), ["sync,atime,all"]);
}

#[test]
fn the_socket_is_read_from_the_line() {
    let socket = |line: &str| socket_of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
    assert_eq!(socket("tally --socket /a pool"), Some("/a".into()));
    assert_eq!(socket("tally pool --socket=/b li"), Some("/b".into()));
    assert_eq!((socket("tally pool --socket"), socket("tally pool")), (None, None));
}
