use super::*;

fn key(session: u8, slot: u64) -> Option<Key> {
    let half = u64::from_be_bytes([session; 8]);
    Some(Key::new(Class::Mark, half, half, slot))
}

#[test]
fn a_session_of_which_one_may_be_lost_is_lost() {
    let mut lost = LostMarks::default();
    assert!(lost.is_empty() && lost.remark().is_none() && !lost.may_have(&[7; 16]));
    // Two nodes side by side, and one further on.
    assert!(lost.note(key(3, 9), key(5, 1)) && lost.note(key(5, 1), key(7, 2)) && lost.note(key(20, 0), key(20, 4)));
    assert_eq!(lost.0.len(), 2);
    for session in 0..30 {
        let is_lost = (3..=7).contains(&session) || session == 20;
        assert_eq!(lost.may_have(&[session; 16]), is_lost, "{session}");
    }
    assert!(lost.remark().is_some());
    // The last node of the class.
    assert!(lost.note(key(200, 0), Class::Mark.end()));
    assert!(!lost.may_have(&[199; 16]) && lost.may_have(&[255; 16]));
}

#[test]
fn what_may_be_more_than_marks_is_no_mark() {
    let event = |number| Some(Key::new(Class::Event, number, 0, 0));
    let before = Some(Key::new(Class::History, 9, 0, 0));
    for (from, to) in
        [(None, key(1, 0)), (key(1, 0), None), (before, key(1, 0)), (key(1, 0), event(1)), (event(0), event(1))]
    {
        let mut lost = LostMarks::default();
        assert!(!lost.note(from, to), "{from:?} {to:?}");
        assert!(lost.is_empty());
    }
}
