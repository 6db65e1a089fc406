use tally_wire::nfs4::{
    CbCompound4Args, CbCompound4Res, CbNotifyLock4Res, CbSequence4Res, CbSequence4Resok, NfsCbArgop4, NfsCbResop4,
    Nfsstat4,
};
use tally_wire::{decode, encode};

use super::*;
use crate::rpc::Caller;
use crate::v4::state::{Callback, Referred, Terms};

const ID: CallId = CallId { session: SessionId([7; 16]), slot: 2, sequence: 9, attempt: 11 };

/// What a client answers that has understood.
fn results() -> Vec<u8> {
    let told = CbSequence4Res::Nfs4Ok(CbSequence4Resok {
        csr_sessionid: [7; 16],
        csr_sequenceid: 9,
        csr_slotid: 2,
        csr_highest_slotid: 3,
        csr_target_highest_slotid: 3,
    });
    let done = CbNotifyLock4Res { cnlr_status: Nfsstat4::Nfs4Ok };
    let all = vec![NfsCbResop4::OpCbSequence(told), NfsCbResop4::OpCbNotifyLock(done)];
    encode(&CbCompound4Res { status: Nfsstat4::Nfs4Ok, tag: b"tag".into(), resarray: all.into() })
}

fn verdict(results: Vec<u8>) -> Verdict {
    judge(&ID, &Returned::Results(results.into())).0
}

#[test]
fn an_answer_counts_if_it_is_whole_up_to_its_slot() {
    let whole = results();
    // Status, tag, count, number, status; session, sequence, slot; two numbers of slots that nobody looks at.
    let (head, own) = (24, 24);
    for cut in 0..head + own + 8 {
        assert_eq!(verdict(whole[..cut].to_vec()), Verdict::OutOfStep, "{cut}");
    }
    assert_eq!(verdict(whole[..head + own + 8].to_vec()), Verdict::Done);
    for at in (0..head + own).filter(|at| ![4, 5, 6, 7].contains(at)) {
        let mut other = whole.clone();
        other[at] ^= 0x40;
        let is_read_over = (8..12).contains(&at) || at < 4;
        assert!(is_read_over || verdict(other) == Verdict::OutOfStep, "{at}");
    }
}

/// Sixty-four clients of one machine, each with as many calls as one may leave unanswered, and nobody was called any more.
#[test]
fn one_address_leaves_others_their_half() {
    let (callbacks, [flood, other]) = (Callbacks::default(), [1, 2].map(|host| Some(IpAddr::from([10, 0, 0, host]))));
    let owner = |number: u64| SessionId([number.to_be_bytes(), [0; 8]].concat().try_into().unwrap());
    let posts = |address| {
        let clients = (0..).take_while(|client| callbacks.has_room_for(ClientId(*client), address));
        clients.for_each(|client| {
            let id = |attempt| CallId { session: owner(client), attempt, ..ID };
            let due = Due { until: Duration::ZERO, address };
            (0..CALLS_OF_CLIENT_MAX as u32).for_each(|attempt| _ = callbacks.due.lock().insert(id(attempt), due));
        });
    };
    posts(flood);
    assert_eq!(callbacks.due.lock().len(), CALLS_OF_ADDRESS_MAX);
    let next = ClientId(CALLS_MAX as u64);
    assert!(!callbacks.has_room_for(next, flood) && callbacks.has_room_for(next, other));
}

#[test]
fn a_call_is_as_the_rfc_has_it() {
    let terms = Terms { minor: 2, program: 5, caller: Some(Caller::Nobody) };
    let words = encode(&NfsCbArgop4::OpCbIllegal);
    let callback = Callback::new(words.into());
    let mut calling = Calling { connection: 1, id: ID, highest: 3, terms, callback };
    let sent = outgoing(&calling).unwrap();
    let CbCompound4Args { minorversion, argarray, .. } = decode(&sent.arguments).unwrap();
    let [NfsCbArgop4::OpCbSequence(sequence), NfsCbArgop4::OpCbIllegal] = &argarray[..] else { panic!("{argarray:?}") };
    let place = (sequence.csa_sessionid, sequence.csa_slotid, sequence.csa_sequenceid);
    assert_eq!((minorversion, place, sequence.csa_highest_slotid), (2, ([7; 16], 2, 9), 3));
    assert_eq!((sent.program, sent.version, sent.procedure), (5, 1, 1));
    assert!(sequence.csa_referring_call_lists.0.is_empty());
    // What is about an answer that may be on its way says which.
    calling.callback.refers_to = Some(Referred { session: SessionId([8; 16]), slot: 6, sequence: 5 });
    let CbCompound4Args { argarray, .. } = decode(&outgoing(&calling).unwrap().arguments).unwrap();
    let [NfsCbArgop4::OpCbSequence(sequence), NfsCbArgop4::OpCbIllegal] = &argarray[..] else { panic!("{argarray:?}") };
    let [list] = &sequence.csa_referring_call_lists[..] else { panic!() };
    let [call] = &list.rcl_referring_calls[..] else { panic!() };
    assert_eq!((list.rcl_sessionid, call.rc_slotid, call.rc_sequenceid), ([8; 16], 6, 5));
}
