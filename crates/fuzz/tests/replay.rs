//! Every input that the fuzzers kept, and every seed, goes through its target once more, with the stable compiler.
//!
//! One test, because the heap's account is the whole process's.

use std::path::{Path, PathBuf};

use tally_fuzz::{TARGETS, Target, seeds};

/// The inputs in a folder of a target, in order; none if there is no such folder.
fn inputs(folder: &str, target: &Target) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder).join(target.name);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    paths.sort();
    paths
}

#[test]
fn what_was_kept_is_still_withstood_and_what_was_real_is_still_believed() {
    for seed in seeds::all() {
        let target = Target::named(seed.target).expect("a seed is of a target");
        println!("seed {} of {}", seed.name, seed.target);
        assert!(seed.bytes.len() <= target.input_bytes_max, "{} is too long to be tried", seed.name);
        assert_eq!((target.run)(&seed.bytes), seed.is_believed, "seed {} of {}", seed.name, seed.target);
    }
    for target in &TARGETS {
        for path in inputs("regressions", target) {
            println!("{}", path.display());
            (target.run)(&std::fs::read(path).expect("it can be read"));
        }
        let paths = inputs("corpus", target);
        assert!(!paths.is_empty(), "the corpus of {} is empty", target.name);
        let mut believed_count = 0;
        for path in &paths {
            println!("{}", path.display());
            believed_count += usize::from((target.run)(&std::fs::read(path).expect("it can be read")));
        }
        println!("{}: {} inputs, {believed_count} of them believed", target.name, paths.len());
        assert!(believed_count > 0, "no input of {} gets through", target.name);
    }
}
