//! Parameters with a scheme, and the factors and keys that follow.

use super::{Layout, elementwise::SMALL};
use crate::array::Result;
use core::{fmt, str::FromStr};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};
use sudare::{
    Error,
    circuits::exact::bootstrap::{BootstrapPlan, Inputs},
    exact::{
        self, BatchEncoder, Choice, Form, Modulus, Needs, Params, PlainPoly, Unit, inner_sum_keys,
    },
    rlwe::{GaloisElement, KeyRequest, Level, ParamsId},
};

/// How ciphertexts are multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// [`exact`](mod@sudare::exact): the faster product.
    Bgv,
    /// [`bfv`](mod@sudare::bfv): the product that does not depend on how large errors are.
    Bfv,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bgv => "bgv",
            Self::Bfv => "bfv",
        })
    }
}

impl FromStr for Scheme {
    type Err = Error;

    fn from_str(name: &str) -> sudare::Result<Self> {
        [Self::Bgv, Self::Bfv].into_iter().find(|scheme| scheme.to_string() == name).ok_or_else(
            || Error::InvalidSpec {
                field: "scheme",
                problem: format!("{name:?} is neither \"bgv\" nor \"bfv\": choose one of them"),
            },
        )
    }
}

/// Moduli are below this power of two, so that plain integers are words.
const MODULUS_BITS: u32 = 62;

/// Ciphertexts that may be summed before each product of [`plan`]: that is room for a product with
/// a scalar that takes no level, too.
const SUMMED: u32 = SMALL as u32;

/// Elements that may be summed after the last product of [`plan`]: all slots of the largest ring,
/// times a scalar that takes no level, or those of several ciphertexts.
const SUMMED_LAST: u32 = 1 << 18;

/// A modulus with so many times fewer slots than a ring has is refused where a prime of its size has
/// them all.
const FEW_SLOTS: usize = 64;

/// Parameters of 128 bits of security for arrays modulo `t` and programs of `depth` levels.
///
/// Beside the products there is room for a sum of 16 ciphertexts, or a product with a scalar of up
/// to 16, before each of them, and for a sum of 2^18 elements after the last.
///
/// # Errors
/// [`Error::PlaintextModulusNotPrime`] unless `t` is a prime or a power of one;
/// [`Error::NoSlots`] for one without slots, or for a prime with few where one of its size has
/// many; both name primes that have them. [`Error::InvalidSpec`] for one that is too large, or if no
/// ring has so many levels.
pub fn plan(t: u128, depth: u32) -> sudare::Result<Choice> {
    let needs = |plaintext_modulus| Needs {
        plaintext_modulus,
        depth,
        rotations: SUMMED - 1,
        last_rotations: SUMMED_LAST - 1,
    };
    let plaintext_modulus = modulus(t, |near| Some(exact::choose(needs(near)).ok()?.spec.log_n))?;
    let choice = exact::choose(needs(plaintext_modulus))?;
    check_slots(plaintext_modulus, choice.spec.log_n)?;
    Ok(choice)
}

/// The modulus `t`. Where it is not the power of a prime, the error names primes near it with all
/// slots of the ring that `log_n` finds for a prime of its size.
pub(super) fn modulus(t: u128, log_n: impl Fn(Modulus) -> Option<u32>) -> sudare::Result<Modulus> {
    let refused = match Modulus::from_value(t) {
        Err(Error::PlaintextModulusNotPrime { found, .. }) => found,
        modulus => return modulus,
    };
    let primes_of = |log_n| BatchEncoder::primes_near(t, log_n);
    let near = primes_of(FIRST_RING).first().map(|&prime| Modulus::new(prime, 1)).transpose()?;
    let log_n = near.and_then(log_n).unwrap_or(FIRST_RING);
    let names: Vec<_> = primes_of(log_n).iter().map(u64::to_string).collect();
    let primes = format!("{}, which have 2^{log_n} slots", names.join(" or "));
    Err(Error::PlaintextModulusNotPrime { found: refused, primes })
}

/// `log2` of the degree of the smallest ring of [`plan`].
const FIRST_RING: u32 = 12;

/// Refuses a modulus without slots in the ring of degree `2^log_n`, and a prime with few of them
/// where one between half and twice its size has all.
pub(super) fn check_slots(t: Modulus, log_n: u32) -> sudare::Result<()> {
    let slots = 1usize << log_n;
    let possible = 1usize << most_slots(t, log_n)?;
    let primes = BatchEncoder::primes_near(t.value(), log_n);
    let alike = |&prime: &u64| (t.prime() / 2..=t.prime().saturating_mul(2)).contains(&prime);
    if t.exponent() > 1 || slots / possible < FEW_SLOTS || !primes.iter().any(alike) {
        return Ok(());
    }
    let names: Vec<_> = primes.iter().map(u64::to_string).collect();
    Err(Error::NoSlots { modulus: t.into(), slots, possible, primes: names.join(" and ") })
}

/// `log2` of the slots of a ciphertext modulo `t`; an error names primes that have all of them.
pub(super) fn most_slots(t: Modulus, log_n: u32) -> sudare::Result<u32> {
    if t.value() >> MODULUS_BITS != 0 {
        let problem = format!("{t} is too large: arrays take moduli below 2^{MODULUS_BITS}");
        return Err(Error::InvalidSpec { field: "t", problem });
    }
    match BatchEncoder::most_slots(t, log_n) {
        Some(log_slots) => Ok(log_slots),
        // It says which primes have all of them.
        None => BatchEncoder::new(t, log_n).map(|encoder| encoder.slots().ilog2()),
    }
}

/// What arrays are encrypted and computed with under. Cheap to clone.
#[derive(Clone)]
pub struct Setting(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    params: Params,
    scheme: Scheme,
    signed: bool,
    /// For all slots that plaintexts have.
    encoder: Arc<BatchEncoder>,
    bootstrapping: Option<Arc<Bootstrapping>>,
}

/// A way to bootstrap, and what it takes in once that was asked for.
struct Bootstrapping {
    plan: BootstrapPlan,
    inputs: OnceLock<Inputs>,
}

impl Setting {
    /// Arrays modulo the plaintext modulus of `params`; if `signed`, their elements decrypt to
    /// integers in `(-t/2, t/2]`, else in `[0, t)`.
    ///
    /// # Errors
    /// [`Error::NoSlots`], naming primes that have slots; [`Error::InvalidSpec`] for a modulus of
    /// 62 bits or more.
    pub fn new(params: Params, scheme: Scheme, signed: bool) -> sudare::Result<Self> {
        let (t, log_n) = (params.plaintext_modulus(), params.log_n());
        let encoder = BatchEncoder::with_slots(t, log_n, most_slots(t, log_n)?)?;
        let (encoder, bootstrapping) = (Arc::new(encoder), None);
        Ok(Self(Arc::new(Inner { params, scheme, signed, encoder, bootstrapping })))
    }

    /// The same with a way to bootstrap, of its own slots.
    pub(super) fn bootstrapped_by(&self, plan: BootstrapPlan) -> Self {
        let bootstrapping = Some(Arc::new(Bootstrapping { plan, inputs: OnceLock::new() }));
        Self(Arc::new(Inner { bootstrapping, ..(*self.0).clone() }))
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.0.params
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.0.scheme
    }

    /// Whether elements may be negative.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.0.signed
    }

    /// How arrays are bootstrapped, if they are.
    #[must_use]
    pub fn bootstrapping(&self) -> Option<&BootstrapPlan> {
        self.0.bootstrapping.as_deref().map(|bootstrapping| &bootstrapping.plan)
    }

    /// Refuses a ciphertext that could not be bootstrapped, if arrays are.
    ///
    /// The first time, norms of matrices are computed, which takes seconds in the named sets.
    pub(super) fn check_refreshable(&self, form: Form) -> sudare::Result<()> {
        let Some(Bootstrapping { plan, inputs }) = self.0.bootstrapping.as_deref() else {
            return Ok(());
        };
        if let Some(inputs) = inputs.get() {
            return inputs.check(form);
        }
        let found = plan.inputs(self.params())?;
        inputs.get_or_init(|| found).check(form)
    }

    /// `t`.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.0.params.plaintext_modulus()
    }

    /// Slots of a ciphertext, in two rows of half as many.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.0.encoder.slots()
    }

    /// Keys for everything that an [`Engine`](super::Engine) can do: for products, to swap rows,
    /// to rotate them by powers of two, which other rotations are made of, and to bootstrap.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for a ring that has no such keys.
    pub fn required_keys(&self) -> sudare::Result<KeyRequest> {
        let (params, top) = (self.params(), self.params().top());
        let rows = inner_sum_keys(params.log_n(), self.slots() / 2, top)?;
        let swap = GaloisElement::conjugation(params.log_n());
        let mut request = rows.relinearize(top).automorphism(swap, top);
        if let Some(plan) = self.bootstrapping() {
            request |= plan.required_keys();
        }
        Ok(request)
    }

    /// How a new array lies in ciphertexts.
    ///
    /// # Errors
    /// [`ArrayError::Empty`](crate::array::ArrayError::Empty);
    /// [`ArrayError::TooLarge`](crate::array::ArrayError::TooLarge).
    pub fn layout(&self, shape: &[usize]) -> Result<Layout> {
        Layout::new(shape, self.slots().ilog2())
    }

    /// The plaintext of two rows that repeat to all columns.
    ///
    /// Encoders of fewer slots would do the same but for the order of slots, which follows from a
    /// root of unity for each number of them.
    pub(super) fn encode(&self, rows: &[u128]) -> sudare::Result<PlainPoly> {
        let columns = rows.len() / 2;
        let repeats = self.slots() / rows.len();
        let slots = rows.chunks(columns).flat_map(|row| row.repeat(repeats));
        self.0.encoder.encode_unsigned(&slots.collect::<Vec<_>>())
    }

    /// The first `columns` columns of both rows of a plaintext.
    pub(super) fn decode(&self, plain: &PlainPoly, columns: usize) -> sudare::Result<Vec<u128>> {
        let slots = self.0.encoder.decode_unsigned(plain)?;
        Ok(slots.chunks(self.slots() / 2).flat_map(|row| row[..columns].to_vec()).collect())
    }

    /// The factor of every array at `level`.
    pub(super) fn factor(&self, level: Level) -> sudare::Result<Unit> {
        let (params, t) = (self.params(), self.modulus());
        match self.scheme() {
            Scheme::Bgv => params.factor_at(level, t),
            Scheme::Bfv => params.fresh_factor(level, t),
        }
    }

    /// The factor of what an array at `level` is multiplied by so that the product, rescaled, has
    /// that of the level below.
    pub(super) fn weight_factor(&self, op: &'static str, level: Level) -> sudare::Result<Unit> {
        let Some(below) = level.0.checked_sub(1) else {
            return Err(Error::LevelExhausted { op, needed: 1, level });
        };
        let divisor = self.params().divisor(level, self.modulus())?;
        Ok(self.factor(Level(below))? * divisor / self.factor(level)?)
    }

    /// Refuses what was made under other parameters.
    pub(super) fn check_params(&self, found: ParamsId) -> sudare::Result<()> {
        let expected = self.params().rlwe().id();
        match found == expected {
            true => Ok(()),
            false => Err(Error::ParamsMismatch { what: "array", found, expected }),
        }
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, t, slots) = (self.scheme(), self.modulus(), self.slots());
        write!(f, "Setting({scheme}, modulo {t}, {slots} slots)")
    }
}
