use super::IntegerSlots;
use crate::{
    Error, Result,
    circuits::polynomial::{self, Draft, Layout, OP, Variable, plan_powers},
    exact::{Modulus, Unit},
    rlwe::{Chain, Level},
};

/// A plan to evaluate a polynomial with integer coefficients on ciphertexts of one level and
/// factor; see [`polynomial::PolynomialPlan`].
pub type PolynomialPlan = polynomial::PolynomialPlan<IntegerSlots>;

impl PolynomialPlan {
    /// Plans the evaluation of `sum coeffs[n] x^n`, modulo the plaintext modulus of `factor`, on
    /// ciphertexts of this level and factor. The result has the factor that `out` returns for its
    /// level. `chain` is the chain of the plaintext modulus
    /// ([`Params::chain`](crate::exact::Params::chain)).
    ///
    /// The depth is `ceil(log2(degree + 1))`. Coefficients that are zero cost nothing: odd and even
    /// polynomials take about half the baby steps.
    ///
    /// # Errors
    /// [`Error::LevelOutOfRange`] for a level beyond the chain; [`Error::LevelExhausted`] if the
    /// depth exceeds it; [`Error::NotAUnit`] for a factor that is not a unit; errors of `out`.
    pub fn new(
        coeffs: &[i128],
        chain: &Chain<Unit>,
        level: Level,
        factor: Unit,
        out: impl Fn(Level) -> Result<Unit>,
    ) -> Result<Self> {
        chain.levels().check(level)?;
        let layout = layout(factor.modulus(), &[coeffs.to_vec()]);
        draft(layout, 0, chain, level, factor)?.finish_one(None, chain, out)
    }
}

/// A plan to evaluate several polynomials with integer coefficients; see
/// [`polynomial::PolynomialsPlan`].
pub type PolynomialsPlan = polynomial::PolynomialsPlan<IntegerSlots>;

/// Returns the layout of polynomials with these coefficients modulo `t`.
pub(super) fn layout(t: Modulus, polynomials: &[Vec<i128>]) -> Layout<i128> {
    // Multiples of `t` become 0 here, so that they cost neither degree nor products.
    let trimmed = |coeffs: &Vec<i128>| {
        let coeffs = coeffs.iter().map(|&c| t.centered(t.reduce_i128(c)));
        let mut coeffs: Vec<i128> = coeffs.collect();
        let degree = coeffs.iter().rposition(|&c| c != 0).unwrap_or(0);
        coeffs.resize(degree + 1, 0);
        coeffs
    };
    let polynomials: Vec<_> = polynomials.iter().map(trimmed).collect();
    Layout::of(&polynomials.iter().map(Vec::as_slice).collect::<Vec<_>>(), false)
}

/// Plans the powers of `x + shift`.
///
/// # Errors
/// See [`PolynomialPlan::new`].
pub(super) fn draft(
    layout: Layout<i128>,
    shift: i128,
    chain: &Chain<Unit>,
    level: Level,
    factor: Unit,
) -> Result<Draft<IntegerSlots>> {
    chain.levels().check(level)?;
    let needed = layout.depth();
    if level.0 < needed {
        return Err(Error::LevelExhausted { op: OP, needed, level });
    }
    let start = Variable { level, scale: factor, stretch: None, shift };
    let powers = plan_powers(&layout.powers, chain, &start)?;
    Ok(Draft { input: (level, factor), start, layout, powers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        circuits::{
            LockStep, Ops, Trace,
            exact::{LinearTransform, digits::ResiduePolynomial},
            linear::Offset,
            polynomial::bits,
        },
        exact::{BatchEncoder, Params, Spec, tests::Session},
    };
    use std::collections::BTreeMap;

    const LOG_N: u32 = 6;
    const COLUMNS: usize = 32;

    fn spec(t: Modulus, levels: usize) -> Spec {
        let spec = Spec::uniform(LOG_N, t, 50.0, levels, 45.0, vec![50.0; 3]);
        Spec { insecure: true, ..spec }
    }

    fn values(salt: i128) -> Vec<i128> {
        (0..2 * COLUMNS as i128).map(|i| (i * i * 31 + salt * i + 5 * salt) % 100).collect()
    }

    #[test]
    fn polynomials_are_evaluated_in_every_slot() {
        let t = Modulus::new(257, 1).unwrap();
        let mut s = Session::new(spec(t, 4), 7);
        let encoder = BatchEncoder::new(t, LOG_N).unwrap();
        let chain = s.params.chain(t).unwrap();
        let top = s.params.top();
        for degree in [0usize, 1, 2, 5, 9, 13, 15] {
            let coeffs: Vec<i128> = (0..=degree as i128).map(|i| i * i * 7 % 257 + 1 - i).collect();
            let xs = [values(3), values(-8)];
            let encrypted = xs.each_ref().map(|x| s.encrypt(&encoder.encode(x).unwrap()));
            let factor = encrypted[0].factor();
            let plan =
                PolynomialPlan::new(&coeffs, &chain, top, factor, |_| Ok(Unit::one(t))).unwrap();
            assert_eq!(plan.depth(), bits(degree));
            let found = plan.run_many(&s.evaluator, &encrypted).unwrap();
            for (x, found) in xs.iter().zip(&found) {
                let value = |&x: &i128| {
                    let power = |i: usize| t.pow(t.reduce_i128(x), i as u128);
                    let term = |(i, &c): (usize, &i128)| t.mul(t.reduce_i128(c), power(i));
                    coeffs.iter().enumerate().map(term).fold(0, |sum, y| t.add(sum, y))
                };
                let expected: Vec<u128> = x.iter().map(value).collect();
                let plain = s.decryptor.decrypt(found).unwrap();
                assert_eq!(encoder.decode_unsigned(&plain).unwrap(), expected, "{degree}");
                assert_eq!((found.level(), found.factor()), (plan.output_level(), Unit::one(t)));
            }
        }
        let shallow = PolynomialPlan::new(&[0, 0, 0, 1], &chain, Level(1), Unit::one(t), |_| {
            Ok(Unit::one(t))
        });
        let exhausted = Error::LevelExhausted { op: OP, needed: 2, level: Level(1) };
        assert_eq!(shallow.unwrap_err(), exhausted);
    }

    /// The slots after raising in bootstrapping: `p m + I` modulo `p^2`, from which `m` is
    /// computed.
    #[test]
    fn small_lowest_digits_are_removed() {
        let t = Modulus::new(257, 2).unwrap();
        let bound = 3;
        let mut s = Session::new(spec(t, 4), 7);
        let encoder = BatchEncoder::new(t, LOG_N).unwrap();
        let messages = values(9);
        let with_digits = |bound: i128| -> Vec<i128> {
            let digit = |i: usize| (i as i128 * 5) % (2 * bound + 1) - bound;
            messages.iter().enumerate().map(|(i, m)| 257 * (m - 50) + digit(i)).collect()
        };
        let removal = ResiduePolynomial::bounded_removal(t, bound).unwrap();
        let chain = s.params.chain(t).unwrap();
        let factor = s.params.fresh_factor(s.params.top(), t).unwrap();
        let plan = PolynomialPlan::new(&removal.centered(), &chain, s.params.top(), factor, |_| {
            Ok(Unit::one(t))
        });
        let plan = plan.unwrap();
        assert_eq!((removal.degree(), plan.depth()), (13, 4));
        let p = Modulus::new(257, 1).unwrap();
        let expected: Vec<u128> = messages.iter().map(|m| p.reduce_i128(m - 50)).collect();
        for (reach, is_right) in [(3, true), (4, false)] {
            let x = s.encrypt(&encoder.encode(&with_digits(reach)).unwrap());
            let multiples = plan.run(&s.evaluator, &x).unwrap();
            let found = s.evaluator.with_plaintext_modulus(&multiples, p).unwrap();
            let plain = s.decryptor.decrypt(&found).unwrap();
            let found = BatchEncoder::new(p, LOG_N).unwrap().decode_unsigned(&plain).unwrap();
            assert_eq!(found == expected, is_right, "digits up to {reach}");
        }
    }

    /// Both rows at once, and with the other row.
    #[test]
    fn matrices_multiply_both_rows() {
        let t = Modulus::new(257, 1).unwrap();
        let encoder = BatchEncoder::new(t, LOG_N).unwrap();
        let offsets = [(0, false), (3, false), (31, false), (3, true), (6, true)];
        let entries = |k: usize| values(k as i128 + 1);
        let diagonals: BTreeMap<Offset, _> = offsets
            .iter()
            .enumerate()
            .map(|(k, &(columns, conjugated))| {
                (Offset { columns, conjugated }, encoder.encode(&entries(k)).unwrap())
            })
            .collect();
        // With fewer columns, they would have to repeat.
        let few: BTreeMap<usize, _> = [(0, encoder.encode(&entries(0)).unwrap())].into();
        assert!(matches!(LinearTransform::new(LOG_N - 2, few), Err(Error::Circuit(_))));
        let matrix = LinearTransform::new(LOG_N - 1, diagonals).unwrap();
        let x = values(11);
        let params = Params::new(spec(t, 2)).unwrap();
        let top = params.top();
        let chain = params.chain(t).unwrap();
        let factor = params.fresh_factor(top, t).unwrap();
        let plan = matrix.plan(LOG_N, &chain, top, factor, Unit::one(t)).unwrap();
        let mut s = Session::with_keys(spec(t, 2), 7, plan.required_keys());
        let a = s.encrypt(&encoder.encode(&x).unwrap());
        let prepared = s.evaluator.prepare(&plan).unwrap();
        let found = plan.run(&s.evaluator, &prepared, &a).unwrap();
        let mut expected = vec![0; x.len()];
        for (k, &(columns, conjugated)) in offsets.iter().enumerate() {
            let weights = entries(k);
            for (i, out) in expected.iter_mut().enumerate() {
                let row = i / COLUMNS;
                let column = i % COLUMNS;
                let row = if conjugated { 1 - row } else { row };
                let from = row * COLUMNS + (column + columns) % COLUMNS;
                *out = t.add(*out, t.reduce_i128(weights[i] * x[from]));
            }
        }
        let plain = s.decryptor.decrypt(&found).unwrap();
        assert_eq!(encoder.decode_unsigned(&plain).unwrap(), expected);
        assert_eq!(found.factor(), Unit::one(t));
    }

    #[test]
    fn sums_over_columns_are_traces() {
        let t = Modulus::new(257, 1).unwrap();
        let mut s = Session::new(spec(t, 1), 7);
        let encoder = BatchEncoder::new(t, LOG_N).unwrap();
        let x = values(2);
        let a = s.encrypt(&encoder.encode(&x).unwrap());
        let sum = Trace::inner_sum(LOG_N, 1, COLUMNS).unwrap().doubling();
        let found = LockStep::new(&s.evaluator).run(&[a], |e, a| sum.run(e, a)).unwrap();
        let plain = encoder.decode_unsigned(&s.decryptor.decrypt(&found[0]).unwrap()).unwrap();
        for row in 0..2 {
            let total = x[row * COLUMNS..][..COLUMNS].iter().sum::<i128>();
            assert!(plain[row * COLUMNS..][..COLUMNS].iter().all(|&y| y == t.reduce_i128(total)));
        }
    }
}
