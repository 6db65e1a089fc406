use super::*;

/// A cell of untar as root on a disk without a cache, of ten files.
fn cell(contender: &str, version: &str, us: u32) -> Cell {
    Cell::from_words(&format!(
        "contender={contender} version={version} workload=untar user=root files=10 cache=through work_us={us}0 unmount_us=50 \
         before.writes=5 before.flushes=0 before.rpcs=1 \
         ended.writes=65 ended.flushes=0 ended.rpcs=61"
    ))
}

fn book() -> Book {
    let mut book = Book::default();
    for (contender, version, us) in [
        ("tally", "3", 795),
        ("tally", "4.2", 695),
        ("tally-on", "4.2", 595),
        (XFS, "3", 995),
        (XFS, "4.2", 690),
        (OPEN_ZFS, "3", 1595),
    ] {
        book.put(cell(contender, version, us));
    }
    book
}

fn chosen(only: &[&str]) -> Vec<String> {
    let only: Vec<_> = only.iter().map(|word| (*word).to_owned()).collect();
    Choice { only: &only }.cells()
}

#[test]
fn whoever_names_none_of_a_kind_wants_all_of_it() {
    assert_eq!(
        chosen(&["untar", "root", "tally", "tally-on"]),
        ["tally,3,untar,root", "tally,4.2,untar,root", "tally-on,4.2,untar,root"]
    );
    assert_eq!(chosen(&["v3", "copy", "user", "zfs", "through"]), ["zfs,3,copy,user"]);
    // Four workloads by two users; five contenders by two versions, of which one knows no version 3.
    assert_eq!(chosen(&[]).len(), 4 * 2 * 9);
    assert!(Choice { only: &["v5".to_owned()] }.check().is_err());
    assert!(Choice { only: &["v4.2".to_owned(), "back".to_owned()] }.check().is_ok());
}

#[test]
fn bars_count_the_unmount_and_say_who_is_ahead() {
    let bars = book().bars();
    for row in [
        "| untar, v3: our time ÷ that over XFS | through | 10 | ≤ 0.85 | 0.800 | yes |",
        "| untar, v3: our time ÷ that over OpenZFS | through | 10 | ≤ 0.75 | 0.500 | yes |",
        "| untar, v4.2: our time ÷ our own of v3 | through | 10 | ≤ 0.8 | 0.875 | **no** |",
        "| untar, v4.2 with `delegations=on`: our time ÷ our own of v3 | through | 10 | ≤ 0.8 | 0.750 | yes |",
        "| each cell: our time ÷ the best peer's | through | | < 1 | root's `tar -x`, v4.2: 1.007 | **no** |",
    ] {
        assert!(bars.contains(row), "{row}\n{bars}");
    }
}

#[test]
fn a_run_replaces_its_like_and_no_other() {
    let mut book = book();
    let cells = book.cells.len();
    book.put(cell("tally", "3", 895));
    assert_eq!(book.cells.len(), cells);
    assert_eq!(book.cell(["through", "untar", "root", "tally", "3"], 10).map(Cell::us), Some(900.0));
    assert_eq!(book.cell(["through", "untar", "root", "tally", "4.2"], 10).map(Cell::us), Some(700.0));
    assert!(book.section().contains("| Tallystick | **900** | 5 | 6.00 | 6.00 | 0 | **700** |"), "{}", book.section());
}

#[test]
fn whoever_lost_the_times_of_files_is_nobodys_peer() {
    let mut book = book();
    let mut lost = cell(XFS, "4.2", 690);
    lost.words.insert("times".to_owned(), "lost".to_owned());
    book.put(lost);
    assert!(
        book.bars().contains("| each cell: our time ÷ the best peer's | through | | < 1 | all 1 | yes |"),
        "{}",
        book.bars()
    );
    assert!(book.section().contains("| **695**, times lost | 5 |"), "{}", book.section());
}

#[test]
fn what_was_not_counted_is_not_won() {
    let mut book = book();
    let mut uncounted = cell("tally", "4.2", 695);
    uncounted.words.remove("unmount_us");
    book.put(uncounted);
    assert!(book.bars().contains("| < 1 | root's `tar -x`, v4.2: NaN | **no** |"), "{}", book.bars());
}

#[test]
fn other_numbers_of_files_are_other_runs() {
    let mut book = book();
    let of_twenty = |name, us| {
        let mut cell = cell(name, "3", us);
        cell.words.insert("files".to_owned(), "20".to_owned());
        cell
    };
    book.put(of_twenty(XFS, 995));
    assert!(book.bars().contains("over XFS | through | 10 | ≤ 0.85 | 0.800 |"), "{}", book.bars());
    // Of the most files that both had.
    book.put(of_twenty("tally", 495));
    assert!(book.bars().contains("over XFS | through | 20 | ≤ 0.85 | 0.500 |"), "{}", book.bars());
    for table in ["root's `tar -x`, 20 files", "root's `tar -x`, 10 files"] {
        assert!(book.section().contains(table), "{}", book.section());
    }
}

#[test]
fn what_is_kept_comes_back() {
    let text = book().to_text();
    let again = Book::from_text(&text);
    assert_eq!((again.cells.len(), again.to_text()), (book().cells.len(), text));
}
