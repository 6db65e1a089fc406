//! Writes the first inputs of every target into a folder: `fuzz-seeds FOLDER` makes `FOLDER/TARGET/NAME`, and prints
//! each target's name with the length of its longest input.

use std::path::PathBuf;
use std::{env, fs, io};

use tally_fuzz::{TARGETS, seeds};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: fuzz-seeds FOLDER"))?);
    for seed in seeds::all() {
        let folder = folder.join(seed.target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(&seed.name), &seed.bytes)?;
    }
    for target in &TARGETS {
        println!("{} {}", target.name, target.input_bytes_max);
    }
    Ok(())
}
