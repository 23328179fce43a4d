//! The order of products in trees: which splits become indicators of paths, and which become
//! differences of values.

use super::super::bound::{BoundNode, BoundTree};
use std::collections::BTreeMap;

/// Cuts that are compared for one tree. The best one is among the first.
const CANDIDATES: usize = 8;

pub(super) fn ceil_log2(n: usize) -> u32 {
    usize::BITS - n.saturating_sub(1).leading_zeros()
}

/// Returns the number of tests on the longest path below a node.
pub(super) fn height(tree: &BoundTree, node: usize) -> usize {
    match &tree.nodes[node] {
        BoundNode::Leaf(_) => 0,
        BoundNode::Split { left, right, .. } => 1 + height(tree, *left).max(height(tree, *right)),
    }
}

/// Returns the tests of a tree.
pub(super) fn cuts(tree: &BoundTree) -> impl Iterator<Item = usize> + '_ {
    tree.nodes.iter().filter_map(|node| match node {
        BoundNode::Split { cut, .. } => Some(*cut),
        BoundNode::Leaf(_) => None,
    })
}

/// Appends the nodes that are `depth` tests below a node, and the leaves above them, from left to
/// right.
fn frontier_into(tree: &BoundTree, node: usize, depth: usize, out: &mut Vec<usize>) {
    match &tree.nodes[node] {
        BoundNode::Split { left, right, .. } if depth > 0 => {
            frontier_into(tree, *left, depth - 1, out);
            frontier_into(tree, *right, depth - 1, out);
        }
        _ => out.push(node),
    }
}

pub(super) fn frontier(tree: &BoundTree, node: usize, depth: usize) -> Vec<usize> {
    let mut out = Vec::new();
    frontier_into(tree, node, depth, &mut out);
    out
}

/// Divides the indicators of paths of `depth` tests, 2 or more: the first tests are multiplied with
/// the rest. Their number is a power of two, so that products are as shallow as possible.
pub(super) fn upper_half(depth: usize) -> usize {
    1 << (ceil_log2(depth) - 1)
}

/// Returns the relinearisations of the indicators of all paths of at most `depth` tests.
fn path_products(tree: &BoundTree, node: usize, depth: usize) -> usize {
    if depth < 2 {
        return 0;
    }
    let upper = upper_half(depth);
    let below = frontier(tree, node, upper).into_iter().map(|node| {
        // The last indicator below a node is a difference.
        frontier(tree, node, depth - upper).len() - 1 + path_products(tree, node, depth - upper)
    });
    path_products(tree, node, upper) + below.sum::<usize>()
}

/// The way to compute the value of a subtree.
#[derive(Debug, Clone)]
pub(super) enum Recipe {
    /// A sum of the values of leaves, weighted by the indicators of their paths.
    Flat,
    /// A sum of values of subtrees, multiplied by the indicators of paths of this number of tests.
    /// Has a recipe for each subtree except leaves.
    Split { depth: usize, below: Vec<Recipe> },
}

#[derive(Clone)]
struct Priced {
    relinearizations: usize,
    recipe: Recipe,
}

/// The search for the recipes of a tree.
struct Search<'a> {
    tree: &'a BoundTree,
    /// Number of outputs of the tree.
    width: usize,
    known: BTreeMap<(usize, u32), Option<Priced>>,
}

impl Recipe {
    /// Returns the recipe with the fewest relinearisations for a tree, among recipes of this depth.
    pub fn new(tree: &BoundTree, depth: u32) -> Self {
        let leaf = tree.nodes.iter().find_map(|node| match node {
            BoundNode::Leaf(values) => Some(values.len()),
            BoundNode::Split { .. } => None,
        });
        let mut search = Search { tree, width: leaf.unwrap_or(1), known: BTreeMap::new() };
        // Heights up to `2^depth - 1` have a recipe, and the depth was chosen for the highest tree.
        search.cheapest(0, depth).map_or(Self::Flat, |priced| priced.recipe)
    }
}

impl Search<'_> {
    fn best(&mut self, node: usize, depth: u32) -> Option<Priced> {
        if let Some(known) = self.known.get(&(node, depth)) {
            return known.clone();
        }
        let found = self.cheapest(node, depth);
        self.known.insert((node, depth), found.clone());
        found
    }

    fn cheapest(&mut self, node: usize, depth: u32) -> Option<Priced> {
        let tree = self.tree;
        let tests = height(tree, node);
        if tests == 0 {
            return Some(Priced { relinearizations: 0, recipe: Recipe::Flat });
        }
        if depth == 0 {
            return None;
        }
        let mut best = (ceil_log2(tests) < depth).then(|| Priced {
            relinearizations: path_products(tree, node, tests),
            recipe: Recipe::Flat,
        });
        // Paths have a depth of `depth - 1`, and subtrees a height of `2^(depth - 1) - 1`.
        let half = 1usize << (depth - 1);
        let least = tests.saturating_sub(half - 1).max(1);
        for upper in (least..tests.min(half + 1)).take(CANDIDATES) {
            let mut relinearizations = path_products(tree, node, upper);
            let mut below = Vec::new();
            let parts = frontier(tree, node, upper);
            let complete = parts.into_iter().all(|part| {
                let Some(priced) = self.best(part, depth - 1) else { return false };
                let own = if height(tree, part) > 0 { self.own(&priced) } else { 0 };
                relinearizations += priced.relinearizations + own;
                below.push(priced.recipe);
                true
            });
            let cheaper = best.as_ref().is_none_or(|b| relinearizations < b.relinearizations);
            if complete && cheaper {
                best = Some(Priced {
                    relinearizations,
                    recipe: Recipe::Split { depth: upper, below },
                });
            }
        }
        best
    }

    /// Returns the relinearisations of the last products of a subtree, one for each output.
    fn own(&self, priced: &Priced) -> usize {
        match priced.recipe {
            Recipe::Flat => 0,
            Recipe::Split { .. } => self.width,
        }
    }
}
