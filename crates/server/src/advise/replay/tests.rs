use super::*;

const US: u64 = 1_000;

/// Connections that each send one request after the other: 20 us of thought, 10 of work, a frame, 5 of reply.
fn lone_clients(clients: u64, requests: u64, device_ns: u64) -> RecordedLoad {
    let mut events = Vec::new();
    for connection in 0..clients {
        let mut now = connection * US;
        for _ in 0..requests {
            let event = LoadEvent {
                connection,
                read_ns: now,
                work_ns: 10 * US,
                wait_ns: device_ns + 2 * US,
                device_ns,
                reply_ns: 5 * US,
                record_bytes: 200,
                frame_bytes: 4096,
                by: KeptBy::Log,
                ..LoadEvent::default()
            };
            now = event.sent_ns() + 20 * US;
            events.push(event);
        }
    }
    RecordedLoad { events, ..RecordedLoad::default() }
}

fn device(us: u64) -> Device {
    Device::new(vec![Samples::new(4096, vec![us * US]), Samples::new(1 << 20, vec![us * US])])
}

#[test]
fn a_lone_client_s_recording_repeats_itself() {
    let load = lone_clients(1, 1000, 100 * US);
    let run = Loop::new(&load, 2).run(recorded_device(&load));
    let recorded = recorded_rate(&load);
    assert!((run.rate / recorded - 1.0).abs() < 0.01, "{} against {recorded}", run.rate);
    assert_eq!((run.frames, run.latency.quantile(0.5)), (1000, 117 * US));
}

#[test]
fn a_client_that_is_answered_sooner_asks_sooner() {
    let load = lone_clients(1, 1000, 8_000 * US);
    let looped = Loop::new(&load, 2);
    // 20 + 10 + 2 + 5 us beside the device.
    let gain = looped.run(device(100)).rate / looped.run(recorded_device(&load)).rate;
    assert!((gain - 8_037.0 / 137.0).abs() < 0.5, "{gain}");
    let limit = looped.run(Device::instant()).rate;
    assert!((limit - 1e6 / 37.0).abs() < 100.0, "{limit}");
}

#[test]
fn warmer_processors_think_and_work_faster_and_people_do_not() {
    let load = lone_clients(1, 1000, 100 * US);
    let half = Loop::new(&load, 2).scaled(0.5).run(device(100)).rate;
    assert!((half - 1e6 / 118.5).abs() < 20.0, "{half}");
    let mut slow = load;
    for (number, event) in (0..).zip(&mut slow.events) {
        event.read_ns += number * 2_000 * US;
    }
    let looped = Loop::new(&slow, 2);
    let (cold, warm) = (looped.run(device(100)).rate, looped.scaled(0.5).run(device(100)).rate);
    assert!(warm / cold < 1.01, "{warm} against {cold}");
}

#[test]
fn clients_that_wait_together_share_frames() {
    let load = lone_clients(32, 200, 5_000 * US);
    let run = Loop::new(&load, 2).run(device(5_000));
    // A frame for half of them at a time, or for all, but never one for each.
    assert!(run.frames < 32 * 200 / 12, "{} frames", run.frames);
    assert!(run.rate > 12.0 * 1e6 / 5_037.0, "{}", run.rate);
}

#[test]
fn what_waits_for_a_group_waits_as_long_as_it_did() {
    let mut load = lone_clients(1, 100, 50 * US);
    for event in &mut load.events {
        event.by = KeptBy::Group;
    }
    let looped = Loop::new(&load, 2);
    assert_eq!(looped.run(Device::instant()), looped.run(device(9_000)));
}
