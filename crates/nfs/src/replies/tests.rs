use std::net::{TcpListener, TcpStream};

use super::*;
use crate::xdr::Encoder;

fn key(client: u8, xid: u32) -> ReplyKey {
    let mut bytes = [0; 40];
    bytes[0] = client;
    bytes[16..20].copy_from_slice(&xid.to_be_bytes());
    ReplyKey(bytes)
}

fn link(id: u64) -> Arc<Link> {
    Arc::new(Link::new(id, "127.0.0.1:700".parse().unwrap()))
}

fn attached_count(replies: &Replies, key: &ReplyKey) -> usize {
    match &replies.shard(key).lock().entries[key].state {
        EntryState::Running { attached, .. } => attached.len(),
        EntryState::Finished { .. } => 0,
    }
}

fn answer(value: u32) -> Reply {
    let mut words = Encoder::new();
    words.u32(value);
    Reply::success(value, words)
}

const POOL: PoolGuid = PoolGuid(1);
const KEPT: Kept = Kept { pool: POOL, has_waited: true };
const NOW: Duration = Duration::from_secs(1000);

#[test]
fn a_retransmission_gets_the_first_answer() {
    let (replies, ours) = (Replies::default(), link(1));
    assert!(matches!(replies.begin(&key(1, 7), &ours, NOW), Begin::New));
    assert!(replies.finish(&key(1, 7), &answer(5), || Some(KEPT), NOW).is_empty());
    assert!(matches!(replies.begin(&key(1, 7), &ours, NOW), Begin::Again(reply) if reply == answer(5)));
    assert!(matches!(replies.begin(&key(1, 8), &ours, NOW), Begin::New));
    assert!(matches!(replies.begin(&key(2, 7), &ours, NOW), Begin::New));
}

#[test]
fn an_open_connection_keeps_its_answers_to_itself() {
    let (replies, first, second) = (Replies::default(), link(1), link(2));
    assert!(matches!(replies.begin(&key(1, 7), &first, NOW), Begin::New));
    assert!(matches!(replies.begin(&key(1, 7), &second, NOW), Begin::Apart));
    replies.finish(&key(1, 7), &answer(5), || Some(KEPT), NOW);
    assert!(matches!(replies.begin(&key(1, 7), &second, NOW), Begin::Apart));
    first.close();
    assert!(matches!(replies.begin(&key(1, 7), &second, NOW), Begin::Again(_)));
}

#[test]
fn a_connection_that_hung_up_is_no_other_sender() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = |id| {
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, peer) = listener.accept().unwrap();
        let ours = Arc::new(ours);
        (Arc::new(Link::over(id, peer, &ours)), ours, theirs)
    };
    let replies = Replies::default();
    let ((first, _at_first, theirs), (second, at_second, _theirs)) = (connect(1), connect(2));
    assert!(matches!(replies.begin(&key(1, 7), &first, NOW), Begin::New));
    assert!(matches!(replies.begin(&key(1, 7), &second, NOW), Begin::Apart), "both live");
    drop(theirs);
    while first.is_alive() {
        std::thread::yield_now();
    }
    assert!(first.is_open(), "nobody has noticed yet");
    assert!(matches!(replies.begin(&key(1, 7), &second, NOW), Begin::Attached));
    // The repetition was the faster one: what comes late from the dead connection is the same request.
    assert!(matches!(replies.begin(&key(1, 8), &second, NOW), Begin::New));
    assert!(matches!(replies.begin(&key(1, 8), &first, NOW), Begin::Attached));
    drop(at_second);
    assert!(!second.is_alive(), "a memory may outlive its connection");
}

#[test]
fn a_request_in_progress_is_attached_to() {
    let (replies, first, second) = (Replies::default(), link(1), link(2));
    assert!(matches!(replies.begin(&key(1, 7), &first, NOW), Begin::New));
    assert!(matches!(replies.begin(&key(1, 7), &first, NOW), Begin::Attached));
    first.close();
    let repeats = |link| assert!(matches!(replies.begin(&key(1, 7), link, NOW), Begin::Attached));
    (0..1000).for_each(|_| repeats(&second));
    assert!(attached_count(&replies, &key(1, 7)) <= ATTACHED_MAX, "who asks again and again costs no more memory");
    assert_eq!(replies.hand_over(&key(1, 7)).map(|heir| heir.id()), Some(2));
    second.close();
    let others: Vec<_> = (3..20).map(link).collect();
    others.iter().for_each(repeats);
    let waiting: Vec<u64> =
        replies.finish(&key(1, 7), &answer(5), || Some(KEPT), NOW).iter().map(|link| link.id()).collect();
    assert_eq!(waiting, [3, 4, 5, 6], "of very many some are not told, and nobody anything that is not so");
    assert!(replies.hand_over(&key(1, 7)).is_none(), "it is over");
}

#[test]
fn what_is_not_kept_is_carried_out_again() {
    let (replies, ours) = (Replies::default(), link(1));
    assert!(matches!(replies.begin(&key(1, 7), &ours, NOW), Begin::New));
    replies.finish(&key(1, 7), &answer(5), || None, NOW);
    assert!(matches!(replies.begin(&key(1, 7), &ours, NOW), Begin::New));
}

#[test]
fn age_ends_an_answer() {
    let (replies, ours) = (Replies::default(), link(1));
    let _ = replies.begin(&key(1, 7), &ours, NOW);
    replies.finish(&key(1, 7), &answer(5), || Some(KEPT), NOW);
    assert!(matches!(replies.begin(&key(1, 7), &ours, NOW + AGE_MAX), Begin::Again(_)));
    assert!(matches!(replies.begin(&key(1, 7), &ours, NOW + AGE_MAX + Duration::from_nanos(1)), Begin::New));
}

#[test]
fn bounds_hold_for_one_client_and_for_all() {
    let (replies, ours) = (Replies::default(), link(1));
    let run = |client, xid| {
        if matches!(replies.begin(&key(client, xid), &ours, NOW), Begin::New) {
            replies.finish(&key(client, xid), &answer(xid), || Some(KEPT), NOW);
        }
    };
    for xid in 0..10_000 {
        run(1, xid);
        assert!(replies.entry_count() <= CLIENT_ENTRIES_MAX);
    }
    assert_eq!(replies.entry_count(), CLIENT_ENTRIES_MAX, "successive xids use every place");
    for client in 0..200 {
        for xid in 0..400 {
            run(client, xid);
        }
    }
    assert!(replies.held_bytes() <= TOTAL_BYTES_MAX, "{}", replies.held_bytes());
    assert!(replies.held_bytes() > TOTAL_BYTES_MAX / 2, "{}", replies.held_bytes());
}

/// A pool has gone back to before what they are about.
#[test]
fn forgotten_answers_are_not_given_and_take_no_room() {
    let (replies, ours) = (Replies::default(), link(1));
    for xid in 0..40 {
        assert!(matches!(replies.begin(&key(1, xid), &ours, NOW), Begin::New));
        replies.finish(&key(1, xid), &answer(xid), || Some(KEPT), NOW);
    }
    // One is under way: it is answered, and others may wait for it.
    assert!(matches!(replies.begin(&key(1, 40), &ours, NOW), Begin::New));
    replies.forget(POOL);
    assert_eq!((replies.entry_count(), replies.held_bytes()), (1, 0));
    assert!(matches!(replies.begin(&key(1, 7), &ours, NOW), Begin::New));
    assert!(matches!(replies.begin(&key(1, 40), &ours, NOW), Begin::Attached));
}

/// A rewind of one pool cleared the answers of all: a client of another, whose REMOVE was answered and whose connection broke,
/// sent it again and was told that there is no such file.
#[test]
fn answers_about_other_pools_are_given_again() {
    let (replies, ours) = (Replies::default(), link(1));
    for xid in 0..40 {
        let pool = PoolGuid(u64::from(xid % 2));
        assert!(matches!(replies.begin(&key(1, xid), &ours, NOW), Begin::New));
        replies.finish(&key(1, xid), &answer(xid), || Some(Kept { pool, has_waited: true }), NOW);
    }
    let bytes = replies.held_bytes();
    replies.forget(PoolGuid(0));
    assert_eq!((replies.entry_count(), replies.held_bytes()), (20, bytes / 2));
    for xid in 0..40 {
        let again = matches!(replies.begin(&key(1, xid), &ours, NOW), Begin::Again(_));
        assert_eq!(again, xid % 2 == 1, "{xid}");
    }
    // In their turn they are forgotten as before.
    assert!(matches!(replies.begin(&key(1, 1), &ours, NOW + 2 * AGE_MAX), Begin::New));
    replies.forget(PoolGuid(1));
    assert_eq!(replies.held_bytes(), 0);
}

/// A suspended pool was taken up again, and what a client of `sync=disabled` had been told was gone with its memory; the client
/// sent it again, and was told once more that it was done. An answer that waited for nothing goes; what waited for a disk is
/// there. (Of what was under way in that moment `tests/taken_up.rs` tells.)
#[test]
fn what_waited_for_nothing_is_not_told_again_of_a_pool_that_was_taken_up_anew() {
    let (replies, ours) = (Replies::default(), link(1));
    let others = Kept { pool: PoolGuid(2), has_waited: false };
    let unwaited = Kept { pool: POOL, has_waited: false };
    for (xid, about) in [(1, KEPT), (2, unwaited), (3, others)] {
        assert!(matches!(replies.begin(&key(1, xid), &ours, NOW), Begin::New));
        replies.finish(&key(1, xid), &answer(xid), || Some(about), NOW);
    }
    replies.forget_unwaited(POOL);
    let is_told = |xid| matches!(replies.begin(&key(1, xid), &ours, NOW), Begin::Again(_));
    assert_eq!([1, 2, 3].map(is_told), [true, false, true]);
    // Of the new life each answer is given again.
    replies.finish(&key(1, 2), &answer(2), || Some(unwaited), NOW);
    assert!(is_told(2));
}
