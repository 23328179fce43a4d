use super::{bits, power_depth};
use crate::circuits::Coefficient;
use std::collections::{BTreeSet, HashMap};

/// Division of polynomials of one variable by powers, before levels and scales are known.
#[derive(Debug, Clone)]
pub(in crate::circuits) struct Layout<C> {
    /// A division for each polynomial, and its depth.
    pub roots: Vec<(Division<C>, u32)>,
    /// Powers in ascending order, without `X^1`.
    pub powers: Vec<Factors>,
}

/// `n` and the two indices of its factors: `X^n = X^a X^b`, or `T_n = 2 T_a T_b - T_(a - b)`.
pub(in crate::circuits) type Factors = (usize, (usize, usize));

/// `constant + sum coefficient X^n + sum quotient X^n`.
#[derive(Debug, Clone)]
pub(in crate::circuits) struct Division<C> {
    pub constant: C,
    pub terms: Vec<(usize, C)>,
    pub quotients: Vec<(Division<C>, usize)>,
}

impl<C: Coefficient> Layout<C> {
    /// Returns the layout with the cheapest products of ciphertexts, then the fewest rescalings,
    /// over all baby steps `k`. Powers up to `k` serve as terms and, with `2k, 4k, …`, as divisors.
    /// The polynomials share their powers. Each has the minimum depth for its degree.
    pub fn of(polynomials: &[&[C]], chebyshev: bool) -> Self {
        let degree = polynomials.iter().map(|coeffs| coeffs.len() - 1).max().unwrap_or(0);
        let patterns: Vec<(Vec<bool>, u32)> = (polynomials.iter())
            .map(|coeffs| (coeffs.iter().map(|&c| c != C::ZERO).collect(), bits(coeffs.len() - 1)))
            .collect();
        // Powers of two alone divide every polynomial.
        let mut best = Search::new(degree, chebyshev, 1).layout(polynomials);
        // More baby steps cost more than they save: the optimum is near the root of the degree.
        // Further polynomials, which use the same powers, move it up.
        let most = (2 * polynomials.len() * (degree + 1)).isqrt();
        for baby in 2..=degree.min(most.max(2 * (degree + 1).isqrt()) + 3) {
            let mut search = Search::new(degree, chebyshev, baby);
            if patterns.iter().all(|(pattern, depth)| search.cheapest(pattern, *depth).is_some()) {
                let layout = search.layout(polynomials);
                if layout.cost() < best.cost() {
                    best = layout;
                }
            }
        }
        best
    }

    /// Returns the depth of the deepest polynomial.
    pub fn depth(&self) -> u32 {
        self.roots.iter().map(|&(_, depth)| depth).max().unwrap_or(0)
    }

    /// Returns the number of relinearisations. Products that are summed share one.
    pub fn relinearizations(&self) -> usize {
        let roots = self.roots.iter().map(|(division, _)| division.relinearizations());
        self.powers.len() + roots.sum::<usize>()
    }

    /// Returns the cost of products of ciphertexts, and the number of rescalings.
    fn cost(&self) -> (usize, usize) {
        let powers = self.powers.len();
        let own = (powers * (PRODUCT + RELINEARIZATION), powers);
        let roots = self.roots.iter().map(|(division, _)| division.cost());
        roots.fold(own, |(cost, rescalings), (c, r)| (cost + c, rescalings + r))
    }
}

impl<C> Division<C> {
    fn relinearizations(&self) -> usize {
        let below = self.quotients.iter().map(|(quotient, _)| quotient.relinearizations());
        below.sum::<usize>() + usize::from(!self.quotients.is_empty())
    }

    fn powers(&self) -> BTreeSet<usize> {
        let mut powers: BTreeSet<usize> = self.terms.iter().map(|&(n, _)| n).collect();
        for (quotient, n) in &self.quotients {
            powers.insert(*n);
            powers.append(&mut quotient.powers());
        }
        powers
    }

    /// Returns the cost of products of ciphertexts, and the number of rescalings.
    fn cost(&self) -> (usize, usize) {
        let own = sum_cost(self.quotients.len());
        let below = self.quotients.iter().map(|(quotient, _)| quotient.cost());
        below.fold((own, 1), |(cost, rescalings), (c, r)| (cost + c, rescalings + r))
    }
}

/// Relative cost of a product before it is relinearised, and of the relinearisation.
const PRODUCT: usize = 1;
const RELINEARIZATION: usize = 8;

/// Cost of a sum of products that is relinearised.
fn sum_cost(products: usize) -> usize {
    products * PRODUCT + if products > 0 { RELINEARIZATION } else { 0 }
}

/// The search for the cheapest division by given powers.
struct Search {
    chebyshev: bool,
    baby: usize,
    powers: Vec<usize>,
    /// Results by nonzero coefficients and depth; `None` if there is no division.
    known: HashMap<(Vec<bool>, u32), Option<Step>>,
}

/// The products of a division, and its first divisor, if any.
#[derive(Clone, Copy)]
struct Step {
    products: usize,
    /// Cost of the quotients.
    below: usize,
    divisor: Option<usize>,
}

impl Step {
    fn cost(self) -> usize {
        self.below + sum_cost(self.products)
    }
}

impl Search {
    fn new(degree: usize, chebyshev: bool, baby: usize) -> Self {
        let giants = (1..).map(|j| baby << j).take_while(|&n| n <= degree);
        Self { chebyshev, baby, powers: (1..=baby).chain(giants).collect(), known: HashMap::new() }
    }

    fn layout<C: Coefficient>(&mut self, polynomials: &[&[C]]) -> Layout<C> {
        let root = |coeffs: &&[C]| {
            let depth = bits(coeffs.len() - 1);
            (self.division(coeffs, depth), depth)
        };
        let roots: Vec<_> = polynomials.iter().map(root).collect();
        let powers = roots.iter().flat_map(|(division, _)| division.powers()).collect();
        Layout { roots, powers: power_chain(powers, self.chebyshev) }
    }

    /// Returns the cheapest division of polynomials with these nonzero coefficients, in this depth.
    fn cheapest(&mut self, pattern: &[bool], depth: u32) -> Option<Step> {
        let pattern = &pattern[..=last(pattern)];
        let is_term = |(n, &c): (usize, &bool)| {
            !c || n == 0 || power_depth(n) < depth && self.powers.binary_search(&n).is_ok()
        };
        if pattern.iter().enumerate().all(is_term) {
            return Some(Step { products: 0, below: 0, divisor: None });
        }
        // Costs depend on which coefficients are zero, not on their values.
        let key = (pattern.to_vec(), depth);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let mut best: Option<Step> = None;
        for divisor in self.divisors(pattern.len() - 1, depth) {
            let (quotient, rest) = self.divide_pattern(pattern, divisor);
            let product = usize::from(quotient[1..].contains(&true));
            let Some(above) = self.cheapest(&quotient, depth - 1) else { continue };
            let Some(beside) = self.cheapest(&rest, depth) else { continue };
            let products = product + beside.products;
            let below = above.cost() + beside.below;
            let step = Step { products, below, divisor: Some(divisor) };
            if best.is_none_or(|best| step.cost() < best.cost()) {
                best = Some(step);
            }
        }
        self.known.insert(key, best);
        best
    }

    /// Returns the possible divisors of a polynomial of this degree, the largest first.
    fn divisors(&self, degree: usize, depth: u32) -> Vec<usize> {
        // Both factors of the product, power and quotient, are needed a level before it.
        let fits = |&n: &usize| {
            let smallest = if degree > self.baby { self.baby } else { 1 };
            n >= smallest
                && n <= degree
                && power_depth(n) < depth
                && bits(degree - n) < depth
                // The remainder has the indices `n - i`, which must not be negative.
                && (!self.chebyshev || degree <= 2 * n)
        };
        self.powers.iter().rev().copied().filter(fits).collect()
    }

    /// Returns the positions where quotient and remainder may be nonzero.
    fn divide_pattern(&self, pattern: &[bool], n: usize) -> (Vec<bool>, Vec<bool>) {
        let (rest, quotient) = pattern.split_at(n);
        let mut rest = rest.to_vec();
        let quotient = quotient.to_vec();
        if self.chebyshev {
            for (i, &c) in quotient.iter().enumerate().skip(1) {
                rest[n - i] |= c;
            }
        }
        (quotient, rest)
    }

    /// Divides: `p = q X^n + r`, or `p = q T_n + r` with `T_(n+i) = 2 T_n T_i - T_(n-i)`.
    fn divide<C: Coefficient>(&self, coeffs: &[C], n: usize) -> (Vec<C>, Vec<C>) {
        let (rest, quotient) = coeffs.split_at(n);
        let mut rest = rest.to_vec();
        let mut quotient = quotient.to_vec();
        if self.chebyshev {
            for (i, c) in quotient.iter_mut().enumerate().skip(1) {
                rest[n - i] = rest[n - i] - *c;
                *c = *c + *c;
            }
        }
        (quotient, rest)
    }

    /// Returns the cheapest division of a polynomial that has one.
    fn division<C: Coefficient>(&mut self, coeffs: &[C], depth: u32) -> Division<C> {
        let mut rest = coeffs.to_vec();
        let mut pattern: Vec<bool> = coeffs.iter().map(|&c| c != C::ZERO).collect();
        let mut terms = Vec::new();
        let mut quotients = Vec::new();
        while let Some(Step { divisor: Some(n), .. }) = self.cheapest(&pattern, depth) {
            pattern.truncate(last(&pattern) + 1);
            let (quotient, remainder) = self.divide(&rest[..pattern.len()], n);
            pattern = self.divide_pattern(&pattern, n).1;
            rest = remainder;
            if quotient[1..].iter().any(|&c| c != C::ZERO) {
                quotients.push((self.division(&quotient, depth - 1), n));
            } else if quotient[0] != C::ZERO {
                terms.push((n, quotient[0]));
            }
        }
        let constant = rest[0];
        terms.extend(rest.into_iter().enumerate().skip(1).filter(|&(_, c)| c != C::ZERO));
        Division { constant, terms, quotients }
    }
}

/// Returns the degree of polynomials with these nonzero coefficients.
fn last(pattern: &[bool]) -> usize {
    pattern.iter().rposition(|&c| c).unwrap_or(0)
}

/// Returns products that compute all these powers from `X^1`, in ascending order without it. Each
/// power has depth `ceil(log2 n)` and is a product of earlier powers. Among such products, it is
/// one that needs the fewest additional powers.
fn power_chain(mut powers: BTreeSet<usize>, chebyshev: bool) -> Vec<Factors> {
    let mut chain = Vec::new();
    let mut bound = powers.last().map_or(0, |n| n + 1);
    powers.insert(1);
    // From the highest down: a power adds only smaller ones, which are reached later.
    while let Some(&n) = powers.range(2..bound.max(2)).next_back() {
        let needs = |b: usize| {
            let difference = if chebyshev { n - 2 * b } else { 0 };
            [n - b, b, difference]
        };
        let added = |b: usize| {
            let missing: BTreeSet<usize> =
                needs(b).into_iter().filter(|m| *m > 0 && !powers.contains(m)).collect();
            let odd_ones = missing.iter().filter(|m| !m.is_power_of_two()).count();
            (missing.len(), odd_ones, n - 2 * b)
        };
        let depth = power_depth(n);
        let shallow = (1..=n / 2).filter(|b| power_depth(n - b) < depth);
        // `n / 2` always is a candidate.
        let b = shallow.min_by_key(|&b| added(b)).unwrap_or(n / 2);
        powers.extend(needs(b).into_iter().filter(|&m| m > 0));
        chain.push((n, (n - b, b)));
        bound = n;
    }
    chain.reverse();
    chain
}
