//! Computation on ciphertexts.

use crate::{
    Ciphertext, Error, EvaluationKey, Noise, Params, Result,
    big::{add_wrapping, big, limbs},
    digits::lifting_polynomial,
    keygen::half_word,
    long::{Factor, weighted_sums},
};
use num_bigint::BigUint;
use std::sync::Arc;
use sudare_arith::{Isa, par};

/// Computes on ciphertexts of one key: **insecure**, for research
/// ([`InsecureResearch`](crate::InsecureResearch)).
///
/// Each operation checks keys, message spaces and the noise of its result. Operations on several
/// ciphertexts ([`Evaluator::mul_many`], [`Evaluator::bootstrap_many`]) read the key once for each
/// group of ciphertexts. Results do not depend on the number of threads or the instruction set.
#[derive(Debug)]
pub struct Evaluator {
    key: Arc<EvaluationKey>,
    isa: Isa,
}

/// Number of ciphertexts that are converted together. Their sums share the cache with the key.
const GROUP: usize = 16;
/// Number of limbs of a ciphertext in one job.
const TILE: usize = 512;
/// Number of rows of the key in one job.
const ROWS: usize = 16;

impl Evaluator {
    /// Uses the best kernels of this CPU.
    #[must_use]
    pub fn new(key: Arc<EvaluationKey>) -> Self {
        Self::with_isa(key, Isa::detect())
    }

    /// Uses kernels up to `best`, to compare them.
    #[must_use]
    pub fn with_isa(key: Arc<EvaluationKey>, best: Isa) -> Self {
        Self { key, isa: best }
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        self.key.params()
    }

    /// Returns the sum of each slot.
    ///
    /// # Errors
    /// [`Error::OtherKey`], [`Error::ExponentMismatch`], [`Error::NoiseExhausted`].
    pub fn add(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let noise = self.checked("a sum", a, b, a.noise.sum(b.noise))?;
        let value = self.key.modulus.add(&a.value, &b.value);
        Ok(Ciphertext { value, noise, ..a.clone() })
    }

    /// Returns the difference of each slot.
    ///
    /// # Errors
    /// The errors of [`Evaluator::add`].
    pub fn sub(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        let noise = self.checked("a difference", a, b, a.noise.sum(b.noise))?;
        let value = self.key.modulus.add(&a.value, &self.key.modulus.neg(&b.value));
        Ok(Ciphertext { value, noise, ..a.clone() })
    }

    /// Returns the exclusive or of each slot, as the sum or, if `subtract`, as the difference of
    /// bits.
    ///
    /// The prediction assumes that `subtract` is a coin independent of the operands. Then the
    /// squares of the operands' noise add up, and lifts keep a mean of zero. With sums alone, lifts
    /// would grow with the number of sums, and AES would need one more refresh.
    ///
    /// # Errors
    /// The errors of [`Evaluator::add`]; [`Error::NotBits`].
    pub fn xor(&self, a: &Ciphertext, b: &Ciphertext, subtract: bool) -> Result<Ciphertext> {
        self.check_bits("exclusive or", a)?;
        let noise = self.checked("an exclusive or", a, b, a.noise.signed_sum(b.noise))?;
        let modulus = &self.key.modulus;
        let value = match subtract {
            true => modulus.add(&a.value, &modulus.neg(&b.value)),
            false => modulus.add(&a.value, &b.value),
        };
        Ok(Ciphertext { value, noise, ..a.clone() })
    }

    /// Returns the product of each slot.
    ///
    /// # Errors
    /// The errors of [`Evaluator::add`].
    pub fn mul(&self, a: &Ciphertext, b: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.mul_many(&[(a, b)])?.swap_remove(0))
    }

    /// Returns the product of each pair, each in its own message space.
    ///
    /// This is `Mult` of the publication, which converts `t^(a - 1) c_1 c_2`. The publication's
    /// formula for conversion has an additional factor `t`, but its proof does not. It is omitted
    /// here.
    ///
    /// # Errors
    /// The errors of [`Evaluator::add`].
    pub fn mul_many(&self, pairs: &[(&Ciphertext, &Ciphertext)]) -> Result<Vec<Ciphertext>> {
        let params = self.params();
        let noises = pairs.iter().map(|(a, b)| {
            let noise = a.noise.product(b.noise, params, a.exponent);
            self.checked("a product", a, b, noise)
        });
        let noises = noises.collect::<Result<Vec<Noise>>>()?;
        let mut products = Vec::new();
        for (pairs, noises) in pairs.chunks(GROUP).zip(noises.chunks(GROUP)) {
            let values = par::map(pairs, |(a, b)| {
                let product = self.key.modulus.mul(&a.value, &b.value);
                self.key.modulus.reduce(product * params.power(a.exponent - 1))
            });
            let converted = self.convert(&values).into_iter();
            products.extend(converted.zip(pairs).zip(noises).map(|((value, (a, _)), &noise)| {
                Ciphertext { value, noise, exponent: a.exponent, key: a.key }
            }));
        }
        Ok(products)
    }

    /// Divides messages by `t^steps`, modulo a power of `t` that is `steps` lower (`PSCon`).
    /// Messages must be multiples of `t^steps`. The integer stays the same.
    ///
    /// # Errors
    /// [`Error::OtherKey`], [`Error::ExponentOutOfRange`].
    pub fn contract(&self, a: &Ciphertext, steps: u32) -> Result<Ciphertext> {
        self.shift(a, -i64::from(steps))
    }

    /// Multiplies messages by `t^steps`, modulo a power of `t` that is `steps` higher (`PSDil`).
    /// The integer stays the same.
    ///
    /// # Errors
    /// [`Error::OtherKey`], [`Error::ExponentOutOfRange`]; [`Error::NoiseExhausted`] in the larger
    /// space.
    pub fn dilate(&self, a: &Ciphertext, steps: u32) -> Result<Ciphertext> {
        self.shift(a, steps.into())
    }

    fn shift(&self, a: &Ciphertext, steps: i64) -> Result<Ciphertext> {
        self.key.check(a)?;
        let params = self.params();
        let exponent = i64::from(a.exponent) + steps;
        let most = params.max_exponent();
        let Some(target) = u32::try_from(exponent).ok().filter(|e| (1..=most).contains(e)) else {
            let found = u32::try_from(exponent.max(0)).unwrap_or(u32::MAX);
            return Err(Error::ExponentOutOfRange { found, most });
        };
        let shifted = a.read_as(params, steps as i32);
        shifted.noise.check("a message space", params.noise_limit_bits(target))?;
        Ok(shifted)
    }

    /// Computes the first half of bootstrapping: ciphertexts modulo `t^(n + 1)` whose digit of
    /// `t^n` is the message of each input, which is modulo `t`.
    ///
    /// A result is the sum over `i` of `round(t^(n + 1) frac(c u_i))`, centred, times the
    /// ciphertext of the indicator that `i` is in a slot's subset. The `u_i` are binary fractions
    /// for every `t`, so the required parts of products are bits. In the publication the base is
    /// `t`.
    ///
    /// # Errors
    /// [`Error::OtherKey`]; [`Error::ExponentMismatch`] for other message spaces;
    /// [`Error::NoiseExhausted`] if the noise could change a rounding.
    pub fn hom_sum_many(&self, ciphertexts: &[&Ciphertext]) -> Result<Vec<Ciphertext>> {
        let params = self.params();
        for c in ciphertexts {
            self.key.check(c)?;
            if c.exponent != 1 {
                return Err(Error::ExponentMismatch { left: c.exponent, right: 1 });
            }
            c.noise.check("bootstrapping", params.bootstrap_limit_bits())?;
        }
        let exponent = params.max_exponent();
        let noise = Noise::refreshed_sum(params)
            .check("the sum of bootstrapping", params.noise_limit_bits(exponent))?;
        let mut sums = Vec::new();
        for group in ciphertexts.chunks(GROUP) {
            let values: Vec<&BigUint> = group.iter().map(|c| &c.value).collect();
            let multipliers = self.multipliers(&values);
            let weighted = self.weighted_sums(&self.key.v, &multipliers);
            sums.extend(weighted.into_iter().map(|sum| Ciphertext {
                // Multipliers are larger by half of their range, to be unsigned. The offset takes
                // that back.
                value: self.key.modulus.add(&sum, &self.key.v_offset),
                exponent,
                noise,
                key: self.key.id,
            }));
        }
        Ok(sums)
    }

    /// Computes the second half of bootstrapping (`HomExt`): the digit of `t^n` of messages modulo
    /// `t^(n + 1)`, as messages modulo `t`.
    ///
    /// # Errors
    /// The errors of [`Evaluator::add`]; [`Error::ExponentMismatch`] for other message spaces.
    pub fn hom_extract_many(&self, ciphertexts: &[Ciphertext]) -> Result<Vec<Ciphertext>> {
        let params = self.params();
        let digits = self.params().spec().digits;
        let right = params.max_exponent();
        if let Some(c) = ciphertexts.iter().find(|c| c.exponent != right) {
            return Err(Error::ExponentMismatch { left: c.exponent, right });
        }
        // The messages without their lower digits, and these digits, lifted.
        let mut rest = ciphertexts.to_vec();
        let mut lifted: Vec<Ciphertext> = Vec::new();
        for i in 0..digits as usize {
            // Each step lifts all digits so far, which makes them valid modulo one more power of t.
            lifted.append(&mut rest);
            lifted = self.lift(&lifted)?;
            for (place, whole) in ciphertexts.iter().enumerate() {
                let mut left = whole.clone();
                for k in 0..=i {
                    let digit = &lifted[k * ciphertexts.len() + place];
                    left = self.sub(&left, &digit.read_as(params, k as i32))?;
                }
                rest.push(left.read_as(params, -(i as i32 + 1)));
            }
        }
        Ok(rest)
    }

    /// Returns a ciphertext with the same messages modulo `t` and the noise of bootstrapping.
    ///
    /// # Errors
    /// The errors of [`Evaluator::hom_sum_many`].
    pub fn bootstrap(&self, a: &Ciphertext) -> Result<Ciphertext> {
        Ok(self.bootstrap_many(&[a])?.swap_remove(0))
    }

    /// Applies [`Evaluator::bootstrap`] to each ciphertext.
    ///
    /// # Errors
    /// The errors of [`Evaluator::bootstrap`].
    pub fn bootstrap_many(&self, ciphertexts: &[&Ciphertext]) -> Result<Vec<Ciphertext>> {
        self.hom_extract_many(&self.hom_sum_many(ciphertexts)?)
    }

    /// Evaluates, for each input in its message space, the polynomial that keeps the lowest digit
    /// and clears the digits above.
    fn lift(&self, inputs: &[Ciphertext]) -> Result<Vec<Ciphertext>> {
        let t = self.params().spec().t;
        let polynomials: Vec<Vec<i64>> =
            inputs.iter().map(|c| lifting_polynomial(t, c.exponent - 1)).collect();
        let mut sums: Vec<Option<Ciphertext>> = vec![None; inputs.len()];
        let mut powers = inputs.to_vec();
        for degree in 1..=t as usize {
            if degree > 1 {
                powers = self.mul_many(&powers.iter().zip(inputs).collect::<Vec<_>>())?;
            }
            for ((sum, power), polynomial) in sums.iter_mut().zip(&powers).zip(&polynomials) {
                let factor = polynomial[degree - 1];
                // For t = 2 the polynomial is X^2 and has no term of degree 1.
                if factor != 0 {
                    let term = self.times(power, factor)?;
                    *sum = Some(match sum.take() {
                        Some(sum) => self.add(&sum, &term)?,
                        None => term,
                    });
                }
            }
        }
        // The leading coefficient is one.
        Ok(sums.into_iter().flatten().collect())
    }

    /// Returns a multiple by an integer other than 0.
    fn times(&self, a: &Ciphertext, factor: i64) -> Result<Ciphertext> {
        if factor == 1 {
            return Ok(a.clone());
        }
        let size = factor.unsigned_abs();
        let limit_bits = self.params().noise_limit_bits(a.exponent);
        let noise = a.noise.times(size).check("a multiple", limit_bits)?;
        let modulus = &self.key.modulus;
        let value = modulus.reduce(&a.value * size);
        let value = if factor < 0 { modulus.neg(&value) } else { value };
        Ok(Ciphertext { value, noise, ..a.clone() })
    }

    /// Computes `Convert`: takes values with `t p_j^2 / t^(a + 1)` for a unit of the message modulo
    /// `p_j^2` to ciphertexts with `p_j / t^a`.
    fn convert(&self, values: &[BigUint]) -> Vec<BigUint> {
        let modulus = &self.key.modulus;
        let sums = self.weighted_sums(&self.key.sigma, &self.remainder_words(values));
        // Doubled, because `sigma` holds halves: it divides by 2^(eta + 1).
        let converted =
            |sum: BigUint| modulus.add(&modulus.add(&sum, &sum), &self.key.sigma_offset);
        sums.into_iter().map(converted).collect()
    }

    /// Returns the words of each value `c`: `floor(c z_i) mod 2^eta` for all `i`, each larger by half of its
    /// range than the centred word that it stands for.
    fn remainder_words(&self, values: &[BigUint]) -> Vec<Vec<u32>> {
        let params = self.params();
        let words = self.params().words();
        let width = params.spec().word_bits as usize;
        let mut offset = vec![0; params.eta_limbs()];
        for word in 0..words {
            let half = BigUint::from(half_word(params, word)) << (width * word);
            add_wrapping(&mut offset, &limbs(&half, params.eta_limbs()));
        }
        let first = params.z_fraction_limbs();
        self.of_rows(values, &self.key.z, params.z_limbs(), |factor, row, out| {
            let mut remainder = vec![0; params.eta_limbs()];
            factor.window(row, first, &mut remainder);
            add_wrapping(&mut remainder, &offset);
            out.extend((0..words).map(|word| {
                let at = width * word;
                let range = 2 * u64::from(half_word(params, word));
                let high = remainder.get(at / 64 + 1).copied().unwrap_or(0);
                let bits = (u128::from(high) << 64 | u128::from(remainder[at / 64])) >> (at % 64);
                (bits as u64 & (range - 1)) as u32
            }));
        })
    }

    /// Returns the multipliers of each value `c`: `round(t^(n + 1) frac(c u_i)) mod t^(n + 1)` for all `i`, each
    /// larger by half of that than the centred multiplier that it stands for.
    fn multipliers(&self, values: &[&BigUint]) -> Vec<Vec<u32>> {
        let params = self.params();
        let modulus = params.power(params.max_exponent());
        let top = params.u_limbs() - 1;
        self.of_rows(values, &self.key.u, params.u_limbs(), |factor, row, out| {
            let mut fraction = [0];
            factor.window(row, top, &mut fraction);
            // A half is added, so that the shift rounds to the nearest.
            let scaled = u128::from(fraction[0]) * u128::from(modulus) + (1 << 63);
            out.push((((scaled >> 64) as u64 + modulus / 2) % modulus) as u32);
        })
    }

    /// Collects the words that `read` appends for each row, of each value in turn.
    fn of_rows<V: core::borrow::Borrow<BigUint>>(
        &self,
        values: &[V],
        rows: &[u64],
        stride: usize,
        read: impl Fn(&Factor, &[u64], &mut Vec<u32>) + Send + Sync,
    ) -> Vec<Vec<u32>> {
        let len = self.params().limbs();
        let factors: Vec<Factor> =
            values.iter().map(|value| Factor::new(&limbs(value.borrow(), len), self.isa)).collect();
        // Rows outside and values inside, so that a group of values reads each row of the key once.
        let parts = par::map(rows.chunks(ROWS * stride), |rows| {
            let mut lists = vec![Vec::new(); factors.len()];
            for row in rows.chunks_exact(stride) {
                for (factor, list) in factors.iter().zip(&mut lists) {
                    read(factor, row, list);
                }
            }
            lists
        });
        (0..factors.len())
            .map(|value| parts.iter().flat_map(|lists| &lists[value]).copied().collect())
            .collect()
    }

    /// Returns the weighted sum of the rows modulo `x_0` for each list of weights.
    fn weighted_sums(&self, rows: &[u64], weights: &[Vec<u32>]) -> Vec<BigUint> {
        let stride = self.params().limbs();
        let lists: Vec<&[u32]> = weights.iter().map(Vec::as_slice).collect();
        let parts = par::map((0..stride).step_by(TILE), |start| {
            let len = TILE.min(stride - start);
            // A limb more than the tile, for its carry.
            let mut outs = vec![vec![0; len + 1]; lists.len()];
            let mut slices: Vec<&mut [u64]> = outs.iter_mut().map(Vec::as_mut_slice).collect();
            weighted_sums(&mut slices, rows, stride, start, &lists, self.isa);
            (start, outs)
        });
        let whole = |list: usize| {
            let mut sum = vec![0; stride + 1];
            for (start, outs) in &parts {
                add_wrapping(&mut sum[*start..], &outs[list]);
            }
            self.key.modulus.reduce(big(&sum))
        };
        (0..lists.len()).map(whole).collect()
    }

    /// Returns the noise of a result, if its operands match and it can be decrypted.
    fn checked(
        &self,
        operation: &'static str,
        a: &Ciphertext,
        b: &Ciphertext,
        noise: Noise,
    ) -> Result<Noise> {
        self.key.check(a)?;
        self.key.check(b)?;
        if a.exponent != b.exponent {
            return Err(Error::ExponentMismatch { left: a.exponent, right: b.exponent });
        }
        noise.check(operation, self.params().noise_limit_bits(a.exponent))
    }

    fn check_bits(&self, operation: &'static str, a: &Ciphertext) -> Result<()> {
        let bits = self.params().spec().t == 2 && a.exponent == 1;
        if bits { Ok(()) } else { Err(Error::NotBits { operation }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyGenerator, SecretKey, Spec, insecure_research};
    use core::slice;
    use sudare_arith::prng::Seed;

    fn session(spec: Spec) -> (SecretKey, Evaluator) {
        let params = Params::new(spec, insecure_research()).unwrap();
        let generator = KeyGenerator::from_seed(&params, Seed::from_bytes([2; 32]));
        let (secret, key) = generator.generate().unwrap();
        (secret, Evaluator::new(Arc::new(key)))
    }

    /// The thesis converts `[t c z_i]`, where the sum of `z_i` has the factor already.
    #[test]
    fn another_factor_t_makes_products_wrong() {
        for t in [2, 3, 5] {
            let (secret, evaluator) = session(Spec::small(4, t));
            let ones = secret.encrypt(&[1; 4], 1).unwrap();
            let product = evaluator.mul(&ones, &ones).unwrap();
            assert_eq!(secret.decrypt(&product).unwrap(), [1; 4]);
            let modulus = &evaluator.key.modulus;
            let printed = modulus.reduce(modulus.mul(&ones.value, &ones.value) * t);
            let value = evaluator.convert(&[printed]).swap_remove(0);
            let found = secret.decrypt(&Ciphertext { value, ..ones }).unwrap();
            assert!(found.iter().all(|&m| m != 1), "t = {t}: {found:?}");
        }
    }

    /// Words and multipliers match the whole products.
    #[test]
    fn windows_are_those_of_whole_products() {
        for (t, word_bits) in [(2, 16), (2, 32), (3, 13), (5, 7)] {
            let (secret, evaluator) = session(Spec { word_bits, ..Spec::small(3, t) });
            let params = evaluator.params();
            let key = &evaluator.key;
            let c = secret.encrypt(&[1, 0, 1], 1).unwrap().value;
            let one = BigUint::from(1u32);

            let words = evaluator.remainder_words(slice::from_ref(&c)).swap_remove(0);
            let rows = key.z.chunks_exact(params.z_limbs());
            for (row, words) in rows.zip(words.chunks_exact(params.words())) {
                let whole = (&c * big(row)) >> (64 * params.z_fraction_limbs());
                // Each word is too large by half of its range.
                let sum = |word: &dyn Fn(usize) -> u32| -> BigUint {
                    (0..words.len())
                        .map(|b| BigUint::from(word(b)) << (word_bits as usize * b))
                        .sum()
                };
                let found = sum(&|b| words[b]);
                let halves = sum(&|b| half_word(params, b));
                let range = &one << params.spec().eta;
                assert_eq!(found % &range, (whole + halves) % &range);
            }

            let modulus = params.power(params.max_exponent());
            let multipliers = evaluator.multipliers(&[&c]).swap_remove(0);
            let rows = key.u.chunks_exact(params.u_limbs());
            for (row, multiplier) in rows.zip(multipliers) {
                let bits = 64 * params.u_limbs();
                let rounded = (&c * big(row) * modulus + (&one << (bits - 1))) >> bits;
                let expected = (rounded + modulus / 2) % modulus;
                // The fraction is cut to 64 bits before it is rounded.
                let below = (&expected + modulus - 1u32) % modulus;
                let found = BigUint::from(multiplier);
                assert!(found == expected || found == below, "{found} for {expected}");
            }
        }
    }
}
