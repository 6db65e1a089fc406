//! The table of targets and the folder of what libFuzzer starts are the same list.

use std::collections::BTreeSet;
use std::path::Path;

use tally_fuzz::TARGETS;

#[test]
fn each_target_has_its_program_and_nothing_else_has() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/targets");
    let mut programs = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        assert!(text.contains(&format!("tally_fuzz::run(\"{name}\", data)")), "{name} runs another target");
        programs.insert(name);
    }
    assert_eq!(programs, TARGETS.iter().map(|target| target.name.to_owned()).collect());
}
