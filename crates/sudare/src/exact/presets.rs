//! Parameters for a computation, and named sets.

use super::{
    BatchEncoder, Modulus, NoiseBound, Params, Spec, noise::Growth, params::SECURITY_BITS,
};
use crate::{
    Error, Result,
    rlwe::{SecretDistribution, max_log2_qp, named},
};

/// Requirements of a computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// The modulus of plaintexts.
    pub plaintext_modulus: Modulus,
    /// Number of consecutive products of ciphertexts. A product with a plaintext counts as one.
    pub depth: u32,
    /// Number of rotations of a ciphertext, and of ciphertexts, summed between two products.
    pub rotations: u32,
    /// Number of rotations and ciphertexts summed after the last product, if it is larger.
    pub last_rotations: u32,
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

const SECRET: SecretDistribution = SecretDistribution::UniformTernary;

/// Bits of a level large enough to remove any error, and more levels than any ring has room for.
const BEYOND: f64 = 1000.0;
const MANY: u32 = 100;

/// Rings to choose from.
const LOG_N: core::ops::RangeInclusive<u32> = 12..=16;

/// Chooses the smallest ring of 128 bits of security with a level for each product.
///
/// A level has enough bits to bring the error of a product of rescaled ciphertexts back to the
/// error after rescaling. The highest level has more, since fresh errors are larger. BFV needs no
/// more.
///
/// # Errors
/// [`Error::InvalidSpec`] if no ring has room for it; the message states the maximum depth.
pub fn choose(needs: Needs) -> Result<Choice> {
    let sized = |log_n| Sizes::new(log_n, needs).spec();
    let Some(spec) = LOG_N.filter_map(sized).next() else {
        let fits = |depth: &u32| Sizes::new(16, Needs { depth: *depth, ..needs }).spec().is_some();
        let t = needs.plaintext_modulus;
        // The sizes grow with the depth, so the first depth without room ends the search.
        let deepest = match (0..needs.depth).take_while(fits).last() {
            Some(depth) => format!("at most {depth} fit a ring of N = 2^16"),
            None => "that is too large for a ring of N = 2^16".into(),
        };
        let problem = format!("{} products modulo {t} one after the other: {deepest}", needs.depth);
        return Err(Error::InvalidSpec { field: "depth", problem });
    };
    let reason = reason(&spec, needs);
    Ok(Choice { spec, reason })
}

fn reason(spec: &Spec, needs: Needs) -> String {
    let t = needs.plaintext_modulus;
    let log_n = spec.log_n;
    let sum = |bits: &[f64]| bits.iter().sum::<f64>();
    let limit = max_log2_qp(log_n, spec.secret, SECURITY_BITS);
    let slots = match BatchEncoder::most_slots(t, log_n) {
        Some(log_slots) => format!("Plaintexts have 2^{log_slots} slots of integers."),
        None => "Plaintexts have no slots of integers, but coefficients.".into(),
    };
    let levels = match &spec.q_bits[..] {
        [] | [_] => "no level for products".into(),
        [_, levels @ .., top] if !levels.is_empty() => format!(
            "{} levels of {} bits and one of {} for fresh ciphertexts",
            levels.len(),
            sum(&levels[0]),
            sum(top)
        ),
        [.., top] => format!("1 level of {} bits", sum(top)),
    };
    format!(
        "N = 2^{log_n} is the smallest ring with {SECURITY_BITS} bits of security: {} bits for t = \
         {t} and its error at level 0, {levels}, and {} bits of special primes are {:.1} together, \
         and the ring has room for {limit:.0}. {slots}",
        sum(&spec.q_bits[0]),
        sum(&spec.p_bits),
        spec.log2_qp(),
    )
}

/// Sizes in bits that a computation needs in one ring.
struct Sizes {
    log_n: u32,
    needs: Needs,
    base: f64,
    level: f64,
    top: f64,
}

/// Bits by which special primes exceed digits. The error of a rotation is then about a rounding
/// error. The error of a product need not be that small: the division by the primes of a level
/// reduces it.
fn margin_bits(rotations: u32) -> f64 {
    if rotations > 0 { 7.0 } else { 1.0 }
}

/// Rounds up to half a bit, so that rounding of logarithms does not matter.
fn half_bits(bits: f64) -> f64 {
    (2.0 * bits).ceil() / 2.0
}

impl Sizes {
    /// Computes the smallest sizes that hold the errors of [`NoiseBound`](super::NoiseBound).
    fn new(log_n: u32, needs: Needs) -> Self {
        let growth = Growth::new(log_n, SECRET, needs.plaintext_modulus);
        let log2_t = needs.plaintext_modulus.log2();
        let switch = growth.key_switch(margin_bits(needs.rotations));
        let image = |e| e + switch;
        let summed = |e| growth.sum_of_images(e, image(e), needs.rotations);
        let last_count = needs.last_rotations.max(needs.rotations);
        let last_summed = |e| growth.sum_of_images(e, image(e), last_count);
        let product = |e: NoiseBound| growth.product(e, e) + switch;
        // The level is large enough to leave only rounding errors.
        let rounding = growth.rescaled(growth.fresh(), BEYOND);
        // Few primes have fewer bits than this.
        let least = f64::from(log_n) + 10.0;
        // From about this size of a level on, squaring doubles the remaining error.
        let first = half_bits(log2_t + rounding.canonical_log2()).max(least + 6.0) - 6.0;
        let sizes = || (0..).map(|step| first + f64::from(step) / 2.0);
        let after = |e, bits| growth.rescaled(product(summed(e)), bits);
        let smallest =
            |fits: &dyn Fn(f64) -> bool| sizes().find(|&bits| fits(bits)).unwrap_or(first);
        // Errors below `Q / 2t` decrypt: one bit, and half a bit to spare.
        let room = |e: NoiseBound| e.log2() + log2_t + 1.5;
        if needs.depth <= 1 {
            // Level 0 has room for the errors that the only level does not remove: primes of one
            // size need the smallest special primes.
            let last =
                |bits| if needs.depth == 0 { growth.fresh() } else { after(growth.fresh(), bits) };
            let holds = |bits: &f64| room(last_summed(last(*bits))) <= *bits;
            let even = (0..).map(|step| least + f64::from(step) / 2.0).find(holds).unwrap_or(least);
            return Self { log_n, needs, base: even, level: even, top: even };
        }
        let top = smallest(&|bits| {
            let e = after(growth.fresh(), bits);
            e.canonical_log2() < rounding.canonical_log2() + 1.0
        });
        // A larger depth fits no ring, and would only take time.
        let below = (needs.depth - 1).min(MANY);
        let last = |bits| (0..below).fold(after(growth.fresh(), top), |e, _| after(e, bits));
        let level = smallest(&|bits| last(bits).log2() < rounding.log2() + 1.0);
        let base = half_bits(room(last_summed(last(level)))).max(least);
        let top = top.max(level);
        Self { log_n, needs, base, level, top }
    }

    /// Splits a level of `bits` bits into primes: primes below 50 bits have the fastest kernels.
    fn primes(&self, bits: f64) -> Vec<f64> {
        let count = (bits / 50.0).ceil().max(1.0);
        // A ring has few primes that small. Wide primes are slower, but there are enough.
        let few = bits / count < f64::from(self.log_n) + 10.0;
        let count = if few { (bits / 61.0).ceil() } else { count };
        vec![bits / count; count as usize]
    }

    /// Returns the specification with the fewest digits, at most four if there is room, or `None`
    /// if no specification is secure.
    fn spec(&self) -> Option<Spec> {
        let limit = max_log2_qp(self.log_n, SECRET, SECURITY_BITS);
        // Checked before memory is allocated for each level.
        if f64::from(self.needs.depth) * self.level > limit {
            return None;
        }
        let mut q_bits = vec![self.primes(self.base)];
        for level in 1..=self.needs.depth {
            let top = level == self.needs.depth;
            q_bits.push(self.primes(if top { self.top } else { self.level }));
        }
        let primes = q_bits.concat();
        let most = primes.len().div_ceil(4).max(1);
        // The widest digits first: fewer digits make keys smaller and key switches faster.
        (1..=most).rev().find_map(|alpha| {
            let digits = primes.windows(alpha.min(primes.len()));
            let digit = digits.map(|digit| digit.iter().sum::<f64>()).fold(0.0, f64::max);
            let special = half_bits(digit + margin_bits(self.needs.rotations));
            let count = (special / if alpha == 1 { 61.0 } else { 58.0 }).ceil().max(1.0);
            let spec = Spec {
                log_n: self.log_n,
                q_bits: q_bits.clone(),
                upper: None,
                p_bits: vec![special / count; count as usize],
                extra_p_bits: Vec::new(),
                plaintext_modulus: self.needs.plaintext_modulus,
                secret: SECRET,
                insecure: false,
            };
            // Base and special primes are below their sizes. Other primes are next to theirs.
            (spec.log2_qp() <= limit - 0.1).then_some(spec)
        })
    }
}

/// A named parameter set.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// Name to pass to [`preset`].
    pub name: String,
    /// Purpose, in one line.
    pub summary: String,
    /// The parameters.
    pub spec: Spec,
}

impl Params {
    /// Makes the named set, such as `"n12-t65537"`: `Params::new(preset(name)?.spec)`.
    ///
    /// # Errors
    /// [`Error::UnknownPreset`], with the names of all sets; the errors of [`Params::new`].
    pub fn preset(name: &str) -> Result<Self> {
        Self::new(preset(name)?.spec)
    }
}

/// Returns the set named `name`. `bfv-n12` to `bfv-n15` and `bgv-n12` to `bgv-n15` are other names
/// of the sets modulo 65537, since a set serves both schemes.
///
/// # Errors
/// [`Error::UnknownPreset`], which lists the existing names.
pub fn preset(name: &str) -> Result<Preset> {
    let ring = name.strip_prefix("bfv-").or_else(|| name.strip_prefix("bgv-"));
    let meant = ring.map_or_else(|| name.to_owned(), |ring| format!("{ring}-t65537"));
    named(presets(), &meant, |preset| &preset.name)
}

/// Returns every named set. `n12-t65537` to `n15-t786433` have the maximum number of levels at 128
/// bits of security. Each level has room for one product and one rotation, or for a product alone.
/// `bench-n14-q330-t65537` is sized for comparisons with other libraries, a little below that
/// security. The `toy` sets are for tests and are insecure.
#[must_use]
pub fn presets() -> Vec<Preset> {
    let mut all = Vec::new();
    for log_n in 12..=15 {
        for p in [65537, 786_433] {
            let Ok(plaintext_modulus) = Modulus::new(p, 1) else { continue };
            let deepest = |rotations| {
                let sized = |depth| {
                    let needs = Needs { plaintext_modulus, depth, rotations, last_rotations: 0 };
                    Some((depth, Sizes::new(log_n, needs).spec()?))
                };
                (1..).map_while(sized).last()
            };
            let Some((depth, spec)) = deepest(1).or_else(|| deepest(0)) else { continue };
            all.push(Preset {
                name: format!("n{log_n}-t{p}"),
                summary: format!("{depth} level(s), 2^{log_n} slots modulo {p}; 128 bits"),
                spec,
            });
        }
    }
    if let Ok(t) = Modulus::new(65537, 1) {
        all.push(Preset {
            name: "bench-n14-q330-t65537".into(),
            summary: "6 levels of 47 bits, log2 Q 330, dnum 3, 2^14 slots modulo 65537; insecure"
                .into(),
            // Three digits of three limbs, with primes that fit words of 52 bits.
            spec: Spec { insecure: true, ..Spec::uniform(14, t, 47.5, 6, 47.08, vec![47.5; 3]) },
        });
    }
    for (log_n, p, levels) in [(5, 257, 4), (8, 7681, 4)] {
        let Ok(t) = Modulus::new(p, 1) else { continue };
        let bits = half_bits(t.log2() + f64::from(log_n) + 8.0);
        let spec = Spec::uniform(log_n, t, bits + 10.0, levels, bits, vec![bits + 12.0]);
        all.push(Preset {
            name: format!("toy-n{log_n}"),
            summary: format!("{levels} levels, 2^{log_n} slots modulo {p}; insecure"),
            spec: Spec { insecure: true, ..spec },
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exact::{
            BatchEncoder, Params, Tensor,
            rules::{Form, FormSum, Rules},
            tests::modulus,
        },
        rlwe::Level,
    };

    fn square(rules: Rules<'_>, a: Form, tensor: Tensor) -> Result<Form> {
        let sum = FormSum { products: vec![(a, a)], addend: None };
        rules.product_sum(&sum, tensor, |_| None, true)
    }

    /// Checks that every level supports a product of sums with rotations, in both schemes, and that
    /// the results decrypt.
    fn assert_deep_enough(params: &Params, rotations: u32, last_rotations: u32) {
        let rules = Rules::new(params);
        let t = params.plaintext_modulus();
        for tensor in [Tensor::Plain, Tensor::Scaled] {
            let factor = params.fresh_factor(params.top(), t).unwrap();
            let mut form = rules.encrypted(params.top(), factor, false).unwrap();
            let sum = |form: Form, copies: usize| {
                rules.sum_automorphisms("test", form, copies + 1, copies, None)
            };
            while form.level > Level(0) {
                form = sum(form, rotations as usize).unwrap();
                form = square(rules, form, tensor).unwrap();
            }
            sum(form, rotations.max(last_rotations) as usize).unwrap();
        }
    }

    #[test]
    fn presets_are_as_deep_as_they_can_be_and_secure() {
        for Preset { name, spec, summary } in presets() {
            let plaintext_modulus = spec.plaintext_modulus;
            let depth = spec.q_bits.len() as u32 - 1;
            let needs = Needs { plaintext_modulus, depth, rotations: 1, last_rotations: 0 };
            let rotations = Sizes::new(spec.log_n, needs).spec().map_or(0, |_| 1);
            assert!(summary.starts_with(&depth.to_string()), "{name}: {summary}");
            let params = Params::new(spec.clone()).unwrap();
            assert!(BatchEncoder::new(plaintext_modulus, spec.log_n).is_ok());
            if name.starts_with("bench") {
                let rlwe = params.rlwe();
                let top = params.top();
                assert_eq!((rlwe.log2_q(top).round(), rlwe.digits(top)), (330.0, 3));
                assert!((110.0..128.0).contains(&rlwe.security_bits()));
                assert_deep_enough(&params, rotations, 0);
            }
            if spec.insecure {
                continue;
            }
            assert!(params.rlwe().security_bits() >= 128.0, "{name}");
            assert_deep_enough(&params, rotations, 0);
            let deeper = Needs { depth: depth + 1, rotations, ..needs };
            assert_eq!(Sizes::new(spec.log_n, deeper).spec(), None, "{name}");
        }
        // Seven of maximum depth, as 2^12 coefficients have no room for 786433, one for comparisons
        // and two for tests.
        assert_eq!(presets().len(), 10);
        for scheme in ["bfv", "bgv"] {
            let set = preset(&format!("{scheme}-n13")).unwrap();
            assert_eq!(set.name, "n13-t65537");
            assert!(preset(&format!("{scheme}-n16")).is_err());
        }
        let depth = |name: String| preset(&name).unwrap().spec.q_bits.len() - 1;
        let depths = [12, 13, 14, 15].map(|log_n| depth(format!("n{log_n}-t65537")));
        assert!(depths.is_sorted() && depths[0] >= 1 && depths[3] >= 12, "{depths:?}");
        let error = preset("n12").unwrap_err();
        assert!(error.to_string().contains("n15-t786433, bench"), "{error}");
    }

    #[test]
    fn the_last_sum_has_room_of_its_own() {
        for depth in 0..=3 {
            let needs = Needs {
                plaintext_modulus: modulus(65537, 1),
                depth,
                rotations: 15,
                last_rotations: (1 << 16) - 1,
            };
            let [few, many] = [0, needs.last_rotations]
                .map(|last_rotations| choose(Needs { last_rotations, ..needs }).unwrap().spec);
            // Only level 0 differs, unless all primes have one size.
            assert!(depth < 2 || few.q_bits[1..] == many.q_bits[1..]);
            assert_deep_enough(&Params::new(many).unwrap(), 15, needs.last_rotations);
        }
    }

    #[test]
    fn parameters_are_chosen_by_depth() {
        let needs = |depth| Needs {
            plaintext_modulus: Modulus::new(65537, 1).unwrap(),
            depth,
            rotations: 0,
            last_rotations: 0,
        };
        assert!(choose(needs(u32::MAX)).is_err());
        let mut smallest = 0;
        for depth in [0, 1, 3, 6, 12] {
            for rotations in [0, 15] {
                let needs = Needs { rotations, ..needs(depth) };
                let choice = choose(needs).unwrap();
                assert_eq!(choice.spec.q_bits.len() as u32, depth + 1);
                assert!(choice.spec.log_n >= smallest);
                assert!(choice.to_string().contains("slots"), "{choice}");
                assert_deep_enough(&Params::new(choice.spec.clone()).unwrap(), rotations, 0);
                if rotations == 15 {
                    smallest = choice.spec.log_n;
                }
            }
        }
        for t in [modulus(2, 1), modulus(127, 3), modulus(1_099_511_627_689, 1), modulus(2, 120)] {
            let needs = Needs { plaintext_modulus: t, rotations: 1, ..needs(2) };
            let choice = choose(needs).unwrap();
            assert_deep_enough(&Params::new(choice.spec).unwrap(), 1, 0);
        }
        let error = choose(needs(100)).unwrap_err().to_string();
        assert!(error.contains("at most") && error.contains("2^16"), "{error}");
    }
}
