//! A machine's disks, for a story that needs no history.

use std::path::Path;
use std::sync::Arc;

use tally_base::{SystemClock, SystemRng};
use tally_disk::{MemOpener, SerialFanout};
use tally_fs::filer::{CreateOptions, Filer, FilerError, ImportOptions};
use tally_store::assemble::PoolSelect;
use tally_store::discover::ImportSource;
use tally_store::grammar::parse_vdev_args;
use tally_store::platform::{Host, Platform, Tuning};

use super::Chance;
use super::power::{Power, PowerDisk};

pub struct Disks {
    power: Arc<Power>,
    vdevs: Vec<String>,
    disks: Vec<(String, Arc<PowerDisk>)>,
    cuts: u64,
}

impl Disks {
    pub fn new(vdevs: &[&str]) -> Self {
        let power = Arc::new(Power::default());
        let vdevs: Vec<String> = vdevs.iter().map(|word| (*word).to_owned()).collect();
        let paths = vdevs.iter().filter(|word| word.starts_with('/'));
        let disks = paths.map(|path| (path.clone(), Arc::new(PowerDisk::new(&power, 16 << 20)))).collect();
        Self { power, vdevs, disks, cuts: 0 }
    }

    fn platform(&self) -> Platform {
        let opener = MemOpener::default();
        for (path, disk) in &self.disks {
            opener.put(path, Arc::clone(disk) as _);
        }
        Platform {
            clock: Arc::new(SystemClock::default()),
            rng: Arc::new(SystemRng),
            opener: Arc::new(opener),
            fanout: Arc::new(SerialFanout),
            host: Host { id: 1, name: "test".into() },
        }
    }

    pub fn create(&self) -> Arc<Filer> {
        let specs = parse_vdev_args(&self.vdevs).unwrap();
        Filer::create(&self.platform(), &Tuning::default(), "tank", &specs, &CreateOptions::default()).unwrap()
    }

    /// Cuts the power, switches it on again, and plans the next cut.
    pub fn power_fails(&mut self, next_after_writes: Option<u64>) {
        self.power.cut();
        self.cuts += 1;
        let power = Arc::new(Power::default());
        for (_, disk) in &mut self.disks {
            *disk = Arc::new(disk.survivor(&power, &mut Chance::new(self.cuts, 0)));
        }
        power.plan_cut(next_after_writes, 0);
        self.power = power;
    }

    pub fn import(&self) -> Result<Arc<Filer>, Box<FilerError>> {
        let paths = self.disks.iter().map(|(path, _)| Path::new(path).into()).collect();
        let source = ImportSource { paths, dirs: vec![] };
        let select = PoolSelect::Name("tank".into());
        let options = ImportOptions::default();
        Filer::import(&self.platform(), &Tuning::default(), &source, &select, &options, &mut |_| {})
            .map(|(filer, _)| filer)
            .map_err(Box::new)
    }
}
