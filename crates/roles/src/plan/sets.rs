//! Parameter sets by name, with and without bootstrapping.

use crate::error::{Error, Result};
use std::iter;
use sudare::{
    circuits::ckks::bootstrap::{self, BootstrapPreset},
    ckks::{self, Preset},
};

/// A parameter set that `--params` names.
pub enum Set {
    /// A set without bootstrapping.
    Leveled(Box<Preset>),
    /// A set with bootstrapping.
    Bootstrapping(Box<BootstrapPreset>),
}

impl Set {
    /// Returns every set. The sets with bootstrapping come last, since they take longer to build.
    pub fn all() -> impl Iterator<Item = Self> {
        let bootstrapping = iter::once_with(bootstrap::presets).flatten();
        let leveled = ckks::presets().into_iter().map(Box::new).map(Self::Leveled);
        leveled.chain(bootstrapping.map(Box::new).map(Self::Bootstrapping))
    }

    /// Returns the set with this name.
    ///
    /// # Errors
    /// [`sudare::Error::UnknownPreset`], which lists the known names.
    pub fn named(name: &str) -> Result<Self> {
        Self::all().find(|set| set.preset().name == name).ok_or_else(|| {
            let known: Vec<String> = Self::all().map(|set| set.into_preset().name).collect();
            let name = name.chars().take(40).collect();
            sudare::Error::UnknownPreset { name, known: known.join(", ") }.into()
        })
    }

    /// Returns the set with this name, if it has bootstrapping.
    ///
    /// # Errors
    /// The errors of [`Set::named`]; [`Error::NoBootstrapping`].
    pub fn bootstrapping(name: &str) -> Result<Box<BootstrapPreset>> {
        match Self::named(name)? {
            Self::Bootstrapping(set) => Ok(set),
            Self::Leveled(set) => {
                let known = bootstrap::presets().into_iter().map(|set| set.preset.name);
                let known = known.collect::<Vec<_>>().join(", ");
                Err(Error::NoBootstrapping { name: set.name, known })
            }
        }
    }

    /// Returns name, source and parameters.
    pub fn preset(&self) -> &Preset {
        match self {
            Self::Leveled(preset) => preset,
            Self::Bootstrapping(set) => &set.preset,
        }
    }

    /// Converts the set into its name, source and parameters.
    pub fn into_preset(self) -> Preset {
        match self {
            Self::Leveled(preset) => *preset,
            Self::Bootstrapping(set) => set.preset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_taken_once() {
        let names: Vec<String> = Set::all().map(|set| set.into_preset().name).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name}");
            assert_eq!(Set::named(name).unwrap().preset().name, *name);
        }
        assert!(Set::bootstrapping("n16-boot").is_ok());
    }

    #[test]
    fn what_cannot_bootstrap_is_told_what_can() {
        let refused = |name| Set::bootstrapping(name).err().unwrap();
        let leveled = refused("n16");
        assert!(matches!(&leveled, Error::NoBootstrapping { name, .. } if name == "n16"));
        assert!(leveled.to_string().contains("n16-boot"), "{leveled}");
        let unknown = refused("n99");
        assert_eq!(unknown.kind(), "UnknownPreset");
        assert!(unknown.to_string().contains("n16-boot-real"), "{unknown}");
    }
}
