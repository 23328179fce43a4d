//! Comparisons and selection.

use super::{
    Bitwise, Digits, Operand, PlainWords, Side, Sides, Word, WordType, Words, argument,
    in_the_clear, map::Request,
};
use crate::{
    array::Result,
    exact::{Comparison, IntegerRange},
};

/// A group of neighbouring digits: where the group of the left operand is less, and where both are
/// equal. The group of the lowest digit needs no equality.
struct Group<P> {
    less: P,
    equal: Option<P>,
}

impl<D: Digits> Words<D> {
    /// Compares element by element.
    ///
    /// # Errors
    /// The errors of [`Words::add`].
    pub fn compare(
        &self,
        a: &Operand<D::Plane>,
        comparison: Comparison,
        b: &Operand<D::Plane>,
    ) -> Result<Word<D::Plane>> {
        let Sides { a, b, .. } = self.sides("compare", a, b)?;
        match comparison {
            Comparison::Less => self.less(&a, &b),
            Comparison::Greater => self.less(&b, &a),
            Comparison::LessEqual => self.invert(&self.less(&b, &a)?),
            Comparison::GreaterEqual => self.invert(&self.less(&a, &b)?),
            Comparison::Equal => self.equal(&a, &b),
            Comparison::NotEqual => self.invert(&self.equal(&a, &b)?),
        }
    }

    fn less(&self, a: &Side<D::Plane>, b: &Side<D::Plane>) -> Result<Word<D::Plane>> {
        let requests = self.differences(a, b, |i, below, same| match i {
            0 => vec![below],
            _ => vec![below, same],
        })?;
        let group = |mut found: Vec<D::Plane>| {
            let equal = if found.len() > 1 { found.pop() } else { None };
            Group { less: found.remove(0), equal }
        };
        let mut groups: Vec<_> = self.evaluated(requests)?.into_iter().map(group).collect();
        while groups.len() > 1 {
            let mut sums = Vec::new();
            for pair in groups.chunks_exact(2) {
                let Some(high) = &pair[1].equal else { continue };
                sums.push(vec![(high.clone(), pair[0].less.clone())]);
                if let Some(low) = &pair[0].equal {
                    sums.push(vec![(high.clone(), low.clone())]);
                }
            }
            let mut products = self.digits.products(&sums)?.into_iter();
            let mut joined = Vec::with_capacity(groups.len().div_ceil(2));
            let mut rest = groups.into_iter();
            while let Some(low) = rest.next() {
                // The highest of an odd number of groups waits for the next round.
                let Some(high) = rest.next() else {
                    joined.push(low);
                    break;
                };
                let Some(product) = products.next() else { break };
                let less = self.digits.sum(&[(&high.less, 1), (&product, 1)], 0)?;
                let equal = if low.equal.is_some() { products.next() } else { None };
                joined.push(Group { less: self.within(&less, 0, 1), equal });
            }
            groups = joined;
        }
        let planes = groups.into_iter().map(|group| group.less).collect();
        Ok(Word::new(WordType::BOOL, radix_of(a, b)?, planes))
    }

    fn equal(&self, a: &Side<D::Plane>, b: &Side<D::Plane>) -> Result<Word<D::Plane>> {
        let requests = self.differences(a, b, |_, _, same| vec![same])?;
        let mut equal: Vec<_> = self.evaluated(requests)?.concat();
        while equal.len() > 1 {
            let pairs = equal.chunks_exact(2).map(|pair| vec![(pair[0].clone(), pair[1].clone())]);
            let mut products = self.digits.products(&pairs.collect::<Vec<_>>())?;
            if equal.len() % 2 == 1 {
                products.extend(equal.pop());
            }
            equal = products;
        }
        Ok(Word::new(WordType::BOOL, radix_of(a, b)?, equal))
    }

    /// Returns, for each digit, the numbers to look up and functions of them: `choose` picks among
    /// the tables of `a_i < b_i` and of `a_i = b_i`.
    fn differences(
        &self,
        a: &Side<D::Plane>,
        b: &Side<D::Plane>,
        choose: impl Fn(usize, Vec<i64>, Vec<i64>) -> Vec<Vec<i64>>,
    ) -> Result<Vec<Request<D::Plane>>> {
        let request = |i: usize, x: D::Plane, at: i64, sign: i64| {
            let IntegerRange { low, high } = self.digits.range(&x);
            let all = |f: &dyn Fn(i64) -> bool| (low..=high).map(|v| f(v).into()).collect();
            let below = all(&|v| sign * v < sign * at);
            Request { x, functions: choose(i, below, all(&|v| v == at)) }
        };
        match (a, b) {
            (Side::Word(a), Side::Word(b)) => {
                let a = self.canonical(a)?;
                let b = self.canonical(b)?;
                let pairs = a.iter().zip(&b).enumerate();
                let difference =
                    |(i, (a, b))| Ok(request(i, self.digits.sum(&[(a, 1), (b, -1)], 0)?, 0, 1));
                pairs.map(difference).collect()
            }
            (Side::Word(x), Side::Scalar(c)) | (Side::Scalar(c), Side::Word(x)) => {
                let sign = if matches!(a, Side::Word(_)) { 1 } else { -1 };
                let planes = self.canonical(x)?;
                let digits = x.radix.digits((*c).into(), planes.len());
                let digit = |(i, (x, c))| request(i, x, c, sign);
                Ok(planes.into_iter().zip(digits).enumerate().map(digit).collect())
            }
            (Side::Scalar(_), Side::Scalar(_)) => Err(in_the_clear("compare")),
        }
    }

    /// Returns `a` where the mask is true, and `b` where it is false.
    ///
    /// # Errors
    /// [`ArrayError::Argument`](crate::array::ArrayError::Argument) for a mask that is not
    /// encrypted booleans, or two plain choices; the errors of [`Words::add`].
    pub fn select(
        &self,
        mask: &Operand<D::Plane>,
        a: &Operand<D::Plane>,
        b: &Operand<D::Plane>,
    ) -> Result<Word<D::Plane>> {
        const OP: &str = "select";
        let Sides { kind, a, b } = self.sides(OP, a, b)?;
        let ((Side::Word(like), _) | (_, Side::Word(like))) = (&a, &b) else {
            return Err(in_the_clear(OP));
        };
        let shape = self.shape(like).to_vec();
        let mask = match mask {
            Operand::Encrypted(mask) if mask.kind == WordType::BOOL => mask.clone(),
            Operand::Encrypted(mask) => {
                return Err(argument(OP, format!("a mask is {}: compare it first", mask.kind)));
            }
            Operand::Plain(plain) => {
                plain.check(WordType::BOOL)?;
                let planes = vec![like.planes[0].clone()];
                self.lifted(&Word::new(WordType::BOOL, like.radix, planes), plain, &shape)?
            }
        };
        let mask = match self.shape(&mask) == shape {
            true => mask.planes[0].clone(),
            false => self.digits.repeated(OP, &mask.planes[0], &shape)?,
        };
        self.selected(&mask, kind, &a, &b)
    }

    fn selected(
        &self,
        mask: &D::Plane,
        kind: WordType,
        a: &Side<D::Plane>,
        b: &Side<D::Plane>,
    ) -> Result<Word<D::Plane>> {
        let radix = radix_of(a, b)?;
        let count = radix.planes(kind);
        let parts = |side: &Side<D::Plane>| match side {
            Side::Word(x) => {
                let planes = x.canonical.get().unwrap_or(&x.planes);
                planes.iter().map(|plane| (Some(plane.clone()), 0)).collect::<Vec<_>>()
            }
            Side::Scalar(c) => {
                radix.digits((*c).into(), count).into_iter().map(|c| (None, c)).collect()
            }
        };
        let a = parts(a);
        let b = parts(b);
        let mut sums = Vec::with_capacity(count);
        for ((a, c), (b, d)) in a.iter().zip(&b) {
            let terms = a.iter().map(|a| (a, 1)).chain(b.iter().map(|b| (b, -1)));
            let difference = self.digits.sum(&terms.collect::<Vec<_>>(), c - d)?;
            sums.push(vec![(mask.clone(), difference)]);
        }
        let products = self.digits.products(&sums)?;
        let plane = |(i, product): (usize, &D::Plane)| {
            let (other, d) = &b[i];
            let terms = core::iter::once((product, 1)).chain(other.iter().map(|b| (b, 1)));
            let sum = self.digits.sum(&terms.collect::<Vec<_>>(), *d)?;
            let range = |(plane, c): &(Option<D::Plane>, i64)| match plane {
                Some(plane) => self.digits.range(plane),
                None => IntegerRange { low: *c, high: *c },
            };
            Ok(self.digits.within(&sum, range(&a[i]).hull(range(&b[i]))))
        };
        let planes = products.iter().enumerate().map(plane).collect::<Result<_>>()?;
        Ok(Word::new(kind, radix, planes))
    }

    /// Returns the lower of both.
    ///
    /// # Errors
    /// The errors of [`Words::add`].
    pub fn minimum(&self, a: &Operand<D::Plane>, b: &Operand<D::Plane>) -> Result<Word<D::Plane>> {
        self.extreme("minimum", a, b, true)
    }

    /// Returns the higher of both.
    ///
    /// # Errors
    /// The errors of [`Words::add`].
    pub fn maximum(&self, a: &Operand<D::Plane>, b: &Operand<D::Plane>) -> Result<Word<D::Plane>> {
        self.extreme("maximum", a, b, false)
    }

    fn extreme(
        &self,
        op: &'static str,
        a: &Operand<D::Plane>,
        b: &Operand<D::Plane>,
        lower: bool,
    ) -> Result<Word<D::Plane>> {
        let Sides { kind, a, b } = self.sides(op, a, b)?;
        if kind == WordType::BOOL {
            let op = if lower { Bitwise::And } else { Bitwise::Or };
            return self.bitwise_of(op, &a, &b);
        }
        let less = self.less(&a, &b)?;
        let [yes, no] = if lower { [&a, &b] } else { [&b, &a] };
        self.selected(&less.planes[0], kind, yes, no)
    }

    /// Returns where an element is one of some numbers, in two's complement.
    ///
    /// # Errors
    /// The errors of [`Words::add`].
    pub fn is_in(&self, a: &Word<D::Plane>, numbers: &[u64]) -> Result<Word<D::Plane>> {
        let held = numbers.iter().filter(|&&number| a.kind.holds(number));
        let codes: std::collections::BTreeSet<u64> = held.map(|&x| a.kind.code(x)).collect();
        let x = Side::Word(a.clone());
        let found = codes.into_iter().map(|code| self.equal(&x, &Side::Scalar(code)));
        let found = found.collect::<Result<Vec<_>>>()?;
        let plane = match &found[..] {
            [] => self.constant(&a.planes[0], 0)?,
            _ => {
                // An element equals at most one of them.
                let terms: Vec<_> = found.iter().map(|mask| (&mask.planes[0], 1)).collect();
                self.within(&self.digits.sum(&terms, 0)?, 0, 1)
            }
        };
        Ok(Word::new(WordType::BOOL, a.radix, vec![plane]))
    }

    /// Returns the number of edges, in two's complement, that are below each element, or at most
    /// equal to it if `right`. The result has type `int64`.
    ///
    /// # Errors
    /// The errors of [`Words::add`].
    pub fn search_sorted(
        &self,
        edges: &[u64],
        a: &Word<D::Plane>,
        right: bool,
    ) -> Result<Word<D::Plane>> {
        let kind = WordType::new(64, true)?;
        let x = Operand::Encrypted(a.clone());
        let comparison = if right { Comparison::GreaterEqual } else { Comparison::Greater };
        let above =
            |&edge: &u64| self.compare(&x, comparison, &Operand::Plain(PlainWords::scalar(edge)));
        let masks = edges.iter().map(above).collect::<Result<Vec<_>>>()?;
        let terms: Vec<_> = masks.iter().map(|mask| (&mask.planes[0], 1)).collect();
        let count = match terms.is_empty() {
            true => self.constant(&a.planes[0], 0)?,
            false => self.digits.sum(&terms, 0)?,
        };
        // Converted like a boolean, the count stays in the lowest digit until its carry is needed.
        self.converted(&Word::new(WordType::BOOL, a.radix, vec![count]), kind)
    }
}

/// Returns the radix of the encrypted side.
fn radix_of<P>(a: &Side<P>, b: &Side<P>) -> Result<super::Radix> {
    match (a, b) {
        (Side::Word(x), _) | (_, Side::Word(x)) => Ok(x.radix),
        _ => Err(in_the_clear("compare")),
    }
}
