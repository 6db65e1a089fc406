//! Space in the words of ZFS, which tells it apart by what holds it. Without snapshots and reservations all of it follows from what is counted, and scripts that
//! watch ask for it by name; `all` and lists do without.

use tally_base::Size;

use crate::control::report::{DatasetReport, PoolReport, PropertyLine};

const OF_DATASETS: [&str; 6] =
    ["type", "usedbychildren", "usedbydataset", "usedbyrefreservation", "usedbysnapshots", "written"];
const OF_POOLS: [&str; 2] = ["freeing", "leaked"];

/// All that datasets have of it.
pub(crate) const fn names_of_datasets() -> &'static [&'static str] {
    &OF_DATASETS
}

/// Whether datasets have it.
pub(crate) fn is_of_datasets(name: &str) -> bool {
    OF_DATASETS.contains(&name)
}

/// Whether pools have it.
pub(super) fn is_of_pools(name: &str) -> bool {
    OF_POOLS.contains(&name)
}

/// That of a dataset, if there is one of this name.
pub(super) fn of_dataset(dataset: &DatasetReport, property: &str) -> Option<PropertyLine> {
    let size = |bytes: u64| Some((Size(bytes).to_string(), bytes.to_string()));
    let (value, exact) = match property {
        "type" => Some(("filesystem".into(), "filesystem".into())),
        "usedbychildren" => size(dataset.used.saturating_sub(dataset.referenced)),
        // All that it holds was written since a snapshot that there never was.
        "usedbydataset" | "written" => size(dataset.referenced),
        "usedbyrefreservation" | "usedbysnapshots" => size(0),
        _ => None,
    }?;
    Some(PropertyLine { name: dataset.name.clone(), property: property.into(), value, exact, source: "-".into() })
}

/// That of a pool. How much is being given back, or is lost, is not counted: what is known is whether it is nothing.
pub(super) fn of_pool(pool: &PoolReport, property: &str) -> Option<PropertyLine> {
    let is_none = match property {
        "freeing" => !pool.freeing,
        "leaked" => pool.leaks == 0,
        _ => return None,
    };
    let value = if is_none && pool.is_imported() { "0" } else { "-" }.to_owned();
    let exact = value.clone();
    Some(PropertyLine { name: pool.name.clone(), property: property.into(), value, exact, source: "-".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_answered_and_stands_in_the_page() {
        let page = include_str!("../../../../packaging/man/tally-from-zfs.7");
        let words: Vec<&str> = page.split_whitespace().collect();
        let dataset = DatasetReport { used: 5000, referenced: 3000, ..DatasetReport::default() };
        for name in OF_DATASETS {
            assert!(of_dataset(&dataset, name).is_some() && words.contains(&name), "{name}");
        }
        for name in OF_POOLS {
            assert!(of_pool(&PoolReport::default(), name).is_some() && words.contains(&name), "{name}");
        }
        let exact = |name: &str| of_dataset(&dataset, name).map(|line| line.exact);
        assert_eq!(exact("usedbychildren").as_deref(), Some("2000"));
        assert_eq!(exact("used"), None);
    }
}
