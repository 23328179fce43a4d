//! An estimator of the cost of attacks on RLWE samples, written from the published cost models and
//! independent of the table that the library prices keys by.
//!
//! - Lattice reduction: the gate count of MATZOV, "Report on the Security of LWE" (2022), with the
//!   dimensions for free of Ducas (ePrint 2017/999) and the root Hermite factor of Chen's thesis.
//! - `usvp` and `bdd`: the primal attack, by the geometric series assumption; the second finishes
//!   with one larger search in a projected lattice.
//! - `hybrid`: coordinates of a sparse secret are guessed, by meeting in the middle where that is
//!   cheaper, and the rest is found by Babai's algorithm. Guesses hold for any of the `N` rotations
//!   of the secret, as Ogilvie has it ("On the Concrete Hardness Gap Between MLWE and LWE",
//!   ePrint 2026/279).
//!
//! All figures are `log2`.

use core::f64::consts::{E, LN_2, PI};

/// Standard deviation of the errors.
const SIGMA: f64 = 3.2;
/// Chance that an attack succeeds.
const SUCCESS: f64 = 0.99;

/// Coefficients of a secret.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Secret {
    Ternary,
    Weight(u32),
}

/// The cost of the cheapest of these attacks on samples modulo `2^log2_q` in the ring of degree
/// `2^log_n`.
pub fn security_bits(log_n: u32, secret: Secret, log2_q: f64) -> f64 {
    let this = Samples::new(log_n, secret, log2_q);
    let uniform = this.usvp().min(this.bdd());
    match secret {
        Secret::Ternary => uniform,
        Secret::Weight(_) => uniform.min(this.hybrid()),
    }
}

struct Samples {
    n: f64,
    log2_q: f64,
    weight: Option<u32>,
    /// By which the lattice is scaled for the secret to be as large as the error.
    log2_scale: f64,
}

impl Samples {
    fn new(log_n: u32, secret: Secret, log2_q: f64) -> Self {
        let n = f64::from(1u32 << log_n);
        let (weight, deviation) = match secret {
            Secret::Ternary => (None, (2.0f64 / 3.0).sqrt()),
            Secret::Weight(h) => (Some(h), (f64::from(h) / n).sqrt()),
        };
        Self { n, log2_q, weight, log2_scale: (SIGMA / deviation).log2().max(0.0) }
    }

    /// The smallest block size for which the secret is found as an unusually short vector.
    fn usvp(&self) -> f64 {
        let found = |beta: f64| {
            let ld = log2_delta(beta);
            // The left side of the condition of the 2016 estimate, less the right one, is a
            // parabola in the dimension.
            let offset = SIGMA.log2() + self.n * self.log2_scale - (self.n + 1.0) * self.log2_q;
            let norm = (SIGMA * SIGMA * (beta - 1.0) + SIGMA * SIGMA).log2() / 2.0;
            let slope = ld * (2.0 * beta - 1.0) + self.log2_q - norm;
            let disc = slope * slope + 4.0 * ld * offset;
            (disc >= 0.0).then(|| ((slope - disc.sqrt()) / (2.0 * ld)).max(self.n).ceil())
        };
        let cost = |beta: u32| {
            let dimension = found(beta.into())?;
            Some(reduction(beta.into(), dimension.max(f64::from(beta) + 1.0)))
        };
        let least = first(40, 4000, |beta| found(beta.into()).is_some());
        (least..least + 6).filter_map(cost).fold(f64::INFINITY, f64::min)
    }

    /// Reduction with a smaller block size, and one search in a projected lattice.
    fn bdd(&self) -> f64 {
        let cost = |beta: u32| {
            let shape = self.shape(beta, 0.0);
            let Some(search) = shape.search_dimension() else { return f64::INFINITY };
            let lift = 2.0 * (shape.d - search + 1.0).max(1.0).log2();
            sum(reduction(beta.into(), shape.d), sum(reduction(search, search), lift))
        };
        least(40, 1800, cost)
    }

    /// Over the guessed coordinates, nonzero ones among them, and the block size.
    fn hybrid(&self) -> f64 {
        let zetas = self.n as u32;
        let cost = |zeta: u32| self.hybrid_with(zeta);
        let step = (zetas / 48).max(1);
        let coarse = (0..48).map(|k| k * step).map(|zeta| (cost(zeta), zeta));
        let (mut best, mut at) =
            coarse.fold((f64::INFINITY, 0), |a, b| if b.0 < a.0 { b } else { a });
        let mut step = step / 3;
        while step > zetas / 2048 {
            for zeta in
                [at.saturating_sub(2 * step), at.saturating_sub(step), at + step, at + 2 * step]
            {
                let found = if zeta < zetas { cost(zeta) } else { f64::INFINITY };
                if found < best {
                    (best, at) = (found, zeta);
                }
            }
            step /= 3;
        }
        best
    }

    fn hybrid_with(&self, zeta: u32) -> f64 {
        let Some(weight) = self.weight else { return f64::INFINITY };
        let guesses: Vec<(f64, f64)> = self.guesses(zeta, weight);
        // Nonzero coordinates at most, for each block size.
        let cost = |beta: u32| {
            let shape = self.shape(beta, zeta.into());
            let babai = shape.babai();
            let reduced = reduction(beta.into(), shape.d);
            let mut best = f64::INFINITY;
            for meet in [false, true] {
                let met = if meet && zeta > 0 { shape.meeting() } else { 0.0 };
                for &(size, hit) in &guesses {
                    let size = if meet { size / 2.0 } else { size };
                    let tries = repetitions(hit + babai + met);
                    best = best.min(sum(reduced, size + 2.0 * shape.d.log2()) + tries);
                }
            }
            best
        };
        least(40, 1600, cost)
    }

    /// `log2` of the number of guesses with at most so many nonzero coordinates among `zeta`, and
    /// of the chance that one of the rotations of the secret is among them.
    fn guesses(&self, zeta: u32, weight: u32) -> Vec<(f64, f64)> {
        if zeta == 0 {
            return vec![(0.0, 0.0)];
        }
        let n = self.n;
        let zeta = f64::from(zeta);
        let h = f64::from(weight);
        let mut size = f64::NEG_INFINITY;
        let mut hit = 0.0f64;
        let mut all = Vec::new();
        for k in 0..=weight {
            let k = f64::from(k);
            size = sum(size, binomial(zeta, k) + k);
            hit += (binomial(n - h, zeta - k) + binomial(h, k) - binomial(n, zeta)).exp2();
            let some = -(n * (-hit.min(1.0)).ln_1p()).exp_m1();
            all.push((size + n.log2(), some.log2()));
        }
        all
    }

    fn shape(&self, beta: u32, zeta: f64) -> Shape {
        let n = self.n - zeta;
        let ld = log2_delta(beta.into());
        let d = (n * (self.log2_q - self.log2_scale) / ld).sqrt().ceil().max(beta.into());
        let log2_volume = (d - n) * self.log2_q + n * self.log2_scale;
        Shape { d, log2_volume, log2_delta: ld }
    }
}

/// A reduced basis, by the geometric series assumption.
struct Shape {
    d: f64,
    log2_volume: f64,
    log2_delta: f64,
}

impl Shape {
    /// `log2` of the norm of the `i`-th vector of the orthogonalised basis.
    fn norm(&self, i: f64) -> f64 {
        (self.d - 1.0 - 2.0 * i) * self.log2_delta + self.log2_volume / self.d
    }

    /// The rank of the projected lattice in which the error is the shortest vector.
    fn search_dimension(&self) -> Option<f64> {
        let ln_norm = |i: f64| {
            let d = self.d;
            let rank = self.d - i + 1.0;
            let volume = ((d - i) / d * self.log2_volume - i * (d - i) * self.log2_delta) * LN_2;
            let ball = rank / 2.0 * PI.ln() - ln_gamma(rank / 2.0 + 1.0);
            (2.0 * (volume + SIGMA.ln()) - 2.0 * ball) / rank
        };
        let is_below = |i: f64| ln_norm(i) < (SIGMA * SIGMA * (self.d - i + 1.0)).ln();
        let lowest = (self.d - 1754.0).max(0.0) as u32;
        let highest = self.d as u32 - 1;
        if !is_below(highest.into()) {
            return Some(2.0);
        }
        if is_below(lowest.into()) && lowest > 0 {
            return None;
        }
        let i = first(lowest, highest, |i| is_below(i.into()));
        Some(self.d - f64::from(i) + 2.0).filter(|&rank| rank - 1.0 <= self.d)
    }

    /// `log2` of the chance that Babai's algorithm finds the error.
    fn babai(&self) -> f64 {
        self.chance(|x| erf(x / core::f64::consts::SQRT_2))
    }

    /// `log2` of the chance that the halves of a right guess meet, which each coordinate of the
    /// error may prevent.
    fn meeting(&self) -> f64 {
        self.chance(|x| {
            let x = x * core::f64::consts::SQRT_2;
            erf(x) + (-x * x).exp_m1() / (x * PI.sqrt())
        })
    }

    /// The product of `f` of half the norms, in deviations of the error.
    fn chance(&self, f: impl Fn(f64) -> f64) -> f64 {
        let mut log2 = 0.0;
        for i in (0..self.d as u32).rev() {
            let x = (self.norm(i.into()) - 1.0).exp2() / SIGMA;
            let chance = f(x);
            if chance <= 0.0 || log2 < -400.0 {
                return f64::NEG_INFINITY;
            }
            log2 += chance.log2();
            if 1.0 - chance < 1e-9 && x > 1e6 {
                break;
            }
        }
        log2
    }
}

/// `log2` of the root Hermite factor.
fn log2_delta(beta: f64) -> f64 {
    if beta <= 40.0 {
        return 1.01295f64.log2();
    }
    (beta / (2.0 * PI * E) * (PI * beta).powf(1.0 / beta)).log2() / (2.0 * (beta - 1.0))
}

/// Of reducing a basis of `d` vectors with this block size.
fn reduction(beta: f64, d: f64) -> f64 {
    const A: f64 = 0.296_135_003_082_053_65;
    const B: f64 = 20.387_885_985_467_914;
    let sieves = 1.0 / (1.0 - (-A).exp2());
    let free = (beta * (4.0f64 / 3.0).ln() / (beta / (2.0 * PI * E)).ln()).max(0.0);
    let rounds = (sieves * (d - beta).max(1.0)).log2();
    sum(3.0 * d.log2(), rounds + sieves.log2() + A * (beta - free) + B)
}

/// Repetitions until an attack of this chance has succeeded.
fn repetitions(log2_chance: f64) -> f64 {
    if log2_chance == f64::NEG_INFINITY {
        return f64::INFINITY;
    }
    let failure = (1.0 - SUCCESS).ln();
    if log2_chance >= SUCCESS.log2() {
        0.0
    } else if log2_chance > -40.0 {
        (failure / (-log2_chance.exp2()).ln_1p()).ceil().log2()
    } else {
        (-failure).log2() - log2_chance
    }
}

/// `log2(2^a + 2^b)`.
fn sum(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp2().ln_1p() / LN_2 }
}

fn binomial(n: f64, k: f64) -> f64 {
    if k < 0.0 || k > n {
        return f64::NEG_INFINITY;
    }
    (ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)) / LN_2
}

/// By Stirling's series, of arguments raised to 10.
fn ln_gamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 10.0 {
        below += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + (2.0 * PI).ln() / 2.0 + series - below
}

/// By its power series, and its continued fraction from 3 on.
fn erf(x: f64) -> f64 {
    if x < 3.0 {
        let mut term = x;
        let mut sum = x;
        let mut k = 0.0;
        while term.abs() > 1e-18 * sum.abs() {
            k += 1.0;
            term *= -x * x / k;
            sum += term / (2.0 * k + 1.0);
        }
        return 2.0 / PI.sqrt() * sum;
    }
    let fraction = (1..=60).rev().fold(x, |below, k| x + f64::from(k) / 2.0 / below);
    1.0 - (-x * x).exp() / (PI.sqrt() * fraction)
}

/// The first of `low..=high` for which `f` holds, as it does for all after it; `high` if none.
fn first(mut low: u32, mut high: u32, f: impl Fn(u32) -> bool) -> u32 {
    while low < high {
        let middle = (low + high) / 2;
        if f(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// The least value of `f` on `low..=high`, which falls and then rises: on a grid, and near it.
fn least(low: u32, high: u32, f: impl Fn(u32) -> f64) -> f64 {
    let grid = (low..=high).step_by(40).map(|x| (f(x), x));
    let (mut best, mut at) = grid.fold((f64::INFINITY, low), |a, b| if b.0 < a.0 { b } else { a });
    let mut step = 20;
    while step > 0 {
        for x in [at.saturating_sub(step).max(low), (at + step).min(high)] {
            let found = f(x);
            if found < best {
                (best, at) = (found, x);
            }
        }
        step /= 2;
    }
    best
}
