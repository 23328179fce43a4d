//! Polynomials of encrypted values: evaluation of optimal depth with exact scales.
//!
//! The method is the baby-step giant-step form of Paterson and Stockmeyer ("On the number of
//! nonscalar multiplications necessary to evaluate polynomials", SIAM J. Comput. 2, 1973) in the
//! depth-optimal and scale-exact form of Bossuat, Mouchet, Troncoso-Pastoriza, Hubaux, "Efficient
//! bootstrapping for approximate homomorphic encryption with non-sparse keys"
//! ([2020/1203](https://eprint.iacr.org/2020/1203)). Scales are fixed from the result downwards,
//! and each constant is encoded at the scale missing from its term, so that the operands of sums
//! always have equal scales.

mod search;

use super::{
    Algebra, Coefficient, LockStep, Ops,
    input::{Input, at},
    ops::Extremes,
    ops::{CoefficientOf, ConstantOf},
};
#[cfg(doc)]
use crate::Error;
use crate::{
    Result,
    rlwe::{Chain, KeyRequest, Level, ProductSum, Scale},
};
use search::Division;
pub(super) use search::{Factors, Layout};
use std::collections::BTreeMap;

/// The name of the operation in errors.
pub(super) const OP: &str = "polynomial";

/// A plan to evaluate a polynomial on ciphertexts of one level and scale.
#[derive(Debug, Clone)]
pub struct PolynomialPlan<A: Algebra> {
    extremes: Option<Extremes>,
    input: Input<A::Scale>,
    /// The value of a polynomial of degree 0.
    constant: A::Coefficient,
    output_level: Level,
    output_scale: A::Scale,
    request: KeyRequest,
    products: usize,
    start: Variable<A>,
    /// Powers in the order of computation, which is ascending. The variable itself comes first.
    powers: Vec<Power<A::Scale>>,
    /// `None` for degree 0.
    root: Option<Node<A>>,
}

/// `t = factor x + shift`, at a level and scale.
#[derive(Debug, Clone)]
pub(super) struct Variable<A: Algebra> {
    pub level: Level,
    pub scale: A::Scale,
    /// Factor and the scale of its encoding, if the product uses a level. Otherwise `x` is
    /// interpreted at the scale of `t`.
    pub stretch: Option<(A::Coefficient, A::Scale)>,
    pub shift: A::Coefficient,
}

/// An element of the power basis, `X^n = X^a X^b` or `T_n = 2 T_a T_b - T_(a - b)`. `X^1` has
/// `b = 0`.
#[derive(Debug, Clone)]
pub(super) struct Power<S> {
    pub n: usize,
    factors: (usize, usize),
    pub level: Level,
    pub scale: S,
}

/// `constant + sum coefficient X^n + sum quotient X^n`, at a level after one rescaling. At least
/// one sum is not empty.
#[derive(Debug, Clone)]
struct Node<A: Algebra> {
    level: Level,
    constant: A::Coefficient,
    terms: Vec<Term<A>>,
    quotients: Vec<(Node<A>, usize)>,
}

/// A term `coefficient X^n` with the coefficient encoded at `scale`.
#[derive(Debug, Clone)]
struct Term<A: Algebra> {
    n: usize,
    coefficient: A::Coefficient,
    scale: A::Scale,
}

/// A [`PolynomialPlan`] without the scales of its products.
pub(super) struct Draft<'a, A: Algebra> {
    /// Level and scale of the ciphertexts.
    pub input: (Level, A::Scale),
    /// Coefficients from index 0 on; at least one.
    pub coeffs: &'a [A::Coefficient],
    pub extremes: Option<Extremes>,
    pub start: Variable<A>,
    pub layout: Layout<A::Coefficient>,
    /// Powers of the layout, from `start`.
    pub powers: Vec<Power<A::Scale>>,
}

impl<A: Algebra> Draft<'_, A> {
    /// Returns the plan, for a result of the scale that `out` returns for its level.
    pub(super) fn finish(
        self,
        chain: &Chain<A::Scale>,
        out: impl FnOnce(Level) -> Result<A::Scale>,
    ) -> Result<PolynomialPlan<A>> {
        let Self { input: (level, scale), coeffs, extremes, start, layout, powers } = self;
        let degree = coeffs.len() - 1;
        let depth = bits(degree);
        let output_level = Level(start.level.0 - depth);
        if depth > 0 {
            // Powers are brought to the level of the last products.
            chain.levels().lower(start.level, Level(output_level.0 + 1))?;
        }
        let out = out(output_level)?;
        let root = match degree {
            0 => None,
            _ => Some(plan_node(layout.root, chain, &powers, output_level, out)?),
        };
        out.check_fits(OP, chain.log2_q(output_level))?;
        // The variable itself needs no product.
        let products = powers.len() - 1 + root.as_ref().map_or(0, Node::products);
        let highest = powers[1..]
            .iter()
            .map(|power| power.level.0 + 1)
            .chain(root.as_ref().and_then(Node::highest_product))
            .max();
        Ok(PolynomialPlan {
            extremes,
            input: Input::new(OP, chain, level, scale, output_level),
            constant: coeffs[0],
            output_level,
            output_scale: out,
            request: KeyRequest { relinearize: highest.map(Level), ..KeyRequest::new() },
            products,
            start,
            powers,
            root,
        })
    }
}

impl<A: Algebra> PolynomialPlan<A> {
    /// Levels consumed.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.input.depth()
    }

    /// Level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.output_level
    }

    /// Scale of the result.
    #[must_use]
    pub fn output_scale(&self) -> A::Scale {
        self.output_scale
    }

    /// Required keys: relinearisation at the level of the first product, if there is one.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.request
    }

    /// Number of products of two ciphertexts.
    #[must_use]
    pub fn products(&self) -> usize {
        self.products
    }

    /// Number of relinearisations, which dominate the time. Products that are summed share one.
    #[must_use]
    pub fn relinearizations(&self) -> usize {
        let root = self.root.as_ref().map_or(0, Node::relinearizations);
        root + self.powers.len().saturating_sub(1)
    }

    /// Evaluates the polynomial at every slot of `x`, which must lie in the polynomial's interval.
    /// Drops `x` to the planned level first if it is above.
    ///
    /// The result for a polynomial of degree 0 is a ciphertext without randomness, which anyone can
    /// read.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] if `x` is below the planned level, [`Error::ScaleMismatch`] if it
    /// has another scale than planned, [`Error::Circuit`] if the evaluator has another chain than
    /// planned, and errors of the evaluator.
    pub fn run<E: Ops<Algebra = A>>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        let x = self.input.accept(e, x)?;
        let Some(root) = &self.root else {
            let zero = e.with_scale(&e.sub(&x, &x)?, self.output_scale)?;
            return e.add_const(&zero, self.constant.into());
        };
        let t = self.start.reach(e, &x)?;
        let Some(extremes) = &self.extremes else {
            return self.of_powers(e, root, t);
        };
        let (t, errors) = e.argument(t, extremes)?;
        let image = e.image(self.of_powers(e, root, t)?, &errors, extremes);
        Ok(e.within(image, extremes.value))
    }

    /// Evaluates the polynomial at its variable.
    fn of_powers<E: Ops<Algebra = A>>(&self, e: &E, root: &Node<A>, t: E::Ct) -> Result<E::Ct> {
        let mut powers = BTreeMap::from([(1, t)]);
        for power in &self.powers[1..] {
            let value = power.compute(e, &powers, self.extremes.is_some())?;
            powers.insert(power.n, value);
        }
        root.evaluate(e, &powers)
    }

    /// Runs [`PolynomialPlan::run`] on each of `xs`, in lock step; see [`LockStep`].
    ///
    /// # Errors
    /// Errors of [`PolynomialPlan::run`]; [`Error::ScaleMismatch`] if the scales of `xs` differ.
    pub fn run_many<E: Ops<Algebra = A>>(&self, e: &E, xs: &[E::Ct]) -> Result<Vec<E::Ct>> {
        LockStep::new(e).run(xs, |e, x| self.run(e, x))
    }
}

impl<A: Algebra> Variable<A> {
    fn reach<E: Ops<Algebra = A>>(&self, e: &E, x: &E::Ct) -> Result<E::Ct> {
        let t = match self.stretch {
            Some((factor, scale)) => {
                let mut t = e.mul_const(x, factor.into(), scale)?;
                e.rescale_assign(&mut t)?;
                t
            }
            None => e.with_scale(x, self.scale)?,
        };
        match self.shift == A::Coefficient::ZERO {
            true => Ok(t),
            false => e.add_const(&t, self.shift.into()),
        }
    }
}

impl<S: Scale> Power<S> {
    fn compute<E: Ops<Algebra: Algebra<Scale = S>>>(
        &self,
        e: &E,
        powers: &BTreeMap<usize, E::Ct>,
        chebyshev: bool,
    ) -> Result<E::Ct> {
        let (a, b) = self.factors;
        let level = Level(self.level.0 + 1);
        let x = at(e, &powers[&a], level)?;
        let y = at(e, &powers[&b], level)?;
        if !chebyshev {
            return e.mul_rescale(&x, &y);
        }
        // `T_0` is 1: a constant instead of a ciphertext.
        if a == b {
            return Ok(e.within(double_angle(e, &x)?, 1.0));
        }
        let difference = at(e, &powers[&(a - b)], level)?;
        let lacking = e.scale(&x) * e.scale(&y) / e.scale(&difference);
        let minus = e.mul_const(&difference, minus_one::<E>(), lacking)?;
        // The operand and not the product, as in `double_angle`.
        let double = e.add(&x, &x)?;
        let products = vec![(&double, &*y)];
        let value = e.mul_sum_rescale(&ProductSum { products, addend: Some(&minus) })?;
        Ok(e.within(value, 1.0))
    }
}

impl<A: Algebra> Node<A> {
    fn evaluate<E: Ops<Algebra = A>>(
        &self,
        e: &E,
        powers: &BTreeMap<usize, E::Ct>,
    ) -> Result<E::Ct> {
        let level = Level(self.level.0 + 1);
        let powers_at = |n: usize| at(e, &powers[&n], level);
        let of_terms: Vec<_> =
            self.terms.iter().map(|term| powers_at(term.n)).collect::<Result<_>>()?;
        let of_terms: Vec<_> = (of_terms.iter().zip(&self.terms))
            .map(|(power, term)| (&**power, term.coefficient, term.scale))
            .collect();
        let linear = (!of_terms.is_empty()).then(|| e.mul_const_sum(&of_terms)).transpose()?;
        let factors = |(quotient, n): &(Self, usize)| -> Result<_> {
            Ok((quotient.evaluate(e, powers)?, powers_at(*n)?))
        };
        let factors: Vec<_> = self.quotients.iter().map(factors).collect::<Result<_>>()?;
        let sum = match linear {
            // Without products there is nothing to relinearise.
            Some(mut sum) if factors.is_empty() => {
                e.rescale_assign(&mut sum)?;
                sum
            }
            // Terms are added to the products before the rescaling, so both share it.
            linear => e.mul_sum_rescale(&ProductSum {
                products: factors.iter().map(|(quotient, power)| (quotient, &**power)).collect(),
                addend: linear.as_ref(),
            })?,
        };
        match self.constant == A::Coefficient::ZERO {
            true => Ok(sum),
            false => e.add_const(&sum, self.constant.into()),
        }
    }

    fn products(&self) -> usize {
        self.quotients.iter().map(|(quotient, _)| 1 + quotient.products()).sum()
    }

    fn relinearizations(&self) -> usize {
        let below: usize = self.quotients.iter().map(|(node, _)| node.relinearizations()).sum();
        below + usize::from(!self.quotients.is_empty())
    }

    /// Returns the highest level of products of ciphertexts.
    fn highest_product(&self) -> Option<u32> {
        let below = self.quotients.iter().filter_map(|(quotient, _)| quotient.highest_product());
        below.chain((!self.quotients.is_empty()).then_some(self.level.0 + 1)).max()
    }
}

/// Plans levels and scales of the power basis.
pub(super) fn plan_powers<A: Algebra>(
    chain: &[Factors],
    moduli: &Chain<A::Scale>,
    start: &Variable<A>,
) -> Result<Vec<Power<A::Scale>>> {
    let mut powers = vec![Power { n: 1, factors: (1, 0), level: start.level, scale: start.scale }];
    start.scale.check_fits(OP, moduli.log2_q(start.level))?;
    for &(n, factors) in chain {
        let level = Level(start.level.0 - power_depth(n));
        let above = Level(level.0 + 1);
        let product = find(&powers, factors.0).scale * find(&powers, factors.1).scale;
        product.check_fits(OP, moduli.log2_q(above))?;
        powers.push(Power { n, factors, level, scale: product / moduli.divisor(above) });
    }
    Ok(powers)
}

/// Plans levels and scales of the nodes below a node, from its own.
fn plan_node<A: Algebra>(
    division: Division<A::Coefficient>,
    chain: &Chain<A::Scale>,
    powers: &[Power<A::Scale>],
    level: Level,
    scale: A::Scale,
) -> Result<Node<A>> {
    let above = Level(level.0 + 1);
    let unrescaled = scale * chain.divisor(above);
    unrescaled.check_fits(OP, chain.log2_q(above))?;
    let lacking = |n| unrescaled / find(powers, n).scale;
    let terms: Vec<_> = division
        .terms
        .into_iter()
        .map(|(n, coefficient)| Term::<A> { n, coefficient, scale: lacking(n) })
        .collect();
    for term in &terms {
        term.scale.check_fits(OP, chain.log2_q(above))?;
    }
    let quotients = division
        .quotients
        .into_iter()
        .map(|(division, n)| Ok((plan_node(division, chain, powers, above, lacking(n))?, n)))
        .collect::<Result<_>>()?;
    Ok(Node { level, constant: division.constant, terms, quotients })
}

/// Returns the power `n` of a plan, which must contain it.
fn find<S>(powers: &[Power<S>], n: usize) -> &Power<S> {
    &powers[powers.partition_point(|power| power.n < n)]
}

/// Computes `2 x^2 - 1`, one level down: `T_(2n)` from `T_n`, the cosine of the double angle.
/// Doubling the operand instead of the product keeps the product's rounding error from being
/// doubled.
pub(super) fn double_angle<E: Ops>(e: &E, x: &E::Ct) -> Result<E::Ct> {
    let square = e.mul_rescale(&e.add(x, x)?, x)?;
    e.add_const(&square, minus_one::<E>())
}

fn minus_one<E: Ops>() -> ConstantOf<E> {
    (CoefficientOf::<E>::ZERO - CoefficientOf::<E>::ONE).into()
}

/// Returns `ceil(log2(n + 1))`: the number of binary digits, the minimum depth of a polynomial of
/// degree `n`.
pub(super) fn bits(n: usize) -> u32 {
    usize::BITS - n.leading_zeros()
}

/// Returns `ceil(log2 n)`: the minimum depth of `X^n`, `n > 0`.
fn power_depth(n: usize) -> u32 {
    bits(n - 1)
}
