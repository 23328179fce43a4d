use super::{Noted, RequiredInputs, StatisticsJob};
use crate::{
    clear::{
        decrypted::Decrypted,
        groups::{GroupLabels, KeyColumn},
        note::{About, Note},
    },
    error::Result,
    key::Messages,
};
use sudare_apps::stats::{Edges, GroupJob, GroupPlan, GroupSums};
use sudare_table::Table;

/// Creates the job that `ROWSxFEATURESxGROUPS` names.
pub(super) fn named(counts: &[usize]) -> Option<super::Job> {
    let &[rows, features, groups] = counts else { return None };
    Some(super::Job::Groups(GroupJob { rows, features, groups }))
}

impl StatisticsJob for GroupJob {
    type Circuit = GroupSums;

    const KIND: &'static str = "groups";

    fn parts(&self) -> Option<usize> {
        Some(self.groups)
    }

    fn required_inputs(&self) -> RequiredInputs {
        RequiredInputs { groups: self.parts(), ..RequiredInputs::default() }
    }
}

impl Noted for GroupPlan {
    fn about(&self, table: &Table, key: Option<&KeyColumn>, _edges: &[Edges]) -> Result<About> {
        let KeyColumn { name, grouping, labels } = key.ok_or_else(super::incomplete)?;
        let scalings = self.scalings(table, grouping);
        let key = name.clone();
        Ok(match labels.clone() {
            GroupLabels::Numbers(labels) => About::ScaledGroups { scalings, key, labels },
            GroupLabels::Texts(labels) => About::NamedGroups { scalings, key, labels },
        })
    }

    fn pack<'a>(
        &'a self,
        table: &'a Table,
        key: Option<&'a KeyColumn>,
        about: &'a About,
    ) -> Result<Messages<'a>> {
        let (
            About::ScaledGroups { scalings, .. } | About::NamedGroups { scalings, .. },
            Some(KeyColumn { grouping, .. }),
        ) = (about, key)
        else {
            return Err(super::incomplete());
        };
        Ok(Messages::new(self.shapes(), self.pack(table, scalings, grouping)?))
    }

    fn decode(
        &self,
        slots: &[Vec<f64>],
        note: Note,
        shared_bits: Option<u32>,
    ) -> Result<Option<Decrypted>> {
        let Note { columns, about, .. } = note;
        let (scalings, key, labels) = match about {
            About::ScaledGroups { scalings, key, labels } => {
                (scalings, key, GroupLabels::Numbers(labels))
            }
            About::NamedGroups { scalings, key, labels } => {
                (scalings, key, GroupLabels::Texts(labels))
            }
            About::Groups { scaling, key, labels } => {
                // Version 1 scaled a column as a whole, so every group gets the same scaling.
                (vec![scaling; self.job().groups], key, GroupLabels::Numbers(labels))
            }
            _ => return Ok(None),
        };
        let statistics = self.decode(slots, &scalings, labels.count(), shared_bits)?;
        Ok(Some(Decrypted::Groups { key, labels, columns, statistics }))
    }
}
