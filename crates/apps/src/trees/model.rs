//! Models of trees in the clear.

use super::error::{Result, TreesError, bad_node, expect};
use serde::{Deserialize, Serialize};
use sudare_arith::real;

/// Maximum number of trees of a model.
const MAX_TREES: usize = 1 << 14;
/// Maximum number of nodes of all trees together.
const MAX_NODES: usize = 1 << 20;
/// Maximum number of features of a model.
const MAX_FEATURES: usize = 1 << 12;
/// Maximum number of outputs, and of classes.
const MAX_OUTPUTS: usize = 1 << 8;
/// Maximum number of splits between the root and a leaf.
const MAX_HEIGHT: usize = 63;
/// Maximum number of bytes of the file of a model.
pub(super) const MAX_BYTES: usize = 1 << 28;
/// Maximum number of numbers in all leaves.
const MAX_NUMBERS: usize = 1 << 24;

/// A test of a feature. Rows that pass it go to the left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// The number of the feature, from 0.
    pub feature: usize,
    /// The threshold.
    pub at: f64,
    /// True for the test `x <= at`, false for `x < at`.
    pub or_equal: bool,
    /// True if the model rounds features to 32 bits before the test.
    #[serde(default)]
    pub single: bool,
    /// The node for rows that pass the test, after this one.
    pub left: usize,
    /// The node for other rows, after this one.
    pub right: usize,
}

impl Split {
    /// Returns whether a row with this feature goes to the left.
    #[must_use]
    pub fn passes(&self, x: f64) -> bool {
        // Rounding is monotone, so a grid of ascending numbers has one change at most.
        let x = if self.single { f64::from(x as f32) } else { x };
        if self.or_equal { x <= self.at } else { x < self.at }
    }
}

/// A node of a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Node {
    /// A test.
    Split(Split),
    /// Numbers that are added to the outputs of the tree.
    Leaf(Vec<f64>),
}

/// A tree. Node 0 is the root.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// The output that the only number of each leaf is added to, or `None` if each leaf has a number
    /// for every output.
    pub output: Option<usize>,
    /// The nodes. Children come after their parents.
    pub nodes: Vec<Node>,
}

/// The function from raw scores to predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// Predictions are the raw scores.
    Identity,
    /// The only raw score is the exponent of the prediction.
    Exp,
    /// The sigmoid of the only raw score is the probability of the second of two classes.
    Logistic,
    /// The only raw score is the probability of the second of two classes.
    Probability,
    /// The sigmoid of each raw score is the probability of its class.
    LogisticEach,
    /// The softmax of the raw scores are the probabilities of the classes.
    Softmax,
}

/// A sum of trees in the clear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Described", into = "Described")]
pub struct Forest(Described);

/// A forest without invariants, in the form of its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    features: Vec<String>,
    link: Link,
    offsets: Vec<f64>,
    #[serde(default)]
    classes: Vec<String>,
    trees: Vec<Tree>,
}

impl TryFrom<Described> for Forest {
    type Error = TreesError;

    fn try_from(described: Described) -> Result<Self> {
        described.check()?;
        Ok(Self(described))
    }
}

impl From<Forest> for Described {
    fn from(forest: Forest) -> Self {
        forest.0
    }
}

fn refused<T>(problem: String) -> Result<T> {
    Err(TreesError::Forest { problem })
}

/// Rejects a count outside `1..=most`.
fn within(what: &str, found: usize, most: usize) -> Result<()> {
    match (1..=most).contains(&found) {
        true => Ok(()),
        false => refused(format!("has {found} {what}: 1 to {most} are possible")),
    }
}

impl Link {
    /// Returns the number of predictions for this number of raw scores.
    #[must_use]
    pub fn predictions(self, outputs: usize) -> usize {
        match self {
            Self::Logistic | Self::Probability => 2,
            _ => outputs,
        }
    }

    /// Returns whether predictions are probabilities of classes.
    #[must_use]
    pub fn has_classes(self) -> bool {
        !matches!(self, Self::Identity | Self::Exp)
    }

    /// Returns the predictions for the raw scores of a row.
    #[must_use]
    pub fn apply(self, raw: &[f64]) -> Vec<f64> {
        let logistic = |x: f64| match x < 0.0 {
            // Without overflow on either side.
            true => real::exp(x) / (1.0 + real::exp(x)),
            false => 1.0 / (1.0 + real::exp(-x)),
        };
        let first = raw.first().copied().unwrap_or(0.0);
        match self {
            Self::Identity => raw.to_vec(),
            Self::Exp => vec![real::exp(first)],
            // Both from the score, so that small probabilities keep their digits.
            Self::Logistic => vec![logistic(-first), logistic(first)],
            Self::Probability => vec![1.0 - first, first],
            Self::LogisticEach => raw.iter().map(|&x| logistic(x)).collect(),
            Self::Softmax => {
                let most = raw.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = raw.iter().map(|x| real::exp(x - most)).collect();
                let total: f64 = powers.iter().sum();
                powers.into_iter().map(|power| power / total).collect()
            }
        }
    }
}

impl Described {
    fn check(&self) -> Result<()> {
        within("features", self.features.len(), MAX_FEATURES)?;
        let outputs = self.offsets.len();
        within("outputs", outputs, MAX_OUTPUTS)?;
        within("trees", self.trees.len(), MAX_TREES)?;
        if self.link != Link::Identity
            && (outputs == 1) != matches!(self.link, Link::Exp | Link::Logistic | Link::Probability)
        {
            return refused(format!("has {outputs} outputs, which do not fit its link"));
        }
        if let Some(offset) = self.offsets.iter().find(|offset| !offset.is_finite()) {
            return refused(format!("adds {offset} to an output: finite numbers are needed"));
        }
        let predictions = self.link.predictions(outputs);
        if !self.classes.is_empty() && self.classes.len() != predictions {
            let found = self.classes.len();
            return refused(format!("names {found} classes, but predicts {predictions}"));
        }
        let nodes = self.trees.iter().map(|tree| tree.nodes.len()).sum();
        within("nodes", nodes, MAX_NODES)?;
        let numbers = |node: &Node| if let Node::Leaf(values) = node { values.len() } else { 0 };
        let all = self.trees.iter().flat_map(|tree| &tree.nodes).map(numbers).sum();
        within("numbers in leaves", all, MAX_NUMBERS)?;
        (self.trees.iter().enumerate()).try_for_each(|(number, tree)| self.check_tree(number, tree))
    }

    fn check_tree(&self, number: usize, tree: &Tree) -> Result<()> {
        let outputs = self.offsets.len();
        if let Some(output) = tree.output.filter(|&output| output >= outputs) {
            return bad_node(
                number,
                0,
                format!("output {output} of {outputs}: outputs are counted from 0"),
            );
        }
        let count = tree.nodes.len();
        if count == 0 {
            return bad_node(number, 0, "a tree has no nodes: it needs a leaf at least");
        }
        let width = if tree.output.is_some() { 1 } else { outputs };
        let mut heights = vec![0usize; count];
        let mut parents = vec![0u32; count];
        for (node, content) in tree.nodes.iter().enumerate().rev() {
            match content {
                Node::Leaf(values) => {
                    if values.len() != width {
                        let found = values.len();
                        return bad_node(
                            number,
                            node,
                            format!("a leaf has {found} numbers: {width} are needed"),
                        );
                    }
                    if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                        return bad_node(
                            number,
                            node,
                            format!("a leaf has {value}: finite numbers are needed"),
                        );
                    }
                }
                Node::Split(split) => {
                    if split.feature >= self.features.len() {
                        let all = self.features.len();
                        let found = split.feature;
                        return bad_node(
                            number,
                            node,
                            format!("feature {found} is tested, but there are {all}"),
                        );
                    }
                    if !split.at.is_finite() {
                        let found = split.at;
                        return bad_node(
                            number,
                            node,
                            format!("a threshold is {found}: train without it"),
                        );
                    }
                    // Children after their parents cannot form a circle.
                    let children = [split.left, split.right];
                    if children.iter().any(|&child| child <= node || child >= count) {
                        return bad_node(
                            number,
                            node,
                            format!("children {children:?} do not follow it"),
                        );
                    }
                    for child in children {
                        parents[child] += 1;
                        heights[node] = heights[node].max(1 + heights[child]);
                    }
                }
            }
        }
        if heights[0] > MAX_HEIGHT {
            let found = heights[0];
            return refused(format!(
                "has a tree of height {found}: at most {MAX_HEIGHT} is possible; limit the depth"
            ));
        }
        match (1..count).find(|&node| parents[node] != 1) {
            Some(node) => {
                bad_node(number, node, format!("it has {} parents: 1 is needed", parents[node]))
            }
            None => Ok(()),
        }
    }
}

impl Forest {
    /// Makes a forest of trees on features with these names. Each output is the sum of an offset and
    /// of leaves. `classes` has the names of classes, or is empty.
    ///
    /// # Errors
    /// [`TreesError::Forest`] and [`TreesError::Node`] for a model without trees, a threshold or a
    /// leaf that is not finite, nodes that form no tree, and sizes that are too large.
    pub fn new(
        features: Vec<String>,
        link: Link,
        offsets: Vec<f64>,
        classes: Vec<String>,
        trees: Vec<Tree>,
    ) -> Result<Self> {
        Described { features, link, offsets, classes, trees }.try_into()
    }

    /// Reads a forest in the format of [`Forest::to_json`].
    ///
    /// # Errors
    /// [`TreesError::Format`]; the errors of [`Forest::new`].
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let described: Described = parse("sudare trees", bytes)?;
        described.try_into()
    }

    /// Returns the forest as JSON.
    ///
    /// # Errors
    /// [`TreesError::Format`] if it cannot be encoded.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self.0).map_err(|error| TreesError::Format {
            format: "sudare trees",
            problem: error.to_string(),
        })
    }

    /// Reads a model in a file's content: JSON of XGBoost or of [`Forest::to_json`], the text of
    /// LightGBM, or ONNX.
    ///
    /// # Errors
    /// The errors of [`Forest::from_xgboost`], [`Forest::from_lightgbm`], [`Forest::from_onnx`] and
    /// [`Forest::from_json`].
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let text = bytes.trim_ascii_start();
        if text.starts_with(b"{") {
            return match is_xgboost(text) {
                true => Self::from_xgboost(bytes),
                false => Self::from_json(bytes),
            };
        }
        match text.starts_with(b"tree\n") || text.starts_with(b"tree\r\n") {
            true => Self::from_lightgbm(bytes),
            false => Self::from_onnx(bytes),
        }
    }

    /// Returns the names of the features.
    #[must_use]
    pub fn features(&self) -> &[String] {
        &self.0.features
    }

    /// Returns the number of raw scores.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.0.offsets.len()
    }

    /// Returns the numbers that the raw scores start from.
    #[must_use]
    pub fn offsets(&self) -> &[f64] {
        &self.0.offsets
    }

    /// Returns the function from raw scores to predictions.
    #[must_use]
    pub fn link(&self) -> Link {
        self.0.link
    }

    /// Returns the names of the classes, or nothing if they have none.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.0.classes
    }

    /// Returns the trees.
    #[must_use]
    pub fn trees(&self) -> &[Tree] {
        &self.0.trees
    }

    /// Returns the same forest with other names of features or of classes. An empty list keeps the
    /// names.
    ///
    /// # Errors
    /// [`TreesError::Count`] for another number of names.
    pub fn renamed(mut self, features: Vec<String>, classes: Vec<String>) -> Result<Self> {
        if !features.is_empty() {
            expect("names of features", features.len(), self.features().len())?;
            self.0.features = features;
        }
        if !classes.is_empty() {
            let needed = self.link().predictions(self.outputs());
            expect("names of classes", classes.len(), needed)?;
            self.0.classes = classes;
        }
        Ok(self)
    }

    /// Returns the raw scores of a row: the offsets and the numbers of the leaves that it reaches.
    ///
    /// # Errors
    /// [`TreesError::Count`] for another number of features; [`TreesError::Row`] for a feature that
    /// is not finite.
    pub fn raw(&self, row: &[f64]) -> Result<Vec<f64>> {
        expect("features of a row", row.len(), self.features().len())?;
        if let Some(feature) = row.iter().position(|x| !x.is_finite()) {
            return Err(TreesError::Row {
                feature: self.features()[feature].clone(),
                row: 0,
                found: row[feature],
                least: f64::MIN,
                most: f64::MAX,
            });
        }
        let mut raw = self.offsets().to_vec();
        for tree in self.trees() {
            let values = tree.leaf(row);
            let first = tree.output.unwrap_or(0);
            raw[first..].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        Ok(raw)
    }

    /// Returns the predictions for a row: numbers, or the probability of each class.
    ///
    /// # Errors
    /// The errors of [`Forest::raw`].
    pub fn predict(&self, row: &[f64]) -> Result<Vec<f64>> {
        Ok(self.link().apply(&self.raw(row)?))
    }
}

impl Tree {
    /// Returns the numbers of the leaf that a row reaches.
    fn leaf(&self, row: &[f64]) -> &[f64] {
        let mut node = 0;
        loop {
            match &self.nodes[node] {
                Node::Leaf(values) => return values,
                Node::Split(split) => {
                    node = if split.passes(row[split.feature]) { split.left } else { split.right };
                }
            }
        }
    }
}

/// Builds a tree from nodes in any order: `node` describes a node by its number, with the numbers of
/// its children in place of their places. Children then come after their parents.
///
/// # Errors
/// The errors of `node`; [`TreesError::Forest`] for nodes that form a circle, or share children.
pub(super) fn tree_of(
    root: usize,
    count: usize,
    output: Option<usize>,
    node: impl Fn(usize) -> Result<Node>,
) -> Result<Tree> {
    let mut numbers = vec![root];
    let mut nodes: Vec<Node> = Vec::new();
    while let Some(&number) = numbers.get(nodes.len()) {
        let mut content = node(number)?;
        if let Node::Split(split) = &mut content {
            for child in [&mut split.left, &mut split.right] {
                numbers.push(*child);
                *child = numbers.len() - 1;
            }
        }
        nodes.push(content);
        // A node that is reached twice would be reached for ever.
        if numbers.len() > count {
            return refused(format!("has a tree whose {count} nodes form a circle"));
        }
    }
    Ok(Tree { output, nodes })
}

/// Parses JSON of a limited size.
pub(super) fn parse<'a, T: Deserialize<'a>>(format: &'static str, bytes: &'a [u8]) -> Result<T> {
    check_bytes(format, bytes)?;
    serde_json::from_slice(bytes)
        .map_err(|error| TreesError::Format { format, problem: error.to_string() })
}

pub(super) fn check_bytes(format: &'static str, bytes: &[u8]) -> Result<()> {
    match bytes.len() <= MAX_BYTES {
        true => Ok(()),
        false => {
            let found = bytes.len();
            let problem = format!("it has {found} bytes: at most {MAX_BYTES} are read");
            Err(TreesError::Format { format, problem })
        }
    }
}

/// Returns whether JSON has the key of XGBoost's learner. Only this key is read.
fn is_xgboost(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Outer {
        #[expect(dead_code, reason = "its presence is enough")]
        learner: serde::de::IgnoredAny,
    }
    serde_json::from_slice::<Outer>(text).is_ok()
}

/// Returns names for features without names: their numbers after an `x`.
pub(super) fn numbered(count: usize) -> Result<Vec<String>> {
    within("features", count, MAX_FEATURES)?;
    Ok((0..count).map(|number| format!("x{number}")).collect())
}
