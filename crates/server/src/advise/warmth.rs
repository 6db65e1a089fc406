//! What a wait costs the processors that wait.
//!
//! A server and its clients that sit still for 8 ms find their caches, their clock rate and their sleep states the
//! worse for it: the same work then takes four times as long as behind a wait of 150 µs. A recording made beside a slow
//! log is therefore one of slow processors, and a faster log would make them faster. How much is measured here: two
//! threads on loopback do what a client and a server do, with a pause of the length in question before each reply.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::control::load::RecordedLoad;

/// Bytes of a message, as of a small request.
const MESSAGE_BYTES: usize = 160;
/// Memory that the answering thread goes about in, and how often for each message: the caches that a small request
/// wants.
const WORDS: usize = 64 << 10;
const TOUCHES: usize = 200;
/// Alternating rounds, and how long one of them takes for each of the two pauses.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(200);
/// No round is shorter than this, however long its pauses are.
const MESSAGES_MIN: usize = 8;
/// A pause that is longer makes no processor colder, and is not waited for.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// A pause that is shorter cannot be slept.
pub const SLEEP_MIN: Duration = Duration::from_micros(20);

/// How long the server's processors sat still before the middle one of the recorded requests.
#[must_use]
pub fn recorded_pause(load: &RecordedLoad) -> Duration {
    // Each request keeps a processor busy twice.
    let mut busy: Vec<(u64, u64, usize)> = Vec::with_capacity(load.events.len() * 2);
    for (index, event) in load.events.iter().enumerate() {
        busy.push((event.read_ns, event.read_ns + event.queue_ns + event.work_ns, index));
        busy.push((event.sent_ns() - event.reply_ns, event.sent_ns(), index));
    }
    busy.sort_unstable();
    let mut pauses = vec![0; load.events.len()];
    let mut end = busy.first().map_or(0, |first| first.0);
    for (from, to, index) in busy {
        let pause = &mut pauses[index];
        *pause = from.saturating_sub(end).max(*pause);
        end = end.max(to);
    }
    pauses.sort_unstable();
    Duration::from_nanos(pauses.get(pauses.len() / 2).copied().unwrap_or(0))
}

/// What work takes after pauses of `then`, as a part of what it takes after pauses of `now`: at most 1, since a shorter
/// pause is no reason to be slower.
pub fn measure(now: Duration, then: Duration) -> io::Result<f64> {
    let (now, then) = (now.min(PAUSE_MAX), then.min(PAUSE_MAX));
    if then >= now {
        return Ok(1.0);
    }
    let mut pair = Pair::start()?;
    let mut ratios = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let slow = pair.own_time(now)?;
        ratios.push(pair.own_time(then)?.as_secs_f64() / slow.as_secs_f64().max(1e-9));
    }
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[ROUNDS / 2].min(1.0))
}

/// The asking end; the answering one has a thread, which ends with the connection.
struct Pair {
    stream: TcpStream,
}

impl Pair {
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        stream.set_nodelay(true)?;
        let (other, from) = listener.accept()?;
        if from != stream.local_addr()? {
            return Err(io::Error::other("somebody else connected"));
        }
        other.set_nodelay(true)?;
        std::thread::Builder::new().name("advise".into()).spawn(move || answer(other))?;
        Ok(Self { stream })
    }

    /// The mean time from message to message beside the pause.
    fn own_time(&mut self, pause: Duration) -> io::Result<Duration> {
        let begun = Instant::now();
        let (mut own, mut count) = (Duration::ZERO, 0);
        let mut message = [0; MESSAGE_BYTES];
        while count < MESSAGES_MIN || begun.elapsed() < ROUND {
            let sent = Instant::now();
            put(&mut message, pause);
            self.stream.write_all(&message)?;
            self.stream.read_exact(&mut message)?;
            own += sent.elapsed().saturating_sub(get(&message));
            count += 1;
        }
        Ok(own / u32::try_from(count).unwrap_or(u32::MAX))
    }
}

/// Answers after the pause that a message asks for, with how long it was.
fn answer(mut stream: TcpStream) {
    let mut memory = vec![0_u32; WORDS];
    let mut at = 1_usize;
    let mut message = [0; MESSAGE_BYTES];
    while stream.read_exact(&mut message).is_ok() {
        for _ in 0..TOUCHES {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            memory[(at >> 33) % WORDS] += 1;
        }
        let pause = get(&message);
        let from = Instant::now();
        if pause >= SLEEP_MIN {
            std::thread::sleep(pause);
        }
        while from.elapsed() < pause {
            std::hint::spin_loop();
        }
        put(&mut message, from.elapsed());
        if stream.write_all(&message).is_err() {
            return;
        }
    }
}

fn put(message: &mut [u8; MESSAGE_BYTES], time: Duration) {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    message[..8].copy_from_slice(&ns.to_le_bytes());
}

fn get(message: &[u8; MESSAGE_BYTES]) -> Duration {
    Duration::from_nanos(u64::from_le_bytes(*message.first_chunk().expect("a message is longer than a number")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::load::LoadEvent;

    fn load(connections: u64, stagger_ns: u64) -> RecordedLoad {
        let event = |connection, number: u64| LoadEvent {
            connection,
            read_ns: connection * stagger_ns + number * 1_000_000,
            work_ns: 10_000,
            wait_ns: 800_000,
            reply_ns: 20_000,
            ..LoadEvent::default()
        };
        let events = (0..50).flat_map(|number| (0..connections).map(move |connection| event(connection, number)));
        RecordedLoad { events: events.collect(), ..RecordedLoad::default() }
    }

    #[test]
    fn a_lone_client_s_wait_is_a_pause_and_that_of_many_is_not() {
        assert_eq!(recorded_pause(&load(1, 0)), Duration::from_micros(800));
        // One comes every 20 us, and one is answered every 20 us.
        assert!(recorded_pause(&load(50, 20_000)) <= Duration::from_micros(10));
        assert_eq!(recorded_pause(&RecordedLoad::default()), Duration::ZERO);
    }

    #[test]
    fn the_pause_itself_is_nobody_s_own_time() {
        let own = Pair::start().unwrap().own_time(PAUSE_MAX).unwrap();
        assert!(Duration::ZERO < own && own < PAUSE_MAX, "{own:?}");
        // Whatever the recording's clients did for an hour is not waited for again.
        let hour = Duration::from_secs(3600);
        assert!((measure(hour, hour / 2).unwrap() - 1.0).abs() < 1e-9);
    }
}
