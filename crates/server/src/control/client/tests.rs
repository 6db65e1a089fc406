use std::os::unix::net::UnixListener;
use std::thread;

use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use super::*;

/// In a folder of `nobody` stood `tally-data/tally.sock`, and behind it a program of his: root's `pool status` there showed
/// what he liked, and `pool destroy` was told that it was done.
#[test]
#[ignore = "needs root; `cargo xtask test` runs it"]
fn a_daemon_of_somebody_else_is_not_spoken_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tally.sock");
    for (owner, speaker, is_believed) in [(0, 0, true), (65_534, 0, false), (65_534, 65_534, true), (0, 65_534, true)] {
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::chown(dir.path(), Some(65_534), None).expect("this test needs root");
        let listener = acting(owner, || UnixListener::bind(&path).unwrap());
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let connected = acting(speaker, || Client::connect(Some(&path)).map(drop));
        match connected {
            Ok(()) => assert!(is_believed, "{speaker} speaks to {owner}"),
            Err(error) => {
                assert!(!is_believed, "{error}");
                assert!(matches!(error, ClientError::Foreign { uid: 65_534, .. }), "{error}");
            }
        }
        drop(listener);
    }
}

fn acting<T: Send>(uid: u32, deed: impl FnOnce() -> T + Send) -> T {
    let deed = || {
        let uid = Uid::from_raw(uid);
        set_thread_res_uid(uid, uid, uid).expect("this test needs root");
        deed()
    };
    thread::scope(|scope| scope.spawn(deed).join().unwrap())
}
