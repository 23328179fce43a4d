//! Carries: from digits of any small range to canonical ones.

use super::{Digits, Radix, Words, map::Request};
use crate::{array::Result, exact::IntegerRange};

/// A digit as the others see it: it adds `generates + propagates c` for a carry `c` from below.
struct Carry<P> {
    generates: P,
    /// `None` where nothing comes from below.
    propagates: Option<P>,
}

impl<D: Digits> Words<D> {
    /// Returns canonical digits of numbers modulo `B^k`, which are given by `k` digits.
    pub(super) fn normalized(&self, z: Vec<D::Plane>, radix: Radix) -> Result<Vec<D::Plane>> {
        let base = radix.base();
        let mut z = z;
        let direction = loop {
            let lower = z[..z.len() - 1].iter().map(|plane| self.digits.range(plane));
            let IntegerRange { low, high } =
                lower.reduce(IntegerRange::hull).unwrap_or(IntegerRange { low: 0, high: 0 });
            match (low >= 0, high < base) {
                (true, true) => break 0,
                (true, false) if high <= 2 * base - 2 => break 1,
                (false, true) if low > -base => break -1,
                (false, _) => z = self.made_positive(z, base, low)?,
                (true, false) => z = self.split(&z, radix)?,
            }
        };
        match direction {
            0 => self.top_reduced(z, base),
            _ => self.with_carries(z, base, direction),
        }
    }

    /// Adds a multiple of `B^k`, written with digits that make all others positive:
    /// `B + (B - 1) B + (B - 1) B^2 + ... = B^k`.
    fn made_positive(&self, z: Vec<D::Plane>, base: i64, low: i64) -> Result<Vec<D::Plane>> {
        let times = (-low + base - 2) / (base - 1);
        let plane = |(i, plane): (usize, &D::Plane)| {
            self.digits.sum(&[(plane, 1)], times * (base - i64::from(i > 0)))
        };
        z.iter().enumerate().map(plane).collect()
    }

    /// Splits each digit into digits, and adds them at their places. Digits below the top must not
    /// be negative.
    fn split(&self, z: &[D::Plane], radix: Radix) -> Result<Vec<D::Plane>> {
        let base = radix.base();
        let count = z.len();
        let request = |(i, x): (usize, &D::Plane)| {
            let IntegerRange { low, high } = self.digits.range(x);
            let digits = match i + 1 == count {
                true => 1,
                false => (1..count - i).take_while(|&n| high >= base.pow(n as u32)).count() + 1,
            };
            let digit = |n: usize| {
                let place = base.pow(n as u32);
                (low..=high).map(|v| v.div_euclid(place).rem_euclid(base)).collect()
            };
            Request { x: x.clone(), functions: (0..digits).map(digit).collect() }
        };
        let found = self.evaluated(z.iter().enumerate().map(request).collect())?;
        let place = |i: usize| {
            let terms: Vec<_> = (0..=i).filter_map(|j| Some((found[j].get(i - j)?, 1))).collect();
            self.digits.sum(&terms, 0)
        };
        (0..count).map(place).collect()
    }

    /// Reduces the top digit alone.
    fn top_reduced(&self, mut z: Vec<D::Plane>, base: i64) -> Result<Vec<D::Plane>> {
        let Some(top) = z.pop() else { return Ok(z) };
        let IntegerRange { low, high } = self.digits.range(&top);
        let function = (low..=high).map(|v| v.rem_euclid(base)).collect();
        let mut found = self.evaluated(vec![Request { x: top, functions: vec![function] }])?;
        z.append(&mut found[0]);
        Ok(z)
    }

    /// Computes carries, which are 0 or `direction`, and adds them. Digits below the top generate no
    /// other ones.
    fn with_carries(&self, z: Vec<D::Plane>, base: i64, direction: i64) -> Result<Vec<D::Plane>> {
        let top = z.len() - 1;
        // The last digit that a carry passes, and the first that makes one.
        let edge = if direction > 0 { base - 1 } else { 0 };
        let request = |(i, x): (usize, &D::Plane)| {
            let IntegerRange { low, high } = self.digits.range(x);
            let all = |f: &dyn Fn(i64) -> i64| (low..=high).map(f).collect::<Vec<i64>>();
            let functions = match i == top {
                // The top digit itself takes the place of its carry.
                true => {
                    let digit = |v: i64| v.rem_euclid(base);
                    vec![all(&digit), all(&|v| digit(v + direction) - digit(v))]
                }
                false => {
                    let makes = |v: i64| (v * direction > edge * direction).into();
                    let mut functions = vec![all(&makes)];
                    if i > 0 {
                        functions.push(all(&|v| (v == edge).into()));
                    }
                    functions
                }
            };
            Request { x: x.clone(), functions }
        };
        let found = self.evaluated(z.iter().enumerate().map(request).collect())?;
        let carry = |mut found: Vec<D::Plane>| {
            let propagates = if found.len() > 1 { found.pop() } else { None };
            Carry { generates: found.remove(0), propagates }
        };
        let carries = self.prefix(found.into_iter().map(carry).collect(), base)?;
        let place = |i: usize| {
            if i == top {
                return Ok(carries[i].clone());
            }
            let mut terms = vec![(&z[i], 1), (&carries[i], -direction * base)];
            if i > 0 {
                terms.push((&carries[i - 1], direction));
            }
            Ok(self.within(&self.digits.sum(&terms, 0)?, 0, base - 1))
        };
        (0..z.len()).map(place).collect()
    }

    /// Returns the carry out of each digit by Sklansky's network: `ceil(log2 k)` levels. The last
    /// digit is below `base`.
    fn prefix(&self, mut all: Vec<Carry<D::Plane>>, base: i64) -> Result<Vec<D::Plane>> {
        let count = all.len();
        let mut half = 1;
        while half < count {
            // The block of `half` digits below the block of digit `i` ends at this one.
            let below = |i: usize| i / half * half - 1;
            let upper: Vec<usize> = (0..count).filter(|i| i & half != 0).collect();
            let mut sums = Vec::new();
            for &i in &upper {
                let Some(own) = &all[i].propagates else { continue };
                sums.push(vec![(own.clone(), all[below(i)].generates.clone())]);
                if let Some(others) = &all[below(i)].propagates {
                    sums.push(vec![(own.clone(), others.clone())]);
                }
            }
            let mut products = self.digits.products(&sums)?.into_iter();
            for i in upper {
                if all[i].propagates.is_none() {
                    continue;
                }
                let high = if i + 1 == count { base - 1 } else { 1 };
                if let Some(product) = products.next() {
                    let sum = self.digits.sum(&[(&all[i].generates, 1), (&product, 1)], 0)?;
                    all[i].generates = self.within(&sum, 0, high);
                }
                all[i].propagates = match all[below(i)].propagates {
                    Some(_) => products.next(),
                    None => None,
                };
            }
            half *= 2;
        }
        Ok(all.into_iter().map(|carry| carry.generates).collect())
    }
}
