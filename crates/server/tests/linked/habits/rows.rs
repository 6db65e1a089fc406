//! The first day of somebody who comes from ZFS and the kernel's NFS server: 42 habits that were written down and tried before any of this was built, one after the other,
//! each with what comes of it. What there is not is answered in a sentence, with exit status 2.

use super::{Machine, beside};

/// What is typed, its exit status, and what is said, in this order.
type Step = (&'static str, u8, &'static [&'static str]);

/// A habit: its number, and what is tried of it. Those that are tried on the wire or need a program of their own have a function beside.
struct Habit {
    number: usize,
    steps: &'static [Step],
    beside: Option<fn(&Machine)>,
}

const fn habit(number: usize, steps: &'static [Step]) -> Habit {
    Habit { number, steps, beside: None }
}

const NO_SNAPSHOTS: &[&str] = &["there are no snapshots yet"];

/// They share one machine, with pool `tank` and six spare disks, and leave that pool as it was.
const HABITS: [Habit; 42] = [
    habit(
        1,
        &[
            ("zpool list -Hp -o name,size", 0, &["tank\t", "\n"]),
            ("zpool list -v", 0, &["NAME", "HEALTH", "tank", "ONLINE", "\n  ", "ONLINE"]),
            ("zpool list -Hv -o name,health", 0, &["tank\tONLINE\n\t", "\tONLINE\n"]),
            ("zpool list -H -o name tank 0.01 3", 0, &["tank\ntank\ntank\n"]),
            ("zpool list -o name,colour", 2, &["there is no column 'colour'; there are name, size, alloc"]),
        ],
    ),
    habit(
        2,
        &[
            ("zpool status", 0, &["  pool: tank\n state: ONLINE\n", "errors: No known data errors"]),
            ("zpool status -v", 0, &["  pool: tank\n"]),
            ("zpool status -x", 0, &["all pools are healthy\n"]),
            ("zpool status -x tank", 0, &["pool 'tank' is healthy\n"]),
            ("zpool status tank 0.01 2", 0, &["  pool: tank\n", "\n\n  pool: tank\n"]),
            ("zpool status nobody", 1, &["nobody"]),
            ("zpool status tank 1 2 3", 2, &["an interval and a count"]),
        ],
    ),
    habit(
        3,
        &[
            ("zpool iostat -v -l -q 0.01 1", 0, &["capacity", "disk wait", "active", "tank"]),
            ("zpool iostat -w", 0, &["tank", "syncw", "us"]),
            ("zpool iostat -r", 0, &["tank", "read      write      syncw\n", "4K"]),
            ("zpool iostat -y -n -H tank 0.01 1", 0, &["tank\t"]),
            ("zpool iostat -y", 2, &["say an interval"]),
            ("zpool iostat -r -l", 2, &["cannot be used with"]),
        ],
    ),
    habit(
        4,
        &[
            ("zpool create -n -f -O sync=always -o ashift=12 -m /p p mirror /dev/a /dev/b", 0, &["would"]),
            ("zpool create -n -o ashift=9 p /dev/a", 1, &["ashift=9 cannot be had: ashift=12 is what is so"]),
            ("zpool create -n -m srv p /dev/a", 1, &["a directory of this machine from / on"]),
            ("zpool create -f -R /mnt -O sync=always dozer mirror /dev/a /dev/b", 0, &["created pool 'dozer'"]),
            ("zfs get -H -o value sync dozer", 0, &["always\n"]),
            ("zpool destroy dozer", 0, &["destroyed pool 'dozer'"]),
        ],
    ),
    habit(
        5,
        &[(
            "zpool create p raidz /dev/a /dev/b /dev/c",
            2,
            &["raidz vdevs are not there yet: use single devices, mirrors"],
        )],
    ),
    habit(
        6,
        &[
            ("zpool create dozer mirror /dev/a /dev/b", 0, &[]),
            (
                "zpool add dozer log /dev/c",
                2,
                &["a pool that is there takes spares", "other vdevs only come with `tally pool create`"],
            ),
            ("zpool add dozer spare /dev/c", 0, &["spare"]),
            ("zpool remove dozer /dev/c", 0, &["no spare"]),
            ("zpool offline dozer /dev/b", 0, &[]),
            ("zpool online dozer /dev/b", 0, &[]),
            ("zpool wait dozer", 0, &[]),
            ("zpool clear dozer", 0, &[]),
            ("zpool scrub -w dozer", 0, &[]),
            ("zpool status dozer", 0, &["scan: scrub"]),
            ("zpool trim dozer", 2, &["not trimmed yet"]),
            ("zpool split dozer half", 2, &["a mirror is not split"]),
            ("zpool checkpoint dozer", 2, &["there are no checkpoints"]),
        ],
    ),
    habit(
        7,
        &[
            ("zpool attach dozer /dev/a /dev/c", 0, &["/dev/c is now a mirror"]),
            ("zpool wait dozer", 0, &[]),
            ("zpool replace dozer /dev/b /dev/d", 0, &["/dev/b was replaced"]),
            ("zpool wait -t replace dozer", 0, &[]),
            ("zpool detach dozer /dev/c", 0, &[]),
            ("zpool status dozer", 0, &["/dev/a", "/dev/d"]),
        ],
    ),
    habit(
        8,
        &[
            ("zpool export dozer", 0, &[]),
            ("zpool import -d /dev", 0, &["dozer"]),
            ("zpool import -F -d /dev dozer", 2, &["-F is --rewind here"]),
            ("zpool import -d /dev dozer snoozer", 2, &["a pool keeps its name"]),
            ("zpool import -N -R /mnt -o readonly=on -d /dev dozer", 0, &["imported pool 'dozer'"]),
            ("zpool get -H -o value readonly dozer", 0, &["on\n"]),
            ("zpool export dozer", 0, &[]),
            ("zpool import -a -d /dev", 0, &["imported pool 'dozer'"]),
        ],
    ),
    habit(
        9,
        &[
            ("zpool destroy -f dozer", 0, &["destroyed pool 'dozer'"]),
            ("zpool export -a", 0, &["exported pool 'tank'"]),
            ("zpool list", 0, &["no pools are imported"]),
            ("zpool import tank", 0, &["imported pool 'tank'"]),
        ],
    ),
    habit(
        10,
        &[
            ("zpool get -H -o value health tank", 0, &["ONLINE\n"]),
            (
                "zpool get -Hp -o name,property,value,source size,capacity",
                0,
                &["tank\tsize\t", "tank\tcapacity\t0\t-\n"],
            ),
            ("zpool get all tank", 0, &["NAME", "tank", "health", "ONLINE"]),
            ("zpool get colour tank", 1, &["colour"]),
        ],
    ),
    habit(
        11,
        &[
            ("zpool history tank", 0, &["History for 'tank':\n", "tally dataset create tank/home\n"]),
            ("zpool history -il tank", 0, &["tally dataset create tank/home [user ", " on "]),
            ("zpool history -i tank", 0, &[" [pool_import] "]),
        ],
    ),
    Habit { number: 12, steps: &[("zpool events -v", 0, &["pool_import", "tank: "])], beside: Some(beside::events) },
    habit(
        13,
        &[
            ("zpool upgrade -v", 0, &["The following features are supported:"]),
            ("zpool upgrade", 0, &["has all supported and requested features enabled"]),
            ("zpool upgrade -a", 0, &[]),
        ],
    ),
    habit(14, &[("zpool sync", 0, &[]), ("zpool sync tank", 0, &[]), ("zpool sync nobody", 1, &["nobody"])]),
    habit(
        15,
        &[
            ("zpool set autotrim=off tank", 0, &[]),
            ("zpool set autotrim=on tank", 1, &["autotrim=off is what is so; disks are not trimmed yet"]),
        ],
    ),
    habit(
        16,
        &[
            ("zpool labelclear -n /dev/f", 1, &["/dev/f"]),
            ("zpool reguid tank", 2, &["a pool keeps its guid"]),
            ("zpool initialize tank", 2, &["need not be written over"]),
        ],
    ),
    habit(
        17,
        &[
            ("zfs list -r -d 1 -t all -o name,used -s used -H -p tank", 0, &["tank/", "tank\t"]),
            ("zfs list -o name,colour", 2, &["there is no column 'colour'"]),
        ],
    ),
    habit(
        18,
        &[
            ("zfs list -t snapshot -o name,used -s used", 0, &["nothing to show\n"]),
            ("zfs list -H -t snap -o name", 0, &[]),
            ("zfs list -t colour", 2, &["filesystem", "snapshot"]),
        ],
    ),
    habit(
        19,
        &[
            ("zfs get -s local -o value -t filesystem all", 0, &["VALUE"]),
            ("zfs get -H -o value,source compression tank", 0, &["lz4\tdefault\n"]),
            ("zfs get -o colour all", 2, &["colour"]),
        ],
    ),
    habit(
        20,
        &[
            ("zfs set sync=always atime=on tank/home", 0, &[]),
            ("zfs inherit sync tank/home", 0, &[]),
            ("zfs get -H -o value,source sync,atime tank/home", 0, &["standard\tdefault\n", "on\tlocal\n"]),
            ("zfs create -p -u -o sync=always tank/one/two", 0, &[]),
            ("zfs rename tank/one tank/three", 0, &[]),
            ("zfs list -H -o name tank/three/two", 0, &["tank/three/two\n"]),
            ("zfs set sync=perhaps tank", 1, &["it is standard, always or disabled"]),
        ],
    ),
    habit(
        21,
        &[
            ("zfs create -V 1G tank/vol", 2, &["there are no volumes"]),
            ("zfs create -s -b 8K -V 1G tank/vol", 2, &["there are no volumes"]),
            ("version", 0, &["tally "]),
        ],
    ),
    habit(
        22,
        &[
            ("zfs destroy -nvr tank/three", 0, &["would destroy tank/three\nwould destroy tank/three/two\n"]),
            ("zfs destroy -v -f -R tank/three", 0, &["destroyed tank/three\ndestroyed tank/three/two\n"]),
        ],
    ),
    habit(23, &[("zfs snapshot tank@a", 2, NO_SNAPSHOTS), ("zfs snap -r tank/home@a", 2, NO_SNAPSHOTS)]),
    habit(
        24,
        &[
            ("zfs rollback -r tank@a", 2, NO_SNAPSHOTS),
            ("zfs clone tank@a tank/b", 2, NO_SNAPSHOTS),
            ("zfs promote tank/b", 2, NO_SNAPSHOTS),
            ("zfs diff tank@a", 2, NO_SNAPSHOTS),
            ("zfs hold keep tank@a", 2, NO_SNAPSHOTS),
            ("zfs bookmark tank@a tank#a", 2, NO_SNAPSHOTS),
            ("zfs send -R tank@a", 2, &["datasets are not sent yet"]),
            ("zfs receive -F tank/b", 2, &["datasets are not sent yet"]),
        ],
    ),
    habit(
        25,
        &[
            ("zfs mount", 0, &["nothing is mounted on this machine"]),
            ("zfs mount -a", 0, &[]),
            ("zfs mount tank", 1, &["tank has no mountpoint", "tally dataset set mountpoint=DIR tank"]),
            ("zfs unmount tank/nowhere", 1, &["is no mount of a dataset"]),
            ("mount", 0, &["nothing is mounted on this machine"]),
        ],
    ),
    habit(
        26,
        &[
            ("zfs get -H -o value mountpoint tank/home", 0, &["none\n"]),
            ("zfs list -H -o mountpoint tank/home", 0, &["-\n"]),
            ("zfs set mountpoint=legacy tank", 0, &[]),
            ("zfs mount tank", 1, &["mountpoint=legacy", "/etc/fstab"]),
            ("zfs set mountpoint=/srv/tank tank", 0, &[]),
            ("zfs get -H -o value,source mountpoint tank/home", 0, &["/srv/tank/home\tinherited from tank\n"]),
            ("zfs list -H -o mountpoint,exportpath,mounted tank/home", 0, &["/srv/tank/home\t/tank/home\tno\n"]),
            ("zfs set canmount=off tank", 0, &[]),
            ("zfs get -H -o value canmount tank/home", 0, &["on\n"]),
            ("zfs mount tank", 1, &["canmount=off"]),
            ("zfs inherit mountpoint tank", 0, &[]),
            ("zfs inherit canmount tank", 0, &[]),
        ],
    ),
    habit(
        27,
        &[
            ("zfs share tank/home", 0, &["/tank/home"]),
            ("zfs share -a", 0, &["PATH", "RULES", "/tank", "nothing is to be done"]),
            ("zfs unshare -a", 2, &["sharenfs=off"]),
        ],
    ),
    habit(
        28,
        &[
            ("zfs set sharenfs=on tank", 0, &["note: the daemon listens on this machine's own addresses only"]),
            ("zfs set sharenfs=rw tank", 0, &[]),
            ("zfs set sharenfs=*(ro) tank", 0, &[]),
            ("zfs set 'sharenfs=10.0.0.0/8(rw) 2001:db8::/32(ro)' tank", 0, &[]),
            ("zfs get -H -o value sharenfs tank", 0, &["10.0.0.0/8(rw) 2001:db8::/32(ro)\n"]),
            ("zfs set sharenfs=off tank/home", 0, &[]),
            ("zfs share tank/home", 1, &["'tank/home' is exported to nobody"]),
            ("zfs inherit sharenfs tank/home", 0, &[]),
            ("zfs set sharenfs=off tank", 0, &[]),
            ("exports", 0, &["nothing is exported"]),
        ],
    ),
    habit(
        29,
        &[
            ("zfs set sharenfs=rw=@10.0.0.0/8,no_root_squash tank", 0, &[]),
            ("zfs get -H -o value sharenfs tank", 0, &["10.0.0.0/8(rw,no_root_squash)\n"]),
            (
                "zfs set sharenfs=sec=sys,rw=@10.0.0.0/8:192.0.2.7,ro=@172.16.0.0/12,root=@10.0.0.1,crossmnt tank",
                0,
                &[],
            ),
            (
                "zfs get -H -o value sharenfs tank",
                0,
                &["10.0.0.0/8(rw) 192.0.2.7(rw) 172.16.0.0/12(ro) 10.0.0.1(rw,no_root_squash)\n"],
            ),
        ],
    ),
    habit(
        30,
        &[
            ("zfs set sharenfs=filer.example.org(rw) tank", 1, &["is a host's name, and names are not looked up"]),
            ("zfs set sharenfs=*.example.org(rw) tank", 1, &["is a pattern for names"]),
            ("zfs set sharenfs=@build(rw) tank", 1, &["is a netgroup"]),
            ("zfs set sharenfs=*(rw,sec=krb5p) tank", 1, &["cannot be proven yet (Kerberos)"]),
            ("zfs set sharenfs=*(rw,xprtsec=mtls) tank", 1, &["connections are not encrypted yet"]),
            ("zfs set sharenfs=*(rw,async) tank", 1, &["sync=disabled"]),
            ("zfs set sharenfs=*(rw,colour) tank", 1, &["unknown option `colour`; known are ro, rw"]),
            ("zfs set sharenfs=*(rw,sec=sys,crossmnt,nohide,subtree_check,fsid=0) tank", 0, &[]),
            ("zfs get -H -o value sharenfs tank", 0, &["*(rw)\n"]),
        ],
    ),
    Habit {
        number: 31,
        steps: &[
            (
                "exports",
                0,
                &[
                    "PATH",
                    "SOURCE",
                    "MOUNTED",
                    "RULES",
                    "/tank ",
                    "local",
                    "*(rw)",
                    "/tank/home",
                    "inherited from tank",
                ],
            ),
            (
                "exports -v -H",
                0,
                &["/tank\t*\trw,sync,sec=sys,secure,root_squash,no_all_squash,anonuid=65534,anongid=65534\tlocal\t"],
            ),
            ("exports --json", 0, &["\"path\": \"/tank\"", "\"source\": \"local\""]),
            ("exportfs -v", 2, &["`tally exports -v`"]),
        ],
        beside: Some(beside::exports_file),
    },
    Habit { number: 32, steps: &[], beside: Some(beside::showmount) },
    Habit { number: 33, steps: &[], beside: Some(beside::a_lock_of_version_3) },
    habit(
        34,
        &[
            (
                "nfsstat -s",
                0,
                &[
                    "Server rpc stats:\ncalls      badcalls\n",
                    "Server nfs v3:\nnull ",
                    "getattr",
                    "Server nfs v4 operations:\n",
                ],
            ),
            ("nfsstat -s -3 -o nfs", 0, &["Server nfs v3:\n", "commit"]),
            ("nfsstat -l", 0, &["rpc        calls:", "nfs v3 server", "total:", "lookup:        1\n"]),
            ("nfsstat -c", 2, &["is counted by its kernel"]),
            ("nfsstat -m", 2, &["is counted by its kernel"]),
            ("stat ops", 0, &["PROCEDURE"]),
        ],
    ),
    Habit {
        number: 35,
        steps: &[
            ("nfsdclnts", 2, &["`tally client list`"]),
            ("locks", 0, &["nothing to show"]),
            ("stat locks", 0, &["nothing to show"]),
            ("locks --json", 0, &["\"shown\": []"]),
        ],
        beside: Some(beside::holders),
    },
    habit(
        36,
        &[
            ("arcstat", 0, &["time", "read", "miss", "size", "c\n"]),
            ("arcstat -f read,hit%,dsize,msize -p 0.01 2", 0, &["read", "hit%", "dsize", "msize\n", "\n", "\n"]),
            ("arcstat -v", 0, &["time of day", "blocks of files"]),
            ("arcstat -f colour", 2, &["there is no column 'colour'; there are time, read"]),
            ("arc_summary", 0, &["POOL", "KIND", "HITS", "MISSES", "tank", "leaves"]),
        ],
    ),
    habit(
        37,
        &[
            ("zilstat", 0, &["N-Bytes", "commits"]),
            ("zilstat --json", 0, &["\"slot_quantiles\":{\"count\":", "\"p50_ns\":", "\"p99_ns\":", "\"max_ns\":"]),
            ("zdb tank", 2, &["`tally inspect`"]),
        ],
    ),
    habit(
        38,
        &[
            ("zfs set userquota@ann=1G tank", 1, &["give each a dataset with a quota"]),
            ("zfs userspace tank", 2, &["there are no quotas of users yet"]),
            ("zfs groupspace tank", 2, &["there are no quotas of users yet"]),
        ],
    ),
    habit(
        39,
        &[
            (
                "zfs set xattr=sa acltype=off relatime=on dedup=off copies=1 primarycache=all exec=on devices=on snapdir=hidden reservation=none tank",
                0,
                &[],
            ),
            ("zfs set refquota=10G tank/home", 0, &[]),
            ("zfs get -H -o value refquota,xattr tank/home", 0, &["10G\n", "sa\n"]),
            ("zfs inherit refquota tank/home", 0, &[]),
            ("zfs set dedup=on tank", 1, &["equal blocks are not looked for"]),
            ("zfs set copies=2 tank", 1, &["make the pool of mirrors"]),
            ("zfs set acltype=posix tank", 1, &["no access control lists yet"]),
            ("zfs set primarycache=metadata tank", 1, &["`cache` in the configuration bounds it"]),
            ("zfs set exec=off tank", 1, &["clients mount with that option"]),
            ("zfs set reservation=1G tank", 1, &["room is not reserved for datasets"]),
            ("zfs set snapdir=visible tank", 1, &["there are no snapshots yet"]),
        ],
    ),
    habit(
        40,
        &[
            ("zfs set com.sun:auto-snapshot=true tank", 0, &[]),
            ("zfs get -H -o value,source com.sun:auto-snapshot tank/home", 0, &["true\tinherited from tank\n"]),
            ("zfs list -H -o name,com.sun:auto-snapshot tank", 0, &["tank\ttrue\n"]),
        ],
    ),
    habit(
        41,
        &[
            ("zfs set compression=zstd-3 tank", 0, &[]),
            ("zfs get -H -o value compression tank", 0, &["zstd\n"]),
            ("zfs set compression=zstd-19 tank", 1, &["there are no other levels yet"]),
            ("zfs set compression=gzip-9 tank", 1, &["zstd makes less of a block than gzip"]),
            ("zfs set compression=on tank", 0, &[]),
            ("zfs get -H -o value compression tank", 0, &["lz4\n"]),
        ],
    ),
    habit(
        42,
        &[
            ("list", 2, &["`tally pool list` or `tally dataset list`?"]),
            ("history -i tank", 2, &["`tally pool history`"]),
            ("version", 0, &["tally "]),
            ("--version", 0, &["tally "]),
            ("config check /nowhere/tally.toml", 1, &["/nowhere/tally.toml"]),
        ],
    ),
];

#[test]
fn the_first_day() {
    let (machine, mut wrong) = (Machine::start(), Vec::new());
    for (Habit { number, steps, beside }, counted) in HABITS.iter().zip(1..) {
        assert_eq!(*number, counted, "each has its number");
        assert!(!steps.is_empty() || beside.is_some(), "nothing is tried of {number}");
        for (line, status, parts) in *steps {
            wrong.extend(machine.tries(line, *status, parts).err().map(|wrong| format!("{number}: {wrong}")));
        }
        if let Some(beside) = beside {
            beside(&machine);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
