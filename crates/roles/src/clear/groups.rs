//! The column that groups rows.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use crate::error::{Error, Result};
use serde::Serialize;
use sudare_apps::stats::Grouping;
use sudare_table::{Table, list};

/// A column whose values define groups of rows.
#[derive(Clone)]
pub struct KeyColumn {
    /// The name of the column.
    pub name: String,
    /// The groups of rows.
    pub grouping: Grouping,
    /// The values of the groups, in their order.
    pub labels: GroupLabels,
}

/// The values that define groups of rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum GroupLabels {
    /// Numbers, ascending.
    Numbers(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
}

impl GroupLabels {
    /// Returns the labels as text, in order.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Numbers(labels) => labels.iter().map(f64::to_string).collect(),
            Self::Texts(labels) => labels.clone(),
        }
    }

    /// Returns the number of groups.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Numbers(labels) => labels.len(),
            Self::Texts(labels) => labels.len(),
        }
    }

    /// Returns the index of the group with this label. Numbers may be written in any form.
    ///
    /// # Errors
    /// [`Error::Usage`] for any other label. The message calls the column `key`.
    pub fn index(&self, key: &str, label: &str) -> Result<usize> {
        let found = match self {
            // Compared as numbers: `1` and `1.0` name the same group.
            Self::Numbers(labels) => {
                let number = label.trim().parse::<f64>().ok();
                labels.iter().position(|&other| Some(other) == number)
            }
            Self::Texts(labels) => labels.iter().position(|other| other == label),
        };
        found.ok_or_else(|| {
            Error::Usage(format!(
                "there is no group with {key} = {label}; the groups are {}",
                list(&self.texts())
            ))
        })
    }
}

impl KeyColumn {
    /// Creates a column from its values, one per row.
    ///
    /// # Errors
    /// [`Error::Stats`] for values that [`Grouping::of`] refuses as
    /// ambiguous.
    pub fn new(name: &str, values: &[f64]) -> Result<Self> {
        let grouping = Grouping::of(values)?;
        let labels = GroupLabels::Numbers(grouping.labels().to_vec());
        Ok(Self { name: name.into(), grouping, labels })
    }

    /// Creates the column from the target of a table. Its classes are the groups, as texts or as
    /// numbers.
    ///
    /// # Errors
    /// [`Error::Table`] for a table without a target; the errors of [`KeyColumn::new`].
    pub fn of_target(table: &Table, is_text: bool) -> Result<Self> {
        let name = table.target().unwrap_or_default();
        let classes = table.classes()?;
        let class = |&member: &u32| classes.get(member as usize).map_or("", String::as_str);
        let numbers = table.members()?.iter().map(|member| class(member).parse().ok());
        let numbers: Option<Vec<f64>> = numbers.collect();
        if let Some(numbers) = numbers.filter(|_| !is_text) {
            return Self::new(name, &numbers);
        }
        let members: Vec<f64> = table.members()?.iter().map(|&member| member.into()).collect();
        let grouping = Grouping::of(&members)?;
        // Classes without rows are no groups.
        let label = |&group: &f64| class(&(group as u32)).to_owned();
        let labels = GroupLabels::Texts(grouping.labels().iter().map(label).collect());
        Ok(Self { name: name.into(), grouping, labels })
    }
}
