//! What was done to the pool, and what happened to it: the last commands that changed it, in the catalog, under
//! [`Class::History`], and the last events, under [`Class::Event`].
//!
//! Both are told behind what they tell of, and written with the group that is synced next. So the last ones before a crash may be
//! missing, and none stands there of what was not. Memory knows all of them ([`super::kept`]); where there are [`COMMANDS_MAX`]
//! or [`EVENTS_MAX`] each new one takes the place of the oldest.
//!
//! ```text
//! command   0  form u8 = 1     1  time u64     9  user, host, words
//! event     0  form u8 = 1     1  time u64     9  class, text            each text: its length u16, and its bytes
//! ```

use bytes::Bytes;
use tally_base::Time;
use tally_base::codec::{Malformed, Put, Reader};

use super::kept::Kept;
use crate::dataset::DRAWN_END;
use crate::key::{Class, Key};

/// So many commands are kept: months of a pool that is looked after by hand, in ten leaves or so.
pub const COMMANDS_MAX: usize = 512;
/// So many events are kept: 100 KB or so of catalog. A disk that comes and goes all the time fills them in minutes.
pub const EVENTS_MAX: usize = 1024;
/// Bytes of each of the texts of one; what is longer is cut.
const TEXT_BYTES_MAX: usize = 1024;
const FORM: u8 = 1;

/// A command that changed the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// When it was done.
    pub time: Time,
    /// Who asked for it: a number, and a name where one is known.
    pub user: String,
    /// Name of the machine that it was given on.
    pub host: String,
    /// As it is typed.
    pub words: String,
}

/// Something that happened to the pool or its disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was seen, by the machine's clock.
    pub time: Time,
    /// What kind of thing: `statechange`, `scrub_finish`, ...
    pub class: String,
    /// What happened, in words for people.
    pub text: String,
}

impl Command {
    fn encode(&self) -> Bytes {
        encode(self.time, [&self.user, &self.host, &self.words])
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, Malformed> {
        let (time, [user, host, words]) = decode("command", Class::History, key, value)?;
        Ok(Self { time, user, host, words })
    }
}

impl Event {
    fn encode(&self) -> Bytes {
        encode(self.time, [&self.class, &self.text])
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, Malformed> {
        let (time, [class, text]) = decode("event", Class::Event, key, value)?;
        Ok(Self { time, class, text })
    }
}

fn encode<const N: usize>(time: Time, texts: [&str; N]) -> Bytes {
    let mut out = vec![FORM];
    out.put_u64(time.0);
    for text in texts.map(cut) {
        out.put_u16(text.len() as u16);
        out.put(text.as_bytes());
    }
    out.into()
}

fn decode<const N: usize>(
    what: &'static str,
    class: Class,
    key: &Key,
    value: &[u8],
) -> Result<(Time, [String; N]), Malformed> {
    let mut reader = Reader::new(value, what);
    let is_its_key = key.class == class && (key.a, key.b) == (0, 0) && key.object < DRAWN_END;
    if !is_its_key || reader.u8()? != FORM {
        return Err(Malformed(what));
    }
    let time = Time(reader.u64()?);
    let mut texts = [const { String::new() }; N];
    for text in &mut texts {
        let length = usize::from(reader.u16()?);
        *text = String::from_utf8(reader.bytes(length)?.to_vec()).map_err(|_| Malformed(what))?;
    }
    reader.end()?;
    Ok((time, texts))
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Kept {
    pub(super) fn note_command(&self, command: &Command) {
        self.append(Class::History, command.encode(), COMMANDS_MAX);
    }

    /// The oldest first.
    pub(super) fn commands(&self) -> Vec<Command> {
        // One that a newer program has written in another form is kept, and not shown.
        self.all_of(Class::History).iter().filter_map(|(key, value)| Command::decode(key, value).ok()).collect()
    }

    pub(super) fn note_event(&self, event: &Event) {
        self.append(Class::Event, event.encode(), EVENTS_MAX);
    }

    /// The oldest first.
    pub(super) fn events(&self) -> Vec<Event> {
        self.all_of(Class::Event).iter().filter_map(|(key, value)| Event::decode(key, value).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key_of(number: u64) -> Key {
        Key::new(Class::History, number, 0, 0)
    }

    fn command(words: &str) -> Command {
        Command { time: Time(7), user: "0 (root)".into(), host: "host".into(), words: words.into() }
    }

    #[test]
    fn what_is_written_is_read_and_what_was_cut_off_is_not() {
        let long = "ü".repeat(TEXT_BYTES_MAX);
        for words in ["", "tally pool scrub tank", &long] {
            let bytes = command(words).encode();
            let read = Command::decode(&key_of(3), &bytes).unwrap();
            assert!(words.starts_with(&read.words) && read.words.len() >= words.len().min(TEXT_BYTES_MAX - 1));
            for length in 0..bytes.len() {
                assert!(Command::decode(&key_of(3), &bytes.slice(..length)).is_err(), "{length}");
            }
        }
        let bytes = command("x").encode();
        assert!(Command::decode(&Key::new(Class::History, 3, 1, 0), &bytes).is_err());
        assert!(Command::decode(&Key::new(Class::History, u64::MAX, 0, 0), &bytes).is_err());
    }

    #[test]
    fn the_oldest_makes_room_and_the_numbers_go_on() {
        let kept = Kept::default();
        for number in 0..COMMANDS_MAX + 3 {
            kept.note_command(&command(&number.to_string()));
        }
        assert_eq!((kept.commands().len(), &*kept.commands()[0].words), (COMMANDS_MAX, "3"));
        let (there, gone) = kept.take();
        assert_eq!((there.len(), gone), (COMMANDS_MAX, vec![key_of(1), key_of(2), key_of(3)]));
        kept.note_command(&command("last"));
        let (there, gone) = kept.take();
        let last = (key_of(COMMANDS_MAX as u64 + 4), command("last").encode());
        assert_eq!((there.into_iter().collect::<Vec<_>>(), gone), (vec![last], vec![key_of(4)]));
    }

    #[test]
    fn an_event_is_no_command_and_has_a_row_of_its_own() {
        let kept = Kept::default();
        let event = Event { time: Time(9), class: "statechange".into(), text: "a was ONLINE, and is OFFLINE".into() };
        kept.note_command(&command("tally pool offline tank a"));
        for number in 0..EVENTS_MAX + 2 {
            kept.note_event(&Event { time: Time(number as u64), ..event.clone() });
        }
        let events = kept.events();
        assert_eq!((events.len(), events[0].time, kept.commands().len()), (EVENTS_MAX, Time(2), 1));
        let bytes = event.encode();
        assert_eq!(Event::decode(&Key::new(Class::Event, 1, 0, 0), &bytes), Ok(event));
        assert!(Event::decode(&key_of(1), &bytes).is_err());
        assert!(Command::decode(&key_of(1), &bytes).is_err());
        assert!(Event::decode(&Key::new(Class::Event, 1, 0, 0), &bytes.slice(..bytes.len() - 1)).is_err());
    }
}
