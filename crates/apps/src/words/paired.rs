use super::Digits;
use crate::{
    array::Result,
    exact::{IntegerRange, Layout},
};

/// Computes with two engines at once, for example in the clear and on the simulator.
#[derive(Debug)]
pub struct Paired<A, B>(pub A, pub B);

/// A plane of each engine.
#[derive(Debug, Clone)]
pub struct PairedPlane<A, B>(pub A, pub B);

impl<A: Digits, B: Digits> Digits for Paired<A, B> {
    type Plane = PairedPlane<A::Plane, B::Plane>;

    fn layout<'a>(&self, a: &'a Self::Plane) -> &'a Layout {
        self.1.layout(&a.1)
    }
    fn range(&self, a: &Self::Plane) -> IntegerRange {
        self.1.range(&a.1)
    }
    fn within(&self, a: &Self::Plane, range: IntegerRange) -> Self::Plane {
        PairedPlane(self.0.within(&a.0, range), self.1.within(&a.1, range))
    }
    fn reshaped(&self, a: &Self::Plane, shape: &[usize]) -> Result<Self::Plane> {
        Ok(PairedPlane(self.0.reshaped(&a.0, shape)?, self.1.reshaped(&a.1, shape)?))
    }
    fn repeated(&self, op: &'static str, a: &Self::Plane, shape: &[usize]) -> Result<Self::Plane> {
        Ok(PairedPlane(self.0.repeated(op, &a.0, shape)?, self.1.repeated(op, &a.1, shape)?))
    }
    fn sum(&self, terms: &[(&Self::Plane, i64)], constant: i64) -> Result<Self::Plane> {
        let first: Vec<_> = terms.iter().map(|(a, c)| (&a.0, *c)).collect();
        let second: Vec<_> = terms.iter().map(|(a, c)| (&a.1, *c)).collect();
        // The second refuses what the first need not.
        let sum = self.1.sum(&second, constant)?;
        Ok(PairedPlane(self.0.sum(&first, constant)?, sum))
    }
    fn add_plain(&self, a: &Self::Plane, values: &[i64]) -> Result<Self::Plane> {
        Ok(PairedPlane(self.0.add_plain(&a.0, values)?, self.1.add_plain(&a.1, values)?))
    }
    fn products(&self, sums: &[Vec<(Self::Plane, Self::Plane)>]) -> Result<Vec<Self::Plane>> {
        let pairs = |sum: &Vec<(Self::Plane, Self::Plane)>| {
            let pairs =
                sum.iter().map(|(a, b)| ((a.0.clone(), b.0.clone()), (a.1.clone(), b.1.clone())));
            pairs.unzip::<_, _, Vec<_>, Vec<_>>()
        };
        let (first, second): (Vec<_>, Vec<_>) = sums.iter().map(pairs).unzip();
        let second = self.1.products(&second)?;
        let first = self.0.products(&first)?;
        Ok(first.into_iter().zip(second).map(|(a, b)| PairedPlane(a, b)).collect())
    }
    fn tables(&self, xs: &[Self::Plane], functions: &[Vec<i64>]) -> Result<Vec<Vec<Self::Plane>>> {
        let second: Vec<_> = xs.iter().map(|x| x.1.clone()).collect();
        let second = self.1.tables(&second, functions)?;
        let first: Vec<_> = xs.iter().map(|x| x.0.clone()).collect();
        let first = self.0.tables(&first, functions)?;
        let pair = |(a, b): (Vec<_>, Vec<_>)| {
            a.into_iter().zip(b).map(|(a, b)| PairedPlane(a, b)).collect()
        };
        Ok(first.into_iter().zip(second).map(pair).collect())
    }
}
