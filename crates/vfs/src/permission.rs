//! Who may do what to an object: mode bits as POSIX has them, with the superuser above them, and whoever was asked already ([`Cred::checked`]).

use crate::{Attr, Cred, FileKind, FsError, SetAttr, SetTime};

/// Permission bits of one class: read 4, write 2, execute or search 1.
pub const READ: u32 = 4;
/// See [`READ`].
pub const WRITE: u32 = 2;
/// See [`READ`].
pub const EXECUTE: u32 = 1;

/// The bits of `READ | WRITE | EXECUTE` that `cred` has on `attr`. The superuser reads and writes
/// everything, searches every directory, and executes what anybody may execute.
#[must_use]
pub fn granted(attr: &Attr, cred: &Cred) -> u32 {
    if cred.checked {
        return READ | WRITE | EXECUTE;
    }
    if cred.uid == 0 {
        let execute = attr.kind == FileKind::Directory || attr.mode & 0o111 != 0;
        return READ | WRITE | if execute { EXECUTE } else { 0 };
    }
    let class = if cred.uid == attr.uid {
        6
    } else if cred.in_group(attr.gid) {
        3
    } else {
        0
    };
    (attr.mode >> class) & 7
}

/// Whether all of `wanted` is granted.
#[must_use]
pub fn may(attr: &Attr, cred: &Cred, wanted: u32) -> bool {
    granted(attr, cred) & wanted == wanted
}

/// Whether `cred` owns the object, or passes for its owner: the superuser, and who was asked already.
#[must_use]
pub fn owns(attr: &Attr, cred: &Cred) -> bool {
    passes(cred) || cred.uid == attr.uid
}

/// Whether nothing is forbidden to `cred` that modes and owners forbid.
#[must_use]
pub fn passes(cred: &Cred) -> bool {
    cred.uid == 0 || cred.checked
}

/// Whether the sticky bit of `dir` keeps `cred` from removing or renaming `entry`.
#[must_use]
pub fn sticky_forbids(dir: &Attr, entry: &Attr, cred: &Cred) -> bool {
    dir.mode & 0o1000 != 0 && !owns(dir, cred) && !owns(entry, cred)
}

/// Whether `cred` may read (`wanted` is [`READ`]) or change ([`WRITE`]) an object's extended attributes, by the rules of xattr(7) for those of users: only what
/// has a mode that says who may use it has any. Where everybody may write a sticky directory its owner alone says what is noted beside it.
pub fn may_xattr(attr: &Attr, cred: &Cred, wanted: u32) -> Result<(), FsError> {
    let changes = wanted & WRITE != 0;
    if !has_xattrs(attr.kind) {
        return Err(if changes { FsError::NotOwner } else { FsError::NoXattr });
    }
    if changes && attr.kind == FileKind::Directory && attr.mode & 0o1000 != 0 && !owns(attr, cred) {
        return Err(FsError::NotOwner);
    }
    if may(attr, cred, wanted) { Ok(()) } else { Err(FsError::Access) }
}

/// Whether an object of this kind can have extended attributes.
#[must_use]
pub fn has_xattrs(kind: FileKind) -> bool {
    matches!(kind, FileKind::File | FileKind::Directory)
}

/// Whether `cred` may make the changes of `set` other than the size, by the rules of chmod(2), chown(2) and
/// utimensat(2). By which right somebody sets a time that he has set already is asked elsewhere.
pub fn may_set(attr: &Attr, cred: &Cred, set: &SetAttr) -> Result<(), FsError> {
    if passes(cred) {
        return Ok(());
    }
    let owner = cred.uid == attr.uid;
    if set.mode.is_some() && !owner {
        return Err(FsError::NotOwner);
    }
    if set.uid.is_some_and(|uid| uid != attr.uid || !owner) {
        return Err(FsError::NotOwner);
    }
    if set.gid.is_some_and(|gid| !owner || (gid != attr.gid && !cred.in_group(gid))) {
        return Err(FsError::NotOwner);
    }
    for time in [set.atime, set.mtime].into_iter().flatten() {
        match time {
            SetTime::Client(_) if !owner => return Err(FsError::NotOwner),
            SetTime::Server if !owner && !may(attr, cred, WRITE) => return Err(FsError::Access),
            _ => {}
        }
    }
    Ok(())
}

/// Owner and group of an object that `cred` makes, which are `inherited` unless `set` has others that `cred` may give. Who
/// makes an object may choose among their groups; what is asked beyond that is passed over, as the field's servers do,
/// since some clients send their group along with every CREATE.
#[must_use]
pub fn owners_given(cred: &Cred, inherited: (u32, u32), set: &SetAttr) -> (u32, u32) {
    let uid = set.uid.filter(|_| cred.uid == 0);
    let gid = set.gid.filter(|gid| cred.uid == 0 || cred.in_group(*gid));
    (uid.unwrap_or(inherited.0), gid.unwrap_or(inherited.1))
}

/// The mode that `set` leaves on `attr` (still with its old owner). Giving a file to somebody else takes
/// its set-id bits away, even where the same request sets them. Who is not in its group can neither make a
/// file run under that group, nor a directory give it on.
#[must_use]
pub fn mode_after(attr: &Attr, cred: &Cred, set: &SetAttr) -> u32 {
    let mut mode = set.mode.map_or(attr.mode, |mode| mode & 0o7777);
    let gid = set.gid.unwrap_or(attr.gid);
    if set.mode.is_some() && !passes(cred) && !cred.in_group(gid) {
        mode &= !0o2000;
    }
    let is_given = attr.kind != FileKind::Directory && (set.uid.is_some() || set.gid.is_some());
    if is_given { without_set_ids(mode) } else { mode }
}

/// A mode without set-user-id, and without set-group-id where that means running under the group (without
/// group execute it stands for mandatory locking, by old custom, and stays).
#[must_use]
pub fn without_set_ids(mode: u32) -> u32 {
    let mode = mode & !0o4000;
    if mode & 0o010 != 0 { mode & !0o2000 } else { mode }
}

/// Owner group and mode of an object that `cred` makes in `dir`: a set-group-id directory gives its group
/// on, and to directories the bit as well.
#[must_use]
pub fn inherit(dir: &Attr, cred: &Cred, kind: FileKind, mode: u32) -> (u32, u32) {
    let mode = mode & 0o7777;
    let gid = if dir.mode & 0o2000 != 0 { dir.gid } else { cred.gid };
    if kind == FileKind::Directory {
        return (gid, mode | (dir.mode & 0o2000));
    }
    let foreign = !passes(cred) && !cred.in_group(gid);
    (gid, if foreign { mode & !0o2000 } else { mode })
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;
    use tally_base::{FileTime, Generation, ObjectId, Time};

    use super::*;
    use crate::ObjectRef;

    fn of_another(kind: FileKind, mode: u32) -> Attr {
        let object = ObjectRef { id: ObjectId(7), generation: Generation(1) };
        let (now, at) = (Time(1), FileTime(1));
        Attr {
            object,
            kind,
            mode,
            nlink: 1,
            uid: 1,
            gid: 1,
            size: 0,
            used: 0,
            rdev: (0, 0),
            atime: at,
            mtime: at,
            ctime: now,
            change: now,
        }
    }

    #[test]
    fn who_was_asked_already_is_forbidden_nothing_and_owns_what_he_makes() {
        let (checked, asked) = (Cred::checked(1000, 100), Cred { checked: false, ..Cred::checked(1000, 100) });
        let (file, sticky) = (of_another(FileKind::File, 0), of_another(FileKind::Directory, 0o3777));
        let set = SetAttr { mode: Some(0o2755), ..SetAttr::default() };
        let answers = |cred: &Cred| {
            (
                may(&file, cred, READ | WRITE | EXECUTE),
                may_set(&file, cred, &set).is_ok(),
                may_xattr(&sticky, cred, WRITE).is_ok(),
                !sticky_forbids(&sticky, &file, cred),
                mode_after(&file, cred, &set),
                inherit(&sticky, cred, FileKind::File, 0o2755),
            )
        };
        assert_eq!(answers(&checked), (true, true, true, true, 0o2755, (1, 0o2755)));
        assert_eq!(answers(&asked), (false, false, false, false, 0o755, (1, 0o755)));
        assert_eq!(owners_given(&checked, (1000, 100), &SetAttr { uid: Some(5), ..SetAttr::default() }), (1000, 100));
        let given = SetAttr { uid: Some(5), ..SetAttr::default() };
        assert_eq!(
            mode_after(&of_another(FileKind::File, 0o6755), &checked, &given),
            0o755,
            "what is given away runs as nobody"
        );
        assert!(!Cred { groups: SmallVec::new(), ..Cred::root() }.checked);
    }
}
