//! Values of trees, from their tests.

use super::{
    super::bound::{BoundNode, BoundTree},
    Run, TOGETHER,
    shape::{Recipe, frontier, height, upper_half},
};
use sudare::{
    Result,
    circuits::{Ops, exact::IntegerSlots},
    rlwe::{Level, ProductSum},
};

/// A sum of a constant, of ciphertexts times constants, and of products.
#[derive(Clone)]
pub(super) struct Terms<C> {
    constant: i128,
    linear: Vec<(C, i128)>,
    products: Vec<(C, C)>,
}

impl<C> Terms<C> {
    fn new(constant: i128) -> Self {
        Self { constant, linear: Vec::new(), products: Vec::new() }
    }
}

/// A constant and a ciphertext.
struct Value<C> {
    constant: i128,
    varying: Option<C>,
}

/// The indicator of the rows that reach a node.
struct Path<C> {
    node: usize,
    /// `None` for the last path, whose indicator is 1 minus all others.
    indicator: Option<C>,
}

impl<E: Ops<Algebra = IntegerSlots>> Run<'_, E> {
    /// Returns the terms of each output of a tree.
    pub(super) fn terms(
        &mut self,
        tree: &BoundTree,
        recipe: &Recipe,
        tests: &[Option<E::Ct>],
    ) -> Result<Vec<Terms<E::Ct>>> {
        self.terms_below(tree, 0, recipe, tests)
    }

    fn terms_below(
        &mut self,
        tree: &BoundTree,
        node: usize,
        recipe: &Recipe,
        tests: &[Option<E::Ct>],
    ) -> Result<Vec<Terms<E::Ct>>> {
        let (depth, below) = match recipe {
            Recipe::Flat => (height(tree, node), &[][..]),
            Recipe::Split { depth, below } => (*depth, &below[..]),
        };
        let mut paths = self.paths(tree, node, depth, tests)?;
        let mut values = Vec::with_capacity(paths.len());
        for (place, path) in paths.iter().enumerate() {
            values.push(match (&tree.nodes[path.node], below.get(place)) {
                (BoundNode::Leaf(leaf), _) => {
                    let value = |&x: &i64| Value { constant: x.into(), varying: None };
                    leaf.iter().map(value).collect()
                }
                (BoundNode::Split { .. }, recipe) => {
                    let recipe = recipe.unwrap_or(&Recipe::Flat);
                    let terms = self.terms_below(tree, path.node, recipe, tests)?;
                    let values = terms.into_iter().map(|terms| self.value(terms));
                    values.collect::<Result<Vec<_>>>()?
                }
            });
        }
        // Indicators sum to 1: the value of the last path, and differences to it.
        paths.pop();
        let Some(last) = values.pop() else { return Ok(Vec::new()) };
        let mut sums: Vec<Terms<E::Ct>> = Vec::with_capacity(last.len());
        for (output, rest) in last.into_iter().enumerate() {
            let mut terms = Terms::new(rest.constant);
            for (path, values) in paths.iter().zip(&values) {
                let (Some(indicator), Some(value)) = (&path.indicator, values.get(output)) else {
                    continue;
                };
                let constant = value.constant - rest.constant;
                let difference = match (&value.varying, &rest.varying) {
                    (Some(a), Some(b)) => Some(self.e.sub(a, b)?),
                    (Some(a), None) => Some(a.clone()),
                    (None, Some(b)) => Some(self.negated(&[b])?),
                    (None, None) => None,
                };
                match difference {
                    Some(difference) => {
                        let difference = self.e.add_const(&difference, constant)?;
                        terms.products.push((indicator.clone(), difference));
                    }
                    None if constant != 0 => terms.linear.push((indicator.clone(), constant)),
                    None => {}
                }
            }
            terms.linear.extend(rest.varying.map(|x| (x, 1)));
            sums.push(terms);
        }
        Ok(sums)
    }

    /// Returns minus the sum of ciphertexts of one factor.
    fn negated(&self, xs: &[&E::Ct]) -> Result<E::Ct> {
        let level = xs.iter().map(|x| self.e.level(x)).min().unwrap_or(Level(0));
        let xs = xs.iter().map(|x| self.at(x, level)).collect::<Result<Vec<_>>>()?;
        let terms: Vec<_> = xs.iter().map(|x| (&**x, -1)).collect();
        self.constant_sum(&terms, level, self.factor(level))
    }

    /// Returns the value of terms, one level below them.
    fn value(&mut self, terms: Terms<E::Ct>) -> Result<Value<E::Ct>> {
        let Terms { constant, linear, products } = terms;
        let of_products = products.iter().flat_map(|(a, b)| [a, b]);
        let all = of_products.chain(linear.iter().map(|(x, _)| x));
        let Some(level) = all.map(|x| self.e.level(x)).min() else {
            return Ok(Value { constant, varying: None });
        };
        let linear: Vec<_> = linear.iter().map(|(x, c)| (x, *c)).collect();
        if products.is_empty() {
            return Ok(Value { constant, varying: Some(self.weighted(&linear, level)?) });
        }
        let addend = self.addend(&linear, level)?;
        let factors = products.iter().map(|(a, b)| Ok((self.at(a, level)?, self.at(b, level)?)));
        let factors = factors.collect::<Result<Vec<_>>>()?;
        let products = factors.iter().map(|(a, b)| (&**a, &**b)).collect();
        let sum = self.e.mul_sum_rescale(&ProductSum { products, addend: addend.as_ref() })?;
        self.relinearizations += 1;
        Ok(Value { constant, varying: Some(sum) })
    }

    /// Returns the paths of at most `depth` tests, from left to right.
    fn paths(
        &mut self,
        tree: &BoundTree,
        node: usize,
        depth: usize,
        tests: &[Option<E::Ct>],
    ) -> Result<Vec<Path<E::Ct>>> {
        let BoundNode::Split { cut, left, right } = tree.nodes[node] else {
            return Ok(vec![Path { node, indicator: None }]);
        };
        if depth < 2 {
            let left = Path { node: left, indicator: tests[cut].clone() };
            return Ok(vec![left, Path { node: right, indicator: None }]);
        }
        let upper = upper_half(depth);
        let above = self.paths(tree, node, upper, tests)?;
        let mut found = Vec::with_capacity(frontier(tree, node, depth).len());
        let count = above.len();
        for place in 0..count {
            let below = self.paths(tree, above[place].node, depth - upper, tests)?;
            if below.len() == 1 {
                let indicator = above[place].indicator.clone();
                found.push(Path { node: above[place].node, indicator });
                continue;
            }
            let whole = match &above[place].indicator {
                Some(indicator) => indicator.clone(),
                None => {
                    let others: Vec<_> =
                        above.iter().filter_map(|path| path.indicator.as_ref()).collect();
                    self.e.add_const(&self.negated(&others)?, 1)?
                }
            };
            let parts: Vec<_> = below.iter().filter_map(|path| path.indicator.as_ref()).collect();
            let products = self.multiplied(&whole, &parts)?;
            // The last path takes the rows that no other path has.
            let rest = match place + 1 == count {
                true => None,
                false => {
                    let level = products.first().map_or(Level(0), |product| self.e.level(product));
                    let whole = self.at(&whole, level)?.into_owned();
                    let rest = products.iter().try_fold(whole, |rest, x| self.e.sub(&rest, x))?;
                    Some(rest)
                }
            };
            let indicators = products.into_iter().map(Some).chain([rest]);
            let nodes = below.into_iter().map(|path| path.node);
            found.extend(nodes.zip(indicators).map(|(node, indicator)| Path { node, indicator }));
        }
        Ok(found)
    }

    /// Returns the products of a ciphertext with others, all at one level.
    fn multiplied(&mut self, whole: &E::Ct, parts: &[&E::Ct]) -> Result<Vec<E::Ct>> {
        let all = parts.iter().copied().chain([whole]);
        let level = all.map(|x| self.e.level(x)).min().unwrap_or(Level(0));
        let whole = self.at(whole, level)?;
        let parts = parts.iter().map(|part| self.at(part, level)).collect::<Result<Vec<_>>>()?;
        let pairs: Vec<_> = parts.iter().map(|part| (&*whole, &**part)).collect();
        self.relinearizations += pairs.len();
        self.e.mul_rescale_many(&pairs)
    }
}

/// Sums of the values of trees.
pub(super) struct Totals<C> {
    /// Terms that wait for the next product, at level 1.
    waiting: Vec<Terms<C>>,
    sums: Vec<Option<C>>,
}

impl<C: Clone + Send + Sync> Totals<C> {
    pub fn new(outputs: usize) -> Self {
        Self { waiting: vec![Terms::new(0); outputs], sums: vec![None; outputs] }
    }

    /// Adds the terms of a tree to the outputs from `first` on.
    pub fn add<E: Ops<Algebra = IntegerSlots, Ct = C>>(
        &mut self,
        run: &mut Run<'_, E>,
        first: usize,
        terms: Vec<Terms<C>>,
    ) -> Result<()> {
        for (output, terms) in (first..).zip(terms) {
            let waiting = &mut self.waiting[output];
            waiting.constant += terms.constant;
            let lowest = Level(1);
            for (a, b) in terms.products {
                let a = run.at(&a, lowest)?.into_owned();
                waiting.products.push((a, run.at(&b, lowest)?.into_owned()));
            }
            for (x, c) in terms.linear {
                waiting.linear.push((run.dropped(&x, lowest)?.into_owned(), c));
            }
            if waiting.products.len() + waiting.linear.len() >= TOGETHER {
                self.flush(run, output)?;
            }
        }
        Ok(())
    }

    /// Adds the waiting terms of an output to its sum.
    fn flush<E: Ops<Algebra = IntegerSlots, Ct = C>>(
        &mut self,
        run: &mut Run<'_, E>,
        output: usize,
    ) -> Result<()> {
        let constant = self.waiting[output].constant;
        let terms = core::mem::replace(&mut self.waiting[output], Terms::new(constant));
        let Some(value) = run.value(terms)?.varying else { return Ok(()) };
        self.sums[output] = Some(match self.sums[output].take() {
            Some(sum) => run.e.add(&sum, &value)?,
            None => value,
        });
        Ok(())
    }

    /// Returns the sums, at level 0. An output without tests is a constant ciphertext, made of `any`
    /// one.
    pub fn finish<E: Ops<Algebra = IntegerSlots, Ct = C>>(
        mut self,
        run: &mut Run<'_, E>,
        any: Option<C>,
    ) -> Result<Vec<C>> {
        (0..self.sums.len()).try_for_each(|output| self.flush(run, output))?;
        let sums = self.sums.into_iter().zip(&self.waiting);
        let sum = |(sum, waiting): (Option<C>, &Terms<C>)| {
            let sum = match (sum, &any) {
                (Some(sum), _) => sum,
                (None, Some(any)) => {
                    let any = run.at(any, Level(0))?;
                    run.e.sub(&any, &any)?
                }
                (None, None) => {
                    let problem = "trees: there is no test to start from";
                    return Err(sudare::Error::Circuit(problem.into()));
                }
            };
            run.e.add_const(&sum, waiting.constant)
        };
        sums.map(sum).collect()
    }
}
