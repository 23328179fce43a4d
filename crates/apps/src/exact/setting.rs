//! Parameters with a scheme, and their factors and keys.

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

/// Scheme of the products of ciphertexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// [`exact`](mod@sudare::exact), whose product is faster.
    Bgv,
    /// [`bfv`](mod@sudare::bfv), whose product does not depend on the size of errors.
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

/// Moduli are below this power of two, so that a plain integer fits a machine word.
const MODULUS_BITS: u32 = 62;

/// Number of ciphertexts that may be summed before each product of [`plan`]. This is also room for
/// a product with a scalar that takes no level.
const SUMMED: u32 = SMALL as u32;

/// Number of elements that may be summed after the last product of [`plan`]: all slots of the
/// largest ring times a scalar that takes no level, or the slots of several ciphertexts.
const SUMMED_LAST: u32 = 1 << 18;

/// Factor by which a modulus may have fewer slots than the ring. Beyond it, the modulus is rejected
/// if a prime of its size has all slots.
const FEW_SLOTS: usize = 64;

/// Chooses parameters of 128 bits of security for arrays modulo `t` and programs of `depth` levels.
///
/// There is room for a sum of 16 ciphertexts, or a product with a scalar of magnitude up to 16,
/// before each product. After the last product there is room for a sum of 2^18 elements.
///
/// # Errors
/// [`Error::PlaintextModulusNotPrime`] unless `t` is a prime or a power of a prime.
/// [`Error::NoSlots`] for a modulus without slots, or for a prime with few slots if another prime
/// of its size has many. Both errors name primes that have slots. [`Error::InvalidSpec`] for a
/// modulus that is too large, or if no ring has `depth` levels.
pub fn plan(t: u128, depth: u32) -> sudare::Result<Choice> {
    let needs = |plaintext_modulus| Needs {
        plaintext_modulus,
        depth,
        // A sum of `n` ciphertexts is one ciphertext and `n - 1` others.
        rotations: SUMMED - 1,
        last_rotations: SUMMED_LAST - 1,
    };
    let plaintext_modulus = modulus(t, |near| Some(exact::choose(needs(near)).ok()?.spec.log_n))?;
    let choice = exact::choose(needs(plaintext_modulus))?;
    check_slots(plaintext_modulus, choice.spec.log_n)?;
    Ok(choice)
}

/// Checks the modulus `t`. If it is not the power of a prime, the error names nearby primes with
/// all slots of a ring. `log_n` finds this ring for a prime of the size of `t`.
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

/// Rejects a modulus without slots in the ring of degree `2^log_n`. Also rejects a prime with few
/// slots if a prime between half and twice its size has all slots.
pub(super) fn check_slots(t: Modulus, log_n: u32) -> sudare::Result<()> {
    let slots = 1usize << log_n;
    let possible = 1usize << most_slots(t, log_n)?;
    let primes = BatchEncoder::primes_near(t.value(), log_n);
    // A prime of about this size with all slots would serve as well, so few slots are a mistake.
    let alike = |&prime: &u64| (t.prime() / 2..=t.prime().saturating_mul(2)).contains(&prime);
    if t.exponent() > 1 || slots / possible < FEW_SLOTS || !primes.iter().any(alike) {
        return Ok(());
    }
    let names: Vec<_> = primes.iter().map(u64::to_string).collect();
    Err(Error::NoSlots { modulus: t.into(), slots, possible, primes: names.join(" and ") })
}

/// Returns `log2` of the slots of a ciphertext modulo `t`. An error names primes that have all
/// slots.
pub(super) fn most_slots(t: Modulus, log_n: u32) -> sudare::Result<u32> {
    if t.value() >> MODULUS_BITS != 0 {
        let problem = format!("{t} is too large: moduli of arrays must be below 2^{MODULUS_BITS}");
        return Err(Error::InvalidSpec { field: "t", problem });
    }
    match BatchEncoder::most_slots(t, log_n) {
        Some(log_slots) => Ok(log_slots),
        // The encoder's error names primes that have all slots.
        None => BatchEncoder::new(t, log_n).map(|encoder| encoder.slots().ilog2()),
    }
}

/// Parameters and scheme under which arrays are encrypted and computed. Clones are cheap.
#[derive(Clone)]
pub struct Setting(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    params: Params,
    scheme: Scheme,
    signed: bool,
    /// Encoder for all slots of a plaintext.
    encoder: Arc<BatchEncoder>,
    bootstrapping: Option<Arc<Bootstrapping>>,
}

/// The plan of bootstrapping, and the form of its input, computed at its first use.
struct Bootstrapping {
    plan: BootstrapPlan,
    inputs: OnceLock<Inputs>,
}

impl Setting {
    /// Creates a setting for arrays modulo the plaintext modulus `t` of `params`. If `signed`,
    /// elements decrypt to integers in `(-t/2, t/2]`, otherwise in `[0, t)`.
    ///
    /// # Errors
    /// [`Error::NoSlots`], which names primes that have slots; [`Error::InvalidSpec`] for a modulus
    /// of 62 bits or more.
    pub fn new(params: Params, scheme: Scheme, signed: bool) -> sudare::Result<Self> {
        let t = params.plaintext_modulus();
        let log_n = params.log_n();
        let encoder = BatchEncoder::with_slots(t, log_n, most_slots(t, log_n)?)?;
        let encoder = Arc::new(encoder);
        let bootstrapping = None;
        Ok(Self(Arc::new(Inner { params, scheme, signed, encoder, bootstrapping })))
    }

    /// Returns the setting with bootstrapping, and with its slots.
    pub(super) fn bootstrapped_by(&self, plan: BootstrapPlan) -> Self {
        let bootstrapping = Some(Arc::new(Bootstrapping { plan, inputs: OnceLock::new() }));
        Self(Arc::new(Inner { bootstrapping, ..(*self.0).clone() }))
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.0.params
    }

    /// Returns the scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.0.scheme
    }

    /// Returns whether elements may be negative.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.0.signed
    }

    /// Returns the plan of bootstrapping, if any.
    #[must_use]
    pub fn bootstrapping(&self) -> Option<&BootstrapPlan> {
        self.0.bootstrapping.as_deref().map(|bootstrapping| &bootstrapping.plan)
    }

    /// Rejects a ciphertext that could not be bootstrapped, if the setting has bootstrapping.
    ///
    /// The first call computes norms of matrices, which takes seconds in the named sets.
    pub(crate) fn check_refreshable(&self, form: Form) -> sudare::Result<()> {
        let Some(Bootstrapping { plan, inputs }) = self.0.bootstrapping.as_deref() else {
            return Ok(());
        };
        if let Some(inputs) = inputs.get() {
            return inputs.check(form);
        }
        // Computed outside `get_or_init`, because it may fail. Threads at the same time find the
        // same.
        let found = plan.inputs(self.params())?;
        inputs.get_or_init(|| found).check(form)
    }

    /// Returns the plaintext modulus `t`.
    #[must_use]
    pub fn modulus(&self) -> Modulus {
        self.0.params.plaintext_modulus()
    }

    /// Returns the slots of a ciphertext. They form two rows.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.0.encoder.slots()
    }

    /// Returns the keys for every operation of an [`Engine`](super::Engine): for products, for the
    /// exchange of rows, for rotations by powers of two, and for bootstrapping. Other rotations are
    /// composed of powers of two.
    ///
    /// # Errors
    /// [`Error::InvalidSpec`] for a ring without such keys.
    pub fn required_keys(&self) -> sudare::Result<KeyRequest> {
        let params = self.params();
        let top = self.params().top();
        let rows = inner_sum_keys(params.log_n(), self.slots() / 2, top)?;
        let swap = GaloisElement::conjugation(params.log_n());
        let mut request = rows.relinearize(top).automorphism(swap, top);
        if let Some(plan) = self.bootstrapping() {
            request |= plan.required_keys();
        }
        Ok(request)
    }

    /// Returns the layout of a new array in ciphertexts.
    ///
    /// # Errors
    /// [`ArrayError::Empty`](crate::array::ArrayError::Empty);
    /// [`ArrayError::TooLarge`](crate::array::ArrayError::TooLarge).
    pub fn layout(&self, shape: &[usize]) -> Result<Layout> {
        Layout::new(shape, self.slots().ilog2())
    }

    /// Encodes two rows, repeated to all columns.
    ///
    /// Encoders of fewer slots would use another order of slots, because each number of slots has
    /// its own root of unity.
    pub(crate) fn encode(&self, rows: &[u128]) -> sudare::Result<PlainPoly> {
        let columns = rows.len() / 2;
        let repeats = self.slots() / rows.len();
        let slots = rows.chunks(columns).flat_map(|row| row.repeat(repeats));
        self.0.encoder.encode_unsigned(&slots.collect::<Vec<_>>())
    }

    /// Decodes the first `columns` columns of both rows of a plaintext.
    pub(crate) fn decode(&self, plain: &PlainPoly, columns: usize) -> sudare::Result<Vec<u128>> {
        let slots = self.0.encoder.decode_unsigned(plain)?;
        Ok(slots.chunks(self.slots() / 2).flat_map(|row| row[..columns].to_vec()).collect())
    }

    /// Returns the factor of every array at `level`.
    pub(crate) fn factor(&self, level: Level) -> sudare::Result<Unit> {
        let params = self.params();
        let t = self.modulus();
        match self.scheme() {
            Scheme::Bgv => params.factor_at(level, t),
            Scheme::Bfv => params.fresh_factor(level, t),
        }
    }

    /// Returns the factor of a plaintext for a product with an array at `level`. The rescaled
    /// product then has the factor of the level below.
    pub(crate) fn weight_factor(&self, op: &'static str, level: Level) -> sudare::Result<Unit> {
        let Some(below) = level.0.checked_sub(1) else {
            return Err(Error::LevelExhausted { op, needed: 1, level });
        };
        let divisor = self.params().divisor(level, self.modulus())?;
        // The factor of the array times this one, over the divisor of rescaling, is the factor
        // below.
        Ok(self.factor(Level(below))? * divisor / self.factor(level)?)
    }

    /// Rejects objects of other parameters.
    pub(crate) fn check_params(&self, found: ParamsId) -> sudare::Result<()> {
        let expected = self.params().rlwe().id();
        match found == expected {
            true => Ok(()),
            false => Err(Error::ParamsMismatch { what: "array", found, expected }),
        }
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme();
        let t = self.modulus();
        let slots = self.slots();
        write!(f, "Setting({scheme}, modulo {t}, {slots} slots)")
    }
}
