use super::*;

fn link(id: u64) -> Arc<Link> {
    Arc::new(Link::new(id, "127.0.0.1:700".parse().unwrap()))
}

#[test]
fn a_connection_is_alive_until_it_is_closed_and_keeps_its_number() {
    let senders = Senders::numbered_from(u64::MAX);
    let (first, second) = (link(1), link(2));
    let number = senders.number(&first);
    assert!(!senders.is_alive(number), "it has sent nothing yet");
    senders.enter(&first);
    senders.enter(&first);
    assert!(senders.is_alive(number) && senders.is(&first, number) && !senders.is(&second, number));
    first.close();
    assert!(!senders.is_alive(number) && senders.is(&first, number));
    drop(first);
    assert!(!senders.is_alive(number), "a line may outlive its connection");
}

#[test]
fn what_a_connection_has_left_to_another_is_that_ones() {
    let senders = Senders::numbered_from(7);
    let (gone, heir, other) = (link(1), link(2), link(3));
    senders.enter(&gone);
    gone.close();
    let number = senders.number(&gone);
    senders.hand_over(number, &heir);
    assert!(senders.is_alive(number) && senders.is(&heir, number) && !senders.is(&other, number));
    heir.close();
    assert!(!senders.is_alive(number));
}

#[test]
fn connections_that_come_and_go_take_no_room_and_those_that_live_stay() {
    let senders = Senders::numbered_from(7);
    let living: Vec<_> = (0..200).map(link).collect();
    living.iter().for_each(|link| senders.enter(link));
    for id in 1000..100_000 {
        let brief = link(id);
        senders.enter(&brief);
        brief.close();
    }
    let lines = || senders.lines.read().links.len();
    assert!(lines() <= 2 * living.len() + 1, "{}", lines());
    assert!(living.iter().all(|link| senders.is_alive(senders.number(link))));
    // Nobody can have so many at once; but requests in doubt that were left to one that lives are lines, too.
    (0..LINES_MAX as u64 + 100).for_each(|number| senders.hand_over(1 << 32 | number, &living[0]));
    assert_eq!(lines(), LINES_MAX);
}
