use crate::{attributes, callback, frame, fuse, image, label, locking, node, record, rpc, space, state, uberblock};

/// A family of bytes, and what is done with them.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name: of the fuzz target, and of the folder of its corpus.
    pub name: &'static str,
    /// Takes any bytes. Whether they were believed; panics if that was wrong.
    pub run: fn(&[u8]) -> bool,
    /// Longer inputs than this are not tried: they would only be slower.
    pub input_bytes_max: usize,
}

/// All of them.
pub const TARGETS: [Target; 18] = [
    target("rpc", rpc::stream, 40 << 10),
    target("nfs", rpc::nfs, 4 << 10),
    target("compound", rpc::compound, 4 << 10),
    target("attributes", attributes::exchange, 512),
    target("state", state::machine, 384),
    target("callback", callback::answers, 512),
    target("mount", rpc::mount, 2 << 10),
    target("nlm", locking::hosts, 2 << 10),
    target("nsm", locking::monitors, 1 << 10),
    target("fuse", fuse::messages, 4 << 10),
    target("label", label::slot, 4 << 10),
    target("uberblock", uberblock::sector, 4 << 10),
    target("frame", frame::ring, 8 << 10),
    target("record", record::body, 4 << 10),
    target("node", node::tree, 16 << 10),
    target("space", space::allocator, 16 << 10),
    target("import", image::import, 2 << 10),
    target("inspect", image::inspect, 2 << 10),
];

const fn target(name: &'static str, run: fn(&[u8]) -> bool, input_bytes_max: usize) -> Target {
    Target { name, run, input_bytes_max }
}

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}

/// Runs the target of this name. For the fuzz targets, which are nothing but their names.
pub fn run(name: &str, data: &[u8]) {
    let target = Target::named(name).expect("a fuzz target is in the table");
    (target.run)(data);
}
