//! The pool root, the datasets, and every entry of their trees.

use bytes::Bytes;
use tally_base::DatasetId;
use tally_base::codec::{DecodeError, Malformed};
use tally_disk::Helpers;
use tally_members::uberblock::Uberblock;

use super::fact::{Fact, Fields, Part, Source};
use super::kept::{say_kept, say_mark, say_told};
use super::view::PoolView;
use super::{Detail, Report, Words};
use crate::alloc::AllocRoot;
use crate::block::BlockError;
use crate::bp::BlockPtr;
use crate::dataset::DatasetEntry;
use crate::io::BlockIo;
use crate::key::{Class, Key};
use crate::pool::{PoolRoot, RootArea, Top, entry_of, names_of};
use crate::replies::ReplyCache;
use crate::tree::{Visit, of_newer_programs};

/// A cache for an inspection: enough for the path from a root to a leaf, and no more, so that devices are read.
const CACHE_BYTES: u64 = 1 << 20;

/// A pool root that could be read.
pub(super) struct Root {
    pub(super) uberblock: Uberblock,
    /// Its content, and the datasets that can be read.
    pub(super) top: Top,
    /// Where the entry of each was read.
    entries: Vec<Option<Source>>,
    pub(super) alloc: AllocRoot,
    pub(super) block: BlockPtr,
    /// Where the root block was read.
    pub(super) source: Option<Source>,
}

impl Root {
    pub(super) fn name_of(&self, id: DatasetId) -> Option<&str> {
        self.top.name_of(id)
    }
}

/// Why there is no pool root below an uberblock.
#[derive(Debug, thiserror::Error)]
enum RootError {
    #[error("{0}")]
    Malformed(#[from] Malformed),
    #[error("{0}")]
    Block(#[from] BlockError),
}

/// The root of the newest uberblock, or, if that one is damaged, of the newest one whose root can be read.
pub(super) fn read_root(report: &mut Report<'_>, view: &PoolView<'_>) -> Option<Root> {
    for (at, (source, uberblock)) in view.uberblocks.iter().enumerate() {
        match root_of(view, uberblock) {
            Ok(mut root) => {
                say_root(report, &root, at > 0);
                view.say_damaged_copy(report, Part::Trees, &root.block);
                read_catalog(report, view, &mut root);
                return Some(root);
            }
            Err(why) => {
                let fact = Fact::new(Part::Trees, "pool root").at(source.clone()).with("txg", uberblock.txg);
                // What an older uberblock names may have been reused, and is no damage.
                let fact = if at == 0 { fact.damaged(why) } else { fact.note(why) };
                report.say(Detail::Summary, &fact);
            }
        }
    }
    let fact = Fact::new(Part::Trees, "pool root");
    report.say(Detail::Summary, &fact.damaged("no uberblock leads to one: datasets and space maps cannot be found"));
    None
}

fn root_of(view: &PoolView<'_>, uberblock: &Uberblock) -> Result<Root, RootError> {
    let block = RootArea::decode(&uberblock.root)?.root;
    let (content, alloc) = PoolRoot::decode(&BlockIo::read_root(&view.block_devs(), &block)?)?;
    let top = Top {
        root: content,
        datasets: Vec::new(),
        names: Vec::new(),
        kept: Default::default(),
        marks: Default::default(),
        lost_marks: Default::default(),
    };
    let source = view.source(block.dva);
    Ok(Root { uberblock: uberblock.clone(), top, entries: Vec::new(), alloc, block, source })
}

/// Blocks as they are on the devices.
fn io_of(view: &PoolView<'_>) -> std::sync::Arc<BlockIo> {
    BlockIo::for_reading(view.block_devs(), CACHE_BYTES, Helpers::Threads)
}

/// All datasets that can be read. An import reads all of them, or none.
fn read_catalog(report: &mut Report<'_>, view: &PoolView<'_>, root: &mut Root) {
    let tree = root.top.root.catalog.clone();
    let mut leaf = None;
    let (mut datasets, mut kept_count, mut told) = (Vec::new(), 0_usize, [0; 2]);
    let io = io_of(view);
    let summary = tree.check(&io, &mut |visit| match visit {
        Visit::Block { bp, height, count } => {
            let what = if height == 0 { "catalog leaf" } else { "catalog node" };
            let source = view.source(bp.dva);
            let fact = block_fact(what, source.clone(), bp).with("height", height).with("count", count);
            report.say(Detail::Verbose, &fact);
            view.say_damaged_copy(report, Part::Trees, bp);
            leaf = source;
        }
        Visit::Entry { key, value } if matches!(key.class, Class::Job | Class::Damage) => {
            kept_count += 1;
            say_kept(report, leaf.clone(), &key, value);
        }
        Visit::Entry { key, value } if key.class == Class::Mark => {
            kept_count += 1;
            say_mark(report, leaf.clone(), &key, value);
        }
        Visit::Entry { key, value } if matches!(key.class, Class::History | Class::Event) => {
            told[usize::from(key.class == Class::Event)] += 1_u64;
            say_told(report, leaf.clone(), &key, value);
        }
        Visit::Entry { key, value } => match entry_of(&root.top.root, &key, value) {
            Ok(entry) => datasets.push((entry, leaf.clone())),
            Err(why) => {
                let fact = Fact::new(Part::Trees, "dataset").at(leaf.clone()).with("key", format!("{key:?}"));
                report.say(Detail::Summary, &fact.damaged(why));
            }
        },
        Visit::Damage { bp, height, from, to, error } => {
            let what = if height == 0 { "catalog leaf" } else { "catalog node" };
            let fact = block_fact(what, view.source(bp.dva), bp).with_all(stretch(from, to));
            let bytes = matches!(error, BlockError::Malformed { .. }).then(|| io.read(bp).ok()).flatten();
            let fact = match bytes.and_then(|bytes| of_newer_programs(&bytes)) {
                Some(what) => fact.note(format!("{what}, which only a newer program knows")),
                None => fact.damaged(error),
            };
            report.say(Detail::Summary, &fact);
        }
    });
    datasets.sort_by_key(|(entry, _)| entry.birth.id);
    (root.top.datasets, root.entries) = datasets.into_iter().unzip();
    root.top.names = names_of(&root.top.datasets);
    for (entry, source) in root.top.datasets.iter().zip(&root.entries).zip(&root.top.names).filter_map(nameless) {
        let fact = Fact::new(Part::Trees, "dataset").at(source.clone()).with("dataset", entry.birth.id);
        let fact = fact.with("component", entry.line.name.as_str()).with("parent", entry.line.parent);
        report.say(Detail::Summary, &fact.damaged("those above it do not lead to the pool's own: it has no name"));
    }
    let fact = Fact::new(Part::Trees, "catalog")
        .at(tree.root().and_then(|root| view.source(root.dva)))
        .with("height", tree.height())
        .with("nodes", summary.node_count)
        .with("leaves", summary.leaf_count)
        .with("datasets", root.top.datasets.len())
        .with_some("others", (kept_count > 0).then_some(kept_count))
        .with("lsize", summary.logical_bytes)
        .with("asize", summary.allocated_bytes);
    let [commands, events] = told.map(|count: u64| (count > 0).then_some(count));
    let fact = fact.with_some("commands", commands).with_some("events", events);
    let fact = if summary.damage_count == 0 && summary.entry_count != tree.entry_count() {
        fact.damaged(format!("the pool's root tells of {} entries", tree.entry_count()))
    } else {
        fact
    };
    report.say(Detail::Summary, &fact);
    view.say_faults(report, Part::Trees);
}

fn nameless<T>((dataset, name): (T, &Option<String>)) -> Option<T> {
    name.is_none().then_some(dataset)
}

/// The keys that are missing from a walk.
fn stretch(from: Option<Key>, to: Option<Key>) -> Fields {
    let word = |key: Option<Key>, without: &str| key.map_or(without.to_owned(), |key| format!("{key:?}"));
    vec![("from", word(from, "the beginning").into()), ("to", word(to, "the end").into())]
}

fn say_root(report: &mut Report<'_>, root: &Root, is_older: bool) {
    let content = &root.top.root;
    let fact = Fact::new(Part::Trees, "pool root")
        .at(root.source.clone())
        .with("txg", root.uberblock.txg)
        .with("bytes", root.block.lsize)
        .with("datasets", content.catalog.entry_count())
        .with("next_dataset", content.next_dataset)
        .with("log_txg", content.log_txg)
        .with("life", content.life.number)
        .with("life_random", format!("{:#018x}", content.life.random))
        .with("change_floor", content.life.change_floor)
        .with("reply_blocks", content.reply_blocks.iter().flatten().count())
        .with("tombstones", content.tombstones.len())
        .with_some("copy", copy_words(&root.block));
    report.say(Detail::Summary, &fact);
    if is_older {
        let why = "of an older uberblock: what follows is an earlier state, parts of which may have been overwritten";
        report.say(Detail::Summary, &Fact::new(Part::Trees, "pool root").at(root.source.clone()).note(why));
    }
    for (dataset, txg) in &content.tombstones {
        let fact = Fact::new(Part::Trees, "tombstone").at(root.source.clone());
        report.say(Detail::Lines, &fact.with("dataset", *dataset).with("txg", *txg));
    }
}

/// The reply cache and all datasets.
pub(super) fn say_trees(report: &mut Report<'_>, view: &PoolView<'_>, root: &Root, words: &dyn Words) {
    let io = io_of(view);
    if report.plan.trees.is_empty() {
        say_replies(report, view, root, &io);
    }
    for ((entry, name), source) in root.top.named().zip(&root.entries) {
        let name = name.map_or_else(|| format!("?/{}", entry.line.name), str::to_owned);
        if report.plan.wants_tree(&name) {
            say_dataset(report, source, entry, &name);
            report.trees_found.push(name);
            Walk { report, view, io: &io, words, leaf: None, entries: [0; Class::ALL.len()] }.run(entry);
            view.say_faults(report, Part::Trees);
        }
    }
}

fn say_replies(report: &mut Report<'_>, view: &PoolView<'_>, root: &Root, io: &BlockIo) {
    for (bucket, bp) in root.top.root.reply_blocks.iter().enumerate() {
        let Some(bp) = bp else { continue };
        let fact = Fact::new(Part::Trees, "reply cache").with("bucket", bucket).with("bytes", bp.lsize);
        let loaded = ReplyCache::default();
        match io.read(bp).map_err(RootError::from).and_then(|block| Ok(loaded.load(&block)?)) {
            Ok(()) => {
                report.say(Detail::Lines, &fact.at(view.source(bp.dva)).with("replies", loaded.count()));
            }
            Err(why) => report.say(Detail::Summary, &fact.at(view.source(bp.dva)).damaged(why)),
        }
    }
}

fn say_dataset(report: &mut Report<'_>, source: &Option<Source>, entry: &DatasetEntry, name: &str) {
    let (birth, state) = (&entry.birth, &entry.root);
    let fact = Fact::new(Part::Trees, "dataset")
        .at(source.clone())
        .with("dataset", birth.id)
        .with("name", name)
        .with("parent", entry.line.parent)
        .with("guid", format!("{:#018x}", birth.guid))
        .with("created", birth.created)
        .with("created_txg", birth.created_txg)
        .with("lane", birth.lane)
        .with("root_object", birth.root_object)
        .with("root_generation", birth.root_generation)
        .with("objects", state.object_count)
        .with("orphans", state.orphan_count)
        .with("used_bytes", state.used_bytes)
        .with("next_object", state.next_object)
        .with("replay_dseq", state.replay_dseq)
        .with("logged", state.logged)
        .with("log_from", state.log_from)
        .with("life", state.life)
        .with("verifier", format!("{:#018x}", state.verifier))
        .with("change_floor", state.change_floor);
    report.say(Detail::Summary, &fact);
    for value in entry.line.local.iter() {
        let fact = Fact::new(Part::Trees, "property").at(source.clone()).with("dataset", birth.id);
        report.say(Detail::Lines, &fact.with("name", value.property().name()).with("value", value.to_string()));
    }
    for (name, value) in entry.line.local.users() {
        let fact = Fact::new(Part::Trees, "property").at(source.clone()).with("dataset", birth.id);
        report.say(Detail::Lines, &fact.with("name", name).with("value", value));
    }
    for (number, bytes) in entry.line.local.others() {
        let fact = Fact::new(Part::Trees, "property").at(source.clone()).with("dataset", birth.id);
        report.say(Detail::Lines, &fact.with("number", number).with("bytes", bytes.len()).note("not known here"));
    }
    for (number, bytes) in entry.sections() {
        let fact = Fact::new(Part::Trees, "section").at(source.clone()).with("dataset", birth.id);
        report.say(Detail::Lines, &fact.with("number", number).with("bytes", bytes).note("not known here"));
    }
}

/// A walk through one dataset's tree.
struct Walk<'a, 'r> {
    report: &'a mut Report<'r>,
    view: &'a PoolView<'a>,
    io: &'a BlockIo,
    words: &'a dyn Words,
    /// Where the leaf of the entries that come now was read.
    leaf: Option<Source>,
    /// By class.
    entries: [u64; Class::ALL.len()],
}

impl Walk<'_, '_> {
    fn run(mut self, entry: &DatasetEntry) {
        let tree = &entry.root.tree;
        let io = self.io;
        let summary = tree.check(io, &mut |visit| self.visit(&visit));
        let source = tree.root().and_then(|root| self.view.source(root.dva));
        let mut fact = Fact::new(Part::Trees, "tree")
            .at(source)
            .with("dataset", entry.birth.id)
            .with("height", tree.height())
            .with("nodes", summary.node_count)
            .with("leaves", summary.leaf_count)
            .with("entries", summary.entry_count)
            .with("lsize", summary.logical_bytes)
            .with("asize", summary.allocated_bytes);
        for (class, count) in Class::ALL.iter().zip(self.entries) {
            fact = fact.with(class_word(*class), count);
        }
        let lost = tree.entry_count().abs_diff(summary.entry_count);
        // Damage has been named where it is; a difference without any would be a defect of its own.
        if lost > 0 && summary.damage_count == 0 {
            fact = fact.damaged(format!("its root tells of {} entries", tree.entry_count()));
        } else if lost > 0 {
            fact = fact.note(format!("of {} entries that its root tells of", tree.entry_count()));
        }
        self.report.say(Detail::Summary, &fact);
    }

    fn visit(&mut self, visit: &Visit<'_>) {
        match visit {
            Visit::Block { bp, height, count } => {
                let source = self.view.source(bp.dva);
                let fact = block_fact(if *height == 0 { "leaf" } else { "node" }, source.clone(), bp);
                self.report.say(Detail::Verbose, &fact.with("height", *height).with("count", *count));
                self.view.say_damaged_copy(self.report, Part::Trees, bp);
                if *height == 0 {
                    self.leaf = source;
                }
            }
            Visit::Entry { key, value } => self.entry(key, value),
            Visit::Damage { bp, height, from, to, error } => {
                let fact = block_fact(if *height == 0 { "leaf" } else { "node" }, self.view.source(bp.dva), bp)
                    .with_all(stretch(*from, *to));
                self.report.say(Detail::Summary, &fact.damaged(error));
            }
        }
    }

    fn entry(&mut self, key: &Key, value: &[u8]) {
        if let Some(count) = self.entries.get_mut(key.class as usize) {
            *count += 1;
        }
        let fact = Fact::new(Part::Trees, class_word(key.class)).at(self.leaf.clone());
        match self.words.entry(key, &Bytes::copy_from_slice(value)) {
            Ok(fields) => {
                if self.report.shows(Part::Trees, Detail::Lines) {
                    self.report.say(Detail::Lines, &fact.with_all(fields));
                }
            }
            Err(why) => {
                let fact = fact.with("object", key.object).with("a", key.a).with("b", key.b).with("bytes", value.len());
                let fact = if matches!(why, DecodeError::Newer(_)) { fact.note(why) } else { fact.damaged(why) };
                self.report.say(Detail::Summary, &fact);
            }
        }
        if let Some(bp) = self.words.schema().block(key, value) {
            self.content(key, &bp);
        }
    }

    /// The content that an entry names, if it is to be read, else whether it can be where the pointer says.
    fn content(&mut self, key: &Key, bp: &BlockPtr) {
        let outcome = if self.report.plan.data { self.io.read(bp).map(|_| ()) } else { Ok(()) };
        let source = self.view.source(bp.dva);
        let (object, offset) = self.words.schema().content_of(key);
        let fact = block_fact("data block", source, bp).with("object", object.0).with("offset", offset);
        match outcome {
            Ok(()) => self.report.say(Detail::Verbose, &fact),
            Err(why) => self.report.say(Detail::Summary, &fact.damaged(why)),
        }
    }
}

/// A block pointer in fields, at the place that it names.
pub(super) fn block_fact(what: &'static str, source: Option<Source>, bp: &BlockPtr) -> Fact {
    let fact = Fact::new(Part::Trees, what)
        .at(source)
        .with("lsize", bp.lsize)
        .with("psize", bp.psize)
        .with("coding", format!("{:?}", bp.coding).to_lowercase())
        .with("birth", bp.birth)
        .with("written", bp.written);
    let map_sectors = bp.in_pieces.then_some(bp.dva.sectors);
    fact.with_some("map_sectors", map_sectors).with_some("copy", copy_words(bp))
}

/// Where a block's second copy lies.
fn copy_words(bp: &BlockPtr) -> Option<String> {
    bp.copy.map(|copy| copy.to_string())
}

pub(super) const fn class_word(class: Class) -> &'static str {
    match class {
        Class::Inode => "inode",
        Class::DirEntry => "entry",
        Class::DirHash => "hash",
        Class::Xattr => "xattr",
        Class::Extent => "extent",
        Class::Small => "small",
        Class::Orphan => "orphan",
        Class::Dataset => "dataset",
        Class::Job => "job",
        Class::Damage => "damage",
        Class::Mark => "mark",
        Class::History => "command",
        Class::Event => "event",
    }
}
