//! The server's codec of version 4 is by hand; here its numbers and the shapes of its arguments and results are held against the RFCs' own XDR.

use std::collections::BTreeMap;

use crate::support::compound::{Op, bare, get_attr, lookup, op, put_root, readable, status_of};
use crate::support::{House, KEY, POOL};
use tally_base::{DatasetId, FileTime};
use tally_nfs::handle::Handle;
use tally_nfs::v4::state::LEASE_DEFAULT;
use tally_vfs::{
    Attr, Attributes, Content, CreateHow, Cred, FILE_SIZE_MAX, FsStat, Identity, LINK_MAX, NAME_MAX, Names, NodeKind,
    OpCtx, SetAttr, SetTime, Stability, WRITE_BYTES_MAX,
};
use tally_wire::Dice;
use tally_wire::nfs4::{
    Createhow4, FATTR4_MODE, FATTR4_OWNER, FATTR4_RAWDEV, FATTR4_SIZE, FATTR4_SUPPORTED_ATTRS, FATTR4_TIME_ACCESS_SET,
    FATTR4_TIME_MODIFY_SET, FATTR4_TYPE, FH4_PERSISTENT, Fattr4, Fattr4Value, Fsid4, NfsArgop4, NfsFtype4, NfsOpnum4,
    NfsResop4, Nfsstat4, Nfstime4, Open4Args, OpenClaim4, Openflag4, Specdata4,
};

/// Operations of minor version 0 end here.
const LAST_OF_0: u32 = NfsOpnum4::OpReleaseLockowner as u32;
/// How often each operation is sent.
const DRAWS: usize = 60;

/// A tank with one object of each type, each of which is called like that.
fn house() -> House {
    let house = House::speaking_4();
    let (root, set) = (Cred::root(), SetAttr { mode: Some(0o640), ..SetAttr::default() });
    let ctx = OpCtx::of(&root);
    let tank = &house.exports.tank;
    let file = tank.create(ctx, tank.root(), b"Nf4Reg", &CreateHow::Guarded(set.clone())).result.unwrap().object;
    tank.write(ctx, file, 0, b"some bytes".as_slice().into(), Stability::FileSync).result.unwrap();
    let time = |seconds| Some(SetTime::Client(FileTime::new(seconds, 1)));
    let told_apart = SetAttr { uid: Some(7), gid: Some(8), atime: time(3), mtime: time(5), ..SetAttr::default() };
    tank.setattr(ctx, file, &told_apart, None).result.unwrap();
    tank.mkdir(ctx, tank.root(), b"Nf4Dir", &set).result.unwrap();
    tank.symlink(ctx, tank.root(), b"Nf4Lnk", b"Nf4Reg", &set).result.unwrap();
    let nodes = [
        ("Nf4Blk", NodeKind::BlockDevice(3, 4)),
        ("Nf4Chr", NodeKind::CharDevice(5, 6)),
        ("Nf4Sock", NodeKind::Socket),
        ("Nf4Fifo", NodeKind::Fifo),
    ];
    for (name, kind) in nodes {
        tank.mknod(ctx, tank.root(), name.as_bytes(), kind, &set).result.unwrap();
    }
    house
}

fn at(name: &str, last: Op) -> Vec<Op> {
    vec![put_root(), lookup(b"tank"), lookup(name.as_bytes()), last]
}

/// The enumeration's text, as its members are not told: each name is the RFC's without what begins all of them, and has its number.
#[test]
fn every_status_has_the_rfcs_number() {
    let of_rfc: BTreeMap<_, _> = Nfsstat4::ALL.iter().map(|status| (format!("{status:?}"), *status as u32)).collect();
    let text = include_str!("../../src/v4/status.rs");
    let members = text.split_once("pub enum Status {").unwrap().1.split_once('}').unwrap().0;
    let members: Vec<_> = members.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = ")).collect();
    assert!(members.len() >= 39, "{} are found", members.len());
    for (name, number) in members {
        let of = |(rfc, of): (&String, &u32)| {
            let rfc = rfc.strip_prefix("Nfs4Err").or(rfc.strip_prefix("Nfs4")).expect("all begin so");
            rfc.eq_ignore_ascii_case(name).then_some(*of)
        };
        assert_eq!(of_rfc.iter().find_map(of), number.parse().ok(), "{name}");
    }
}

/// Every number that an operation of a minor version has, those beside them, and those of later versions.
#[test]
fn every_number_is_an_operation_or_none_as_the_rfc_says() {
    let house = house();
    let mut client = house.client();
    let last = [NfsOpnum4::OpReleaseLockowner, NfsOpnum4::OpReclaimComplete, NfsOpnum4::OpRemovexattr];
    for (minor, last) in (0..).zip(last.map(|op| op as u32)) {
        let is_there = |number: u32| number <= last && NfsOpnum4::ALL.iter().any(|op| *op as u32 == number);
        for number in (0..100).chain([NfsOpnum4::OpIllegal as u32, 1 << 31, u32::MAX]) {
            let reply = client.compound(minor, &[bare(number)]);
            let is_illegal = matches!(&reply.resarray[..], [NfsResop4::OpIllegal(_)]);
            assert_eq!(!is_illegal, is_there(number), "{number} of {minor}");
            assert_eq!(is_illegal, reply.status == Nfsstat4::Nfs4ErrOpIllegal, "{number} of {minor}");
        }
    }
}

/// Sends each operation of minor version 0 with arguments that are drawn, on several kinds of objects. All results are decoded to their
/// end; well-formed arguments are never BADXDR, what ends is nothing else, and where one is OK the next begins behind it.
#[test]
fn every_operation_takes_the_rfcs_arguments_and_gives_its_results() {
    let house = house();
    let mut client = house.client();
    let mut dice = Dice::new(4);
    let of_0 = NfsOpnum4::ALL.iter().filter(|op| **op as u32 <= LAST_OF_0);
    for number in of_0.flat_map(|op| [*op; DRAWS]) {
        let mut drawn = NfsArgop4::random_arm(number, &mut dice);
        match &mut drawn {
            NfsArgop4::OpCreate(create) => create.createattrs = attributes(&mut dice),
            NfsArgop4::OpSetattr(set) => set.obj_attributes = attributes(&mut dice),
            NfsArgop4::OpOpen(open) => of_minor_0(open, &mut dice),
            _ => {}
        }
        let drawn = op(&drawn);
        let name = dice.one_of(&["Nf4Reg", "Nf4Dir", "Nf4Lnk"]);
        let reply = client.compound(0, &[at(name, drawn.clone()), vec![put_root()]].concat());
        assert_ne!(reply.status, Nfsstat4::Nfs4ErrBadxdr, "{:?}", reply.resarray.last());
        let gone_on = reply.resarray.len() == 5;
        assert_eq!(gone_on, status_of(&reply.resarray[3]) == Nfsstat4::Nfs4Ok, "{:?}", reply.resarray);
        assert!(!gone_on || reply.status == Nfsstat4::Nfs4Ok, "{:?}", reply.resarray);
        if drawn.len() > 4 {
            let ended = client.status(&at(name, drawn[..drawn.len() - 4].to_vec()));
            assert!([Nfsstat4::Nfs4ErrBadxdr, Nfsstat4::Nfs4ErrNotsupp].contains(&ended), "{ended:?} for {drawn:x?}");
        }
    }
}

/// What later versions have besides is garbage in this one.
fn of_minor_0(open: &mut Open4Args, dice: &mut Dice) {
    if let Openflag4::Open4Create(how) = &mut open.openhow {
        match how {
            Createhow4::Unchecked4(set) | Createhow4::Guarded4(set) => *set = attributes(dice),
            Createhow4::Exclusive41(_) => *how = Createhow4::Exclusive4([7; 8]),
            Createhow4::Exclusive4(_) => {}
        }
    }
    if matches!(open.claim, OpenClaim4::ClaimFh | OpenClaim4::ClaimDelegCurFh(_) | OpenClaim4::ClaimDelegPrevFh) {
        open.claim = OpenClaim4::ClaimNull(b"name".into());
    }
}

/// Some that there are, each with a value of its type.
fn attributes(dice: &mut Dice) -> Fattr4 {
    let numbers = [FATTR4_SIZE, FATTR4_MODE, FATTR4_OWNER, FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, FATTR4_TYPE];
    let some: Vec<_> = numbers.into_iter().filter(|_| dice.below(2) == 0).collect();
    Fattr4::of(&some.into_iter().map(|number| Fattr4Value::random_arm(number, dice)).collect::<Vec<_>>())
}

#[test]
fn every_type_of_object_has_the_rfcs_number() {
    let house = house();
    let mut client = house.client();
    // Those of named attributes are not served.
    for kind in &NfsFtype4::ALL[..7] {
        let told = client.attributes(&at(&format!("{kind:?}"), get_attr(&[FATTR4_TYPE])));
        assert_eq!(told[&FATTR4_TYPE], Fattr4Value::Fattr4Type(*kind));
    }
}

/// Each attribute of a file, by the RFC's name, and what it must be: none is told besides.
#[test]
fn every_attribute_has_the_rfcs_number_and_type() {
    let house = house();
    let mut client = house.client();
    let supported = client.attributes(&at("Nf4Reg", get_attr(&[FATTR4_SUPPORTED_ATTRS])));
    let Fattr4Value::Fattr4SupportedAttrs(supported) = &supported[&FATTR4_SUPPORTED_ATTRS] else { panic!() };
    let told = client.attributes(&at("Nf4Reg", get_attr(&readable(supported))));
    let tank = &house.exports.tank;
    let attr = tank.lookup(&Cred::root(), tank.root(), b"Nf4Reg").unwrap().0;
    let mut expected = of_the_object(&attr);
    expected.extend(of_its_file_system(&tank.statfs().unwrap()));
    expected.extend(of_the_server());
    expected.push(Fattr4Value::Fattr4SupportedAttrs(supported.clone()));
    assert_eq!(told, expected.into_iter().map(|value| (value.on(), value)).collect());
    // A file's is two zeroes.
    let device = client.attributes(&at("Nf4Blk", get_attr(&[FATTR4_RAWDEV])));
    let rawdev = Fattr4Value::Fattr4Rawdev(Specdata4 { specdata1: 3, specdata2: 4 });
    assert_eq!(device[&FATTR4_RAWDEV], rawdev);
}

fn of_the_object(attr: &Attr) -> Vec<Fattr4Value> {
    let time = |time: FileTime| Nfstime4 { seconds: time.seconds(), nseconds: time.subsec_nanos() };
    let handle = Handle { pool: POOL, dataset: DatasetId(1), object: attr.object }.seal(&KEY);
    vec![
        Fattr4Value::Fattr4Type(NfsFtype4::Nf4Reg),
        Fattr4Value::Fattr4Change(attr.change.0),
        Fattr4Value::Fattr4Size(10),
        Fattr4Value::Fattr4Fsid(Fsid4 { major: POOL.0, minor: 1 }),
        Fattr4Value::Fattr4RdattrError(Nfsstat4::Nfs4Ok),
        Fattr4Value::Fattr4Filehandle(handle.into()),
        Fattr4Value::Fattr4Fileid(attr.object.id.0),
        Fattr4Value::Fattr4MountedOnFileid(attr.object.id.0),
        Fattr4Value::Fattr4Mode(0o640),
        Fattr4Value::Fattr4Numlinks(1),
        Fattr4Value::Fattr4Owner(b"7".into()),
        Fattr4Value::Fattr4OwnerGroup(b"8".into()),
        Fattr4Value::Fattr4Rawdev(Specdata4 { specdata1: 0, specdata2: 0 }),
        Fattr4Value::Fattr4SpaceUsed(attr.used),
        Fattr4Value::Fattr4TimeAccess(time(attr.atime)),
        Fattr4Value::Fattr4TimeMetadata(time(attr.ctime.into())),
        Fattr4Value::Fattr4TimeModify(time(attr.mtime)),
    ]
}

fn of_its_file_system(space: &FsStat) -> Vec<Fattr4Value> {
    vec![
        Fattr4Value::Fattr4FilesAvail(space.free_files),
        Fattr4Value::Fattr4FilesFree(space.free_files),
        Fattr4Value::Fattr4FilesTotal(space.total_files),
        Fattr4Value::Fattr4QuotaAvailHard(space.available_bytes),
        Fattr4Value::Fattr4QuotaAvailSoft(space.available_bytes),
        Fattr4Value::Fattr4QuotaUsed(space.total_bytes - space.free_bytes),
        Fattr4Value::Fattr4SpaceAvail(space.available_bytes),
        Fattr4Value::Fattr4SpaceFree(space.free_bytes),
        Fattr4Value::Fattr4SpaceTotal(space.total_bytes),
    ]
}

fn of_the_server() -> Vec<Fattr4Value> {
    vec![
        Fattr4Value::Fattr4FhExpireType(FH4_PERSISTENT),
        Fattr4Value::Fattr4LinkSupport(true),
        Fattr4Value::Fattr4SymlinkSupport(true),
        Fattr4Value::Fattr4NamedAttr(false),
        Fattr4Value::Fattr4UniqueHandles(true),
        Fattr4Value::Fattr4LeaseTime(LEASE_DEFAULT.as_secs() as u32),
        Fattr4Value::Fattr4Aclsupport(0),
        Fattr4Value::Fattr4Cansettime(true),
        Fattr4Value::Fattr4CaseInsensitive(false),
        Fattr4Value::Fattr4CasePreserving(true),
        Fattr4Value::Fattr4ChownRestricted(true),
        Fattr4Value::Fattr4Homogeneous(true),
        Fattr4Value::Fattr4Maxfilesize(FILE_SIZE_MAX),
        Fattr4Value::Fattr4Maxlink(LINK_MAX),
        Fattr4Value::Fattr4Maxname(NAME_MAX as u32),
        Fattr4Value::Fattr4Maxread(tally_nfs::v3::READ_BYTES_MAX.into()),
        Fattr4Value::Fattr4Maxwrite(WRITE_BYTES_MAX.into()),
        Fattr4Value::Fattr4NoTrunc(true),
        Fattr4Value::Fattr4TimeDelta(Nfstime4 { seconds: 0, nseconds: 1 }),
    ]
}
