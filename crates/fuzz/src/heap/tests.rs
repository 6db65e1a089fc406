use super::at_most;

#[test]
fn what_lives_at_the_same_time_counts_and_what_is_gone_does_not() {
    at_most(10_000, || (0..100).for_each(|_| drop(std::hint::black_box(vec![1_u8; 5000]))));
    let over = || at_most(10_000, || std::hint::black_box([vec![1_u8; 6000], vec![2; 6000]]).len());
    assert!(std::panic::catch_unwind(over).is_err(), "12,000 bytes are more than 10,000");
}
