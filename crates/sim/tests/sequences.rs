//! Short sequences and every cut in them: a few of those that `cargo xtask cuts` runs, and what it must not let pass.

use tally_sim::sequences::{Case, LAYOUTS, World};

const NAMES: [&str; 4] = ["create-x-exclusive,link-a-x", "rename-a-d/b", "write-a-unstable,commit-a", "sync,remove-a"];

fn each(mut see: impl FnMut(&Case, &World)) {
    for (layout, (_, vdevs)) in LAYOUTS.iter().enumerate() {
        let world = World::new(vdevs);
        NAMES.iter().for_each(|names| see(&Case::named(layout, names).expect("letters"), &world));
    }
}

#[test]
fn nothing_promised_is_lost() {
    each(|case, world| {
        let totals = world.run(&case.letters, false).unwrap_or_else(|what| panic!("{}: {what}", case.name()));
        assert!(totals.states > 20 && totals.sequences == 1, "{}: {totals:?}", case.name());
    });
}

/// Over disks that say of a write that it is durable while it is in their cache, each of these sequences must fail: they end with a promise.
#[test]
fn a_disk_that_lies_is_found_out() {
    each(|case, world| {
        let found = world.run(&case.letters, true);
        assert!(found.is_err(), "{} on {} holds over lies: {found:?}", case.name(), LAYOUTS[case.layout].0);
    });
}
