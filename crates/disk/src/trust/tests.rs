use std::sync::atomic::AtomicBool;

use super::*;

/// Refuses what it is told to refuse, and keeps nothing.
#[derive(Default)]
struct Moody {
    refuses: AtomicBool,
}

impl Moody {
    fn answer(&self) -> io::Result<()> {
        if self.refuses.load(Ordering::SeqCst) { Err(io::Error::other("not now")) } else { Ok(()) }
    }
}

impl Disk for Moody {
    fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8], _: Durability) -> io::Result<()> {
        self.answer()
    }

    fn flush(&self) -> io::Result<()> {
        self.answer()
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn geometry(&self) -> Geometry {
        Geometry { size: 1 << 20, rotational: false, write_through: false }
    }
}

type Request = dyn Fn(&dyn Disk) -> io::Result<()>;

/// A durable write of a frame failed and took the device's cache along. The flush of the next transaction group said
/// that all was well, and a COMMIT was answered that rested on it.
#[test]
fn after_a_failed_durable_write_or_flush_neither_is_believed() {
    const CONTENT: [u8; 4096] = [7; 4096];
    let requests: [(&str, &Request); 2] =
        [("durable write", &|disk| disk.write(0, &CONTENT, Durability::Durable)), ("flush", &|disk| disk.flush())];
    for (failing, fail) in requests {
        let below = Arc::<Moody>::default();
        let disk = TrustedDisk::new(below.clone());
        requests.iter().for_each(|(_, request)| request(&disk).unwrap());
        below.refuses.store(true, Ordering::SeqCst);
        assert!(disk.write(0, &CONTENT, Durability::Cached).is_err(), "this one promised nothing");
        below.refuses.store(false, Ordering::SeqCst);
        requests.iter().for_each(|(_, request)| request(&disk).unwrap());
        below.refuses.store(true, Ordering::SeqCst);
        fail(&disk).unwrap_err();
        below.refuses.store(false, Ordering::SeqCst);
        for (later, request) in requests {
            let error = request(&disk).expect_err(later);
            assert!(error.to_string().contains("is believed"), "{later} after a failed {failing}: {error}");
        }
        disk.write(0, &CONTENT, Durability::Cached).expect("nothing is promised");
        let reopened = TrustedDisk::new(below);
        requests.iter().for_each(|(_, request)| request(&reopened).unwrap());
    }
}

#[test]
fn what_was_under_way_when_another_one_failed_is_not_believed() {
    let trust = Trust::in_devices(Device::numbered(&[]));
    let other = || trust.carry_out(|| Err(io::Error::other("lost")));
    assert!(
        trust
            .carry_out(|| {
                let _failed = other();
                Ok(())
            })
            .is_err()
    );
}

/// A log and a pool as two files of one device: its cache is one.
#[test]
fn disks_of_one_device_share_its_failures_until_they_are_opened_again() {
    let [log, pool, elsewhere] =
        [&[901, 902][..], &[902], &[903]].map(|numbers| Trust::in_devices(Device::numbered(numbers)));
    assert!(log.carry_out(|| Err(io::Error::other("lost"))).is_err());
    assert!(pool.carry_out(|| Ok(())).is_err() && log.carry_out(|| Ok(())).is_err());
    assert!(elsewhere.carry_out(|| Ok(())).is_ok());
    assert!(
        Trust::in_devices(Device::numbered(&[902])).carry_out(|| Ok(())).is_ok(),
        "while the others are still open"
    );
}
