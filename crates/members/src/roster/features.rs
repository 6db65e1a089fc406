//! Features of the pool are allowed and come into use here: the one place that sets a bit.
//!
//! The problem (rules S1): a structure that an older program does not know must not be on a disk whose label lets that
//! program in. It would free a shared block once, and reuse it under the other file.
//!
//! The idea: whoever is about to write the first structure of a feature calls [`Roster::activate`] before, every time, and
//! begins when that has returned. The bit is then in both labels of every leg that counts: one that refused has been struck
//! off, and is given nothing any more. A leg that is away gets its label before anything else when it is taken up. A power
//! cut in between leaves the bit in some labels and the structure nowhere: an older program that finds a leg without it
//! imports what it knows all of, and the others are behind it then.

use super::{Roster, RosterError};
use crate::label::{Feature, FeatureState, PoolConfig};

impl Roster {
    /// Allows that these are used from now on. Nothing on the disks changes by that but a line in the labels.
    pub fn enable_features(&self, features: &[Feature]) -> Result<(), RosterError> {
        self.update(|config| enable(config, features)).map(drop)
    }

    /// Whether [`Self::enable_features`] would; nothing is written.
    pub fn check_features(&self, features: &[Feature]) -> Result<(), RosterError> {
        self.check_update(|config| enable(config, features))
    }

    /// Only what programs of this version know may be enabled from now on; empty: everything.
    pub fn set_compatibility(&self, compatibility: &str) -> Result<(), RosterError> {
        self.update(|config| compatibility.clone_into(&mut config.feature_notes.compatibility))?;
        Ok(())
    }

    /// Sets the bit of a feature, if it is not set: durable in the labels of all legs when this returns.
    pub fn activate(&self, feature: &Feature) -> Result<(), RosterError> {
        match self.config().feature_state(feature) {
            FeatureState::Active => Ok(()),
            FeatureState::Disabled => Err(RosterError::FeatureDisabled { name: feature.name }),
            FeatureState::Enabled => {
                self.update(|config| config.features.set(feature.set, feature.bit))?;
                Ok(())
            }
        }
    }
}

fn enable(config: &mut PoolConfig, features: &[Feature]) {
    features.iter().for_each(|feature| config.feature_notes.enable(feature));
}

#[cfg(test)]
mod tests;
