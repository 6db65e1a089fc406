//! What programs that watch ask again and again, in their own words, and in the form in which they read the answer (docs/monitoring.md names them).

use super::{Machine, split, tally};

/// What a command prints for a program.
fn answer(machine: &Machine, line: &str) -> String {
    let (status, text) = tally(machine.dir.path(), &split(line));
    assert_eq!(status, 0, "`{line}`: {text}");
    text
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

/// The exporter for Prometheus takes three fields a line, and of these numbers, `-`, `none` or a state; a property that is refused costs it all of a pool.
#[test]
fn the_questions_of_an_exporter() {
    let machine = Machine::start();
    assert_eq!(answer(&machine, "zpool list -Ho name"), "tank\n");
    let pools = "allocated,capacity,dedupratio,expandsize,fragmentation,free,freeing,health,leaked,readonly,size";
    let told = answer(&machine, &format!("zpool get -Hpo name,property,value {pools} tank"));
    let mut seen: Vec<&str> = Vec::new();
    for line in told.lines() {
        let fields: Vec<_> = line.split('\t').collect();
        let [pool, property, value] = fields[..] else { panic!("{line}") };
        let is_read = match property {
            "health" => value == "ONLINE",
            "readonly" => value == "off",
            "expandsize" | "fragmentation" => value == "-",
            "freeing" | "leaked" => value == "0",
            "dedupratio" => value == "1.00",
            _ => is_number(value),
        };
        assert!(pool == "tank" && is_read, "{line}");
        seen.push(property);
    }
    seen.sort_unstable();
    assert_eq!(seen.join(","), pools);

    let datasets = "available,compressratio,logicalreferenced,logicalused,quota,refcompressratio,referenced,refquota,refreservation,reservation,snapshot_count,\
                    snapshot_limit,used,usedbychildren,usedbydataset,usedbyrefreservation,usedbysnapshots,volsize,written";
    let told = answer(&machine, &format!("zfs get -Hprt filesystem -o name,property,value {datasets} tank"));
    let of_home = told.lines().filter_map(|line| line.strip_prefix("tank/home\t"));
    let of_home: Vec<(&str, &str)> = of_home.filter_map(|line| line.split_once('\t')).collect();
    let mut names: Vec<&str> = of_home.iter().map(|(property, _)| *property).collect();
    names.sort_unstable();
    assert_eq!(names.join(","), datasets);
    let value = |name: &str| of_home.iter().find(|(property, _)| *property == name).map_or("", |(_, value)| value);
    assert!(of_home.iter().all(|(_, value)| is_number(value) || ["-", "none"].contains(value)), "{of_home:?}");
    assert_eq!(value("usedbydataset"), value("referenced"));
    let sum = ["usedbychildren", "usedbydataset"].map(|name| value(name).parse::<u64>().expect("a number"));
    assert_eq!(sum.iter().sum::<u64>().to_string(), value("used"), "tank/home/ann is a child");
    assert!(sum[0] > 0);
    // Any property is a column, whoever has it.
    let told = answer(&machine, "zfs list -H -o name,encryption,copies,dedup,xattr,quota tank");
    assert_eq!(told, "tank\toff\t1\toff\tsa\tnone\n");
    for kind in ["snapshot", "volume"] {
        machine
            .says(&format!("zfs get -Hprt {kind} -o name,property,value used,logicalused tank"), "nothing to show\n");
    }
}

/// Netdata and others find columns by their heads, and older scripts count them.
#[test]
fn a_list_has_the_columns_of_zpool() {
    let machine = Machine::start();
    let told = answer(&machine, "zpool list -p");
    let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
    let heads = ["NAME", "SIZE", "ALLOC", "FREE", "CKPOINT", "EXPANDSZ", "FRAG", "CAP", "DEDUP", "HEALTH", "ALTROOT"];
    assert_eq!(lines[0], heads);
    assert_eq!(lines[1].len(), heads.len(), "{told}");
    assert_eq!(lines[1][8..], ["1.00", "ONLINE", "-"]);
    for line in answer(&machine, "zpool list -p -v -L tank").lines() {
        assert!(line.split_whitespace().count() <= heads.len(), "{line}");
    }
    machine.says("zpool list -HPLo name,frag,dedup,health", "tank\t-\t1.00x\tONLINE\n");
    let ours = answer(&machine, "pool list -p");
    assert_eq!(ours.split_whitespace().take(6).collect::<Vec<_>>().join(" "), "NAME SIZE ALLOC FREE CAP HEALTH");
    machine.says(
        "zpool get -H -o property,value cap,frag,dedup tank",
        "capacity\t0%\nfragmentation\t-\ndedupratio\t1.00x\n",
    );
}

#[test]
fn a_list_of_datasets_has_what_is_asked() {
    let machine = Machine::start();
    machine.types("zfs set quota=9G tank/a", 0, &[]);
    machine.types("zfs set quota=10G tank/a/b", 0, &[]);
    machine.says("zfs list -H -o name,quota,mounted,ratio -r tank/a", "tank/a\t9G\tno\t-\ntank/a/b\t10G\tno\t-\n");
    let bytes = [9_u64 << 30, 10 << 30];
    let sorted = format!("tank/a/b\t{}\ntank/a\t{}\n", bytes[1], bytes[0]);
    machine.says("zfs list -Hp -o name,quota -S quota -r tank/a", &sorted);
    machine.types("zfs list -o space tank", 0, &["NAME", "AVAIL", "USED", "USEDBYSNAPSHOTS", "USEDBYCHILDREN", "tank"]);
    machine.types("zfs get -H -o property refer tank", 0, &["referenced\n"]);
    machine.says("zfs get -H -o value type tank", "filesystem\n");
}

/// A scrub's end is read with strptime's `%c`, and a disk's line by its fields.
#[test]
fn a_report_is_read_by_its_lines() {
    let machine = Machine::start();
    machine.types("zpool create dozer mirror /dev/a /dev/b", 0, &[]);
    machine.types("zpool scrub -w dozer", 0, &[]);
    let told = answer(&machine, "zpool status -P dozer");
    let ended = told.lines().find_map(|line| line.split_once(" errors on ")).expect("a scrub has ended").1;
    let words: Vec<&str> = ended.split_whitespace().collect();
    let [weekday, month, day, time, year] = words[..] else { panic!("{ended}") };
    assert!(weekday.len() == 3 && month.len() == 3 && time.len() == 8, "{ended}");
    assert!(
        day.parse::<u8>().is_ok_and(|day| day <= 31) && year.parse::<u16>().is_ok_and(|year| year > 2000),
        "{ended}"
    );
    assert!(time.split(':').all(|part| part.parse::<u8>().is_ok()), "{ended}");

    machine.types("zpool offline dozer /dev/b", 0, &[]);
    machine.says("zpool list -Ho health dozer", "DEGRADED\n");
    machine.types("zpool status -x", 1, &["pool: dozer", "state: DEGRADED"]);
    let told = answer(&machine, "zpool status -p dozer");
    let disk = told
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|line| line.first() == Some(&"/dev/b"));
    assert_eq!(disk, Some(vec!["/dev/b", "OFFLINE", "0", "0", "0"]));
    machine.types("zpool destroy dozer", 0, &[]);
}
