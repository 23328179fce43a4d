//! Levels, scales and keys of a search, and the owner's side: encryption and decoding.

use sudare::{
    circuits::{Ops, Trace, TracePlan, ckks::sim},
    ckks::{
        self, Ciphertext, Complex, Decryptor, Encoder, Encryptor, Params, Plaintext, ProductSum,
        Scale, SymmetricEncryptor,
        planner::{self, PRIME_BITS, RINGS},
    },
    rlwe::{KeyRequest, Level, Seeded},
};
use sudare_arith::{par, real};

use super::{
    error::{Place, Result, SearchError, check_precision, expect},
    layout::Layout,
    select::{self, Comparison, CountErrors, Selection},
    spec::{Mode, Spec},
};

/// Bits above the scale of scores. Scores are complex, signed, and twice as large where parts of
/// two records mix.
const SCORE_ROOM_BITS: f64 = 3.0;

/// Minimum bits of the scale of sums over matches.
const SUM_BITS: f64 = 30.0;

/// The largest error of an inner product of unit vectors that a plan for scores accepts.
const LARGEST_ERROR: f64 = 1.0 / (1 << 12) as f64;

/// Error of `f64` in the decoding of an inner product of unit vectors.
const DECODING_ERROR: f64 = 64.0 * f64::EPSILON;

/// Number of ciphertexts that are encrypted or multiplied together. It limits the memory in use.
pub(super) const CHUNK: usize = 16;

/// A record of an index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record<'a> {
    /// The vector, with the planned number of coordinates.
    pub vector: &'a [f64],
    /// The payload, of the planned number of bytes. Empty if the server answers scores or counts.
    pub payload: &'a [u8],
}

/// Plan to build and to search an index.
///
/// Records are divided into blocks of [`Plan::block_len`], in their order. The owner encrypts block
/// after block ([`Plan::encrypt_block`]). To append or delete records, encrypt the blocks that
/// contain them again, with `None` in place of deleted records. Other blocks stay as they are.
///
/// Ciphertext `j` of a block holds coordinate `j` of its records. Each slot holds two records, one
/// in its real part and one in its imaginary part. A query is one ciphertext, and the coefficients
/// of its polynomial are the coordinates. The server spreads it over one ciphertext for each
/// coordinate, with that coordinate in all slots. Automorphisms separate the coefficients by the
/// parity of their index, then by the next bit, and so on (Angel, Chen, Laine, Setty,
/// [2017/1142](https://eprint.iacr.org/2017/1142), Figure 3). Inner products are sums of products
/// that share relinearisations. They cost one level, and no rotation of the index.
///
/// For counts and matches a [step](crate::functions::step) follows, which is 1 for matches and 0
/// for other records. It is multiplied by numbers next to each vector, and the products are summed
/// over buckets of records. There are enough buckets that the planned number of matches seldom
/// crowds one of them. From the sums of a bucket the owner learns the number of its matches. If
/// they are few, the owner also learns their rows and payloads. If there are too many, the answer
/// says so.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) spec: Spec,
    pub(super) params: Params,
    pub(super) layout: Layout,
    /// Level of vectors and queries.
    pub(super) level: Level,
    /// Scale of vectors.
    pub(super) vectors: Scale,
    /// Scale of queries, after the server has spread them.
    pub(super) query: Scale,
    /// Scale of inner products, one level below.
    pub(super) product: Scale,
    /// The lowest level that holds scores.
    scores: Level,
    /// Sum over the slots of a group.
    pub(super) group_sum: TracePlan,
    keys: KeyRequest,
    /// Error of inner products of embedded vectors.
    error: f64,
    /// Selection of matches, for counts and matches.
    pub(super) selection: Option<Selection>,
    /// Errors of counts of buckets.
    pub(super) count_errors: CountErrors,
}

impl Plan {
    /// Plans a search for these parameters.
    ///
    /// # Errors
    /// [`SearchError::Count`] and [`SearchError::Number`] for a specification out of range;
    /// [`SearchError::TooFewLevels`]; [`SearchError::Precision`] if primes are too small for scores
    /// within `2^-12` of the largest, or for answers that keep the margin; [`SearchError::Library`]
    /// for errors of the engine.
    pub fn new(spec: &Spec, params: &Params) -> Result<Self> {
        spec.check()?;
        let layout = layout(spec, params.max_slots())?;
        let comparison = Comparison::new(spec, &layout)?;
        let needed = 1;
        let found = params.top().0;
        if found < needed {
            return Err(SearchError::TooFewLevels { found, needed });
        }
        let chain = params.chain();
        let selection = comparison.as_ref().map(|c| Selection::new(c, params, &layout));
        let selection = selection.transpose()?;
        let (below, product) = match &selection {
            Some(selection) => (selection.level(), selection.product),
            // Without a comparison, scores use all of level 0.
            None => (Level(0), Scale::from_log2(chain.log2_q(Level(0)) - SCORE_ROOM_BITS)),
        };
        let level = Level(below.0 + 1);
        let both = product * chain.divisor(level);
        // Spreading enlarges the values of a query by this factor. It is then at the scale of
        // vectors.
        let vectors = (both / Scale::from_u64(grown(spec.mode, &layout))).sqrt();
        let group_sum = Trace::inner_sum(params.log_n(), 1, layout.group)?.doubling();
        let mut plan = Self {
            spec: *spec,
            params: params.clone(),
            layout,
            level,
            vectors,
            query: both / vectors,
            product,
            scores: Level(0),
            group_sum,
            keys: KeyRequest::new(),
            error: f64::INFINITY,
            selection,
            count_errors: CountErrors::NONE,
        };
        plan.scores = plan.lowest(below);
        plan.dry_run(comparison.as_ref())?;
        Ok(plan)
    }

    /// Returns the parameters of the smallest ring and the shortest chain for a search at 128 bits
    /// of security.
    ///
    /// # Errors
    /// The errors of [`Plan::new`]; [`SearchError::Library`] if no ring is large enough.
    pub fn auto_params(spec: &Spec) -> Result<Params> {
        spec.check()?;
        let proposed = |log_n| Ok::<_, SearchError>(propose(spec, log_n).ok());
        let found = planner::smallest(RINGS, proposed)?;
        // Without a proposal, the error of the largest ring explains why.
        let proposed = found.map_or_else(|| propose(spec, *RINGS.end()), Ok)?;
        Ok(Params::new(proposed)?)
    }

    /// Returns the specification of the search.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns the parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the keys that the server needs.
    #[must_use]
    pub fn required_keys(&self) -> &KeyRequest {
        &self.keys
    }

    /// Returns the number of records of a block. The last block of an index may have fewer.
    #[must_use]
    pub fn block_len(&self) -> usize {
        self.layout.block()
    }

    /// Returns the number of blocks of an index of `rows` records.
    ///
    /// # Errors
    /// [`SearchError::Count`] for more than planned.
    pub fn blocks(&self, rows: usize) -> Result<usize> {
        self.spec.check_rows(rows)?;
        Ok(self.layout.blocks_of(rows))
    }

    /// Returns the ciphertexts of an encrypted block.
    #[must_use]
    pub fn block_parts(&self) -> usize {
        let pairs = self.selection.as_ref().map_or(0, |selection| selection.sketch.pairs());
        self.layout.parts() + 2 * pairs
    }

    /// Returns the level and the scale of a ciphertext of an encrypted block.
    #[must_use]
    pub fn part_form(&self, part: usize) -> (Level, Scale) {
        match &self.selection {
            Some(selection) if part >= self.layout.parts() => (Selection::LEVEL, selection.columns),
            _ => (self.level, self.vectors),
        }
    }

    /// Returns the level and the scale of an encrypted query.
    #[must_use]
    pub fn query_form(&self) -> (Level, Scale) {
        (self.level, self.query / Scale::from_u64(grown(self.spec.mode, &self.layout)))
    }

    /// Returns a bound of the errors of similarities from [`Plan::decode_scores`], for all vectors
    /// and any number of uses.
    #[must_use]
    pub fn largest_error(&self) -> f64 {
        self.spec.metric.similarity(self.error).abs()
    }

    /// Encrypts the [`Plan::block_parts`] ciphertexts of a block one after the other. `None` in
    /// place of a record marks a deleted one. It neither counts nor matches, and has the score of a
    /// zero vector.
    ///
    /// # Errors
    /// [`SearchError::NotPlanned`] if the index is plain; [`SearchError::Count`] for a block or
    /// records beyond the plan; [`SearchError::Vector`]; [`SearchError::Shape`] for payloads of
    /// another length than planned; [`SearchError::Library`] if the encryptor has other parameters;
    /// the errors of `write`.
    pub fn encrypt_block(
        &self,
        encryptor: &Encryptor,
        block: usize,
        records: &[Option<Record<'_>>],
        write: impl FnMut(usize, Ciphertext) -> Result<()>,
    ) -> Result<()> {
        self.encrypted_block(|a| encryptor.encrypt(a), block, records, write)
    }

    /// Encrypts a block as [`Plan::encrypt_block`] does, but by the secret key: files take half the
    /// bytes.
    ///
    /// # Errors
    /// The errors of [`Plan::encrypt_block`].
    pub fn encrypt_block_seeded(
        &self,
        encryptor: &SymmetricEncryptor,
        block: usize,
        records: &[Option<Record<'_>>],
        write: impl FnMut(usize, Seeded<Ciphertext>) -> Result<()>,
    ) -> Result<()> {
        self.encrypted_block(|a| encryptor.encrypt_seeded(a), block, records, write)
    }

    fn encrypted_block<C: Send>(
        &self,
        encrypt: impl Fn(&Plaintext) -> sudare::Result<C> + Sync,
        block: usize,
        records: &[Option<Record<'_>>],
        mut write: impl FnMut(usize, C) -> Result<()>,
    ) -> Result<()> {
        if self.spec.mode == Mode::PlainIndex {
            let asked = "encryption of the index";
            let planned = "an index in the clear";
            return Err(SearchError::NotPlanned { asked, planned });
        }
        let content = self.content(block, records)?;
        let encoder = Encoder::new(&self.params);
        let encrypt = |part: usize| -> Result<C> {
            let (level, scale) = self.part_form(part);
            let slots = self.slots(&content, part);
            Ok(encrypt(&encoder.encode_at(&slots, level, scale)?)?)
        };
        for first in (0..self.block_parts()).step_by(CHUNK) {
            let parts = first..self.block_parts().min(first + CHUNK);
            for (part, ciphertext) in parts.clone().zip(par::try_map(parts, encrypt)?) {
                write(part, ciphertext)?;
            }
        }
        Ok(())
    }

    /// Encrypts a query.
    ///
    /// # Errors
    /// [`SearchError::NotPlanned`] if queries are plain; [`SearchError::Vector`];
    /// [`SearchError::Library`] if the encryptor has other parameters.
    pub fn encrypt_query(&self, encryptor: &Encryptor, query: &[f64]) -> Result<Ciphertext> {
        Ok(encryptor.encrypt(&self.encode_query(query)?)?)
    }

    /// Encrypts a query as [`Plan::encrypt_query`] does, but by the secret key: files take half the
    /// bytes.
    ///
    /// # Errors
    /// The errors of [`Plan::encrypt_query`].
    pub fn encrypt_query_seeded(
        &self,
        encryptor: &SymmetricEncryptor,
        query: &[f64],
    ) -> Result<Seeded<Ciphertext>> {
        Ok(encryptor.encrypt_seeded(&self.encode_query(query)?)?)
    }

    fn encode_query(&self, query: &[f64]) -> Result<Plaintext> {
        if self.spec.mode == Mode::PlainQuery {
            let asked = "encryption of the query";
            let planned = "queries in the clear";
            return Err(SearchError::NotPlanned { asked, planned });
        }
        let slots = self.layout.query(&self.embedded_query(query)?);
        let (level, scale) = self.query_form();
        Ok(Encoder::new(&self.params).encode_at(&slots, level, scale)?)
    }

    /// Decrypts the slots of each ciphertext of an answer.
    ///
    /// # Errors
    /// [`SearchError::Library`] for ciphertexts of another key or other parameters.
    pub fn decrypt(
        &self,
        decryptor: &Decryptor,
        answer: &[Ciphertext],
    ) -> Result<Vec<Vec<Complex<f64>>>> {
        let encoder = Encoder::new(&self.params);
        par::try_map(answer, |part| Ok(encoder.decode(&decryptor.decrypt(part)?)?))
    }

    /// Returns the similarities of the first `records` records of block `block`, from the slots of
    /// its decrypted scores. A similarity is a cosine, an inner product, or the square of a
    /// distance.
    ///
    /// # Errors
    /// [`SearchError::Count`] for a block or records beyond the plan; [`SearchError::Shape`] for
    /// another number of slots.
    pub fn decode_scores(
        &self,
        block: usize,
        records: usize,
        slots: &[Complex<f64>],
    ) -> Result<Vec<f64>> {
        self.check_block(block, records)?;
        expect("slots of scores", slots.len(), self.layout.slots)?;
        let similarity = |place| {
            let (half, slot) = self.layout.slot(place);
            let inner = if half == 0 { slots[slot].re } else { slots[slot].im };
            self.spec.metric.similarity(inner)
        };
        Ok(self.layout.places(block).into_iter().take(records).map(similarity).collect())
    }

    /// Returns the `most` nearest of these records with their similarities, the nearest first. Of
    /// equally near records, the one with the lower number comes first. NaN comes last.
    #[must_use]
    pub fn nearest(
        &self,
        similarities: impl IntoIterator<Item = (usize, f64)>,
        most: usize,
    ) -> Vec<(usize, f64)> {
        let mut all: Vec<_> = similarities.into_iter().collect();
        let key = |x: f64| match (x.is_nan(), self.spec.metric.descends()) {
            (true, _) => f64::INFINITY,
            (false, true) => -x,
            (false, false) => x,
        };
        all.sort_by(|a, b| key(a.1).total_cmp(&key(b.1)).then(a.0.cmp(&b.0)));
        all.truncate(most);
        all
    }

    pub(super) fn check_block(&self, block: usize, records: usize) -> Result<()> {
        let most = self.layout.blocks - 1;
        if block > most {
            let what = "as the number of a block";
            return Err(SearchError::Count { what, found: block, least: 0, most });
        }
        let most = self.layout.block().min(self.spec.rows - block * self.layout.block());
        if records > most {
            let what = "records of a block";
            return Err(SearchError::Count { what, found: records, least: 0, most });
        }
        Ok(())
    }

    /// Returns the content of the slots of a block.
    pub(super) fn content(&self, block: usize, records: &[Option<Record<'_>>]) -> Result<Content> {
        self.check_block(block, records.len())?;
        let places = self.layout.places(block);
        let first = block * self.layout.block();
        let pairs = records.iter().zip(&places).enumerate();
        let content = par::try_map(pairs, |(index, (record, &place))| {
            let Some(Record { vector, payload }) = record else { return Ok((None, None)) };
            let row = first + index;
            self.check_vector(Place::Row(row), vector)?;
            expect("bytes of a payload", payload.len(), self.spec.payload())?;
            let beside = self.selection.as_ref().map(|Selection { sketch, .. }| {
                let (bucket, tag) = sketch.tag(&self.layout, block, place);
                (tag, sketch.symbols(bucket, tag, payload))
            });
            Ok::<_, SearchError>((Some(self.spec.metric.embed_row(row, vector)?), beside))
        })?;
        let (vectors, beside) = content.into_iter().unzip();
        Ok(Content { places, vectors, beside })
    }

    /// Returns the slots of a part of a block: a coordinate of its vectors, or a pair of the
    /// numbers next to them for each half.
    pub(super) fn slots(&self, content: &Content, part: usize) -> Vec<Complex<f64>> {
        let Content { places, vectors, beside } = content;
        let Some(number) = part.checked_sub(self.layout.parts()) else {
            return self.layout.part(vectors, places, part);
        };
        let mut slots = vec![Complex::new(0.0, 0.0); self.layout.slots];
        let Some(Selection { sketch, .. }) = &self.selection else { return slots };
        let half = number / sketch.pairs();
        let pair = number % sketch.pairs();
        for (beside, &place) in beside.iter().zip(places) {
            let (own, slot) = self.layout.slot(place);
            if let Some((tag, symbols)) = beside.as_ref().filter(|_| own == half) {
                let [re, im] = [0, 1].map(|i| sketch.number(*tag, symbols, 2 * pair + i));
                slots[slot] = Complex::new(re, im);
            }
        }
        slots
    }

    pub(super) fn embedded_query(&self, query: &[f64]) -> Result<Vec<f64>> {
        self.check_vector(Place::Query, query)?;
        self.spec.metric.embed_query(query)
    }

    fn check_vector(&self, place: Place, vector: &[f64]) -> Result<()> {
        let found = vector.len();
        let needed = self.spec.dimension;
        if found == needed {
            return Ok(());
        }
        let problem = format!(
            "it has {found} coordinates, but the plan is for {needed}; pass a vector of {needed}"
        );
        Err(SearchError::Vector { place, problem })
    }

    /// Returns the lowest level, up to `from`, that holds scores.
    fn lowest(&self, from: Level) -> Level {
        let bits = self.product.log2() + SCORE_ROOM_BITS - 0.5;
        let chain = self.params.chain();
        (0..from.0).map(Level).find(|&level| chain.log2_q(level) >= bits).unwrap_or(from)
    }

    /// Returns the lowest level of scores.
    pub(super) fn scores_level(&self) -> Level {
        self.scores
    }

    /// Runs the search on the simulator to find keys and errors.
    fn dry_run(&mut self, comparison: Option<&Comparison>) -> Result<()> {
        let e = sim::Evaluator::for_params(&self.params);
        let inner = self.largest_inner_products(&e)?;
        self.error = inner.worst.error + DECODING_ERROR;
        let needed = if comparison.is_some() { select::ROOM } else { LARGEST_ERROR };
        check_precision("a score", self.error, needed)?;
        if let (Some(selection), Some(comparison)) = (&self.selection, comparison) {
            self.count_errors = selection.dry_run(&e, comparison, &inner)?;
        }
        self.keys = e.used_keys();
        Ok(())
    }

    /// Computes inner products of vectors of norm 1 with the largest errors. By the Cauchy–Schwarz
    /// inequality these are vectors with equal coordinates.
    fn largest_inner_products(&self, e: &sim::Evaluator) -> Result<sim::Ciphertext> {
        let Layout { slots, group, .. } = self.layout;
        let parts = self.layout.parts();
        let coordinate = 1.0 / ((parts * group) as f64).sqrt();
        // Each slot holds two vectors.
        let entry = Complex::new(coordinate, coordinate);
        let vector = e.encrypt(&vec![entry; slots], self.level, self.vectors)?;
        let query = || -> Result<sim::Ciphertext> {
            let (level, scale) = self.query_form();
            // A slot holds one coordinate after spreading, and the sum of all coordinates before.
            let message = vec![Complex::new(coordinate * parts as f64, 0.0); slots];
            let mut query = e.encrypt(&message, level, scale)?;
            // The steps that all parts go through. The products with powers of X are left out: they
            // are exact.
            for turn in turns(slots, self.layout.spread()) {
                query = e.add(&query, &e.rotate(&query, turn)?)?;
            }
            let mut query = e.with_scale(&query, self.query)?;
            query.slots.fill(Complex::new(coordinate, 0.0));
            query.worst.largest.fill(coordinate);
            Ok(query)
        };
        let sum = match self.spec.mode {
            Mode::Encrypted => {
                let query = query()?;
                let products = vec![(&query, &vector); parts.min(CHUNK)];
                let chunk = e.mul_sum_rescale(&ProductSum { products, addend: None })?;
                let chunks = parts.div_ceil(CHUNK);
                (1..chunks).try_fold(chunk.clone(), |sum, _| e.add(&sum, &chunk))?
            }
            Mode::PlainIndex => {
                let product = e.mul_plain(&query()?, &vec![entry; slots], self.vectors)?;
                let mut sum =
                    (1..parts).try_fold(product.clone(), |sum, _| e.add(&sum, &product))?;
                e.rescale_assign(&mut sum)?;
                sum
            }
            Mode::PlainQuery => {
                let mut sum = match group {
                    1 => e.mul_const_sum(&vec![(&vector, coordinate, self.query); parts])?,
                    _ => {
                        let query = vec![Complex::new(coordinate, 0.0); slots];
                        let product = e.mul_plain(&vector, &query, self.query)?;
                        (1..parts).try_fold(product.clone(), |sum, _| e.add(&sum, &product))?
                    }
                };
                e.rescale_assign(&mut sum)?;
                sum
            }
        };
        let sum = e.with_scale(&sum, self.product)?;
        Ok(self.group_sum.run(e, &sum)?)
    }
}

/// Returns the factor by which a query grows when it is spread.
fn grown(mode: Mode, layout: &Layout) -> u64 {
    match mode {
        Mode::Encrypted | Mode::PlainIndex => layout.spread() as u64,
        Mode::PlainQuery => 1,
    }
}

/// Returns the rotations that separate the coefficients of polynomials in `X^(2^i)` by parity, for
/// each `i` below `log2(spread)`. They are powers of 5 that map `X^(2^i)` to `-X^(2^i)`.
pub(super) fn turns(slots: usize, spread: usize) -> impl Iterator<Item = i64> {
    (0..spread.ilog2()).map(move |i| (slots >> (i + 1)) as i64)
}

fn layout(spec: &Spec, slots: usize) -> Result<Layout> {
    Layout::new(spec, slots).ok_or_else(|| {
        let most = slots - spec.metric.further();
        let what = "coordinates";
        SearchError::Count { what, found: spec.dimension, least: 1, most }
    })
}

/// Returns the bits of the primes of the top level, above comparisons. The error of an inner
/// product is `sqrt(d)` times the error of a coordinate. That error comes from encryption at a
/// scale of the square root of the products' scale over the growth of the query. It is proportional
/// to the degree of the ring.
fn top_bits(layout: &Layout, log_n: u32) -> f64 {
    let growth = (layout.parts() * layout.group * layout.spread()) as f64;
    let more = real::log2(growth) - 16.0 + 2.0 * (f64::from(log_n) - 15.0);
    PRIME_BITS + more.max(0.0)
}

/// Content of the slots of a block, record by record.
pub(super) struct Content {
    places: Vec<usize>,
    /// The embedded vectors, `None` for deleted records.
    vectors: Vec<Option<Vec<f64>>>,
    /// Tags, and the bytes from which the numbers next to vectors are computed.
    beside: Vec<Option<(usize, Vec<u8>)>>,
}

/// Proposes parameters in a ring, without special primes.
pub(super) fn propose(spec: &Spec, log_n: u32) -> Result<ckks::Spec> {
    let layout = layout(spec, 1 << (log_n - 1))?;
    let mut q_bits = vec![vec![PRIME_BITS]; 2];
    let mut log2_scale = PRIME_BITS - SCORE_ROOM_BITS;
    if let Some(comparison) = Comparison::new(spec, &layout)? {
        log2_scale = select::LOG2_SCALE;
        let room_bits = comparison.room_bits() + SUM_BITS;
        q_bits[0] = planner::level(room_bits.max(PRIME_BITS), PRIME_BITS);
        q_bits.extend((1..comparison.depth()).map(|_| vec![log2_scale]));
        q_bits.push(planner::level(top_bits(&layout, log_n), PRIME_BITS));
    }
    Ok(planner::chain(log_n, q_bits, log2_scale))
}
