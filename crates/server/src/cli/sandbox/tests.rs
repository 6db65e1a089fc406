use super::*;

fn sandbox(settings: &str) -> Sandbox {
    Sandbox::parse(&format!("LoadState=loaded\nMainPID=7\n{settings}\n"), pid(7)).unwrap()
}

fn pid(number: i32) -> Pid {
    Pid::from_raw(number).unwrap()
}

#[test]
fn a_daemon_of_somebody_else_has_none() {
    for (shown, daemon) in [
        ("LoadState=loaded\nMainPID=7\n", 8),
        ("LoadState=loaded\nMainPID=0\n", 8),
        ("LoadState=not-found\nMainPID=8\n", 8),
    ] {
        assert!(Sandbox::parse(shown, pid(daemon)).is_none(), "{shown}");
    }
}

/// What a daemon of such a unit cannot write to, and the setting that is named; none: it can.
#[test]
fn each_setting_keeps_what_it_says() {
    for (settings, path, named) in [
        ("", "/home/a/disk", None),
        ("ProtectHome=no", "/home/a/disk", None),
        ("ProtectHome=read-only", "/home/a/disk", Some("cannot write to /home/a/disk: it has ProtectHome=read-only")),
        ("ProtectHome=read-only", "/root/disk", Some("cannot write to")),
        ("ProtectHome=read-only", "/homes/disk", None),
        ("ProtectHome=read-only\nReadWritePaths=/home/a", "/home/a/disk", None),
        ("ReadWritePaths=-/home\nProtectHome=read-only", "/home/a/disk", None),
        ("ProtectHome=read-only\nReadWritePaths=/home/a", "/home/b/disk", Some("ProtectHome=read-only")),
        ("ProtectHome=yes", "/home/a/disk", Some("cannot see /home/a/disk: it has ProtectHome=yes")),
        ("ProtectHome=yes\nReadWritePaths=/home/a", "/home/a/disk", Some("cannot see")),
        ("ProtectHome=tmpfs\nBindPaths=/srv/x:/home/a:rbind", "/home/a/disk", None),
        ("ProtectSystem=full", "/srv/disk", None),
        ("ProtectSystem=full", "/etc/disk", Some("ProtectSystem=full")),
        ("ProtectSystem=strict", "/srv/disk", Some("ProtectSystem=strict")),
        ("ProtectSystem=strict", "/dev/sda", None),
        ("ProtectSystem=strict\nStateDirectory=tally", "/var/lib/tally/disk", None),
        ("PrivateDevices=yes", "/dev/disk/by-id/no-such", Some("PrivateDevices=yes")),
        ("PrivateTmp=yes", "/var/tmp/no-such/disk", Some("PrivateTmp=yes")),
        ("ReadOnlyPaths=/srv /mnt\nReadWritePaths=/srv/a", "/srv/b", Some("ReadOnlyPaths=/srv /mnt")),
        ("TemporaryFileSystem=/srv:ro", "/srv/b", Some("cannot see /srv/b")),
        ("RootDirectory=/var/lib/root", "/srv/b", Some("RootDirectory=")),
        ("RootDirectory=", "/srv/b", None),
        ("BindReadOnlyPaths=/a:/srv:rbind", "/srv/b", Some("cannot write to")),
        ("DevicePolicy=closed", "/dev/no-such", Some("DevicePolicy=closed")),
        ("DevicePolicy=closed\nDeviceAllow=/dev/no-such rw", "/dev/no-such", None),
        ("DevicePolicy=closed\nDeviceAllow=block-sd rw", "/dev/no-such", None),
        ("DevicePolicy=closed\nDeviceAllow=/dev/no-such r", "/dev/no-such", Some("DevicePolicy=closed")),
        ("DevicePolicy=auto\nDeviceAllow=/dev/null rw", "/dev/no-such", Some("DeviceAllow=/dev/null rw")),
        ("InaccessiblePaths=-/srv", "/srv/b", Some("InaccessiblePaths=")),
    ] {
        let told = sandbox(settings).objection(Path::new(path));
        match (&told, named) {
            (None, None) => {}
            (Some(told), Some(named)) => assert!(told.found.contains(named), "{settings}: {told:?}"),
            _ => panic!("{settings}, {path}: {told:?}"),
        }
    }
}

#[test]
fn a_link_leads_where_it_leads_and_what_is_to_be_made_lies_in_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let sandbox = sandbox(&format!("ReadOnlyPaths={}", real.display()));
    let told = sandbox.objection(&link.join("new")).unwrap();
    assert!(told.todo.contains(&format!("ReadWritePaths={}", real.display())), "{told:?}");
    assert_eq!(sandbox.objection(&dir.path().join("new")), None);
}

/// systemd follows links: with /home -> /var/home it is that which nobody sees.
#[test]
fn what_a_link_leads_to_is_kept_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("var-home");
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, dir.path().join("home")).unwrap();
    let settings = format!("InaccessiblePaths={}", dir.path().join("home").display());
    assert!(sandbox(&settings).objection(&dir.path().join("home/disk")).is_some());
}

#[test]
fn without_the_unit_there_is_nothing_to_say() {
    assert!(Sandbox::parse("LoadState=not-found\nMainPID=7\nProtectHome=yes\n", pid(7)).is_none());
    assert!(Sandbox::parse("", pid(7)).is_none());
}
