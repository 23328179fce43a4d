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
    lock_step::Batch,
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
    /// A plan of one polynomial.
    plan: PolynomialsPlan<A>,
}

/// A plan to evaluate several polynomials of one variable on ciphertexts of one level and scale.
/// The polynomials share the powers of the variable.
#[derive(Debug, Clone)]
pub struct PolynomialsPlan<A: Algebra> {
    input: Input<A::Scale>,
    request: KeyRequest,
    start: Variable<A>,
    /// Powers in the order of computation, which is ascending. The variable itself comes first.
    powers: Vec<Power<A::Scale>>,
    /// One for each polynomial.
    roots: Vec<Root<A>>,
}

/// A polynomial of a plan.
#[derive(Debug, Clone)]
struct Root<A: Algebra> {
    level: Level,
    scale: A::Scale,
    value: Value<A>,
}

#[derive(Debug, Clone)]
enum Value<A: Algebra> {
    /// The value of a polynomial of degree 0.
    Constant(A::Coefficient),
    Node(Node<A>),
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

/// A [`PolynomialsPlan`] without the scales of its products.
pub(super) struct Draft<A: Algebra> {
    /// Level and scale of the ciphertexts.
    pub input: (Level, A::Scale),
    pub start: Variable<A>,
    pub layout: Layout<A::Coefficient>,
    /// Powers of the layout, from `start`.
    pub powers: Vec<Power<A::Scale>>,
}

impl<A: Algebra> Draft<A> {
    /// Returns the plan, for results of the scale that `out` returns for their levels.
    pub(super) fn finish(
        self,
        chain: &Chain<A::Scale>,
        out: impl Fn(Level) -> Result<A::Scale>,
    ) -> Result<PolynomialsPlan<A>> {
        let Self { input: (level, scale), start, layout, powers } = self;
        let root = |(division, depth): (Division<A::Coefficient>, u32)| {
            let level = Level(start.level.0 - depth);
            if depth > 0 {
                // Powers are brought to the level of the last products.
                chain.levels().lower(start.level, Level(level.0 + 1))?;
            }
            let scale = out(level)?;
            let value = match depth {
                0 => Value::Constant(division.constant),
                _ => Value::Node(plan_node(division, chain, &powers, level, scale)?),
            };
            scale.check_fits(OP, chain.log2_q(level))?;
            Ok(Root { level, scale, value })
        };
        let roots = layout.roots.into_iter().map(root).collect::<Result<Vec<Root<A>>>>()?;
        let highest = powers[1..]
            .iter()
            .map(|power| power.level.0 + 1)
            .chain(roots.iter().filter_map(|root| root.node()?.highest_product()))
            .max();
        let end = roots.iter().map(|root| root.level).min().unwrap_or(level);
        Ok(PolynomialsPlan {
            input: Input::new(OP, chain, level, scale, end),
            request: KeyRequest { relinearize: highest.map(Level), ..KeyRequest::new() },
            start,
            powers,
            roots,
        })
    }

    /// Returns the plan of the only polynomial; see [`Draft::finish`].
    pub(super) fn finish_one(
        self,
        extremes: Option<Extremes>,
        chain: &Chain<A::Scale>,
        out: impl Fn(Level) -> Result<A::Scale>,
    ) -> Result<PolynomialPlan<A>> {
        Ok(PolynomialPlan { extremes, plan: self.finish(chain, out)? })
    }
}

impl<A: Algebra> Root<A> {
    fn node(&self) -> Option<&Node<A>> {
        match &self.value {
            Value::Constant(_) => None,
            Value::Node(node) => Some(node),
        }
    }
}

impl<A: Algebra> PolynomialPlan<A> {
    /// Levels consumed.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.plan.depth()
    }

    /// Level of the result.
    #[must_use]
    pub fn output_level(&self) -> Level {
        self.plan.roots[0].level
    }

    /// Scale of the result.
    #[must_use]
    pub fn output_scale(&self) -> A::Scale {
        self.plan.roots[0].scale
    }

    /// Required keys: relinearisation at the level of the first product, if there is one.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        self.plan.required_keys()
    }

    /// Number of products of two ciphertexts.
    #[must_use]
    pub fn products(&self) -> usize {
        self.plan.products()
    }

    /// Number of relinearisations, which dominate the time. Products that are summed share one.
    #[must_use]
    pub fn relinearizations(&self) -> usize {
        self.plan.relinearizations()
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
        let Some(extremes) = self.extremes.as_ref().filter(|_| self.depth() > 0) else {
            return Ok(self.plan.run(e, x)?.remove(0));
        };
        let x = self.plan.input.accept(e, x)?;
        let (t, errors) = e.argument(self.plan.start.reach(e, &x)?, extremes)?;
        let value = self.plan.of_variable(e, &x, t, true)?.remove(0);
        Ok(e.within(e.image(value, &errors, extremes), extremes.value))
    }

    /// Runs [`PolynomialPlan::run`] on each of `xs`, in lock step; see [`LockStep`].
    ///
    /// # Errors
    /// Errors of [`PolynomialPlan::run`]; [`Error::ScaleMismatch`] if the scales of `xs` differ.
    pub fn run_many<E: Ops<Algebra = A>>(&self, e: &E, xs: &[E::Ct]) -> Result<Vec<E::Ct>> {
        LockStep::new(e).run(xs, |e, x| self.run(e, x))
    }
}

impl<A: Algebra> PolynomialsPlan<A> {
    /// Levels consumed by the deepest polynomial.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.input.depth()
    }

    /// Level and scale of each result. A polynomial of a lower degree has a higher level.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = (Level, A::Scale)> {
        self.roots.iter().map(|root| (root.level, root.scale))
    }

    /// Required keys: relinearisation at the level of the first product, if there is one.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.request
    }

    /// Number of products of two ciphertexts.
    #[must_use]
    pub fn products(&self) -> usize {
        // The variable itself needs no product.
        self.powers.len() - 1 + self.nodes().map(Node::products).sum::<usize>()
    }

    /// Number of relinearisations, which dominate the time. Products that are summed share one.
    #[must_use]
    pub fn relinearizations(&self) -> usize {
        self.powers.len() - 1 + self.nodes().map(Node::relinearizations).sum::<usize>()
    }

    fn nodes(&self) -> impl Iterator<Item = &Node<A>> {
        self.roots.iter().filter_map(Root::node)
    }

    /// Evaluates the polynomials at every slot of `x`, in their order; see [`PolynomialPlan::run`].
    ///
    /// # Errors
    /// See [`PolynomialPlan::run`].
    pub fn run<E: Ops<Algebra = A>>(&self, e: &E, x: &E::Ct) -> Result<Vec<E::Ct>> {
        let x = self.input.accept(e, x)?;
        // Constants need no variable.
        let t = if self.nodes().next().is_some() {
            self.start.reach(e, &x)?
        } else {
            x.clone().into_owned()
        };
        self.of_variable(e, &x, t, false)
    }

    /// Runs [`PolynomialsPlan::run`] on each of `xs`, in lock step; see [`LockStep`]. The results of
    /// each polynomial are in the order of `xs`.
    ///
    /// # Errors
    /// Errors of [`PolynomialsPlan::run`]; [`Error::ScaleMismatch`] if the scales of `xs` differ.
    pub fn run_many<E: Ops<Algebra = A>>(&self, e: &E, xs: &[E::Ct]) -> Result<Vec<Vec<E::Ct>>> {
        let lock_step = LockStep::new(e);
        match lock_step.gather(xs)? {
            Some(xs) => Ok(self.run(&lock_step, &xs)?.into_iter().map(Batch::into_inner).collect()),
            None => Ok(vec![Vec::new(); self.roots.len()]),
        }
    }

    /// Evaluates the polynomials of the ciphertext `x` at its variable `t`.
    fn of_variable<E: Ops<Algebra = A>>(
        &self,
        e: &E,
        x: &E::Ct,
        t: E::Ct,
        chebyshev: bool,
    ) -> Result<Vec<E::Ct>> {
        let mut powers = BTreeMap::from([(1, t)]);
        for power in &self.powers[1..] {
            let value = power.compute(e, &powers, chebyshev)?;
            powers.insert(power.n, value);
        }
        let value = |root: &Root<A>| match &root.value {
            Value::Constant(constant) => {
                let x = at(e, x, root.level)?;
                let zero = e.with_scale(&e.sub(&x, &x)?, root.scale)?;
                e.add_const(&zero, (*constant).into())
            }
            Value::Node(node) => node.evaluate(e, &powers),
        };
        self.roots.iter().map(value).collect()
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
