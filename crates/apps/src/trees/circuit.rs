//! The circuit of a forest: tests of digits, then polynomials of the tests.

mod comparisons;
mod shape;
mod values;

use super::{bound::Bound, grid::Feature};
use comparisons::Wanted;
use shape::{Recipe, ceil_log2};
use std::borrow::Cow;
use sudare::{
    Result,
    circuits::{Ops, exact::IntegerSlots},
    exact::{Params, Unit},
    rlwe::Level,
};
use values::Totals;

/// Products and linear terms of several trees that share a relinearisation. More of them save
/// little time and take more memory.
const TOGETHER: usize = 64;

/// The circuit of a forest on a grid.
#[derive(Debug, Clone)]
pub(super) struct Circuit {
    /// Comparisons of each feature with tests, with the place of its lowest digit.
    features: Vec<Compared>,
    recipes: Vec<Recipe>,
    /// The last tree that uses each test.
    last: Vec<usize>,
    /// Level of the tests, which is the depth of the trees.
    tests: u32,
    depth: u32,
    height: usize,
    digits: u32,
}

#[derive(Debug, Clone)]
struct Compared {
    wanted: Wanted,
    /// The place of the lowest digit among the ciphertexts of a block.
    place: usize,
}

/// An evaluator of a circuit, with the factor of ciphertexts at each level.
pub(super) struct Run<'a, E: Ops<Algebra = IntegerSlots>> {
    e: &'a E,
    factors: Vec<Unit>,
    /// Relinearisations up to now.
    pub relinearizations: usize,
}

impl<'a, E: Ops<Algebra = IntegerSlots>> Run<'a, E> {
    pub fn new(e: &'a E, params: &Params) -> Result<Self> {
        let t = params.plaintext_modulus();
        let factors = (0..=params.top().0).map(|level| params.factor_at(Level(level), t));
        Ok(Self { e, factors: factors.collect::<Result<_>>()?, relinearizations: 0 })
    }

    fn factor(&self, level: Level) -> Unit {
        self.factors[level.0 as usize]
    }

    /// Returns the ciphertext at this level or above, with the factor of the level.
    fn at<'c>(&self, x: &'c E::Ct, level: Level) -> Result<Cow<'c, E::Ct>> {
        match self.e.level(x) == level {
            true => Ok(Cow::Borrowed(x)),
            false => Ok(Cow::Owned(self.e.match_scale(x, level, self.factor(level))?)),
        }
    }

    /// Returns the ciphertext at this level or above, with any factor, which costs nothing.
    fn dropped<'c>(&self, x: &'c E::Ct, level: Level) -> Result<Cow<'c, E::Ct>> {
        if self.e.level(x) == level {
            return Ok(Cow::Borrowed(x));
        }
        let mut x = x.clone();
        self.e.drop_to(&mut x, level)?;
        Ok(Cow::Owned(x))
    }

    /// Returns the sum of products with constants at `level`, with the factor `wanted`.
    fn constant_sum(&self, terms: &[(&E::Ct, i128)], level: Level, wanted: Unit) -> Result<E::Ct> {
        let dropped = terms.iter().map(|&(x, _)| self.dropped(x, level));
        let dropped = dropped.collect::<Result<Vec<_>>>()?;
        let terms: Vec<_> = dropped
            .iter()
            .zip(terms)
            .map(|(x, &(_, c))| (&**x, c, wanted / self.e.scale(x)))
            .collect();
        self.e.mul_const_sum(&terms)
    }

    /// Returns the sum of products with constants of ciphertexts at `level` or above, one level
    /// below.
    fn weighted(&self, terms: &[(&E::Ct, i128)], level: Level) -> Result<E::Ct> {
        let below = self.factor(Level(level.0 - 1));
        let wanted = match terms {
            [(x, _), ..] => below * self.e.divisor(x, level),
            [] => below,
        };
        let mut sum = self.constant_sum(terms, level, wanted)?;
        self.e.rescale_assign(&mut sum)?;
        Ok(sum)
    }

    /// Returns an addend of products at `level`: a sum of products with constants, with the factor
    /// of a product.
    fn addend(&self, terms: &[(&E::Ct, i128)], level: Level) -> Result<Option<E::Ct>> {
        let factor = self.factor(level);
        match terms {
            [] => Ok(None),
            _ => self.constant_sum(terms, level, factor * factor).map(Some),
        }
    }
}

impl Circuit {
    pub fn new(bound: &Bound, grid: &[Feature], place: impl Fn(usize) -> usize) -> Self {
        let height = bound.trees.iter().map(|tree| shape::height(tree, 0)).max().unwrap_or(0);
        let tests = ceil_log2(height + 1);
        let mut features: Vec<Compared> = Vec::new();
        let mut start = 0;
        while let Some(first) = bound.cuts.get(start) {
            let feature = first.feature;
            let of_feature = bound.cuts[start..].partition_point(|cut| cut.feature == feature);
            let codes = bound.cuts[start..start + of_feature].iter().map(|cut| cut.at);
            let wanted = Wanted::new(&grid[feature], codes.collect());
            features.push(Compared { wanted, place: place(feature) });
            start += of_feature;
        }
        let mut last = vec![0; bound.cuts.len()];
        for (number, tree) in bound.trees.iter().enumerate() {
            shape::cuts(tree).for_each(|cut| last[cut] = number);
        }
        let recipes = bound.trees.iter().map(|tree| Recipe::new(tree, tests)).collect();
        let depth = features.iter().map(|feature| feature.wanted.depth()).max().unwrap_or(0);
        let digits = features.iter().map(|feature| feature.wanted.digits()).max().unwrap_or(0);
        Self { features, recipes, last, tests, depth: tests + depth, height, digits }
    }

    /// Levels from the encrypted digits to the scores.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The height of the highest tree.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The most digits of a feature with tests.
    pub fn digits(&self) -> u32 {
        self.digits
    }

    /// Returns an estimate of the ciphertexts in memory at once, each at the level of a test.
    pub fn held(&self) -> usize {
        let tables = self.features.iter().map(|feature| feature.wanted.tables()).max();
        // Tables have a level or two more than tests, and powers even more.
        self.last.len() + 2 * tables.unwrap_or(0) + 4 * TOGETHER
    }

    /// Level of the tests.
    pub fn test_level(&self) -> Level {
        Level(self.tests)
    }

    /// Returns the sums of integers of the leaves, one ciphertext for each output, at level 0.
    /// `input` returns a digit of the features by its place.
    pub fn run<E: Ops<Algebra = IntegerSlots>, X: From<sudare::Error>>(
        &self,
        run: &mut Run<'_, E>,
        bound: &Bound,
        mut input: impl FnMut(usize) -> core::result::Result<E::Ct, X>,
    ) -> core::result::Result<Vec<E::Ct>, X> {
        let mut tests: Vec<Option<E::Ct>> = Vec::with_capacity(self.last.len());
        for Compared { wanted, place } in &self.features {
            let found = run.compared(wanted, Level(self.tests), |digit| input(place + digit))?;
            tests.extend(found.into_iter().map(Some));
        }
        let any = tests.iter().flatten().next().cloned();
        let mut totals = Totals::new(bound.outputs.len());
        for (number, (tree, recipe)) in bound.trees.iter().zip(&self.recipes).enumerate() {
            let terms = run.terms(tree, recipe, &tests)?;
            totals.add(run, tree.first, terms)?;
            for cut in shape::cuts(tree) {
                // Tests take most of the memory.
                if self.last[cut] == number {
                    tests[cut] = None;
                }
            }
        }
        Ok(totals.finish(run, any)?)
    }
}
