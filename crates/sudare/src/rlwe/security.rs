//! Concrete security of RLWE keys.
//!
//! Security depends on a key's modulus, so each key is estimated at its own `log2(QP)`. Figures are
//! estimates of classical attack cost for an error of standard deviation 3.2, the minimum over the
//! attacks of these sources (`data/security.csv`):
//!
//! - `2024/463`: limits for uniform ternary secrets, Bossuat et al., "Security Guidelines for
//!   Implementing Homomorphic Encryption", Table 5.2.
//! - `2026/279`: limits for sparse secrets under Ogilvie's rotation hybrid attack, "On the Concrete
//!   Hardness Gap Between MLWE and LWE"; tables of `jdumezy/sparse-key-estimate` at `44e1068`, with
//!   the lower values of `aa2c40d4` where it has them.
//! - `rotation`: the same attack on secrets of weight 48, which no published table has. The figures
//!   come from the estimator in `tests/estimator`, which reproduces the limits published for other
//!   weights within one hundredth.
//! - `estimator`: `malb/lattice-estimator` at `27a581b`, cost model MATZOV; minimum over uSVP, BDD
//!   hybrid, dual hybrid and both meet-in-the-middle hybrids.
//!
//! The sparse limits of `2026/279` are below those of `estimator` at every shared (ring, weight).
//! Estimates that exist only without the rotation attack are therefore moved to smaller moduli by
//! the ratio of the two 128-bit limits. `N = 2^16, h = 64` at 1821 bits has 95.7 bits without the
//! rotation attack and is rated 90.8.
//!
//! Between entries, `log(bits)` is linear in `log(log2_qp)`. In these coordinates the cost of
//! attacks on sparse secrets is concave, so the line is below it. On ternary secrets the line is
//! within one bit. A row never claims more than its highest entry, so no figure exceeds 256 bits.
//! Past its last entry security falls as `log2_qp^-1.25`, faster than anywhere in the table.
//!
//! Meet-LWE (ePrint 2021/216), which finds secrets of small weight at any modulus, costs more than
//! the figures here for such secrets (`docs/notes/sparse-secrets.md`). Not modelled: the attack of
//! Hou and Jiang (ePrint 2026/366).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use sudare_arith::real;

/// Decay exponent of the bits past the last entry of a row.
const TAIL_EXPONENT: f64 = 1.25;
/// Factors applied to moduli per doubling and per halving of the ring outside the table. Within it,
/// the last doubling of a sparse row multiplies limits by at least 1.98, and the first doubling of
/// any row by at most 2.08.
const GROWTH_PER_DOUBLING: f64 = 1.9;
const SHRINK_PER_HALVING: f64 = 2.2;
/// Larger rings count as this one.
const MAX_LOG_N: u32 = 17;
/// Lowest tabulated weight. No security is claimed below it.
const MIN_WEIGHT: u32 = 32;
/// Reported for a modulus of one, where a sample reveals nothing.
const TRIVIAL_MODULUS_BITS: f64 = 512.0;

/// Distribution of a secret's coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SecretDistribution {
    /// Uniform over {-1, 0, 1}.
    UniformTernary,
    /// Exactly `h` nonzero coefficients, with uniform signs.
    FixedWeight {
        /// Number of nonzero coefficients, at most the ring degree.
        h: u32,
    },
    /// The sum of uniform ternary polynomials, its pieces, which several key holders share. No
    /// group that may not decrypt has all pieces.
    SharedTernary {
        /// Number of key holders, whose errors add up in each key: 2 to
        /// [`SecretDistribution::MAX_PIECES`].
        parties: u32,
        /// Number of pieces: at least one for each key holder, at most
        /// [`SecretDistribution::MAX_PIECES`].
        pieces: u32,
    },
}

impl SecretDistribution {
    /// Maximum number of pieces of a shared secret. Noise grows with the root of their number.
    pub const MAX_PIECES: u32 = 70;

    /// Number of polynomials that add up to the secret.
    pub(crate) fn pieces(self) -> f64 {
        match self {
            Self::UniformTernary | Self::FixedWeight { .. } => 1.0,
            Self::SharedTernary { pieces, .. } => pieces.into(),
        }
    }

    /// Number of independent errors that add up in a key.
    pub(crate) fn parties(self) -> f64 {
        match self {
            Self::UniformTernary | Self::FixedWeight { .. } => 1.0,
            Self::SharedTernary { parties, .. } => parties.into(),
        }
    }

    /// `true` if several key holders share the secret.
    #[must_use]
    pub fn is_shared(self) -> bool {
        matches!(self, Self::SharedTernary { .. })
    }
}

/// Returns the estimated classical security, in bits, of RLWE samples modulo a `log2_qp`-bit
/// modulus in the ring of degree `2^log_n`, with error of standard deviation 3.2.
///
/// The result is finite, nonincreasing in `log2_qp` and nondecreasing in `log_n`. It is also at
/// most half the entropy of the secret, the cost of a meet-in-the-middle search.
///
/// - A weight uses the row of the next lower tabulated weight. Below the lowest, 32, the result is
///   0 bits. No weight is better than a uniform ternary secret, and weights of `2N/3` and more
///   count as uniform ternary.
/// - A shared secret counts as one uniform ternary piece: the other key holders may know all other
///   pieces and errors.
/// - Rings outside the table use the nearest one, with its moduli divided by 2.2 per halving
///   (ternary below 2^10, sparse below 2^12) or multiplied by 1.9 per doubling (sparse at 2^17).
///   `log_n` above 17 counts as 17.
/// - `log2_qp <= 0` returns 512. NaN and a weight above the ring degree return 0.
pub fn security_bits(log_n: u32, secret: SecretDistribution, log2_qp: f64) -> f64 {
    // NaN compares with nothing, so it must not pass for a small modulus.
    if log2_qp.is_nan() {
        return 0.0;
    }
    if log2_qp <= 0.0 {
        return TRIVIAL_MODULUS_BITS;
    }
    estimate(log_n, secret, |row, margin| row.bits_at(log2_qp + margin))
        .min(secret_entropy_bits(log_n, secret) / 2.0)
}

/// Returns the largest `log2(QP)` that has at least `bits` of security: the inverse of
/// [`security_bits`].
///
/// Table values are returned exactly. For uniform ternary secrets these are the limits for 128, 192
/// and 256 bits. The result is 0 if the table supports no modulus, as for more than 256 bits or
/// NaN, and infinite for `bits <= 0`.
pub fn max_log2_qp(log_n: u32, secret: SecretDistribution, bits: f64) -> f64 {
    if bits <= 0.0 {
        return f64::INFINITY;
    }
    if bits.is_nan() || bits > secret_entropy_bits(log_n, secret) / 2.0 {
        return 0.0;
    }
    estimate(log_n, secret, |row, margin| row.modulus_at(bits) - margin)
}

/// Evaluates an order-preserving function of a row and of the modulus bits by which the secret is
/// weaker than the row. A heavier secret or a larger ring is no weaker, so the result is the best
/// row of at most the secret's weight and ring. It is never better than the ternary row of its
/// ring.
fn estimate(log_n: u32, secret: SecretDistribution, value: impl Fn(&Row, f64) -> f64) -> f64 {
    let in_ring = |log_n| {
        let row_of = |weight| TABLE.iter().find(|row| row.log_n == log_n && row.weight == weight);
        let ternary = |margin| row_of(None).map_or(0.0, |row| value(row, margin));
        match secret {
            SecretDistribution::UniformTernary | SecretDistribution::SharedTernary { .. } => {
                ternary(0.0)
            }
            SecretDistribution::FixedWeight { h } if h < MIN_WEIGHT || h > degree(log_n) => 0.0,
            // With `s` in {-1, 1}, `(s + 1) / 2` has half the size, which is equivalent to doubling
            // the modulus and the error.
            SecretDistribution::FixedWeight { h } if 4 * h > 3 * degree(log_n) => ternary(1.0),
            // `h + 1`, so that `2N/3` rounded down counts as uniform ternary.
            SecretDistribution::FixedWeight { h } if 3 * (h + 1) >= 2 * degree(log_n) => {
                ternary(0.0)
            }
            SecretDistribution::FixedWeight { h } => TABLE
                .iter()
                .filter(|row| row.log_n == log_n && row.weight.is_some_and(|weight| weight <= h))
                .map(|row| value(row, 0.0))
                .fold(0.0, f64::max)
                .min(ternary(0.0)),
        }
    };
    (0..=log_n.min(MAX_LOG_N)).map(in_ring).fold(0.0, f64::max)
}

fn degree(log_n: u32) -> u32 {
    1 << log_n.min(MAX_LOG_N)
}

/// Entropy of the secret: exact up to 512 bits, a lower bound above.
fn secret_entropy_bits(log_n: u32, secret: SecretDistribution) -> f64 {
    let n = degree(log_n);
    match secret {
        // One piece of a shared secret.
        SecretDistribution::UniformTernary | SecretDistribution::SharedTernary { .. } => {
            f64::from(n) * real::log2(3.0)
        }
        SecretDistribution::FixedWeight { h } => {
            let choices = h.min(n.saturating_sub(h)).min(256);
            let log2_positions: f64 =
                (0..choices).map(|i| real::log2(f64::from(n - i) / f64::from(i + 1))).sum();
            log2_positions + f64::from(h)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    log2_qp: f64,
    bits: f64,
}

/// Security as a function of the modulus for one ring and secret: `points` in increasing order of
/// modulus, with strictly decreasing bits. `weight` is `None` for uniform ternary secrets.
#[derive(Debug)]
struct Row {
    log_n: u32,
    weight: Option<u32>,
    points: Vec<Point>,
}

impl Row {
    fn bits_at(&self, log2_qp: f64) -> f64 {
        let next = self.points.partition_point(|p| p.log2_qp < log2_qp);
        match (self.points[..next].last(), self.points.get(next)) {
            // Table values are exact, without rounding in an interpolation.
            (_, Some(b)) if b.log2_qp == log2_qp => b.bits,
            (Some(a), Some(b)) => {
                let t = real::ln(log2_qp / a.log2_qp) / real::ln(b.log2_qp / a.log2_qp);
                a.bits * real::powf(b.bits / a.bits, t)
            }
            (Some(a), None) => a.bits * real::powf(a.log2_qp / log2_qp, TAIL_EXPONENT),
            (None, b) => b.map_or(0.0, |b| b.bits),
        }
    }

    fn modulus_at(&self, bits: f64) -> f64 {
        let next = self.points.partition_point(|p| p.bits > bits);
        match (self.points[..next].last(), self.points.get(next)) {
            (_, Some(b)) if b.bits == bits => b.log2_qp,
            (Some(a), Some(b)) => {
                let t = real::ln(bits / a.bits) / real::ln(b.bits / a.bits);
                a.log2_qp * real::powf(b.log2_qp / a.log2_qp, t)
            }
            (Some(a), None) => a.log2_qp * real::powf(a.bits / bits, 1.0 / TAIL_EXPONENT),
            (None, _) => 0.0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Largest whole modulus size with at least `bits`.
    Limit,
    /// Estimate at the given modulus size.
    Bits,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    log_n: u32,
    weight: Option<u32>,
    kind: Kind,
    source: &'static str,
    point: Point,
}

impl Entry {
    fn parse(line: &'static str) -> Option<Entry> {
        let mut fields = line.split(',');
        let log_n = fields.next()?.parse().ok()?;
        let weight = match fields.next()? {
            "ternary" => None,
            weight => Some(weight.parse().ok()?),
        };
        let kind = match fields.next()? {
            "limit" => Kind::Limit,
            "bits" => Kind::Bits,
            _ => return None,
        };
        let source = fields.next()?;
        let log2_qp = fields.next()?.parse().ok()?;
        let bits = fields.next()?.parse().ok()?;
        let entry = Entry { log_n, weight, kind, source, point: Point { log2_qp, bits } };
        fields.next().is_none().then_some(entry)
    }
}

const CSV: &str = include_str!("../../data/security.csv");

/// One row per ring up to 2^17 and per tabulated weight.
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let entries: Vec<Entry> = CSV.lines().skip(1).filter_map(Entry::parse).collect();
    let weights: BTreeSet<Option<u32>> = entries.iter().map(|e| e.weight).collect();
    let mut table = Vec::new();
    for weight in weights {
        let of_weight = entries.iter().filter(|e| e.weight == weight);
        for log_n in 0..=MAX_LOG_N {
            let rings = of_weight.clone().map(|e| e.log_n);
            let Some(ring) = rings.min_by_key(|ring| ring.abs_diff(log_n)) else { continue };
            let row: Vec<Entry> = of_weight.clone().filter(|e| e.log_n == ring).copied().collect();
            let doublings = f64::from(log_n) - f64::from(ring);
            let growth = if doublings < 0.0 { SHRINK_PER_HALVING } else { GROWTH_PER_DOUBLING };
            table.push(Row {
                log_n,
                weight,
                points: merge_sources(&row, real::powf(growth, doublings)),
            });
        }
    }
    table
});

/// Returns the points of one row: the points of the source with the lowest 128-bit limit, and the
/// points of the other sources moved down by the ratio of the limits. All are multiplied by
/// `growth`.
fn merge_sources(entries: &[Entry], growth: f64) -> Vec<Point> {
    let limit_128 = |source: Option<&str>| {
        entries
            .iter()
            .filter(|e| e.kind == Kind::Limit && e.point.bits == 128.0)
            .filter(|e| source.is_none_or(|source| e.source == source))
            .map(|e| e.point.log2_qp)
            .reduce(f64::min)
    };
    let mut points: Vec<Point> = entries
        .iter()
        .filter_map(|e| {
            let scale = match (limit_128(Some(e.source)), limit_128(None)) {
                (Some(own), Some(least)) if own > least => least / own,
                _ => 1.0,
            };
            let redundant = scale < 1.0 && e.kind == Kind::Limit;
            (!redundant).then_some(Point { log2_qp: e.point.log2_qp * scale * growth, ..e.point })
        })
        .collect();
    points.sort_by(|a, b| a.log2_qp.total_cmp(&b.log2_qp));
    points
}

#[cfg(test)]
mod tests {
    use super::SecretDistribution::{FixedWeight, UniformTernary};
    use super::*;
    use proptest::prelude::*;

    fn entries() -> Vec<Entry> {
        CSV.lines().skip(1).map(|line| Entry::parse(line).expect(line)).collect()
    }

    fn assert_limit(log_n: u32, secret: SecretDistribution, bits: f64, limit: f64) {
        assert_eq!(max_log2_qp(log_n, secret, bits), limit);
        assert!(security_bits(log_n, secret, limit) >= bits);
        assert!(security_bits(log_n, secret, limit + 1.0) < bits);
    }

    #[test]
    fn every_line_parses_and_every_row_falls_slower_than_the_tail() {
        assert_eq!(entries().len(), CSV.lines().count() - 1);
        assert_eq!(TABLE.len(), 9 * 18);
        assert!(Entry::parse("16,64,limit,2026/279,961,128,9").is_none());
        for row in TABLE.iter() {
            for pair in row.points.windows(2) {
                let slope =
                    (pair[0].bits / pair[1].bits).ln() / (pair[1].log2_qp / pair[0].log2_qp).ln();
                assert!(slope > 0.0 && slope < TAIL_EXPONENT, "{row:?} {pair:?}");
            }
        }
    }

    #[test]
    fn limits_are_the_published_ones() {
        let ternary: [(u32, &[f64]); 8] = [
            (10, &[26.0]),
            (11, &[53.0, 36.0, 27.0]),
            (12, &[106.0, 73.0, 56.0]),
            (13, &[214.0, 147.0, 114.0]),
            (14, &[430.0, 297.0, 230.0]),
            (15, &[868.0, 597.0, 462.0]),
            (16, &[1747.0, 1199.0, 929.0]),
            (17, &[3523.0, 2411.0, 1866.0]),
        ];
        for (log_n, limits) in ternary {
            for (&limit, bits) in limits.iter().zip([128.0, 192.0, 256.0]) {
                assert_limit(log_n, UniformTernary, bits, limit);
            }
        }
        let sparse = [
            (12, [19.0, 58.0, 86.0, 96.0, 101.0, 106.0, 106.0]), // ternary limit at h = 1024
            (13, [37.0, 113.0, 167.0, 187.0, 197.0, 209.0, 214.0]),
            (14, [77.0, 229.0, 333.0, 370.0, 388.0, 416.0, 426.0]),
            (15, [162.0, 468.0, 669.0, 739.0, 774.0, 829.0, 851.0]),
            (16, [345.0, 961.0, 1351.0, 1481.0, 1553.0, 1659.0, 1707.0]),
        ];
        for (log_n, limits) in sparse {
            for (limit, h) in limits.into_iter().zip([32, 64, 128, 192, 256, 512, 1024]) {
                assert_limit(log_n, FixedWeight { h }, 128.0, limit);
            }
        }
    }

    #[test]
    fn no_entry_is_exceeded() {
        for e in entries() {
            let secret = e.weight.map_or(UniformTernary, |h| FixedWeight { h });
            assert!(security_bits(e.log_n, secret, e.point.log2_qp) <= e.point.bits, "{e:?}");
            assert!(max_log2_qp(e.log_n, secret, e.point.bits) <= e.point.log2_qp, "{e:?}");
        }
    }

    /// Checks estimates that are not in the data file, or that the rotation attack moved.
    #[test]
    fn published_and_estimated_sets() {
        // (log_n, log2_qp, lattice-estimator minimum over attacks)
        for (log_n, log2_qp, bits) in [
            (15, 880.0, 126.1),
            (15, 885.0, 125.3),
            (16, 1750.0, 127.9),
            (16, 1772.0, 126.3),
            (16, 1788.0, 125.2),
        ] {
            let security = security_bits(log_n, UniformTernary, log2_qp);
            assert!(
                security < bits + 0.2 && security > bits - 0.5,
                "{log_n} {log2_qp}: {security}"
            );
        }
        // (log_n, h, log2_qp, minimum without the rotation attack, price)
        for (log_n, h, log2_qp, estimate, price) in [
            (16, 64, 1821.0, 95.7, 90.8),
            (16, 64, 1882.0, 93.9, 89.0),
            (16, 64, 2065.0, 89.0, 84.3),
            (15, 64, 672.0, 111.3, 106.3),
            (16, 192, 1553.0, 133.1, 124.0),
            (15, 192, 768.0, 133.4, 122.0),
            (16, 32, 121.0, 215.1, 161.6),
            (15, 32, 96.0, 157.5, 140.6),
            (16, 64, 1300.0, 115.0, 110.0),
        ] {
            let security = security_bits(log_n, FixedWeight { h }, log2_qp);
            assert!(
                security <= estimate && (security - price).abs() < 1.0,
                "{h} {log2_qp}: {security}"
            );
        }
        // Sources that agree on the 128-bit limit also agree on the estimates.
        for e in entries().iter().filter(|e| e.weight == Some(64) && e.kind == Kind::Bits) {
            let ratio = if e.log_n == 16 { 961.0 / 1053.0 } else { 468.0 / 512.0 };
            let security = security_bits(e.log_n, FixedWeight { h: 64 }, e.point.log2_qp * ratio);
            assert!((security - e.point.bits).abs() < 1e-9);
        }
    }

    #[test]
    fn weights_and_rings_outside_the_table() {
        let limit = |log_n, h| max_log2_qp(log_n, FixedWeight { h }, 128.0);
        assert_eq!((limit(16, 47), limit(16, 48), limit(16, 63)), (345.0, 710.0, 710.0));
        assert_eq!(limit(16, 96), 961.0);
        assert_eq!(limit(16, 31), 0.0);
        assert_eq!(security_bits(16, FixedWeight { h: 31 }, 1.0), 0.0);
        assert_eq!(limit(16, 65536 * 2 / 3), 1747.0);
        assert_eq!(limit(16, 65536), 1746.0);
        assert_eq!(limit(16, 65537), 0.0);
        assert_eq!(security_bits(10, FixedWeight { h: 1025 }, 20.0), 0.0);
        assert!((limit(17, 192) - 1481.0 * 1.9).abs() < 1e-9);
        assert!((limit(11, 192) - 96.0 / 2.2).abs() < 1e-9);
        assert!((max_log2_qp(9, UniformTernary, 128.0) - 26.0 / 2.2).abs() < 1e-9);
        assert!(limit(10, 512) < 26.0);
        for weight in TABLE.iter().filter(|r| r.log_n == 15).filter_map(|r| r.weight) {
            for bits in [128.0, 192.0, 256.0] {
                let secret = FixedWeight { h: weight };
                let small = max_log2_qp(15, secret, bits);
                let large = max_log2_qp(16, secret, bits);
                // Security below one bit comes from a much smaller ring, where the secret is dense.
                assert!(small < 1.0 || large >= GROWTH_PER_DOUBLING * small, "{weight} {bits}");
            }
        }
    }

    #[test]
    fn edge_inputs() {
        for secret in [UniformTernary, FixedWeight { h: 64 }, FixedWeight { h: 0 }] {
            assert_eq!(security_bits(16, secret, f64::NAN), 0.0);
            assert_eq!(security_bits(16, secret, f64::INFINITY), 0.0);
            for log2_qp in [0.0, -1.0, f64::NEG_INFINITY] {
                assert_eq!(security_bits(16, secret, log2_qp), TRIVIAL_MODULUS_BITS);
            }
            assert_eq!(max_log2_qp(16, secret, f64::NAN), 0.0);
            assert_eq!(max_log2_qp(16, secret, 257.0), 0.0);
            assert_eq!(max_log2_qp(16, secret, 0.0), f64::INFINITY);
        }
        assert_eq!(security_bits(16, UniformTernary, 1.0), 256.0);
        assert_eq!(security_bits(60, UniformTernary, 3523.0), 128.0);
        // 3^16 secrets, searched by meet in the middle.
        assert!((security_bits(4, UniformTernary, 0.1) - 8.0 * 3f64.log2()).abs() < 1e-9);
        assert_eq!(max_log2_qp(4, UniformTernary, 128.0), 0.0);
        // C(16, 8) 2^8 and C(2^15, 32) 2^32 secrets.
        let half = secret_entropy_bits(4, FixedWeight { h: 8 });
        assert!((half - f64::from(12_870 << 8).log2()).abs() < 1e-9);
        assert!((secret_entropy_bits(15, FixedWeight { h: 32 }) - 394.3).abs() < 0.1);
    }

    fn secrets() -> impl Strategy<Value = SecretDistribution> {
        prop_oneof![Just(UniformTernary), (0u32..3000).prop_map(|h| FixedWeight { h })]
    }

    proptest! {
        #[test]
        fn monotone_in_modulus_ring_and_weight(
            secret in secrets(), log_n in 4u32..17, log2_qp in 0.01f64..4000.0, more in 0.0f64..500.0,
        ) {
            let bits = security_bits(log_n, secret, log2_qp);
            prop_assert!((0.0..=256.0).contains(&bits));
            prop_assert!(security_bits(log_n, secret, log2_qp + more) <= bits);
            prop_assert!(security_bits(log_n + 1, secret, log2_qp) >= bits);
            if let FixedWeight { h } = secret && h < 1 << (log_n - 1) {
                prop_assert!(security_bits(log_n, UniformTernary, log2_qp) >= bits);
                let heavier = FixedWeight { h: h + 1 };
                prop_assert!(log_n < 12 || security_bits(log_n, heavier, log2_qp) >= bits);
            }
        }

        #[test]
        fn max_log2_qp_inverts_security_bits(
            secret in secrets(), log_n in 4u32..18, bits in 1.0f64..300.0,
        ) {
            let limit = max_log2_qp(log_n, secret, bits);
            prop_assert!(security_bits(log_n, secret, limit) >= bits * (1.0 - 1e-12));
            if limit > 0.0 {
                prop_assert!(security_bits(log_n, secret, limit * 1.0001) < bits);
            } else {
                prop_assert!(security_bits(log_n, secret, 1e-3) < bits);
            }
        }
    }
}
