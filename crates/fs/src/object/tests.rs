//! The table of objects: who stays in it, and who may lock whom.

use super::*;

#[test]
fn objects_that_nobody_changed_do_not_pile_up() {
    let table = ObjectTable::default();
    let mut kept = Locked::lock(&table, &[ObjectId(1)]);
    kept.state_mut(ObjectId(1)).layer_mut(Txg(5));
    for id in 2..500_000 {
        drop(Locked::lock(&table, &[ObjectId(id)]));
    }
    let count = table.all().len();
    assert!(count <= SWEEP_ARRIVALS_MIN + 1, "{count} objects without a change are still there");
    drop(kept);
    assert!(
        table.find(ObjectId(1)).is_some_and(|object| object.read().layer(Txg(5)).is_some()),
        "its layer is not synced"
    );
}

#[test]
fn a_new_object_waits_for_who_looks_at_its_id_with_an_old_handle() {
    let table = ObjectTable::default();
    let looked_at = table.enter(ObjectId(9));
    let looking = looked_at.read();
    std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            let mut locked = Locked::lock(&table, &[ObjectId(3)]);
            locked.add_new(&table, ObjectId(9));
            locked.state_mut(ObjectId(9)).loaded = true;
        });
        // Whichever of the two comes first, both come to an end.
        drop(looking);
        made.join().expect("it was made");
    });
    assert!(looked_at.read().loaded);
}
