//! Parts shared by runs of plans: checks of operands, and sums of them.

use crate::{Error, Result};
use core::fmt::Display;
use std::borrow::Cow;
use sudare::{
    circuits::ckks::ComplexOps,
    ckks::{Complex, Params, Scale},
    rlwe::Level,
};

/// Rejects an evaluator whose parameters differ from the plan's.
pub(super) fn expect_params<E: ComplexOps>(ev: &E, params: &Params) -> Result<()> {
    if ev.log_n() == params.log_n() && ev.chain() == params.chain() {
        return Ok(());
    }
    let found = ev.log_n();
    let needed = params.log_n();
    Err(not_as_planned(
        "the evaluator's parameters",
        format_args!("other primes, in the ring N = 2^{found}"),
        format_args!("its own, in the ring N = 2^{needed}"),
    ))
}

/// Adds to a ciphertext its rotation by the first of `steps`, then to the sum its rotation by the
/// next step, and so on.
pub(super) fn add_rotations<E: ComplexOps>(
    e: &E,
    mut a: E::Ct,
    steps: impl Iterator<Item = i64>,
) -> sudare::Result<E::Ct> {
    for k in steps {
        a = e.add(&a, &e.rotate(&a, k)?)?;
    }
    Ok(a)
}

/// Returns the value at a level at or below its own.
pub(super) fn at<'a, E: ComplexOps>(
    e: &E,
    a: &'a E::Ct,
    level: Level,
) -> sudare::Result<Cow<'a, E::Ct>> {
    if e.level(a) == level {
        return Ok(Cow::Borrowed(a));
    }
    let mut a = a.clone();
    e.drop_to(&mut a, level)?;
    Ok(Cow::Owned(a))
}

pub(super) fn real(re: f64) -> Complex<f64> {
    Complex { re, im: 0.0 }
}

pub(super) fn not_as_planned(
    what: &'static str,
    found: impl Display,
    needed: impl Display,
) -> Error {
    Error::NotAsPlanned { what, found: found.to_string(), needed: needed.to_string() }
}

pub(super) fn expect<T: PartialEq + Display>(
    what: &'static str,
    found: T,
    needed: T,
) -> Result<()> {
    if found == needed { Ok(()) } else { Err(not_as_planned(what, found, needed)) }
}

pub(super) fn expect_scale(what: &'static str, found: Scale, needed: Scale) -> Result<()> {
    if found.matches(needed) { Ok(()) } else { Err(not_as_planned(what, found, needed)) }
}

/// Returns the elementwise sums of two lists.
pub(super) fn added<E: ComplexOps>(e: &E, a: &[E::Ct], b: &[E::Ct]) -> sudare::Result<Vec<E::Ct>> {
    a.iter().zip(b).map(|(a, b)| e.add(a, b)).collect()
}
