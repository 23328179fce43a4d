//! The server's side of a search.

use sudare::{
    circuits::{Ops, ckks::ComplexOps},
    ckks::{Complex, ProductSum, Scale},
    rlwe::Level,
};
use sudare_arith::par;

use super::{
    error::{Result, SearchError, expect},
    layout::powers_of_x,
    plan::{CHUNK, Content, Plan, Record, turns},
    select::Selection,
    spec::Mode,
};

/// A query, as the server has it.
#[derive(Debug, Clone, Copy)]
pub enum Query<'a, C> {
    /// The query in the clear.
    Plain(&'a [f64]),
    /// The ciphertext from [`Plan::encrypt_query`].
    Encrypted(&'a C),
}

/// A block of an index, as the server has it.
pub enum Block<'a, C> {
    /// The records in the clear, with `None` in place of deleted ones.
    Plain(&'a [Option<Record<'a>>]),
    /// A function that reads a ciphertext of [`Plan::encrypt_block`] by its number. Only a few are
    /// in memory at a time.
    Encrypted(&'a mut dyn FnMut(usize) -> Result<C>),
}

/// A search for one query, on any evaluator with the plan's chain, including the simulator.
pub struct Search<'a, E: Ops> {
    plan: &'a Plan,
    ev: &'a E,
    query: Spread<E::Ct>,
    /// Number of blocks added.
    blocks: usize,
    /// Sums over the added blocks, for each pair of numbers next to matching vectors.
    sums: Vec<E::Ct>,
}

/// A block whose plain parts have been laid out in slots.
enum Laid<'a, C> {
    Plain(Content),
    Encrypted(&'a mut dyn FnMut(usize) -> Result<C>),
}

/// A query, spread by coordinates.
enum Spread<C> {
    Plain(Vec<f64>),
    Encrypted(Vec<C>),
}

impl Plan {
    /// Starts a search. An encrypted query is spread here. For a vector of `n` ciphertexts this
    /// takes `n - 1` automorphisms, and the search holds `n` ciphertexts until it ends.
    ///
    /// # Errors
    /// [`SearchError::NotAsPlanned`] for a query of another form, level or scale, or an evaluator
    /// of other parameters; [`SearchError::Vector`]; [`SearchError::Library`] for a missing key.
    pub fn search<'a, E: ComplexOps>(
        &'a self,
        ev: &'a E,
        query: Query<'_, E::Ct>,
    ) -> Result<Search<'a, E>> {
        if ev.log_n() != self.params.log_n() || ev.chain() != self.params.chain() {
            let ring = |log_n| format!("primes of its own, in the ring N = 2^{log_n}");
            let found = ring(ev.log_n());
            let needed = ring(self.params.log_n());
            return Err(not_as_planned("the evaluator's parameters", &found, &needed));
        }
        let plain = self.spec.mode == Mode::PlainQuery;
        let query = match query {
            Query::Plain(query) if plain => Spread::Plain(self.embedded_query(query)?),
            Query::Encrypted(query) if !plain => {
                let (level, scale) = self.query_form();
                expect_form(ev, "the query", query, level, scale)?;
                expect("slots of the query", 1 << ev.log_slots(query), self.layout.slots)?;
                Spread::Encrypted(self.spread(ev, query)?)
            }
            Query::Plain(_) => return Err(not_as_planned("the query", "plain", "encrypted")),
            Query::Encrypted(_) => return Err(not_as_planned("the query", "encrypted", "plain")),
        };
        Ok(Search { plan: self, ev, query, blocks: 0, sums: Vec::new() })
    }

    /// Returns each part of an encrypted query in a ciphertext of its own, in all slots that repeat
    /// after a group.
    fn spread<E: ComplexOps>(&self, e: &E, query: &E::Ct) -> Result<Vec<E::Ct>> {
        let slots = self.layout.slots;
        let count = self.layout.parts();
        let mut parts = vec![query.clone()];
        for (i, turn) in turns(slots, self.layout.spread()).enumerate() {
            // The sum has the coefficients of even index, the difference the coefficients of odd
            // index. Without coefficients of odd index, the sum is twice the part.
            let odd = count - parts.len();
            let both = par::try_map(parts.iter().enumerate(), |(k, part)| {
                if k >= odd {
                    return Ok::<_, SearchError>((e.add(part, part)?, None));
                }
                let image = e.rotate(part, turn)?;
                Ok((e.add(part, &image)?, Some(e.sub(part, &image)?)))
            })?;
            let (even, odd): (Vec<_>, Vec<_>) = both.into_iter().unzip();
            let odd: Vec<&E::Ct> = odd.iter().flatten().collect();
            // Exact, because a monomial has an integer coefficient.
            let lowered = powers_of_x(slots, -(1 << i));
            let odd = e.mul_plain_many(&odd, &lowered, Scale::from_u64(1))?;
            parts = even.into_iter().chain(odd).collect();
        }
        parts.iter().map(|part| Ok(e.with_scale(part, self.query)?)).collect()
    }
}

impl<E: ComplexOps> Search<'_, E> {
    /// Returns the scores of the records of a block, for [`Plan::decode_scores`].
    ///
    /// # Errors
    /// [`SearchError::NotAsPlanned`] for a block of another form, or ciphertexts of another level,
    /// scale or number of slots; [`SearchError::Count`], [`SearchError::Vector`] and
    /// [`SearchError::Shape`] for a plain block that differs from the plan;
    /// [`SearchError::Library`] for a missing key or ciphertexts of another one; the errors of a
    /// reader.
    pub fn scores(&self, block: usize, content: Block<'_, E::Ct>) -> Result<E::Ct> {
        let mut scores = self.inner_products(&mut self.laid(block, content)?)?;
        self.ev.drop_to(&mut scores, self.plan.scores_level())?;
        Ok(scores)
    }

    /// Counts or selects the matches of the next block. Start with block 0.
    ///
    /// # Errors
    /// [`SearchError::NotPlanned`] if scores were planned; [`SearchError::BlockOrder`]; the errors
    /// of [`Search::scores`]. After an error you can add the block again.
    pub fn add(&mut self, block: usize, content: Block<'_, E::Ct>) -> Result<()> {
        let selection = self.plan.expect_selection("a count or matches")?;
        if block != self.blocks {
            return Err(SearchError::BlockOrder { found: block, needed: self.blocks });
        }
        let mut content = self.laid(block, content)?;
        let inner = self.inner_products(&mut content)?;
        let indicators = selection.indicators(self.ev, &inner)?;
        let pairs = selection.sketch.pairs();
        let mut sums = Vec::with_capacity(pairs);
        for first in (0..pairs).step_by(CHUNK) {
            let pairs = first..pairs.min(first + CHUNK);
            sums.extend(self.selected(&indicators, pairs, selection, &mut content)?);
        }
        if self.blocks > 0 {
            let all = self.sums.iter().zip(&sums);
            sums = all.map(|(sum, x)| self.ev.add(sum, x)).collect::<sudare::Result<_>>()?;
        }
        // Only now, so that a block can be added again after an error.
        (self.sums, self.blocks) = (sums, self.blocks + 1);
        Ok(())
    }

    /// Returns the answer for the added blocks, to be decoded by [`Plan::decode_count`] or
    /// [`Plan::decode_matches`].
    ///
    /// # Errors
    /// [`SearchError::NotPlanned`] if scores were planned; [`SearchError::Count`] if no block was
    /// added; [`SearchError::Library`] for a missing key.
    pub fn finish(self) -> Result<Vec<E::Ct>> {
        let selection = self.plan.expect_selection("a count or matches")?;
        if self.blocks == 0 {
            let most = self.plan.layout.blocks;
            let what = "blocks added to a search";
            return Err(SearchError::Count { what, found: 0, least: 1, most });
        }
        selection.pack(self.ev, &self.sums)
    }

    /// Lays out a block, and checks it against the plan.
    fn laid<'b>(&self, block: usize, content: Block<'b, E::Ct>) -> Result<Laid<'b, E::Ct>> {
        let plan = self.plan;
        match (plan.spec.mode, content) {
            (Mode::PlainIndex, Block::Plain(records)) => {
                plan.content(block, records).map(Laid::Plain)
            }
            (Mode::Encrypted | Mode::PlainQuery, Block::Encrypted(read)) => {
                plan.check_block(block, 0)?;
                Ok(Laid::Encrypted(read))
            }
            (_, Block::Plain(_)) => {
                Err(not_as_planned("the index", "a plain block", "encrypted ones"))
            }
            (_, Block::Encrypted(_)) => {
                Err(not_as_planned("the index", "an encrypted block", "plain ones"))
            }
        }
    }

    /// Multiplies the indicators of both halves of a block by some pairs of the numbers next to
    /// vectors.
    fn selected(
        &self,
        indicators: &[E::Ct],
        pairs: core::ops::Range<usize>,
        selection: &Selection,
        content: &mut Laid<'_, E::Ct>,
    ) -> Result<Vec<E::Ct>> {
        let plan = self.plan;
        let e = self.ev;
        let part =
            |half: usize, pair: usize| plan.layout.parts() + half * selection.sketch.pairs() + pair;
        match content {
            Laid::Encrypted(read) => {
                let halves = (0..indicators.len()).map(|half| {
                    let parts = part(half, pairs.start)..part(half, pairs.end);
                    self.read_parts(parts, &mut **read)
                });
                let halves = halves.collect::<Result<Vec<_>>>()?;
                let sum = |pair: usize| {
                    let numbers = halves.iter().map(|half| &half[pair]);
                    let products = indicators.iter().zip(numbers).collect();
                    ProductSum { products, addend: None }
                };
                let sums: Vec<_> = (0..pairs.len()).map(sum).collect();
                Ok(e.mul_sum_rescale_many(&sums)?)
            }
            Laid::Plain(content) => {
                let content = &*content;
                par::try_map(pairs, |pair| {
                    let products = indicators.iter().enumerate().map(|(half, indicator)| {
                        let slots = plan.slots(content, part(half, pair));
                        e.mul_plain(indicator, &slots, selection.columns)
                    });
                    let products = products.collect::<sudare::Result<_>>()?;
                    let mut sum = total(e, products)?;
                    e.rescale_assign(&mut sum)?;
                    Ok(sum)
                })
            }
        }
    }

    /// Computes the inner products with the records of a block, in the first slots of groups.
    fn inner_products(&self, content: &mut Laid<'_, E::Ct>) -> Result<E::Ct> {
        let plan = self.plan;
        let e = self.ev;
        let products = match (&self.query, content) {
            (Spread::Encrypted(query), Laid::Encrypted(read)) => self.sum(|parts| {
                let ciphertexts = self.read_parts(parts.clone(), &mut **read)?;
                let products = query[parts].iter().zip(&ciphertexts).collect();
                Ok(e.mul_sum_rescale(&ProductSum { products, addend: None })?)
            })?,
            (Spread::Encrypted(query), Laid::Plain(content)) => {
                let mut sum = self.sum(|parts| {
                    let products = par::try_map(parts, |part| {
                        e.mul_plain(&query[part], &plan.slots(content, part), plan.vectors)
                    })?;
                    Ok(total(e, products)?)
                })?;
                e.rescale_assign(&mut sum)?;
                sum
            }
            (Spread::Plain(query), Laid::Encrypted(read)) => {
                let mut sum = self.sum(|parts| {
                    let ciphertexts = self.read_parts(parts.clone(), &mut **read)?;
                    self.with_plain_query(query, parts, &ciphertexts)
                })?;
                e.rescale_assign(&mut sum)?;
                sum
            }
            (Spread::Plain(_), Laid::Plain(_)) => {
                return Err(not_as_planned("the index", "a plain block", "encrypted ones"));
            }
        };
        Ok(plan.group_sum.run(e, &e.with_scale(&products, plan.product)?)?)
    }

    /// Sums the results of `chunk`, which handles some parts at a time.
    fn sum(
        &self,
        mut chunk: impl FnMut(core::ops::Range<usize>) -> Result<E::Ct>,
    ) -> Result<E::Ct> {
        let parts = self.plan.layout.parts();
        // In chunks, because an encrypted block may not fit into memory.
        let mut sum = chunk(0..parts.min(CHUNK))?;
        for first in (CHUNK..parts).step_by(CHUNK) {
            sum = self.ev.add(&sum, &chunk(first..parts.min(first + CHUNK))?)?;
        }
        Ok(sum)
    }

    fn read_parts(
        &self,
        parts: core::ops::Range<usize>,
        read: &mut dyn FnMut(usize) -> Result<E::Ct>,
    ) -> Result<Vec<E::Ct>> {
        let read = |part| {
            let ciphertext = read(part)?;
            self.expect_part(part, &ciphertext)?;
            Ok(ciphertext)
        };
        parts.map(read).collect()
    }

    fn expect_part(&self, part: usize, ciphertext: &E::Ct) -> Result<()> {
        let (level, scale) = self.plan.part_form(part);
        expect_form(self.ev, "a part of the index", ciphertext, level, scale)?;
        let slots = 1 << self.ev.log_slots(ciphertext);
        expect("slots of a part of the index", slots, self.plan.layout.slots)
    }

    fn with_plain_query(
        &self,
        query: &[f64],
        parts: core::ops::Range<usize>,
        ciphertexts: &[E::Ct],
    ) -> Result<E::Ct> {
        let plan = self.plan;
        let e = self.ev;
        let layout = &plan.layout;
        // Every slot has the same coordinate of the query, so a number is enough.
        if layout.group == 1 {
            let terms = ciphertexts.iter().zip(&query[parts]);
            let terms: Vec<_> = terms.map(|(part, &x)| (part, x, plan.query)).collect();
            return Ok(e.mul_const_sum(&terms)?);
        }
        let pairs: Vec<_> = parts.zip(ciphertexts).collect();
        let products = par::try_map(pairs, |(part, ciphertext)| {
            let group = layout.query_part(query, part);
            let slots = group.iter().map(|&x| Complex::new(x, 0.0)).cycle().take(layout.slots);
            e.mul_plain(ciphertext, &slots.collect::<Vec<_>>(), plan.query)
        })?;
        Ok(total(e, products)?)
    }
}

/// Returns the sum of one or more ciphertexts.
fn total<E: ComplexOps>(e: &E, xs: Vec<E::Ct>) -> sudare::Result<E::Ct> {
    let sum = xs.into_iter().map(Ok).reduce(|sum, x| e.add(&sum?, &x?));
    sum.unwrap_or_else(|| Err(sudare::Error::Circuit("a sum of no ciphertexts".into())))
}

fn expect_form<E: ComplexOps>(
    e: &E,
    what: &'static str,
    found: &E::Ct,
    level: Level,
    scale: Scale,
) -> Result<()> {
    if e.level(found) == level && e.scale(found).matches(scale) {
        return Ok(());
    }
    let form = |level: Level, scale: Scale| format!("level {level}, scale 2^{:.2}", scale.log2());
    let found = form(e.level(found), e.scale(found));
    Err(not_as_planned(what, &found, &form(level, scale)))
}

fn not_as_planned(what: &'static str, found: &str, needed: &str) -> SearchError {
    SearchError::NotAsPlanned { what, found: found.into(), needed: needed.into() }
}
