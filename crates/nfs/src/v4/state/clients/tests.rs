use tally_base::SystemRng;

use super::*;

const ROOT: Principal = Principal::User(0);
const LEASE: Duration = LEASE_DEFAULT;

fn at(host: u8) -> IpAddr {
    [10, 0, 0, host].into()
}

fn says(name: &str, start: u8, principal: Principal) -> Introduction {
    Introduction { name: name.into(), verifier: [start; 8], sender: by(principal) }
}

fn by(principal: Principal) -> Sender {
    Sender { principal, address: at(1), proof: Proof::Superuser, is_named: true }
}

fn from(address: IpAddr, name: &str) -> Introduction {
    Introduction { sender: Sender { address, ..by(ROOT) }, ..says(name, 1, ROOT) }
}

struct Desk {
    clients: Clients,
    now: Duration,
    /// Who is confirmed holds something.
    all_hold: bool,
}

impl Desk {
    fn new() -> Self {
        Self { clients: Clients::new(BootId(7), LEASE), now: Duration::ZERO, all_hold: true }
    }

    fn introduce(&mut self, introduction: Introduction) -> Result<Introduced, Unknown> {
        self.now += Duration::from_micros(100);
        let all_hold = self.all_hold;
        self.clients.introduce(introduction, &|_| all_hold, &SystemRng, self.now)
    }

    fn confirm(&mut self, said: Introduced, principal: Principal) -> Result<Option<ClientId>, Unknown> {
        let all_hold = self.all_hold;
        self.clients.confirm(said, &by(principal), &|_| all_hold, self.now)
    }

    fn known(&mut self, name: &str, start: u8) -> Introduced {
        let said = self.introduce(says(name, start, ROOT)).unwrap();
        self.confirm(said, ROOT).unwrap();
        said
    }
}

#[test]
fn row_a_a_name_that_another_principal_has_confirmed_is_in_use() {
    let mut desk = Desk::new();
    let known = desk.known("a", 1);
    assert_eq!(desk.introduce(says("a", 1, Principal::User(5))), Err(Unknown::InUse));
    assert_eq!(desk.introduce(says("a", 2, Principal::Nobody)), Err(Unknown::InUse));
    assert_eq!((desk.clients.counts(), desk.clients.renew(known.id, desk.now)), ((1, 0), Ok(())));
}

/// Names of clients can be guessed: who has taken one and holds nothing keeps nobody out.
#[test]
fn a_name_of_somebody_who_holds_nothing_is_anybodys() {
    let mut desk = Desk::new();
    desk.all_hold = false;
    let squatter = desk.known("a", 1);
    let other = desk.introduce(says("a", 1, Principal::User(5))).unwrap();
    assert_ne!(other.id, squatter.id);
    desk.all_hold = true;
    assert_eq!(
        desk.confirm(other, Principal::User(5)),
        Err(Unknown::InUse),
        "the first one opened something meanwhile"
    );
    desk.all_hold = false;
    assert_eq!(desk.confirm(other, Principal::User(5)), Ok(Some(squatter.id)));
}

/// Of minor version 0 as of sessions: a name is no secret, and an id is a number. Behind a restart a client holds nothing before it has claimed it.
#[test]
fn who_shows_less_says_nothing_for_a_client() {
    for all_hold in [true, false] {
        let mut desk = Desk { all_hold, ..Desk::new() };
        let known = desk.known("a", 1);
        let root = by(ROOT);
        let strangers = [
            Sender { address: at(9), is_named: false, ..root },
            Sender { address: at(9), proof: Proof::User(0), ..root },
            Sender { address: at(9), proof: Proof::Nothing, ..root },
        ];
        for sender in strangers {
            for start in [1, 2] {
                let told = desk.introduce(Introduction { sender, ..says("a", start, ROOT) });
                assert_eq!(told, Err(Unknown::InUse), "{sender:?}");
            }
            let confirmed = desk.clients.confirm(known, &sender, &|_| all_hold, desk.now);
            assert_eq!(confirmed, Err(Unknown::InUse), "{sender:?}");
            assert_eq!(desk.clients.hear(known.id, &sender, desk.now).map(drop), Err(Unknown::InUse), "{sender:?}");
        }
        // Itself, where no rule names its host any more, and by another address; and started anew.
        let moved = Sender { address: at(2), ..root };
        for sender in [Sender { is_named: false, ..root }, moved] {
            assert!(desk.clients.hear(known.id, &sender, desk.now).is_ok(), "{sender:?}");
            let said = desk.introduce(Introduction { sender, ..says("a", 1, ROOT) }).unwrap();
            assert_eq!((said.id, desk.clients.confirm(said, &sender, &|_| all_hold, desk.now)), (known.id, Ok(None)));
        }
        assert!(desk.clients.presence_of(known.id).unwrap().owns_key());
        let anew = desk.introduce(Introduction { sender: moved, ..says("a", 2, ROOT) }).unwrap();
        let again = desk.introduce(Introduction { sender: strangers[0], ..says("a", 2, ROOT) });
        assert_eq!(again, Err(Unknown::InUse), "it waits");
        assert_eq!(desk.clients.confirm(anew, &moved, &|_| all_hold, desk.now), Ok(Some(known.id)));
    }
}

#[test]
fn who_does_not_confirm_within_a_lease_is_forgotten() {
    let mut desk = Desk::new();
    let late = desk.introduce(says("a", 1, ROOT)).unwrap();
    desk.now += LEASE + Duration::from_secs(1);
    assert_eq!(desk.confirm(late, ROOT), Err(Unknown::Stale));
    assert!(desk.clients.by_name.is_empty());
}

/// Numbers begin again behind the last, and those that live have theirs.
#[test]
fn no_two_clients_have_one_id() {
    let mut desk = Desk::new();
    let first = desk.known("a", 1);
    desk.clients.next = first.id.0 as u32;
    assert_ne!(desk.known("b", 1).id, first.id);
}

#[test]
fn row_b_with_the_same_verifier_the_id_stays() {
    let mut desk = Desk::new();
    let known = desk.known("a", 1);
    let again = desk.introduce(says("a", 1, ROOT)).unwrap();
    assert_eq!(again.id, known.id);
    assert_ne!(again.confirmation, known.confirmation);
    assert_eq!(desk.confirm(known, ROOT), Ok(None), "the confirmed one is what it was until then");
    assert_eq!(desk.confirm(again, ROOT), Ok(None), "nothing that it holds goes");
    assert_eq!(desk.confirm(known, ROOT), Err(Unknown::Stale));
    assert_eq!(desk.clients.counts(), (1, 0));
}

#[test]
fn row_c_a_client_that_has_started_anew_goes_on_until_it_confirms() {
    let mut desk = Desk::new();
    let known = desk.known("a", 1);
    let anew = desk.introduce(says("a", 2, ROOT)).unwrap();
    assert_ne!(anew.id, known.id);
    assert_eq!(desk.clients.renew(known.id, desk.now), Ok(()));
    assert_eq!(desk.clients.renew(anew.id, desk.now), Err(Unknown::Stale));
    assert_eq!(desk.confirm(anew, ROOT), Ok(Some(known.id)));
    assert_eq!(desk.clients.renew(known.id, desk.now), Err(Unknown::Gone));
    assert_eq!(desk.clients.renew(anew.id, desk.now), Ok(()));
}

#[test]
fn row_d_who_introduces_himself_again_before_he_confirms_begins_anew() {
    let mut desk = Desk::new();
    let first = desk.introduce(says("a", 1, ROOT)).unwrap();
    // Nobody has confirmed that name, so anybody may.
    let second = desk.introduce(says("a", 1, Principal::User(5))).unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(desk.confirm(first, ROOT), Err(Unknown::Stale));
    assert_eq!(desk.confirm(second, Principal::User(5)), Ok(None));
}

#[test]
fn row_f_a_confirmation_that_is_sent_twice_is_taken_twice() {
    let mut desk = Desk::new();
    let known = desk.known("a", 1);
    assert_eq!(desk.confirm(known, ROOT), Ok(None));
    assert_eq!(desk.clients.counts(), (1, 0));
}

#[test]
fn row_g_what_another_principal_confirms_stays_as_it_is() {
    let mut desk = Desk::new();
    let waiting = desk.introduce(says("a", 1, ROOT)).unwrap();
    assert_eq!(desk.confirm(waiting, Principal::User(5)), Err(Unknown::InUse));
    assert_eq!(desk.confirm(waiting, ROOT), Ok(None));
    assert_eq!(desk.confirm(waiting, Principal::Nobody), Err(Unknown::InUse));
}

#[test]
fn row_h_a_wrong_confirmation_an_unknown_id_and_one_of_another_start_are_stale() {
    let mut desk = Desk::new();
    let waiting = desk.introduce(says("a", 1, ROOT)).unwrap();
    let wrong = Introduced { confirmation: [9; 8], ..waiting };
    let other = Introduced { id: ClientId(waiting.id.0 ^ 1 << 40), ..waiting };
    for said in [wrong, other] {
        assert_eq!(desk.confirm(said, ROOT), Err(Unknown::Stale));
    }
    assert_eq!(desk.confirm(waiting, ROOT), Ok(None));
    assert_eq!(waiting.id.0 >> 32, 7);
}

/// A host that introduces itself without end meets its own bound, and nobody else is shown the door.
#[test]
fn who_introduces_himself_without_end_takes_nobodys_place() {
    let mut desk = Desk::new();
    let known = desk.known("kept", 1);
    let honest = desk.introduce(says("honest", 1, ROOT)).unwrap();
    for number in 0..100_000 {
        desk.introduce(from(at(2), &format!("flood {number}"))).unwrap();
    }
    assert_eq!(desk.clients.counts(), (1, 1 + WAITING_OF_ADDRESS_MAX));
    assert_eq!(desk.clients.by_name.len(), 2 + WAITING_OF_ADDRESS_MAX, "nothing is left of those who gave way");
    assert_eq!((desk.confirm(honest, ROOT), desk.clients.renew(known.id, desk.now)), (Ok(None), Ok(())));
    // From many addresses those go first who were silent for longest, of those who hold nothing.
    desk.all_hold = false;
    for host in 0..100 {
        for number in 0..60 {
            let address = IpAddr::from([10, 1, 0, host]);
            let said = desk.introduce(from(address, &format!("{host} {number}"))).unwrap();
            desk.confirm(said, ROOT).unwrap();
            desk.clients.renew(known.id, desk.now).unwrap();
        }
    }
    assert_eq!(desk.clients.counts().0, CLIENTS_MAX);
    assert_eq!(desk.clients.renew(honest.id, desk.now), Err(Unknown::Gone));
    // Where all hold something nobody's place is taken before his lease is over.
    desk.all_hold = true;
    let comes = |desk: &mut Desk, name| {
        let said = desk.introduce(from(at(3), name)).unwrap();
        desk.confirm(said, ROOT).map(|_| said.id)
    };
    assert_eq!(comes(&mut desk, "one more"), Err(Unknown::TooMany));
    desk.now += LEASE + Duration::from_secs(1);
    desk.clients.renew(known.id, desk.now).unwrap();
    assert!(comes(&mut desk, "one more").is_ok());
    assert_eq!((desk.clients.counts().0, desk.clients.renew(known.id, desk.now)), (CLIENTS_MAX, Ok(())));
    desk.clients.check();
}
