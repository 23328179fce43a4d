//! Models of LightGBM in its text format.

use super::{
    error::{Result, TreesError, bad_node},
    model::{Forest, Link, Node, Split, Tree, check_bytes, numbered, tree_of},
};
use core::str::FromStr;
use std::collections::BTreeMap;

const FORMAT: &str = "LightGBM";

/// Bits of the type of a decision.
const CATEGORICAL: u8 = 1;
const MISSING_SHIFT: u32 = 2;
/// The treatment of zeros as missing values.
const ZERO_IS_MISSING: u8 = 1;

fn refused<T>(problem: impl Into<String>) -> Result<T> {
    Err(TreesError::Format { format: FORMAT, problem: problem.into() })
}

/// Lines `key=value` of the header or of a tree.
#[derive(Default)]
struct Section<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Section<'a> {
    fn get(&self, key: &str) -> Result<&'a str> {
        match self.0.get(key) {
            Some(value) => Ok(value),
            None => refused(format!("it has no {key}")),
        }
    }

    fn number<T: FromStr>(&self, key: &str) -> Result<T> {
        let text = self.get(key)?;
        number(key, text)
    }

    fn numbers<T: FromStr>(&self, key: &str) -> Result<Vec<T>> {
        self.get(key)?.split_ascii_whitespace().map(|text| number(key, text)).collect()
    }
}

fn number<T: FromStr>(key: &str, text: &str) -> Result<T> {
    text.trim().parse().or_else(|_| {
        let text: String = text.chars().take(40).collect();
        refused(format!("its {key} is {text:?}: a number is needed"))
    })
}

/// An objective, with the factor of its scores.
struct Objective {
    link: Link,
    factor: f64,
}

impl Objective {
    fn new(text: &str, outputs: usize) -> Result<Self> {
        let mut words = text.split_ascii_whitespace();
        let name = words.next().unwrap_or("");
        let mut factor = 1.0;
        for word in words {
            match word.split_once(':') {
                Some(("sigmoid", value)) => factor = number("objective", value)?,
                Some(("num_class", value)) => {
                    let found: usize = number("objective", value)?;
                    if found != outputs {
                        return refused(format!("it has {found} classes, but {outputs} outputs"));
                    }
                }
                // Parameters of the training.
                Some(("alpha" | "c" | "tweedie_variance_power", _)) => {}
                _ => return refused(format!("its objective has the option {word:?}")),
            }
        }
        let link = match name {
            "binary" | "cross_entropy" => Link::Logistic,
            "multiclass" => Link::Softmax,
            "multiclassova" => Link::LogisticEach,
            "regression" | "regression_l1" | "huber" | "fair" | "quantile" | "mape"
            | "lambdarank" | "rank_xendcg" => Link::Identity,
            "poisson" | "gamma" | "tweedie" => Link::Exp,
            _ => {
                return refused(format!(
                    "its objective is {name:?}, whose predictions are not known here: train with another \
                     one"
                ));
            }
        };
        Ok(Self { link, factor })
    }
}

impl Forest {
    /// Reads the text of a model of LightGBM (`save_model`).
    ///
    /// Missing values are not possible in encrypted rows, so the default directions of splits have
    /// no effect.
    ///
    /// # Errors
    /// [`TreesError::Format`] for other content, categorical splits, linear trees, splits that take
    /// zeros as missing values, and objectives whose predictions are not known here; the errors of
    /// [`Forest::new`].
    pub fn from_lightgbm(bytes: &[u8]) -> Result<Self> {
        check_bytes(FORMAT, bytes)?;
        let Ok(text) = core::str::from_utf8(bytes) else { return refused("it is not UTF-8") };
        let mut lines = text.lines();
        if lines.next() != Some("tree") {
            return refused("its first line is not \"tree\"");
        }
        let mut sections = vec![Section::default()];
        let mut is_complete = false;
        for line in lines {
            let line = line.trim();
            if line == "end of trees" {
                is_complete = true;
                break;
            }
            if line.starts_with("Tree=") {
                sections.push(Section::default());
            } else if line == "average_output" {
                sections[0].0.insert("average_output", "");
            } else if let (Some((key, value)), Some(section)) =
                (line.split_once('='), sections.last_mut())
            {
                section.0.insert(key, value);
            }
        }
        if !is_complete {
            return refused("it ends before its last tree");
        }
        let header = sections.remove(0);
        let outputs: usize = header.number("num_tree_per_iteration")?;
        let last: usize = header.number("max_feature_idx")?;
        if outputs == 0 || !sections.len().is_multiple_of(outputs) {
            let found = sections.len();
            return refused(format!("it has {found} trees for {outputs} outputs"));
        }
        let Objective { link, factor } = Objective::new(header.get("objective")?, outputs)?;
        let share = match header.0.contains_key("average_output") {
            true => factor / (sections.len() / outputs) as f64,
            false => factor,
        };
        let names: Vec<String> =
            header.get("feature_names")?.split_ascii_whitespace().map(str::to_owned).collect();
        let features = match names.len() == last.saturating_add(1) {
            true => names,
            false => numbered(last.saturating_add(1))?,
        };
        let trees = sections.iter().enumerate();
        let trees = trees.map(|(number, section)| tree(section, number, number % outputs, share));
        let trees = trees.collect::<Result<Vec<_>>>()?;
        Self::new(features, link, vec![0.0; outputs], Vec::new(), trees)
    }
}

fn tree(section: &Section<'_>, number: usize, output: usize, share: f64) -> Result<Tree> {
    if section.0.get("is_linear").is_some_and(|&linear| linear.trim() != "0") {
        return bad_node(number, 0, "its leaves are linear: train without linear_tree");
    }
    let leaves: usize = section.number("num_leaves")?;
    let values: Vec<f64> = section.numbers("leaf_value")?;
    if leaves == 0 || values.len() != leaves {
        return bad_node(number, 0, format!("it has {} values for {leaves} leaves", values.len()));
    }
    let values: Vec<f64> = values.into_iter().map(|value| share * value).collect();
    if leaves == 1 {
        return Ok(Tree { output: Some(output), nodes: vec![Node::Leaf(values)] });
    }
    let features: Vec<usize> = section.numbers("split_feature")?;
    let thresholds: Vec<f64> = section.numbers("threshold")?;
    let decisions: Vec<u8> = section.numbers("decision_type")?;
    let left: Vec<i64> = section.numbers("left_child")?;
    let right: Vec<i64> = section.numbers("right_child")?;
    let lengths = [features.len(), thresholds.len(), decisions.len(), left.len(), right.len()];
    let splits = leaves - 1;
    if lengths != [splits; 5] {
        return bad_node(
            number,
            0,
            format!("{leaves} leaves need {splits} splits, not {lengths:?}"),
        );
    }
    // Leaves have negative numbers, and follow the splits here.
    let place = |child: i64| match usize::try_from(child) {
        Ok(split) => split,
        Err(_) => splits.saturating_add(usize::try_from(!child).unwrap_or(usize::MAX)),
    };
    tree_of(0, splits + leaves, Some(output), |node| {
        if let Some(leaf) = node.checked_sub(splits) {
            return match values.get(leaf) {
                Some(&value) => Ok(Node::Leaf(vec![value])),
                None => bad_node(number, node, format!("there is no leaf {leaf}")),
            };
        }
        let decision = decisions[node];
        if decision & CATEGORICAL != 0 {
            return bad_node(number, node, "it is a categorical split: train on one-hot columns");
        }
        if decision >> MISSING_SHIFT == ZERO_IS_MISSING {
            let problem = "it takes zeros as missing values: train with zero_as_missing=false";
            return bad_node(number, node, problem);
        }
        Ok(Node::Split(Split {
            feature: features[node],
            at: thresholds[node],
            or_equal: true,
            single: false,
            left: place(left[node]),
            right: place(right[node]),
        }))
    })
}
