//! Parameters for a computation.

use super::{
    Spec,
    planner::{self, Errors, RINGS, Room},
};
use crate::{Error, Result};
use sudare_arith::real;

/// Requirements of a computation without bootstrapping.
///
/// Name the fields that matter to you, and leave the rest at [`Needs::default`]. Slots hold complex
/// numbers at the price of real ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Needs {
    /// Number of slots, 1 by default.
    pub slots: usize,
    /// Number of consecutive products, 1 by default. A product with a plaintext, or with a number
    /// that is no integer, counts as one.
    pub depth: u32,
    /// `-log2` of the mean error of a slot after these products: the bits after the binary point, 20
    /// by default. A sum of `n` results has up to `n` times the error.
    pub precision_bits: f64,
    /// Largest magnitude of any value: of inputs, results and everything in between, 1 by default.
    /// Larger values decrypt to wrong numbers.
    pub magnitude: f64,
    /// Bits of security, from 128, the default, to 256.
    pub security_bits: f64,
}

impl Default for Needs {
    fn default() -> Self {
        let security_bits = planner::SECURITY_BITS;
        Self { slots: 1, depth: 1, precision_bits: 20.0, magnitude: 1.0, security_bits }
    }
}

/// Parameters, with the reason for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The parameters.
    pub spec: Spec,
    /// The reason for the parameters, in a sentence or two.
    pub reason: String,
}

impl core::fmt::Display for Choice {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.reason.fmt(f)
    }
}

/// Maximum number of products to try: no ring has room for more levels.
const MAX_DEPTH: u32 = 200;

/// Maximum bits of a scale; see [`Spec::log2_scale`].
const MAX_SCALE_BITS: f64 = 120.0;

/// Maximum bits of a scaled value: integers have 127.
const MAX_VALUE_BITS: f64 = 126.0;

/// Maximum magnitude, 2^64.
const MAX_MAGNITUDE: f64 = (1u128 << 64) as f64;

/// Bits of a scale above `log2(N)`, so that a ring has enough primes of its size.
const PRIMES_BITS: f64 = 16.0;

/// Maximum difference, in bits, between the scale of a level and the requested one.
const DRIFT_BITS: f64 = 0.25;

/// Bits of level 0 above the largest value: its sign, its error, and the drift of its scale.
const HEAD_BITS: f64 = 2.5;

/// Chooses the smallest ring with room for a computation, and a chain with a level for each product.
///
/// The scale is as large as the errors of fresh ciphertexts, of products of the largest values and
/// of rescalings require. To choose a set with bootstrapping, see
/// [`bootstrap::choose`](crate::circuits::ckks::bootstrap::choose).
///
/// ```
/// use sudare::ckks::{Needs, Params, choose};
///
/// # fn main() -> sudare::Result<()> {
/// let choice = choose(Needs { slots: 4096, depth: 3, magnitude: 10.0, ..Needs::default() })?;
/// println!("{choice}");
/// let params = Params::new(choice.spec)?;
/// assert!(params.max_slots() >= 4096 && params.top().0 == 3);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::InvalidSpec`] for a requirement out of range, and if no ring has room for all of them;
/// the message states the maximum depth.
pub fn choose(needs: Needs) -> Result<Choice> {
    check(needs)?;
    let Some(spec) = smallest(needs) else {
        // The sizes grow with the depth, so the first depth without room ends the search.
        let fits = |depth: &u32| smallest(Needs { depth: *depth, ..needs }).is_some();
        let remedy = match (0..needs.depth.min(MAX_DEPTH)).take_while(fits).last() {
            Some(depth) => format!("at most {depth} fit; bootstrap to compute more"),
            None => "even none fits: use fewer bits or smaller values".into(),
        };
        let Needs { depth, precision_bits, magnitude, security_bits, .. } = needs;
        let problem = format!(
            "{depth} products one after the other, of values up to {magnitude} with {precision_bits} \
             bits after the point and {security_bits} bits of security, fit no ring: {remedy}"
        );
        return Err(Error::InvalidSpec { field: "depth", problem });
    };
    let reason = reason(&spec, needs);
    Ok(Choice { spec, reason })
}

fn check(needs: Needs) -> Result<()> {
    let invalid = |field, problem| Err(Error::InvalidSpec { field, problem });
    let most = 1usize << (RINGS.end() - 1);
    let Needs { slots, precision_bits, magnitude, security_bits, .. } = needs;
    if !(1..=most).contains(&slots) {
        return invalid("slots", format!("{slots} is out of range: 1 to {most} are possible"));
    }
    if !(0.0..=MAX_SCALE_BITS).contains(&precision_bits) {
        let problem =
            format!("{precision_bits} is out of range: 0 to {MAX_SCALE_BITS} are possible");
        return invalid("precision_bits", problem);
    }
    if !(magnitude > 0.0 && magnitude <= MAX_MAGNITUDE) {
        let problem =
            format!("{magnitude} is out of range: more than 0 and at most 2^64 is possible");
        return invalid("magnitude", problem);
    }
    if !(planner::SECURITY_BITS..=256.0).contains(&security_bits) {
        let problem = format!("{security_bits} is out of range: 128 to 256 are possible");
        return invalid("security_bits", problem);
    }
    Ok(())
}

/// Returns the chain in the smallest ring with room for it.
fn smallest(needs: Needs) -> Option<Spec> {
    let rings = RINGS.filter(|log_n| needs.slots <= 1 << (log_n - 1));
    let complete = |log_n| Room::at(log_n, needs.security_bits).complete(chain(log_n, needs)?);
    rings.filter(|_| needs.depth <= MAX_DEPTH).find_map(complete)
}

/// Returns the chain that the computation needs in a ring, without special primes.
fn chain(log_n: u32, needs: Needs) -> Option<Spec> {
    let scale = scale_bits(log_n, needs);
    let value_bits = scale + real::log2(needs.magnitude).max(0.0);
    if scale > MAX_SCALE_BITS || value_bits > MAX_VALUE_BITS {
        return None;
    }
    let base = half_bits(value_bits + HEAD_BITS);
    let mut q_bits = vec![planner::level(base, planner::MAX_PRIME_BITS)];
    let level = planner::level(scale, planner::MAX_PRIME_BITS);
    q_bits.resize(1 + needs.depth as usize, level);
    Some(planner::chain(log_n, q_bits, scale))
}

/// Returns `log2` of the scale at which errors are as small as needed.
fn scale_bits(log_n: u32, needs: Needs) -> f64 {
    let errors = Errors::new(log_n);
    // A rescaling, and a key switch with at most the error of one.
    let rounding = real::exp2(errors.rounding + 0.5);
    // In integers. Each factor of a product is multiplied by the other one.
    let product = |error: &f64| Some(2.0 * needs.magnitude * error + rounding);
    let all = core::iter::successors(Some(real::exp2(errors.fresh)), product);
    let largest = all.take(1 + needs.depth as usize).fold(0.0, f64::max);
    let scale = needs.precision_bits + real::log2(largest) + DRIFT_BITS;
    half_bits(scale.max(f64::from(log_n) + PRIMES_BITS))
}

/// Rounds up to half a bit, so that rounding of logarithms does not matter.
fn half_bits(bits: f64) -> f64 {
    (2.0 * bits).ceil() / 2.0
}

fn reason(spec: &Spec, needs: Needs) -> String {
    let Needs { depth, precision_bits, magnitude, security_bits, .. } = needs;
    let bits = |sizes: &[f64]| sizes.iter().sum::<f64>();
    let levels = match depth {
        0 => "no level for products".into(),
        1 => format!("1 level of {} bits", spec.log2_scale),
        _ => format!("{depth} levels of {} bits", spec.log2_scale),
    };
    format!(
        "N = 2^{} is the smallest ring with {} slots and {security_bits} bits of security for it: \
         level 0 of {} bits, {levels} and {:.1} bits of special primes. Values up to {magnitude} have \
         mean errors below 2^-{precision_bits}.",
        spec.log_n,
        needs.slots,
        bits(&spec.q_bits[0]),
        bits(&spec.p_bits),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ckks::{Complex, Decryptor, Encoder, Encryptor, Evaluator, Params},
        rlwe::{KeyGenerator, KeyRequest, Level},
    };

    /// Squares once at each level, and compares the mean error with the request.
    fn assert_precise(needs: Needs) {
        let params = Params::new(choose(needs).unwrap().spec).unwrap();
        assert_eq!(params.top(), Level(needs.depth));
        let mut keygen = KeyGenerator::new(params.rlwe()).unwrap();
        let secret = keygen.secret_key().unwrap();
        let public = keygen.public_key(&secret).unwrap();
        let request = KeyRequest::new().relinearize(params.top());
        let keys = keygen.evaluation_keys(&secret, &request).unwrap();
        let encoder = Encoder::new(&params);
        let evaluator = Evaluator::new(&params, keys).unwrap();
        let squarings = f64::from(1 << needs.depth);
        // The results are as large as requested.
        let largest = needs.magnitude.powf(1.0 / squarings).min(needs.magnitude);
        let slot = |i: usize| (i as f64).sin_cos();
        let slots: Vec<_> = (0..needs.slots)
            .map(slot)
            .map(|(sin, cos)| Complex::new(largest * cos, largest * sin))
            .collect();
        let fresh = encoder.encode(&slots).unwrap();
        let mut x = Encryptor::new(&params, public).unwrap().encrypt(&fresh).unwrap();
        let mut expected = slots;
        for _ in 0..needs.depth {
            x = evaluator.mul_rescale(&x, &x).unwrap();
            expected.iter_mut().for_each(|z| *z = *z * *z);
        }
        let found = Decryptor::new(&params, secret).unwrap().decrypt(&x).unwrap();
        let found = encoder.decode(&found).unwrap();
        let error = |(a, b): (&Complex<f64>, &Complex<f64>)| (a.re - b.re).hypot(a.im - b.im);
        let errors = found.iter().zip(&expected).map(error);
        let bits = -real::log2(errors.sum::<f64>() / expected.len() as f64);
        // Bounds of errors assume that both factors of every product are as large as can be.
        let growth = f64::from(needs.depth) * (1.0 + needs.magnitude.log2().max(0.0));
        let spare = bits - needs.precision_bits;
        assert!((0.0..6.0 + growth).contains(&spare), "{needs:?}: {bits:.1} bits");
    }

    #[test]
    fn errors_are_as_small_as_requested() {
        let needs = Needs { slots: 4096, ..Needs::default() };
        for (depth, precision_bits, magnitude) in
            [(0, 20.0, 1.0), (1, 20.0, 1.0), (2, 16.0, 100.0), (1, 40.0, 0.01), (1, 48.0, 1.0)]
        {
            assert_precise(Needs { depth, precision_bits, magnitude, ..needs });
        }
        assert_precise(Needs { slots: 3, depth: 3, ..Needs::default() });
    }

    /// From the growth of errors by hand: fresh ones of 15 bits in the smallest ring with a level.
    #[test]
    fn sizes_follow_the_needs() {
        let spec = |needs| choose(needs).unwrap().spec;
        let default = spec(Needs::default());
        assert_eq!((default.log_n, default.q_bits.len()), (13, 2));
        assert!((36.0..38.0).contains(&default.log2_scale), "{default:?}");
        let precise = spec(Needs { precision_bits: 25.0, ..Needs::default() });
        assert_eq!(precise.log2_scale, default.log2_scale + 5.0);
        // Values of 10 bits need them above the scale, and errors grow by as much.
        let large = spec(Needs { magnitude: 1024.0, ..Needs::default() });
        assert_eq!(large.log2_scale, default.log2_scale + 10.0);
        assert_eq!(large.q_bits[0][0], default.q_bits[0][0] + 20.0);
        assert_eq!(spec(Needs { slots: 1 << 15, ..Needs::default() }).log_n, 16);
        let secure = spec(Needs { depth: 3, security_bits: 256.0, ..Needs::default() });
        assert!(Params::new(secure).unwrap().rlwe().security_bits() >= 256.0);
    }

    /// Every choice has enough primes of its sizes.
    #[test]
    fn every_choice_has_primes() {
        let mut chosen = 0;
        for precision_bits in (0..=90).step_by(15).map(f64::from) {
            for (magnitude, slots) in [(1e-3, 1), (1.0, 1 << 15), (1e9, 1 << 10)] {
                for depth in [0, 1, 3, 9, 20] {
                    let needs =
                        Needs { slots, depth, precision_bits, magnitude, ..Needs::default() };
                    let Ok(choice) = choose(needs) else { continue };
                    super::super::params::check_primes(&choice.spec).unwrap();
                    assert!(choice.to_string().contains("smallest ring"));
                    chosen += 1;
                }
            }
        }
        assert!(chosen > 40, "{chosen}");
    }

    #[test]
    fn jobs_beyond_all_rings_are_refused_with_one_that_fits() {
        let refused = |needs| match choose(needs) {
            Err(Error::InvalidSpec { field, problem }) => (field, problem),
            other => panic!("{other:?}"),
        };
        let (field, problem) = refused(Needs { depth: 90, ..Needs::default() });
        assert_eq!(field, "depth");
        let deepest = problem.split("at most ").nth(1).unwrap().split(' ').next().unwrap();
        let depth: u32 = deepest.parse().unwrap();
        assert!(choose(Needs { depth, ..Needs::default() }).is_ok());
        assert!(choose(Needs { depth: depth + 1, ..Needs::default() }).is_err());
        assert_eq!(refused(Needs { depth: u32::MAX, ..Needs::default() }).0, "depth");
        let none = Needs { precision_bits: 120.0, ..Needs::default() };
        assert!(refused(none).1.contains("even none fits"));
        for (needs, expected) in [
            (Needs { slots: 0, ..Needs::default() }, "slots"),
            (Needs { slots: 1 << 17, ..Needs::default() }, "slots"),
            (Needs { precision_bits: f64::NAN, ..Needs::default() }, "precision_bits"),
            (Needs { precision_bits: -1.0, ..Needs::default() }, "precision_bits"),
            (Needs { magnitude: 0.0, ..Needs::default() }, "magnitude"),
            (Needs { magnitude: 1e30, ..Needs::default() }, "magnitude"),
            (Needs { magnitude: f64::INFINITY, ..Needs::default() }, "magnitude"),
            (Needs { security_bits: 127.0, ..Needs::default() }, "security_bits"),
        ] {
            let (field, problem) = refused(needs);
            assert!(field == expected && problem.contains(' '), "{field}: {problem}");
        }
    }
}
