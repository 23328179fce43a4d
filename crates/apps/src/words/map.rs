//! Tables of digits, and functions of words that are sums of functions of their digits.

use super::{Digits, Radix, Words};
use crate::{array::Result, exact::IntegerRange};

/// A plane and functions to look up.
pub(super) struct Request<P> {
    pub(super) x: P,
    pub(super) functions: Vec<Vec<i64>>,
}

impl<D: Digits> Words<D> {
    /// Returns a request of functions that are given by their values for all digits. Only those in the
    /// range of the plane are looked up.
    pub(super) fn request(&self, x: &D::Plane, mut functions: Vec<Vec<i64>>) -> Request<D::Plane> {
        let IntegerRange { low, high } = self.digits.range(x);
        for function in &mut functions {
            function.truncate(high as usize + 1);
            function.drain(..low as usize);
        }
        Request { x: x.clone(), functions }
    }

    /// Looks up the functions of each plane. Planes of one range with the same functions are looked
    /// up together. Functions that are the number itself, or a constant, take no table.
    pub(super) fn evaluated(&self, requests: Vec<Request<D::Plane>>) -> Result<Vec<Vec<D::Plane>>> {
        let mut results: Vec<Vec<Option<D::Plane>>> = Vec::new();
        let mut groups: Vec<(IntegerRange, Vec<Vec<i64>>, Vec<usize>)> = Vec::new();
        for (i, Request { x, functions }) in requests.iter().enumerate() {
            let range = self.digits.range(x);
            let direct = functions.iter().map(|f| self.direct(x, range, f));
            let direct: Vec<_> = direct.collect::<Result<_>>()?;
            let looked_up = functions.iter().zip(&direct).filter(|(_, found)| found.is_none());
            let looked_up: Vec<_> = looked_up.map(|(f, _)| f.clone()).collect();
            results.push(direct);
            if looked_up.is_empty() {
                continue;
            }
            match groups.iter_mut().find(|(r, f, _)| *r == range && *f == looked_up) {
                Some((_, _, members)) => members.push(i),
                None => groups.push((range, looked_up, vec![i])),
            }
        }
        for (_, functions, members) in groups {
            let xs: Vec<_> = members.iter().map(|&i| requests[i].x.clone()).collect();
            for (i, found) in members.into_iter().zip(self.digits.tables(&xs, &functions)?) {
                let mut found = found.into_iter();
                for result in results[i].iter_mut().filter(|result| result.is_none()) {
                    *result = found.next();
                }
            }
        }
        Ok(results.into_iter().map(|found| found.into_iter().flatten().collect()).collect())
    }

    /// Returns a function that takes no table.
    fn direct(
        &self,
        x: &D::Plane,
        range: IntegerRange,
        function: &[i64],
    ) -> Result<Option<D::Plane>> {
        let numbers = range.low..=range.high;
        if function.iter().zip(numbers).all(|(&value, x)| value == x) {
            return Ok(Some(x.clone()));
        }
        match function {
            [first, rest @ ..] if rest.iter().all(|value| value == first) => {
                Ok(Some(self.constant(x, *first)?))
            }
            _ => Ok(None),
        }
    }

    /// Returns sums of functions of canonical digits at `constants.len()` places: place `j` is
    /// `constants[j] + sum_i f(i, j)(x_i)`. Each function is given by its values for the digits.
    pub(super) fn mapped(
        &self,
        x: &[D::Plane],
        constants: &[i64],
        f: impl Fn(usize, usize) -> Option<Vec<i64>>,
    ) -> Result<Vec<D::Plane>> {
        let places = constants.len();
        let mut requests = Vec::new();
        let mut targets = Vec::new();
        for (i, plane) in x.iter().enumerate() {
            let found = (0..places).filter_map(|j| Some((j, f(i, j)?)));
            let found = found.filter(|(_, f)| f.iter().any(|&value| value != 0));
            let (to, functions): (Vec<_>, Vec<_>) = found.unzip();
            requests.push(self.request(plane, functions));
            targets.push(to);
        }
        let found = self.evaluated(requests)?;
        let mut sums: Vec<Vec<&D::Plane>> = vec![Vec::new(); places];
        for (to, found) in targets.iter().zip(&found) {
            for (&j, plane) in to.iter().zip(found) {
                sums[j].push(plane);
            }
        }
        let sum = |(planes, &c): (Vec<&D::Plane>, &i64)| match planes[..] {
            [] => self.constant(&x[0], c),
            [plane] if c == 0 => Ok(plane.clone()),
            _ => self.digits.sum(&planes.into_iter().map(|p| (p, 1)).collect::<Vec<_>>(), c),
        };
        sums.into_iter().zip(constants).map(sum).collect()
    }

    /// Returns the digits in the other radix: nibbles of bytes, or bytes of an even
    /// number of nibbles. Digits are canonical.
    pub(super) fn recoded(
        &self,
        planes: Vec<D::Plane>,
        from: Radix,
        to: Radix,
    ) -> Result<Vec<D::Plane>> {
        match (from, to) {
            (Radix::Bytes, Radix::Nibbles) => {
                let halves =
                    || vec![(0..256).map(|v| v % 16).collect(), (0..256).map(|v| v / 16).collect()];
                let requests = planes.iter().map(|x| self.request(x, halves()));
                Ok(self.evaluated(requests.collect())?.concat())
            }
            (Radix::Nibbles, Radix::Bytes) => {
                let byte = |pair: &[D::Plane]| {
                    let terms: Vec<_> = pair.iter().zip([1, 16]).collect();
                    self.digits.sum(&terms, 0)
                };
                planes.chunks(2).map(byte).collect()
            }
            _ => Ok(planes),
        }
    }
}
