//! Ensembles of trees in ONNX models.

use super::{
    error::{Result, TreesError},
    model::{Forest, Link, Node, Split, Tree, check_bytes, numbered, tree_of},
};
use crate::nn::{
    NnError,
    onnx::{
        constant::Numbers,
        wire::{self, Content, DOUBLE, FLOAT, Graph},
    },
};
use std::collections::BTreeMap;

const FORMAT: &str = "ONNX";
const DOMAIN: &str = "ai.onnx.ml";
const CLASSIFIER: &str = "TreeEnsembleClassifier";
const REGRESSOR: &str = "TreeEnsembleRegressor";

fn refused<T>(problem: impl Into<String>) -> Result<T> {
    Err(TreesError::Format { format: FORMAT, problem: problem.into() })
}

impl From<NnError> for TreesError {
    fn from(error: NnError) -> Self {
        let problem = match error {
            NnError::Onnx { problem } => problem,
            other => other.to_string(),
        };
        Self::Format { format: FORMAT, problem }
    }
}

/// Attributes of the ensemble that are lists have one entry for each node, or for each number of a
/// leaf.
struct Ensemble<'a>(&'a wire::Node<'a>);

impl Ensemble<'_> {
    fn integers(&self, name: &str) -> Result<&[i64]> {
        match self.0.content(name) {
            Some(Content::Integers(numbers)) => Ok(numbers),
            None => Ok(&[]),
            Some(_) => refused(format!("its attribute {name} has no integers")),
        }
    }

    fn indices(&self, name: &str) -> Result<Vec<usize>> {
        let index = |&number: &i64| match usize::try_from(number) {
            Ok(index) => Ok(index),
            Err(_) => refused(format!("its attribute {name} has {number}: numbers start at 0")),
        };
        self.integers(name)?.iter().map(index).collect()
    }

    fn texts(&self, name: &str) -> Result<&[String]> {
        match self.0.content(name) {
            Some(Content::Texts(texts)) => Ok(texts),
            None => Ok(&[]),
            Some(_) => refused(format!("its attribute {name} has no texts")),
        }
    }

    /// Reads floats, from the attribute or from the tensor that may be in its place.
    fn floats(&self, name: &str) -> Result<Vec<f64>> {
        let tensor = format!("{name}_as_tensor");
        match (self.0.content(name), self.0.content(&tensor)) {
            (Some(Content::Floats(numbers)), None) => Ok(numbers.clone()),
            (None, Some(Content::Tensor(stored))) => {
                let beside = &mut |_: &str, _, _| {
                    Err(wire::malformed(
                        "numbers of trees are in another file: save them in the model",
                    ))
                };
                match stored.read(beside)?.numbers {
                    Numbers::Floats { numbers, .. } => Ok(numbers),
                    Numbers::Integers(_) => refused(format!("its attribute {tensor} has integers")),
                }
            }
            (None, None) => Ok(Vec::new()),
            _ => refused(format!("its attribute {name} has no floats, or is there twice")),
        }
    }

    fn text(&self, name: &str, default: &str) -> Result<String> {
        match self.0.content(name) {
            Some(Content::Text(text)) => Ok(text.clone()),
            None => Ok(default.into()),
            Some(_) => refused(format!("its attribute {name} is no text")),
        }
    }
}

/// The number of a tree, and of a node in it.
type Place = (usize, usize);

/// Numbers of leaves, by the place of the leaf: the output and the number.
type Leaves = BTreeMap<Place, Vec<(usize, f64)>>;

impl Forest {
    /// Reads the ensemble of trees of an ONNX model: `TreeEnsembleClassifier` or
    /// `TreeEnsembleRegressor`, with `Cast` and `Identity` before it, and `ZipMap`, `Cast` and
    /// `Identity` after it.
    ///
    /// # Errors
    /// [`TreesError::Format`] for other models and operators, for tests of equality, and for
    /// transformations of scores that are not known here; the errors of [`Forest::new`].
    pub fn from_onnx(bytes: &[u8]) -> Result<Self> {
        check_bytes(FORMAT, bytes)?;
        let graph = Graph::of_model(bytes)?;
        let is_ensemble = |node: &&wire::Node<'_>| {
            node.domain == DOMAIN && [CLASSIFIER, REGRESSOR].contains(&node.operator.as_str())
        };
        let found: Vec<_> = graph.nodes.iter().filter(is_ensemble).collect();
        let [node] = found[..] else {
            let count = found.len();
            return refused(format!(
                "it has {count} nodes {CLASSIFIER} or {REGRESSOR}: one is needed"
            ));
        };
        for other in graph.nodes.iter().filter(|&other| !core::ptr::eq(other, node)) {
            if !matches!(other.operator.as_str(), "Cast" | "Identity" | "ZipMap") {
                let operator = &other.operator;
                return refused(format!(
                    "its operator {operator:?} changes features or scores: export the trees alone"
                ));
            }
        }
        let ensemble = Ensemble(node);
        let (outputs, link, offsets, classes, leaves, share) = match node.operator == CLASSIFIER {
            true => classifier(&ensemble)?,
            false => regressor(&ensemble)?,
        }
        .parts();
        // Without the axis of samples. The width of rows may be unknown.
        let width = match &graph.inputs[..] {
            [input] => input.shape.get(1).copied().flatten(),
            _ => return refused("it has several inputs: export it with one matrix of features"),
        };
        let casts = graph.nodes.iter().any(|node| node.operator == "Cast");
        let single = match graph.inputs[0].kind {
            DOUBLE if casts => {
                return refused(
                    "it casts doubles: export it with an input of floats, or of doubles",
                );
            }
            DOUBLE => false,
            // Integers are cast to floats.
            FLOAT => true,
            _ if casts => true,
            kind => return refused(format!("its input has the type {kind}: floats are needed")),
        };
        let trees = trees(&ensemble, single, outputs, leaves, share)?;
        let used = trees.iter().flat_map(|tree| &tree.nodes).filter_map(|node| match node {
            Node::Split(split) => Some(split.feature.saturating_add(1)),
            Node::Leaf(_) => None,
        });
        let features = numbered(width.unwrap_or(used.max().unwrap_or(1)))?;
        Self::new(features, link, offsets, classes, trees)
    }
}

/// The outputs of an ensemble.
struct Outputs {
    count: usize,
    link: Link,
    offsets: Vec<f64>,
    classes: Vec<String>,
    leaves: Leaves,
    /// The factor of leaves.
    share: f64,
}

impl Outputs {
    fn parts(self) -> (usize, Link, Vec<f64>, Vec<String>, Leaves, f64) {
        (self.count, self.link, self.offsets, self.classes, self.leaves, self.share)
    }
}

fn leaves(ensemble: &Ensemble<'_>, of: &str, ids: &str) -> Result<(Leaves, Vec<usize>)> {
    let trees = ensemble.indices(&format!("{of}_treeids"))?;
    let nodes = ensemble.indices(&format!("{of}_nodeids"))?;
    let outputs = ensemble.indices(ids)?;
    let weights = ensemble.floats(&format!("{of}_weights"))?;
    if [nodes.len(), outputs.len(), weights.len()] != [trees.len(); 3] {
        return refused("its lists of leaves have different lengths");
    }
    let mut leaves = Leaves::new();
    for (((tree, node), &output), weight) in trees.into_iter().zip(nodes).zip(&outputs).zip(weights)
    {
        leaves.entry((tree, node)).or_default().push((output, weight));
    }
    let mut used = outputs;
    used.sort_unstable();
    used.dedup();
    Ok((leaves, used))
}

fn offsets(ensemble: &Ensemble<'_>, count: usize) -> Result<Vec<f64>> {
    let bases = ensemble.floats("base_values")?;
    match bases.len() {
        0 => Ok(vec![0.0; count]),
        found if found == count => Ok(bases),
        found => refused(format!("it has {found} base values for {count} outputs")),
    }
}

fn classifier(ensemble: &Ensemble<'_>) -> Result<Outputs> {
    let numbers = ensemble.integers("classlabels_int64s")?.iter().map(i64::to_string);
    let mut classes: Vec<String> = numbers.collect();
    classes.extend_from_slice(ensemble.texts("classlabels_strings")?);
    let (mut leaves, used) = leaves(ensemble, "class", "class_ids")?;
    let transform = ensemble.text("post_transform", "NONE")?;
    let unknown = || refused(format!("its scores have the transformation {transform:?}"));
    // With numbers for one of two classes, the other one has the rest.
    if classes.len() == 2 && used.len() == 1 {
        let positive = leaves.values().flatten().all(|&(_, weight)| weight >= 0.0);
        let link = match (transform.as_str(), positive) {
            ("LOGISTIC", false) => Link::Logistic,
            ("NONE", true) => Link::Probability,
            _ => {
                return refused(format!(
                    "it has the transformation {transform:?} for one score of two classes, which \
                     runtimes define in different ways: export it with a score for each class"
                ));
            }
        };
        leaves.values_mut().flatten().for_each(|(output, _)| *output = 0);
        let offsets = offsets(ensemble, 1)?;
        return Ok(Outputs { count: 1, link, offsets, classes, leaves, share: 1.0 });
    }
    let link = match transform.as_str() {
        "NONE" => Link::Identity,
        "LOGISTIC" => Link::LogisticEach,
        "SOFTMAX" => Link::Softmax,
        _ => return unknown(),
    };
    let count = classes.len();
    let offsets = offsets(ensemble, count)?;
    Ok(Outputs { count, link, offsets, classes, leaves, share: 1.0 })
}

fn regressor(ensemble: &Ensemble<'_>) -> Result<Outputs> {
    let count = match ensemble.0.content("n_targets") {
        Some(Content::Integer(count)) => usize::try_from(*count).unwrap_or(0),
        _ => 1,
    };
    let (leaves, _) = leaves(ensemble, "target", "target_ids")?;
    let link = match ensemble.text("post_transform", "NONE")?.as_str() {
        "NONE" => Link::Identity,
        "LOGISTIC" => Link::LogisticEach,
        "SOFTMAX" if count > 1 => Link::Softmax,
        other => return refused(format!("its scores have the transformation {other:?}")),
    };
    let trees = ensemble.indices("nodes_treeids")?;
    let share = match ensemble.text("aggregate_function", "SUM")?.as_str() {
        "SUM" => 1.0,
        "AVERAGE" => {
            let mut trees = trees;
            trees.sort_unstable();
            trees.dedup();
            1.0 / trees.len().max(1) as f64
        }
        other => return refused(format!("it aggregates trees by {other:?}: sums are possible")),
    };
    let offsets = offsets(ensemble, count)?;
    Ok(Outputs { count, link, offsets, classes: Vec::new(), leaves, share })
}

fn trees(
    ensemble: &Ensemble<'_>,
    single: bool,
    outputs: usize,
    mut leaves: Leaves,
    share: f64,
) -> Result<Vec<Tree>> {
    let tree_ids = ensemble.indices("nodes_treeids")?;
    let node_ids = ensemble.indices("nodes_nodeids")?;
    let features = ensemble.indices("nodes_featureids")?;
    let modes = ensemble.texts("nodes_modes")?;
    let thresholds = ensemble.floats("nodes_values")?;
    let passing = ensemble.indices("nodes_truenodeids")?;
    let failing = ensemble.indices("nodes_falsenodeids")?;
    let lengths = [node_ids.len(), features.len(), modes.len(), thresholds.len()];
    let count = tree_ids.len();
    if lengths != [count; 4] || [passing.len(), failing.len()] != [count; 2] {
        return refused("its lists of nodes have different lengths");
    }
    // Places of nodes in the lists. The first node of a tree is its root.
    let mut places: BTreeMap<Place, usize> = BTreeMap::new();
    let mut roots: Vec<Place> = Vec::new();
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for (place, (&tree, &node)) in tree_ids.iter().zip(&node_ids).enumerate() {
        if places.insert((tree, node), place).is_some() {
            return refused(format!("tree {tree} has node {node} twice"));
        }
        let size = sizes.entry(tree).or_default();
        if *size == 0 {
            roots.push((tree, node));
        }
        *size += 1;
    }
    let mut found = Vec::with_capacity(roots.len());
    for (number, (tree, root)) in roots.into_iter().enumerate() {
        let of_tree = leaves.range((tree, 0)..=(tree, usize::MAX)).flat_map(|(_, numbers)| numbers);
        let mut used: Vec<usize> = of_tree.map(|&(output, _)| output).collect();
        used.sort_unstable();
        used.dedup();
        if let Some(&output) = used.last().filter(|&&output| output >= outputs) {
            return refused(format!("tree {tree} adds to output {output} of {outputs}"));
        }
        // One output needs one number in each leaf.
        let only = match used[..] {
            [] => Some(0),
            [output] => Some(output),
            _ => None,
        };
        let width = if only.is_some() { 1 } else { outputs };
        let known = core::cell::RefCell::new(&mut leaves);
        let grown = tree_of(root, sizes[&tree], only, |node| {
            let Some(&place) = places.get(&(tree, node)) else {
                return refused(format!("tree {tree} has no node {node}"));
            };
            let numbers = known.borrow_mut().remove(&(tree, node));
            let split = |or_equal, left: usize, right: usize| {
                Ok(Node::Split(Split {
                    feature: features[place],
                    at: thresholds[place],
                    or_equal,
                    single,
                    left,
                    right,
                }))
            };
            if modes[place] != "LEAF" && numbers.is_some() {
                return refused(format!("node {node} of tree {tree} has children and numbers"));
            }
            match modes[place].as_str() {
                "LEAF" => {
                    let mut values = vec![0.0; width];
                    for (output, weight) in numbers.unwrap_or_default() {
                        values[if only.is_some() { 0 } else { output }] += share * weight;
                    }
                    Ok(Node::Leaf(values))
                }
                "BRANCH_LEQ" => split(true, passing[place], failing[place]),
                "BRANCH_LT" => split(false, passing[place], failing[place]),
                "BRANCH_GT" => split(true, failing[place], passing[place]),
                "BRANCH_GTE" => split(false, failing[place], passing[place]),
                mode => refused(format!(
                    "node {node} of tree {number} has the test {mode:?}: comparisons by order are possible"
                )),
            }
        })?;
        found.push(grown);
    }
    match leaves.keys().next() {
        Some((tree, node)) => refused(format!("tree {tree} has no leaf {node}, which has numbers")),
        None => Ok(found),
    }
}
