use sudare_arith::Modulus;

/// Integers in `(-Q/2, Q/2)` by balanced mixed-radix digits, `x = d_0 + d_1 q_0 + d_2 q_0 q_1 + …`,
/// where `Q` is the product of the `q_i`.
pub(crate) struct MixedRadix {
    moduli: Vec<Modulus>,
    /// `(q_0 … q_{i-1})^-1 mod q_i`, and `q_j mod q_i` for `j < i`.
    inverse: Vec<u64>,
    reduced: Vec<Vec<u64>>,
}

impl MixedRadix {
    /// Prepares for residues modulo these primes.
    pub(crate) fn new(moduli: Vec<Modulus>) -> Self {
        let reduced: Vec<Vec<u64>> = moduli
            .iter()
            .enumerate()
            .map(|(i, m)| moduli[..i].iter().map(|q| m.reduce(q.value())).collect())
            .collect();
        let inverse = moduli
            .iter()
            .zip(&reduced)
            .map(|(m, lower)| m.inv(lower.iter().fold(1, |product, &q| m.mul(product, q))))
            .collect();
        Self { moduli, inverse, reduced }
    }

    /// The `q_i`.
    pub(crate) fn moduli(&self) -> &[Modulus] {
        &self.moduli
    }

    /// Computes the digits of the integer with the residues `residue(i)`, one for each prime.
    pub(crate) fn resolve(&self, digits: &mut [i64], residue: impl Fn(usize) -> u64) {
        debug_assert_eq!(digits.len(), self.moduli.len());
        for (i, m) in self.moduli.iter().enumerate() {
            // Value of the lower digits, by Horner's rule from the highest one.
            let lower = digits[..i].iter().zip(&self.reduced[i]).rev();
            let below = lower.fold(0, |below, (&d, &q)| m.add(m.mul(below, q), m.reduce_i64(d)));
            digits[i] = m.centered(m.mul(m.sub(residue(i), below), self.inverse[i]));
        }
    }
}
