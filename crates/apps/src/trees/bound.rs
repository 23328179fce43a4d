//! A forest on a grid: thresholds as codes, and leaves as integers.

use super::{
    error::{Result, expect},
    grid::Feature,
    model::{Forest, Node, Tree},
    output::{Output, Span},
};
use std::collections::BTreeMap;

/// A forest whose tests compare codes.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    /// Different tests, by feature and then by code.
    pub cuts: Vec<Cut>,
    pub trees: Vec<BoundTree>,
    pub outputs: Vec<Output>,
}

/// The test `code < at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cut {
    pub feature: usize,
    /// At least 1, and at most the last code.
    pub at: u64,
}

/// A tree with a test or more. Node 0 is the root.
#[derive(Debug, Clone)]
pub(super) struct BoundTree {
    /// The first output of the numbers of leaves.
    pub first: usize,
    pub nodes: Vec<BoundNode>,
}

#[derive(Debug, Clone)]
pub(super) enum BoundNode {
    /// A test, by its place in [`Bound::cuts`], and the nodes for rows that pass it and for others.
    Split { cut: usize, left: usize, right: usize },
    /// Integers, one for each output of the tree.
    Leaf(Vec<i64>),
}

/// A tree without tests that the grid or earlier tests decide.
struct Pruned<'a> {
    first: usize,
    nodes: Vec<PrunedNode<'a>>,
}

enum PrunedNode<'a> {
    Split { cut: Cut, left: usize, right: usize },
    Leaf(&'a [f64]),
}

/// A range of codes that reach a node, for each feature with tests above it.
type Reach = BTreeMap<usize, (u64, u64)>;

fn pruned<'a>(tree: &'a Tree, grid: &[Feature]) -> Pruned<'a> {
    let mut nodes = Vec::new();
    let mut waiting = vec![(0, Reach::new(), None::<(usize, bool)>)];
    while let Some((mut node, mut reach, parent)) = waiting.pop() {
        let place = nodes.len();
        if let Some((parent, is_left)) = parent
            && let Some(PrunedNode::Split { left, right, .. }) = nodes.get_mut(parent)
        {
            *(if is_left { left } else { right }) = place;
        }
        loop {
            match &tree.nodes[node] {
                Node::Leaf(values) => {
                    nodes.push(PrunedNode::Leaf(values));
                    break;
                }
                Node::Split(split) => {
                    let feature = split.feature;
                    let at = grid[feature].cut(split);
                    let (low, high) =
                        reach.get(&feature).copied().unwrap_or((0, grid[feature].points));
                    if at <= low {
                        node = split.right;
                    } else if at >= high {
                        node = split.left;
                    } else {
                        let cut = Cut { feature, at };
                        nodes.push(PrunedNode::Split { cut, left: 0, right: 0 });
                        let mut above = reach.clone();
                        above.insert(feature, (at, high));
                        reach.insert(feature, (low, at));
                        waiting.push((split.right, above, Some((place, false))));
                        waiting.push((split.left, reach, Some((place, true))));
                        break;
                    }
                }
            }
        }
    }
    Pruned { first: tree.output.unwrap_or(0), nodes }
}

impl Bound {
    /// Binds a forest to a grid. Sums of the integers of leaves are at most `most` in magnitude.
    pub fn new(forest: &Forest, grid: &[Feature], most: u64) -> Result<Self> {
        expect("grids of features", grid.len(), forest.features().len())?;
        grid.iter().try_for_each(Feature::check)?;
        let pruned: Vec<Pruned<'_>> =
            forest.trees().iter().map(|tree| pruned(tree, grid)).collect();
        let spans: Vec<Spans> = pruned.iter().map(Spans::of).collect();
        let outputs = (0..forest.outputs())
            .map(|output| {
                let all = pruned.iter().zip(&spans);
                let spans = all.filter_map(|(tree, spans)| {
                    output.checked_sub(tree.first).and_then(|place| spans.0.get(place))
                });
                Output::of(forest.offsets()[output], spans.copied(), most)
            })
            .collect::<Vec<_>>();
        let mut bound = Self { cuts: cuts(&pruned), trees: Vec::new(), outputs };
        for (tree, spans) in pruned.iter().zip(&spans) {
            // A tree without tests is in the offsets.
            if tree.nodes.len() > 1 {
                let tree = bound.rounded(tree, spans);
                bound.trees.push(tree);
            }
        }
        Ok(bound)
    }

    /// Rounds the leaves of a tree, and adds the largest error to its outputs.
    fn rounded(&mut self, tree: &Pruned<'_>, spans: &Spans) -> BoundTree {
        let Self { cuts, outputs, .. } = self;
        let outputs = &mut outputs[tree.first..];
        let mut errors = vec![0.0f64; spans.0.len()];
        let nodes = tree.nodes.iter().map(|node| match node {
            PrunedNode::Split { cut, left, right } => BoundNode::Split {
                cut: cuts.partition_point(|other| other < cut),
                left: *left,
                right: *right,
            },
            PrunedNode::Leaf(values) => {
                let rounded = values.iter().zip(&spans.0).zip(outputs.iter()).zip(&mut errors);
                let integers = rounded.map(|(((value, span), output), error)| {
                    let units = ((value - span.middle()) / output.unit).round();
                    *error = error.max((span.middle() + units * output.unit - value).abs());
                    // At most `most`, which fits.
                    units as i64
                });
                BoundNode::Leaf(integers.collect())
            }
        });
        let nodes = nodes.collect();
        outputs.iter_mut().zip(errors).for_each(|(output, error)| output.error += error);
        BoundTree { first: tree.first, nodes }
    }

    /// Returns the sums of integers that a row of codes reaches.
    #[cfg(test)]
    pub fn sums(&self, codes: &[u64]) -> Vec<i64> {
        let mut sums = vec![0; self.outputs.len()];
        for tree in &self.trees {
            let mut node = 0;
            loop {
                match &tree.nodes[node] {
                    BoundNode::Split { cut, left, right } => {
                        let Cut { feature, at } = self.cuts[*cut];
                        node = if codes[feature] < at { *left } else { *right };
                    }
                    BoundNode::Leaf(values) => {
                        sums[tree.first..].iter_mut().zip(values).for_each(|(s, v)| *s += v);
                        break;
                    }
                }
            }
        }
        sums
    }
}

/// The least and the greatest leaf of a tree, for each of its outputs.
struct Spans(Vec<Span>);

impl Spans {
    fn of(tree: &Pruned<'_>) -> Self {
        let mut spans: Vec<Span> = Vec::new();
        for node in &tree.nodes {
            let PrunedNode::Leaf(values) = node else { continue };
            spans.resize(values.len(), Span { least: f64::INFINITY, most: f64::NEG_INFINITY });
            for (span, &value) in spans.iter_mut().zip(*values) {
                span.least = span.least.min(value);
                span.most = span.most.max(value);
            }
        }
        Self(spans)
    }
}

fn cuts(trees: &[Pruned<'_>]) -> Vec<Cut> {
    let nodes = trees.iter().flat_map(|tree| &tree.nodes);
    let mut cuts: Vec<Cut> = nodes
        .filter_map(|node| match node {
            PrunedNode::Split { cut, .. } => Some(*cut),
            PrunedNode::Leaf(_) => None,
        })
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}
