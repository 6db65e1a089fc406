use super::*;

fn set(pairs: &[(&str, &str)]) -> PropertySet {
    let value = |&(name, text): &(&str, &str)| parse(name.parse().unwrap(), text).unwrap();
    pairs.iter().map(value).collect()
}

#[test]
fn values_print_as_zfs_spells_them() {
    let cases = [
        ("sync", "standard", "standard", "standard"),
        ("sync", "always", "always", "always"),
        ("sync", "disabled", "disabled", "disabled"),
        ("logbias", "latency", "latency", "latency"),
        ("logbias", "throughput", "throughput", "throughput"),
        ("logbias", "auto", "auto", "auto"),
        ("recordsize", "131072", "128K", "131072"),
        ("recordsize", "4k", "4K", "4096"),
        ("recordsize", "1M", "1M", "1048576"),
        ("refquota", "1.5G", "1.50G", "1610612736"),
        ("refquota", "none", "none", "0"),
        ("quota", "2T", "2T", "2199023255552"),
        ("quota", "none", "none", "0"),
        ("refquota", "0", "none", "0"),
        ("readonly", "on", "on", "on"),
        ("atime", "off", "off", "off"),
        ("compression", "on", "lz4", "lz4"),
        ("compression", "zstd", "zstd", "zstd"),
        ("compression", "zstd-3", "zstd", "zstd"),
        ("delegations", "auto", "auto", "auto"),
        ("delegations", "on", "on", "on"),
        ("delegations", "off", "off", "off"),
        ("mountpoint", "none", "none", "none"),
        ("mountpoint", "legacy", "legacy", "legacy"),
        ("mountpoint", "/srv//my files/", "/srv/my files", "/srv/my files"),
        ("canmount", "on", "on", "on"),
        ("canmount", "off", "off", "off"),
        ("canmount", "noauto", "noauto", "noauto"),
        ("sharenfs", "off", "off", "off"),
        ("sharenfs", " 10.0.0.0/8(ro) ", "10.0.0.0/8(ro)", "10.0.0.0/8(ro)"),
        ("sharesmb", "off", "off", "off"),
        ("sharesmb", " name=Docs,guest=no ", "name=Docs,guest=no", "name=Docs,guest=no"),
    ];
    for (name, typed, shown, exact) in cases {
        let property: Property = name.parse().unwrap();
        let value = parse(property, typed).unwrap_or_else(|error| panic!("{name}={typed}: {error}"));
        assert_eq!((value.to_string().as_str(), value.exact().as_str()), (shown, exact), "{name}={typed}");
        assert_eq!(value.property(), property);
        assert_eq!(parse(property, &value.exact()), Ok(value), "what {name}={typed} prints can be read again");
    }
}

#[test]
fn what_a_shell_offers_can_be_set() {
    for property in Property::ALL {
        assert!(!usual_values(property).is_empty());
        for text in usual_values(property) {
            assert!(parse(property, text).is_ok(), "{property}={text}");
        }
    }
}

#[test]
fn wrong_values_say_what_would_be_right() {
    let cases = [
        ("sync", "off", "'off' is no value of sync: it is standard, always or disabled"),
        ("recordsize", "100K", "power of two from 4K to 1M"),
        ("recordsize", "2M", "power of two from 4K to 1M"),
        ("recordsize", "2048", "power of two from 4K to 1M"),
        ("refquota", "lots", "none, or a size"),
        ("readonly", "yes", "on or off"),
        ("compression", "gzip", "zstd makes less of a block than gzip"),
        ("compression", "gzip-9", "zstd makes less of a block than gzip"),
        ("compression", "zstd-19", "off, lz4 or zstd, which is zstd-3"),
        ("compression", "fast", "off, lz4 or zstd"),
        ("delegations", "read", "auto, on or off"),
        ("mountpoint", "", "none, legacy, or a directory"),
        ("mountpoint", "/", "none, legacy, or a directory"),
        ("mountpoint", "//", "none, legacy, or a directory"),
        ("mountpoint", "srv/home", "from / on"),
        ("mountpoint", "/srv/../etc", "without . and .."),
        ("mountpoint", "/srv/./home", "without . and .."),
        ("mountpoint", "/srv/a\nb", "none, legacy, or a directory"),
        ("mountpoint", "/srv/a\0b", "none, legacy, or a directory"),
        ("canmount", "yes", "on, off or noauto"),
        ("logbias", "", "auto, latency or throughput"),
        ("sharenfs", "", "off, on, or a list of networks"),
        ("sharenfs", "a\nb", "off, on, or a list of networks"),
        ("sharenfs", "10.0.0.0/8(rw,async)", "sync=disabled"),
        ("sharesmb", " ", "off, on, or options"),
        ("sharesmb", "on\n[global]", "off, on, or options"),
    ];
    for (name, typed, expected) in cases {
        let error = parse(name.parse().unwrap(), typed).expect_err(typed).to_string();
        assert!(error.contains(expected), "{name}={typed}: {error}");
    }
    let unknown = "dedup".parse::<Property>().unwrap_err().to_string();
    assert!(unknown.contains("no property 'dedup'") && unknown.contains("recordsize"), "{unknown}");
    assert!(parse(Property::ShareNfs, &"x".repeat(SHARENFS_BYTES_MAX + 1)).is_err());
    assert!(parse(Property::ShareSmb, &"x".repeat(SHARESMB_BYTES_MAX + 1)).is_err());
    let path = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
    assert!(parse(Property::Mountpoint, &path(MOUNTPOINT_BYTES_MAX)).is_ok());
    assert!(parse(Property::Mountpoint, &path(MOUNTPOINT_BYTES_MAX + 1)).is_err());
}

#[test]
fn the_nearest_set_wins_and_quotas_stay_where_they_are() {
    let root =
        set(&[("sync", "always"), ("quota", "2G"), ("refquota", "1G"), ("compression", "off"), ("sharenfs", "on")]);
    let words = [("compression", "zstd"), ("readonly", "on"), ("recordsize", "16K"), ("delegations", "off")];
    let home = set(&[&words[..], &[("sharesmb", "on")]].concat());
    let ann = set(&[("readonly", "off"), ("atime", "on"), ("logbias", "throughput")]);
    let found = effective(&[&root, &home, &ann]);
    let expected = Effective {
        sync: SyncMode::Always,
        logbias: LogBias::Throughput,
        recordsize: 16 << 10,
        quota: None,
        refquota: None,
        readonly: false,
        atime: true,
        compression: Compression::Zstd,
        delegations: Delegating::Off,
        sharenfs: "on".into(),
        sharesmb: "on".into(),
        mountpoint: Placed::default(),
        canmount: CanMount::On,
    };
    assert_eq!(found, expected);
    assert_eq!((effective(&[&root]).quota, effective(&[&root]).refquota), (Some(2 << 30), Some(1 << 30)));
    let defaults = effective(&[]);
    assert_eq!((defaults.recordsize, defaults.sharenfs.as_str()), (128 << 10, "off"));
    assert_eq!((defaults.sync, defaults.compression), (SyncMode::Standard, Compression::Lz4));
    assert_eq!(defaults.delegations, Delegating::Auto);
}

#[test]
fn sources_name_the_ancestor() {
    let root = set(&[("sync", "always"), ("refquota", "1G")]);
    let home = set(&[]);
    let ann = set(&[("atime", "on")]);
    let lines: Vec<String> = sources(&[("tank", &root), ("tank/home", &home), ("tank/home/ann", &ann)])
        .iter()
        .map(|line| format!("{} {} {}", line.value.property(), line.value, line.source))
        .collect();
    let expected = [
        "sync always inherited from tank",
        "logbias auto default",
        "recordsize 128K default",
        "quota none default",
        "refquota none default",
        "readonly off default",
        "atime on local",
        "compression lz4 default",
        "delegations auto default",
        "sharenfs off default",
        "sharesmb off default",
        "mountpoint none default",
        "canmount on default",
    ];
    assert_eq!(lines, expected);
}

/// As ZFS has it: two datasets cannot be mounted in one place, so the names between come down with it.
#[test]
fn a_mountpoint_comes_down_with_the_names_below_it() {
    let at = |path: &str| set(&[("mountpoint", path)]);
    let (top, none, moved, legacy) = (at("/srv"), set(&[]), at("/home"), at("legacy"));
    let cases: [(&[&PropertySet], &str, &str, &str); 6] = [
        (&[&top], "tank", "/srv", "local"),
        (&[&top, &none], "tank/home", "/srv/home", "inherited from tank"),
        (&[&top, &none, &none], "tank/home/ann", "/srv/home/ann", "inherited from tank"),
        (&[&top, &moved, &none], "tank/home/ann", "/home/ann", "inherited from tank/home"),
        (&[&top, &legacy, &none], "tank/home/ann", "legacy", "inherited from tank/home"),
        (&[&none, &none], "tank/home", "none", "default"),
    ];
    for (chain, name, expected, source) in cases {
        assert_eq!(effective(chain).mountpoint.of(name).to_string(), expected, "{name}");
        let names = ["tank", "tank/home", "tank/home/ann"];
        let named: Vec<_> = names.into_iter().zip(chain.iter().copied()).collect();
        let line = sources(&named).into_iter().find(|line| line.value.property() == Property::Mountpoint).unwrap();
        assert_eq!((line.value.to_string().as_str(), line.source.to_string().as_str()), (expected, source), "{name}");
    }
    // Names of a pool that somebody else has made lead nowhere else.
    for name in ["tank/..", "tank/.", "tank/", "tank/a\nb"] {
        assert_eq!(effective(&[&top, &none]).mountpoint.of(name).to_string(), "none", "{name:?}");
    }
    // Another name, and the place is another one: nothing has to be worked out anew.
    assert_eq!(effective(&[&top, &none]).mountpoint.of("tank/house").to_string(), "/srv/house");
    let off = set(&[("canmount", "off")]);
    assert_eq!(effective(&[&off]).canmount, CanMount::Off);
    assert_eq!(effective(&[&off, &none]).canmount, CanMount::On, "it says nothing of those below");
}

/// A set stands in the dataset's root block; its bytes are part of the format.
#[test]
fn the_encoding_of_a_set_stays_as_it_is() {
    let full = set(&[
        ("sync", "disabled"),
        ("logbias", "throughput"),
        ("recordsize", "4K"),
        ("quota", "700"),
        ("refquota", "300"),
        ("readonly", "on"),
        ("atime", "off"),
        ("compression", "zstd"),
        ("delegations", "off"),
        ("sharenfs", "on"),
        ("sharesmb", "on"),
        ("mountpoint", "/srv"),
        ("canmount", "noauto"),
    ]);
    let expected: [&[u8]; 13] = [
        &[1, 0, 0, 1, 0, 2],
        &[2, 0, 0, 1, 0, 1],
        &[3, 0, 0, 4, 0, 0, 16, 0, 0],
        &[9, 0, 0, 8, 0, 188, 2, 0, 0, 0, 0, 0, 0],
        &[4, 0, 0, 8, 0, 44, 1, 0, 0, 0, 0, 0, 0],
        &[5, 0, 0, 1, 0, 1],
        &[6, 0, 0, 1, 0, 0],
        &[7, 0, 0, 2, 0, 2, 0],
        &[10, 0, 0, 1, 0, 2],
        &[8, 0, 0, 2, 0, b'o', b'n'],
        &[13, 0, 0, 2, 0, b'o', b'n'],
        &[11, 0, 0, 4, 0, b'/', b's', b'r', b'v'],
        &[12, 0, 0, 1, 0, 2],
    ];
    assert_eq!(full.encode(), expected.concat());
    assert_eq!(PropertySet::decode(&full.encode()), Ok(Some(full.clone())));
    let mut cleared = full;
    assert_eq!(cleared.clear(Property::Atime), Some(Value::Atime(false)));
    assert_eq!((cleared.value(Property::Atime), cleared.iter().count()), (None, 12));
}

#[test]
fn a_set_with_an_impossible_value_is_not_read_back() {
    for value in [Value::RecordSize(0), Value::RecordSize(4097), Value::RecordSize(u32::MAX), Value::RefQuota(Some(0))]
    {
        let is_none = value == Value::RefQuota(Some(0));
        let read = PropertySet::decode(&PropertySet::from_iter([value.clone()]).encode());
        assert_eq!(read.is_err(), !is_none, "{value:?}: 0 says that there is none");
    }
    for sound in [Value::RecordSize(4096), Value::Quota(None), Value::RefQuota(None), Value::RefQuota(Some(1))] {
        let set = PropertySet::from_iter([sound]);
        assert_eq!(PropertySet::decode(&set.encode()), Ok(Some(set)));
    }
    for path in ["srv", "/", "/srv/", "/srv/../etc", "/a\nb"] {
        let set = PropertySet::from_iter([Value::Mountpoint(Mountpoint::At(path.into()))]);
        assert!(PropertySet::decode(&set.encode()).is_err(), "{path:?}");
    }
    let twice =
        [Value::Atime(true), Value::Atime(false)].map(|value| PropertySet::from_iter([value]).encode()).concat();
    assert!(PropertySet::decode(&twice).is_err(), "one of them cannot be true");
    for cut in 1..twice.len() / 2 {
        assert!(PropertySet::decode(&twice[..cut]).is_err(), "{cut} bytes of a property");
    }
}

#[test]
fn what_a_newer_program_has_set_stays_as_it_is() {
    let ours = set(&[("sync", "always"), ("sharenfs", "off")]);
    // A number that is not known, and two that were received.
    let others: [&[u8]; 3] = [&[77, 0, 0, 3, 0, 1, 2, 3], &[1, 0, 1, 1, 0, 2], &[0, 1, 1, 0, 0]];
    let bytes = [&ours.encode()[..], &others.concat()].concat();
    let mut read = PropertySet::decode(&bytes).unwrap().unwrap();
    assert_eq!((read.encode(), read.value(Property::Sync)), (bytes, ours.value(Property::Sync)));
    read.set(Value::Sync(SyncMode::Standard));
    read.clear(Property::ShareNfs);
    let left = [&set(&[("sync", "standard")]).encode()[..], &others.concat()].concat();
    assert_eq!(read.encode(), left, "whatever is set beside it");
    assert_eq!(
        read.others().map(|(number, bytes)| (number, bytes.len())).collect::<Vec<_>>(),
        [(77, 3), (1, 1), (256, 0)]
    );
    for newer in [
        [1, 0, 0, 1, 0, 3, 0].as_slice(),
        &[7, 0, 0, 2, 0, 3, 0],
        &[7, 0, 0, 2, 0, 2, 9],
        &[5, 0, 0, 1, 0, 2],
        &[10, 0, 0, 1, 0, 3],
        &[12, 0, 0, 1, 0, 3],
    ] {
        let newer = if newer[0] == 1 { &newer[..6] } else { newer };
        assert_eq!(PropertySet::decode(newer), Ok(None), "{newer:?}: a promise that is not known is not guessed");
    }
    let long: Vec<u8> = [77, 0, 0, 0, 4].into_iter().chain([0; 1024]).collect();
    assert!(PropertySet::decode(&long.repeat(7)).is_ok() && PropertySet::decode(&long.repeat(8)).is_err());
}

#[test]
fn properties_that_users_name_come_back_within_their_room() {
    let mut set = set(&[("atime", "on")]);
    let user = |name: &str, value: &str| UserProperty::new(name, value);
    set.set_user(user("com.example:note", "two words").unwrap()).unwrap();
    set.set_user(user("a:b", "").unwrap()).unwrap();
    let bytes =
        [&[6, 0, 0, 1, 0, 1][..], &[0, 1, 0, 4, 0, 3], b"a:b", &[0, 1, 0, 26, 0, 16], b"com.example:notetwo words"];
    assert_eq!(set.encode(), bytes.concat());
    assert_eq!(PropertySet::decode(&set.encode()), Ok(Some(set.clone())));
    let twice = [0, 1, 0, 4, 0, 3, b'a', b':', b'b'].repeat(2);
    assert!(PropertySet::decode(&twice).is_err(), "one of them cannot be true");
    for name in ["note", "com.Example:note", "-a:b", "a:b c", &format!("a:{}", "x".repeat(254))] {
        assert_eq!(user(name, ""), Err(PropertyError::UserName { name: name.into() }));
    }
    for value in ["two\nlines", "\u{1b}[2J", &"x".repeat(USER_VALUE_BYTES_MAX + 1)] {
        assert!(matches!(user("a:b", value), Err(PropertyError::UserValue { .. })), "{value}");
    }
    let long = "x".repeat(USER_VALUE_BYTES_MAX - 100);
    set.set_user(user("a:long", &long).unwrap()).unwrap();
    let before = set.clone();
    let refused = set.set_user(user("a:other", &long).unwrap()).unwrap_err();
    assert!(matches!(refused, PropertyError::UserRoom { .. }), "{refused}");
    assert_eq!((&set, PropertySet::decode(&set.encode()).unwrap().as_ref()), (&before, Some(&before)));
    set.clear_user("a:long");
    set.set_user(user("a:other", &long).unwrap()).unwrap();
    assert_eq!(set.users().map(|(name, _)| name).collect::<Vec<_>>(), ["a:b", "a:other", "com.example:note"]);
}

/// A program from before user properties writes back what it does not know, 8 KiB of it, and refuses a dataset with more. Ten
/// could be set, and no feature's bit told it to stay away from the pool.
#[test]
fn what_users_set_is_written_back_by_who_does_not_know_it() {
    let mut set = set(&[("atime", "on")]);
    for number in 0.. {
        let property = UserProperty::new(&format!("a:{number}"), &"x".repeat(500)).unwrap();
        if set.set_user(property).is_err() {
            break;
        }
    }
    assert!(set.users().count() > 10);
    let mut bytes = set.encode();
    let known = [6, 0, 0, 1, 0, 1].len();
    let mut at = known;
    while at < bytes.len() {
        bytes[at + 1] = 2;
        at += 5 + usize::from(u16::from_le_bytes([bytes[at + 3], bytes[at + 4]]));
    }
    let unknown = PropertySet::decode(&bytes).unwrap().unwrap();
    assert_eq!((unknown.users().count(), unknown.encode()), (0, bytes));
    // Nor is there more room beside what this program carries along.
    let mut unknown = unknown;
    let refused = unknown.set_user(UserProperty::new("a:b", &"x".repeat(500)).unwrap());
    assert!(matches!(refused, Err(PropertyError::UserRoom { .. })), "{refused:?}");
}

#[test]
fn the_nearest_value_of_a_user_holds() {
    let with = |pairs: &[(&str, &str)]| {
        let mut set = PropertySet::new();
        pairs.iter().for_each(|(name, value)| set.set_user(UserProperty::new(name, value).unwrap()).unwrap());
        set
    };
    let (top, middle, own) = (with(&[("a:b", "1"), ("a:c", "2")]), with(&[("a:b", "3")]), with(&[("a:d", "")]));
    let chain = [("t", &top), ("t/m", &middle), ("t/m/o", &own)];
    let held = user_sources(&chain);
    let held: Vec<_> = held.iter().map(|held| (&*held.name, &*held.value, held.source.to_string())).collect();
    let expected = [("a:b", "3", "inherited from t/m"), ("a:c", "2", "inherited from t"), ("a:d", "", "local")];
    assert_eq!(held, expected.map(|(name, value, source)| (name, value, source.to_owned())));
}
