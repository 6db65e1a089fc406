//! Somebody looks at the attributes of a file that another client has for writing: it is asked for them (CB_GETATTR, RFC 8881 §10.4.3; rules V10, V11 and V15).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::support::client::{dir_name, words};
use crate::support::compound::{Op, by_number, get_attr, lookup, op, read_dir};
use crate::support::delegates::give_back;
use crate::support::keeper::{
    answer_with, client, handle, keeps, next_call, opens, plain, plainly, plainly_while, run, status,
    written_scene as scene,
};
use crate::support::opener::Opener;
use crate::support::scene::{Scene, fate};
use tally_base::FileTime;
use tally_nfs::service::Step;
use tally_nfs::v3::Procedure;
use tally_nfs::v4::state::CallId;
use tally_vfs::{Attr, Attributes, Identity};
use tally_wire::bitmap;
use tally_wire::nfs4::Nfsstat4::*;
use tally_wire::nfs4::{
    CbGetattr4Res, CbGetattr4Resok, CbSequence4Args, Compound4Res, Fattr4, Fattr4Value, Getattr4Res, NfsArgop4,
    NfsCbArgop4, NfsCbResop4, NfsResop4, Nfsstat4, Nfstime4, OpenDelegationType4, Readdir4Res, Verify4Args,
};

const OK: Nfsstat4 = Nfs4Ok;
const JUKEBOX: u32 = 10008;
const CHANGE: u32 = 3;
const SIZE: u32 = 4;
const MTIME: u32 = 53;

fn attr(scene: &Scene, name: &[u8]) -> Attr {
    scene.exports.tank.getattr(scene.file_named(name)).unwrap()
}

/// The next call, which asks for change and size of "f".
fn asked(scene: &Scene) -> Option<(CallId, CbSequence4Args)> {
    let (id, sequence, asked) = next_call(scene)?;
    let NfsCbArgop4::OpCbGetattr(get) = asked else { panic!("{asked:?}") };
    assert_eq!((get.fh.to_vec(), get.attr_request.to_vec()), (handle(scene, scene.file_named(b"f")), vec![0x18]));
    assert_eq!(sequence.csa_referring_call_lists.len(), 1, "the answer that gave it may be under way");
    Some((id, sequence))
}

/// The client says this.
fn says(scene: &Scene, call: &(CallId, CbSequence4Args), values: &[Fattr4Value]) {
    says_as(scene, call, Fattr4::of(values));
}

fn says_as(scene: &Scene, (id, sequence): &(CallId, CbSequence4Args), obj_attributes: Fattr4) {
    let told = CbGetattr4Res::Nfs4Ok(CbGetattr4Resok { obj_attributes });
    answer_with(scene, (id, sequence), OK, NfsCbResop4::OpCbGetattr(told));
}

fn change_and_size(change: u64, size: u64) -> [Fattr4Value; 2] {
    [Fattr4Value::Fattr4Change(change), Fattr4Value::Fattr4Size(size)]
}

/// A look of this client, which is parked.
fn look(
    client: &mut Opener,
    ops: &[Op],
) -> (Vec<Op>, tally_nfs::service::Job, std::sync::mpsc::Receiver<tally_base::Fate>) {
    let scene = client.scene.clone();
    let all = [&[client.sequence(), scene.put_tank(), lookup(b"f")], ops].concat();
    let (job, step) = scene.begin_on(&client.link, 5000 + client.next, &all);
    assert!(matches!(step, Step::Again(_)), "it is parked");
    (all, job, fate(step))
}

fn goes_on(
    scene: &Scene,
    (ops, mut job, over): (Vec<Op>, tally_nfs::service::Job, std::sync::mpsc::Receiver<tally_base::Fate>),
) -> Compound4Res {
    if over.try_recv().is_err() {
        std::thread::sleep(Duration::from_millis(60));
        scene.service.end_parking();
    }
    let step = scene.service.run(&mut job);
    scene.end(&mut job, step, &ops)
}

fn told(reply: &Compound4Res) -> BTreeMap<u32, Fattr4Value> {
    match reply.resarray.0.last() {
        Some(NfsResop4::OpGetattr(Getattr4Res::Nfs4Ok(found))) => by_number(&found.obj_attributes),
        other => panic!("{other:?}"),
    }
}

fn change_of(told: &BTreeMap<u32, Fattr4Value>) -> (u64, u64) {
    match (&told[&CHANGE], &told[&SIZE]) {
        (Fattr4Value::Fattr4Change(change), Fattr4Value::Fattr4Size(size)) => (*change, *size),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_has_a_file_for_writing_is_asked_what_it_is_like() {
    let scene = scene();
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    keeps(&mut a, b"f");
    let given = attr(&scene, b"f");
    // It has nothing to send.
    let looks = look(&mut b, &[get_attr(&[CHANGE, SIZE, MTIME])]);
    says(&scene, &asked(&scene).unwrap(), &change_and_size(given.change.0, 0));
    assert!(looks.2.try_recv().is_ok(), "it goes on at once");
    let same = told(&goes_on(&scene, looks));
    assert_eq!((change_of(&same), attr(&scene, b"f")), ((given.change.0, 0), given.clone()), "nothing is changed");
    // It has.
    let looks = look(&mut b, &[get_attr(&[CHANGE, SIZE, MTIME])]);
    let [change, size] = change_and_size(given.change.0 + 1, 100);
    says(&scene, &asked(&scene).unwrap(), &[change, size, Fattr4Value::Fattr4Mode(0)]);
    let newer = told(&goes_on(&scene, looks));
    let (change, size) = change_of(&newer);
    assert!(change > given.change.0 && size == 100 && newer[&MTIME] != same[&MTIME]);
    assert!(attr(&scene, b"f").change.0 >= change, "behind a crash as well");
    // And each look finds another file, whatever it says: a change that falls is none.
    let looks = look(&mut b, &[get_attr(&[CHANGE, SIZE])]);
    says(&scene, &asked(&scene).unwrap(), &change_and_size(1, 101));
    let (again, size) = change_of(&told(&goes_on(&scene, looks)));
    assert!(again > change && size == 101);
    assert!(next_call(&scene).is_none(), "it keeps the file");
}

/// Of one that sets the times as well (RFC 9754 §5).
#[test]
fn who_keeps_the_times_is_asked_for_them() {
    let scene = scene();
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    let kept = opens(&mut a, b"f", 3 | 0x10_0000);
    assert_eq!(kept.delegation.on(), OpenDelegationType4::OpenDelegateWriteAttrsDeleg);
    let given = attr(&scene, b"f");
    let time = |seconds| Nfstime4 { seconds, nseconds: 7 };
    let asked = || {
        let (id, sequence, asked) = next_call(&scene).unwrap();
        let NfsCbArgop4::OpCbGetattr(get) = asked else { panic!("{asked:?}") };
        assert_eq!(get.attr_request.to_vec(), [0x18, 0, 0x30_0000]);
        (id, sequence)
    };
    let [change, size] = change_and_size(given.change.0, 0);
    let as_it_is = Nfstime4 { seconds: given.mtime.seconds(), nseconds: given.mtime.subsec_nanos() };
    let looks = look(&mut b, &[get_attr(&[CHANGE, SIZE, MTIME])]);
    says(&scene, &asked(), &[change.clone(), size.clone(), Fattr4Value::Fattr4TimeDelegModify(as_it_is)]);
    told(&goes_on(&scene, looks));
    assert_eq!(attr(&scene, b"f"), given, "nothing is changed");
    // It was set to long ago, and nothing else.
    let looks = look(&mut b, &[get_attr(&[CHANGE, SIZE, MTIME])]);
    let times = [Fattr4Value::Fattr4TimeDelegAccess(time(9)), Fattr4Value::Fattr4TimeDelegModify(time(1_000_000_000))];
    says(&scene, &asked(), &[&[change.clone(), size.clone()], &times[..]].concat());
    let newer = told(&goes_on(&scene, looks));
    assert_eq!(newer[&MTIME], Fattr4Value::Fattr4TimeModify(time(1_000_000_000)));
    let after = attr(&scene, b"f");
    assert_eq!((after.mtime, after.atime), (FileTime::new(1_000_000_000, 7), FileTime::new(9, 7)));
    assert!(after.change > given.change && after.ctime >= given.ctime && change_of(&newer).0 == after.change.0);
    // Who says none has written now.
    let looks = look(&mut b, &[get_attr(&[CHANGE, SIZE, MTIME])]);
    let [change, _] = change_and_size(given.change.0 + 1, 0);
    says(&scene, &asked(), &[change, size]);
    told(&goes_on(&scene, looks));
    assert!(attr(&scene, b"f").mtime >= given.mtime);
    assert!(next_call(&scene).is_none(), "it keeps the file");
}

/// Who was told to come again finds what the first look could not set: a time that is noted and not there would be told as the one before for ever.
#[test]
fn a_time_that_could_not_be_set_is_set_by_the_next_look() {
    let scene = scene();
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    opens(&mut a, b"f", 3 | 0x10_0000);
    let given = attr(&scene, b"f");
    let mut looks = |expected| {
        let looks = look(&mut b, &[get_attr(&[CHANGE, SIZE, MTIME])]);
        let (id, sequence, _) = next_call(&scene).unwrap();
        let [change, size] = change_and_size(given.change.0, 0);
        let long_ago = Fattr4Value::Fattr4TimeDelegModify(Nfstime4 { seconds: 1_000_000_000, nseconds: 7 });
        says(&scene, &(id, sequence), &[change, size, long_ago]);
        assert_eq!(goes_on(&scene, looks).status, expected);
    };
    scene.exports.tank.throttle.store(1, SeqCst);
    looks(Nfs4ErrDelay);
    assert_eq!(attr(&scene, b"f"), given);
    looks(OK);
    assert_eq!(attr(&scene, b"f").mtime, FileTime::new(1_000_000_000, 7));
}

/// What is asked for is asked once, and what nobody else knows better is not.
#[test]
fn it_is_asked_once_for_all_who_look_and_for_what_it_knows() {
    let scene = scene();
    let (mut a, mut b, mut c) = (client(&scene, "a", 2), client(&scene, "b", 3), client(&scene, "c", 4));
    keeps(&mut a, b"f");
    assert_eq!(status(&mut b, &[lookup(b"f"), get_attr(&[1, 20, 33, 36])]), OK);
    assert_eq!(status(&mut b, &[lookup(b"g"), get_attr(&[CHANGE, SIZE])]), OK);
    assert_eq!(status(&mut a, &[lookup(b"f"), get_attr(&[CHANGE, SIZE])]), OK, "it knows itself");
    assert!(next_call(&scene).is_none());
    let verify = Verify4Args { obj_attributes: Fattr4::of(&[Fattr4Value::Fattr4Size(7)]) };
    let looks = [
        look(&mut b, &[get_attr(&[CHANGE, SIZE])]),
        look(&mut c, &[op(&NfsArgop4::OpVerify(verify)), get_attr(&[CHANGE, SIZE])]),
    ];
    let call = asked(&scene).unwrap();
    assert!(next_call(&scene).is_none());
    says(&scene, &call, &change_and_size(1, 7));
    let [first, second] = looks;
    assert_eq!(change_of(&told(&goes_on(&scene, first))).1, 7);
    // VERIFY was told, and what follows looks for itself.
    let (ops, mut job, over) = second;
    assert!(over.try_recv().is_ok());
    let step = scene.service.run(&mut job);
    assert!(matches!(step, Step::Again(_)));
    says(&scene, &asked(&scene).unwrap(), &change_and_size(1, 8));
    let step = scene.service.run(&mut job);
    assert_eq!(change_of(&told(&scene.end(&mut job, step, &ops))).1, 8);
}

/// Who does not say is called for the file, and nobody waits for longer than a moment.
#[test]
fn who_says_nothing_is_recalled() {
    type Says = fn(&Arc<Scene>, &(CallId, CbSequence4Args));
    let cases: [(&str, Says); 6] = [
        ("nothing", |_, _| {}),
        ("no", |scene, (id, sequence)| {
            answer_with(
                scene,
                (id, sequence),
                Nfs4ErrBadhandle,
                NfsCbResop4::OpCbGetattr(CbGetattr4Res::Default(Nfs4ErrBadhandle)),
            );
        }),
        ("half", |scene, call| says(scene, call, &[Fattr4Value::Fattr4Size(5)])),
        ("what nobody knows", |scene, call| {
            let obj_attributes = Fattr4 { attrmask: bitmap(&[2, 3, 4]), attr_vals: vec![0; 20].into() };
            says_as(scene, call, obj_attributes);
        }),
        ("too little", |scene, call| {
            says_as(scene, call, Fattr4 { attrmask: bitmap(&[3, 4]), attr_vals: vec![0; 12].into() });
        }),
        ("too much", |scene, call| says(scene, call, &change_and_size(1, u64::MAX))),
    ];
    for (what, says) in cases {
        let scene = scene();
        let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
        let kept = keeps(&mut a, b"f");
        let looks = look(&mut b, &[get_attr(&[SIZE])]);
        says(&scene, &asked(&scene).unwrap());
        assert_eq!(goes_on(&scene, looks).status, Nfs4ErrDelay, "{what}");
        let (_, _, recall) = next_call(&scene).expect(what);
        assert!(matches!(recall, NfsCbArgop4::OpCbRecall(_)), "{what}");
        assert_eq!(attr(&scene, b"f").size, 0, "{what}");
        assert_eq!(status(&mut a, &[lookup(b"f"), give_back(kept)]), OK);
        assert_eq!(status(&mut b, &[lookup(b"f"), get_attr(&[SIZE])]), OK, "{what}");
    }
}

/// It gives the file back while it is asked.
#[test]
fn what_is_given_back_is_as_it_is_here() {
    let scene = scene();
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    let kept = keeps(&mut a, b"f");
    let looks = look(&mut b, &[get_attr(&[CHANGE, SIZE])]);
    assert_eq!(status(&mut a, &[lookup(b"f"), give_back(kept)]), OK);
    assert!(looks.2.try_recv().is_ok());
    let now = attr(&scene, b"f");
    assert_eq!(change_of(&told(&goes_on(&scene, looks))), (now.change.0, now.size));
}

/// A listing asks nobody: what its clients would know better is left out.
#[test]
fn a_listing_leaves_out_what_others_know_better() {
    let scene = scene();
    let (mut a, mut b) = (client(&scene, "a", 2), client(&scene, "b", 3));
    keeps(&mut a, b"f");
    let list = |client: &mut Opener| -> BTreeMap<Vec<u8>, Vec<u32>> {
        let told = run(client, &[read_dir(0, 8192, &[1, CHANGE, SIZE, 20, 33, 45, 52, MTIME])]).resarray.0.pop();
        let Some(NfsResop4::OpReaddir(Readdir4Res::Nfs4Ok(listed))) = told else { panic!("{told:?}") };
        let (mut entries, mut next) = (BTreeMap::new(), listed.reply.entries.as_deref());
        while let Some(entry) = next {
            entries.insert(entry.name.to_vec(), by_number(&entry.attrs).into_keys().collect());
            next = entry.nextentry.as_deref();
        }
        entries
    };
    let all = vec![1, CHANGE, SIZE, 20, 33, 45, 52, MTIME];
    let of_b = list(&mut b);
    assert_eq!((&of_b[&b"f"[..]], &of_b[&b"g"[..]]), (&vec![1, 20, 33], &all));
    assert_eq!(list(&mut a)[&b"f"[..]], all);
    assert!(next_call(&scene).is_none());
}

/// By version 3: GETATTR asks as well; whatever else tells attributes leaves those out.
#[test]
fn version_3_asks_as_well() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    let kept = keeps(&mut a, b"f");
    let (file, dir) = (handle(&scene, scene.file_named(b"f")), handle(&scene, scene.exports.tank.root()));
    let get = || words(|words| _ = words.opaque(&file));
    // Nobody answers.
    assert_eq!(plain(&scene, 1, Procedure::GetAttr, get()), JUKEBOX);
    let call = asked(&scene).unwrap();
    says(&scene, &call, &change_and_size(1, 9));
    let mut found = plainly(&scene, 2, Procedure::Lookup, dir_name(&dir, b"f"));
    assert_eq!((found.status, found.opaque(), found.post_attr().is_none()), (0, file.clone(), true));
    let access = words(|words| _ = words.opaque(&file).u32(1));
    let mut found = plainly(&scene, 3, Procedure::Access, access);
    assert!(found.status == 0 && found.post_attr().is_none());
    // It was recalled.
    assert!(matches!(next_call(&scene), Some((_, _, NfsCbArgop4::OpCbRecall(_)))));
    assert_eq!(status(&mut a, &[lookup(b"f"), give_back(kept)]), OK);
    let mut found = plainly(&scene, 4, Procedure::Lookup, dir_name(&dir, b"f"));
    assert_eq!((found.status, found.opaque(), found.post_attr().is_some()), (0, file, true));
}

#[test]
fn version_3_is_told_what_a_client_says() {
    let scene = scene();
    let mut a = client(&scene, "a", 2);
    keeps(&mut a, b"f");
    let (file, given) = (handle(&scene, scene.file_named(b"f")), attr(&scene, b"f").change.0);
    for (change, size) in [(given, 0), (given + 1, 9)] {
        let before = attr(&scene, b"f");
        let get = words(|words| _ = words.opaque(&file));
        let mut found = plainly_while(&scene, 1 + size as u32, Procedure::GetAttr, get, &mut || {
            says(&scene, &asked(&scene).unwrap(), &change_and_size(change, size));
        });
        let told = found.attr();
        assert_eq!((found.status, told.size), (0, size));
        assert_eq!(attr(&scene, b"f") == before, size == 0);
    }
    assert!(next_call(&scene).is_none(), "it keeps the file");
}
