//! Ciphertexts with operators.

use super::{Coefficient, CoefficientOf, Ops};
use crate::{
    Error, Result,
    rlwe::{Level, Scale as _},
};
use core::{
    fmt,
    ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign},
    panic::Location,
};
use std::borrow::Cow;

/// A ciphertext with its evaluator, for formulas: `&x * &x + &x`.
///
/// Values of an expression share one evaluator: of CKKS, BGV or BFV, or one that simulates. Then the
/// expression counts its levels and keys before a key exists. Mixing schemes does not compile.
///
/// | operation | levels | rule |
/// |---|---|---|
/// | `x + y`, `x - y` | 0 | levels and scales align as the evaluator aligns sums |
/// | `x * y` | 1 | the higher factor is brought to the level and scale of the other one, where that is exact, so all products of one level have one scale |
/// | `-x`, `x + c`, `c - x` | 0 | `c` is a number for every slot: `f64` in CKKS, `i128` for integers |
/// | `c * x` | 0 or 1 | a product with an integer costs no level, a product with another number costs 1 |
///
/// Operators return values, not results. The first error stays in the value and in everything that
/// is computed from it, and [`Value::into_ciphertext`] returns it. [`Error::Expression`] names the
/// operation and its place in your source.
///
/// A clone is cheap: it shares the ciphertext.
///
/// ```
/// use sudare::{Value, ckks, rlwe::{KeyGenerator, KeyRequest}};
///
/// # fn main() -> sudare::Result<()> {
/// let params = ckks::Params::preset("n13")?;
/// let mut keygen = KeyGenerator::new(params.rlwe())?;
/// let secret = keygen.secret_key()?;
/// let public = keygen.public_key(&secret)?;
/// let keys = keygen.evaluation_keys(&secret, &KeyRequest::new().relinearize(params.top()))?;
/// let encoder = ckks::Encoder::new(&params);
/// let encryptor = ckks::Encryptor::new(&params, public)?;
/// let evaluator = ckks::Evaluator::new(&params, keys)?;
///
/// let x = Value::new(&evaluator, encryptor.encrypt(&encoder.encode_real(&[0.5, -2.0])?)?);
/// let y = (&x * &x * &x + &x * &x - 2.0 * &x + 1.0).into_ciphertext()?;
///
/// let y = encoder.decode_real(&ckks::Decryptor::new(&params, secret)?.decrypt(&y)?)?;
/// assert!((y[0] - 0.375).abs() < 1e-4 && (y[1] - 1.0).abs() < 1e-4);
/// # Ok(())
/// # }
/// ```
///
/// Values of two schemes do not meet:
///
/// ```compile_fail
/// # use sudare::{Value, bfv, ckks};
/// fn mixed(x: &Value<'_, ckks::Evaluator>, y: &Value<'_, bfv::Evaluator>) {
///     let _ = x * y;
/// }
/// ```
#[must_use]
pub struct Value<'e, E: Ops> {
    evaluator: &'e E,
    result: Result<E::Ct>,
}

impl<'e, E: Ops> Value<'e, E> {
    /// Makes a value of a ciphertext, to compute with by `evaluator`.
    pub fn new(evaluator: &'e E, ciphertext: E::Ct) -> Self {
        Self { evaluator, result: Ok(ciphertext) }
    }

    /// Returns the ciphertext.
    ///
    /// # Errors
    /// [`Error::Expression`] with the first error of the computation.
    pub fn into_ciphertext(self) -> Result<E::Ct> {
        self.result
    }

    /// Rotates left by `k`; see [`Ops::rotate`].
    #[track_caller]
    pub fn rotate(&self, k: i64) -> Self {
        self.step("rotate", |e, a| e.rotate(a, k))
    }

    /// Applies any operation of the evaluator, or a circuit:
    /// `x.apply(|e, x| plan.run(e, x))`.
    #[track_caller]
    pub fn apply(&self, f: impl FnOnce(&'e E, &E::Ct) -> Result<E::Ct>) -> Self {
        self.step("apply", f)
    }

    /// Runs an operation on the ciphertext, unless an error came before it.
    #[track_caller]
    pub(super) fn step(
        &self,
        op: &'static str,
        f: impl FnOnce(&'e E, &E::Ct) -> Result<E::Ct>,
    ) -> Self {
        let at = Location::caller();
        let result = self.result.as_ref().map_err(Error::clone);
        let result = result.and_then(|a| f(self.evaluator, a).map_err(|e| located(op, at, e)));
        Self { evaluator: self.evaluator, result }
    }

    /// Runs an operation on this ciphertext and another one.
    #[track_caller]
    fn pair(
        &self,
        op: &'static str,
        other: &Self,
        f: impl FnOnce(&E, &E::Ct, &E::Ct) -> Result<E::Ct>,
    ) -> Self {
        let at = Location::caller();
        // The first error in the order of evaluation is the one of the left operand.
        if let (Ok(_), Err(error)) = (&self.result, &other.result) {
            return Self { evaluator: self.evaluator, result: Err(error.clone()) };
        }
        let result = self.result.as_ref().map_err(Error::clone).and_then(|a| {
            let b = other.result.as_ref().map_err(Error::clone)?;
            if !core::ptr::eq(self.evaluator, other.evaluator) {
                let problem = "operands of two evaluators: make all values of an expression with \
                               one evaluator";
                return Err(located(op, at, Error::Circuit(problem.into())));
            }
            f(self.evaluator, a, b).map_err(|e| located(op, at, e))
        });
        Self { evaluator: self.evaluator, result }
    }

    /// Multiplies by an integer, which costs no level.
    #[track_caller]
    pub(super) fn times_integer(&self, c: CoefficientOf<E>) -> Self {
        self.step("multiply", |e, a| {
            let scale = e.scale(a);
            #[expect(clippy::eq_op, reason = "the scale 1 of any scheme")]
            let one = scale / scale;
            e.mul_const_sum(&[(a, c, one)])
        })
    }

    /// Adds a number to every slot.
    #[track_caller]
    pub(super) fn plus(&self, c: CoefficientOf<E>) -> Self {
        self.step("add", |e, a| e.add_const(a, c.into()))
    }

    #[track_caller]
    fn negated(&self) -> Self {
        self.times_integer(CoefficientOf::<E>::ZERO - CoefficientOf::<E>::ONE)
    }
}

/// Adds the operation and its place to an error, unless an inner expression did.
fn located(op: &'static str, at: &'static Location<'static>, source: Error) -> Error {
    match source {
        Error::Expression { .. } => source,
        _ => Error::Expression { op, at, source: Box::new(source) },
    }
}

/// Multiplies ciphertexts at one level and scale, and rescales.
fn product<E: Ops>(e: &E, a: &E::Ct, b: &E::Ct) -> Result<E::Ct> {
    e.mul_rescale(&*lowered(e, a, b)?, &*lowered(e, b, a)?)
}

/// Returns `a` at the level and scale of `b`, if that is lower and matching is exact.
fn lowered<'a, E: Ops>(e: &E, a: &'a E::Ct, b: &E::Ct) -> Result<Cow<'a, E::Ct>> {
    let level = e.level(b);
    let scale = e.scale(b);
    // The product itself drops primes, which leaves a scale that already matches.
    if e.level(a) <= level || e.scale(a).matches(scale) {
        return Ok(Cow::Borrowed(a));
    }
    let factor = scale * e.divisor(a, Level(level.0 + 1)) / e.scale(a);
    match factor.encodes_one(scale) {
        true => e.match_scale(a, level, scale).map(Cow::Owned),
        false => Ok(Cow::Borrowed(a)),
    }
}

impl<E: Ops> Clone for Value<'_, E> {
    fn clone(&self) -> Self {
        Self { evaluator: self.evaluator, result: self.result.clone() }
    }
}

impl<E: Ops> fmt::Debug for Value<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.result {
            Ok(a) => write!(f, "Value(level {})", self.evaluator.level(a)),
            Err(error) => write!(f, "Value({error})"),
        }
    }
}

/// Operators on values, owned or borrowed, from the one on references.
macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident: |$a:ident, $b:ident| $call:expr;)*) => {$(
        impl<'e, E: Ops> $trait<&Value<'e, E>> for &Value<'e, E> {
            type Output = Value<'e, E>;
            #[track_caller]
            fn $method(self, other: &Value<'e, E>) -> Value<'e, E> {
                let ($a, $b) = (self, other);
                $call
            }
        }
        impl<'e, E: Ops> $trait<Value<'e, E>> for &Value<'e, E> {
            type Output = Value<'e, E>;
            #[track_caller]
            fn $method(self, other: Value<'e, E>) -> Value<'e, E> {
                self.$method(&other)
            }
        }
        impl<'e, E: Ops> $trait<&Value<'e, E>> for Value<'e, E> {
            type Output = Value<'e, E>;
            #[track_caller]
            fn $method(self, other: &Value<'e, E>) -> Value<'e, E> {
                (&self).$method(other)
            }
        }
        impl<'e, E: Ops> $trait for Value<'e, E> {
            type Output = Value<'e, E>;
            #[track_caller]
            fn $method(self, other: Value<'e, E>) -> Value<'e, E> {
                (&self).$method(&other)
            }
        }
        impl<'e, E: Ops> $assign<&Value<'e, E>> for Value<'e, E> {
            #[track_caller]
            fn $assign_method(&mut self, other: &Value<'e, E>) {
                *self = (&*self).$method(other);
            }
        }
        impl<'e, E: Ops> $assign for Value<'e, E> {
            #[track_caller]
            fn $assign_method(&mut self, other: Value<'e, E>) {
                *self = (&*self).$method(&other);
            }
        }
    )*};
}

operators! {
    Add add AddAssign add_assign: |a, b| a.pair("add", b, |e, a, b| e.add(a, b));
    Sub sub SubAssign sub_assign: |a, b| a.pair("subtract", b, |e, a, b| e.sub(a, b));
    Mul mul MulAssign mul_assign: |a, b| a.pair("multiply", b, product);
}

impl<'e, E: Ops> Neg for &Value<'e, E> {
    type Output = Value<'e, E>;
    #[track_caller]
    fn neg(self) -> Value<'e, E> {
        self.negated()
    }
}

impl<'e, E: Ops> Neg for Value<'e, E> {
    type Output = Self;
    #[track_caller]
    fn neg(self) -> Self {
        self.negated()
    }
}

/// Operators on a value and a number of type `$number`, in both orders, for evaluators that
/// implement `$ops`. `$times` multiplies a reference to a value.
macro_rules! number_operators {
    ($number:ty, $ops:ident, $times:path) => {
        $crate::circuits::value::number_operators!(@both $number, $ops,
            Add add AddAssign add_assign |a, c| a.plus(c), |a, c| a.plus(c);
            Sub sub SubAssign sub_assign |a, c| a.plus(-c), |a, c| (-a).plus(c);
            Mul mul MulAssign mul_assign |a, c| $times(a, c), |a, c| $times(a, c);
        );
    };
    (@both $number:ty, $ops:ident, $($trait:ident $method:ident $assign:ident $assign_method:ident
        |$a:ident, $c:ident| $after:expr, |$b:ident, $d:ident| $before:expr;)*) => {$(
        impl<'e, E: $ops> core::ops::$trait<$number> for &Value<'e, E> {
            type Output = Value<'e, E>;
            #[track_caller]
            fn $method(self, c: $number) -> Value<'e, E> {
                let ($a, $c) = (self, c);
                $after
            }
        }
        impl<'e, E: $ops> core::ops::$trait<$number> for Value<'e, E> {
            type Output = Value<'e, E>;
            #[track_caller]
            fn $method(self, c: $number) -> Value<'e, E> {
                core::ops::$trait::$method(&self, c)
            }
        }
        impl<E: $ops> core::ops::$assign<$number> for Value<'_, E> {
            #[track_caller]
            fn $assign_method(&mut self, c: $number) {
                *self = core::ops::$trait::$method(&*self, c);
            }
        }
        impl<'e, E: $ops> core::ops::$trait<&Value<'e, E>> for $number {
            type Output = Value<'e, E>;
            #[track_caller]
            fn $method(self, a: &Value<'e, E>) -> Value<'e, E> {
                let ($b, $d) = (a, self);
                $before
            }
        }
        impl<'e, E: $ops> core::ops::$trait<Value<'e, E>> for $number {
            type Output = Value<'e, E>;
            #[track_caller]
            fn $method(self, a: Value<'e, E>) -> Value<'e, E> {
                core::ops::$trait::$method(self, &a)
            }
        }
    )*};
}
pub(super) use number_operators;
