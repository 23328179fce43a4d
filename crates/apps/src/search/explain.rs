//! Explanations of a search: its cost and its leakage, before any key exists.

use sudare::{
    circuits::ckks::{
        cost::{self, Rates, Work},
        sim::Counts,
    },
    ckks::Complex,
    rlwe::Level,
};

use super::{
    error::Result,
    plan::Plan,
    run::{Block, Query},
    spec::{Answer, Mode},
};

/// Cost and leakage of a search, for an index of the planned number of records. Bytes are sizes of
/// files without their headers.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// `log2(N)` of the ring.
    pub log_n: u32,
    /// Security of the parameters, in bits.
    pub security_bits: f64,
    /// Levels from vectors to the answer.
    pub levels: u32,
    /// Blocks of the index.
    pub blocks: usize,
    /// Maximum number of records of a block.
    pub block_len: usize,
    /// Ciphertexts of a block, 0 for a plain index.
    pub block_parts: usize,
    /// Keys of the server, including the relinearisation key.
    pub keys: usize,
    /// Size of these keys in the memory of the server, in bytes. In a file they take half.
    pub key_bytes: u64,
    /// Size of the index in bytes, if the public key encrypts it. By the secret key it takes half.
    /// 0 for a plain index.
    pub index_bytes: u64,
    /// Size of a query in bytes, if the public key encrypts it. By the secret key it takes half. 0
    /// for plain queries.
    pub query_bytes: u64,
    /// Size of an answer, in bytes.
    pub answer_bytes: u64,
    /// The server's work on a query, before it reads the index.
    pub query: Step,
    /// The server's work on each block.
    pub block: Step,
    /// The server's work after the last block.
    pub end: Step,
    /// `log2` of the probability that an answer with the planned number of matches is incomplete.
    /// `None` if that is impossible, or if matches are not returned.
    pub log2_incomplete: Option<f64>,
    /// `log2` of a bound of the probability that noise makes counts or matches wrong
    /// ([`Plan::log2_wrong`]).
    pub log2_wrong: Option<f64>,
    /// Sentences on leakage: the facts that the server learns, and the facts that a querier learns
    /// about an index of another owner.
    pub leakage: Vec<String>,
}

/// A step of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Number of operations on ciphertexts. Products that share a relinearisation count one by one.
    pub counts: Counts,
    /// The work of the operations.
    pub work: Work,
}

impl Explanation {
    /// Returns the seconds of one thread for a search of the whole index, at these rates.
    #[must_use]
    pub fn seconds(&self, rates: &Rates) -> f64 {
        let blocks = self.blocks as f64;
        self.query.work.seconds(rates)
            + blocks * self.block.work.seconds(rates)
            + self.end.work.seconds(rates)
    }
}

impl Plan {
    /// Finds the cost and the leakage of the search by running it on zeros in the clear.
    ///
    /// # Errors
    /// [`SearchError::Library`](super::SearchError::Library) if it cannot be simulated.
    pub fn explain(&self) -> Result<Explanation> {
        let params = &self.params;
        let layout = &self.layout;
        let spec = &self.spec;
        let slots = layout.slots;
        let e = cost::Evaluator::new(params, self.required_keys());
        let mut before = (Counts::default(), Work::default());
        let mut step = || {
            let counts = e.slots().counts();
            let work = e.work();
            let step = Step { counts: difference(counts, before.0), work: work - before.1 };
            before = (counts, work);
            step
        };
        let zeros = vec![Complex::new(0.0, 0.0); slots];
        let zero = |(level, scale)| Ok(e.slots().encrypt(&zeros, level, scale)?);
        let encrypted = zero(self.query_form())?;
        let vector = vec![spec.metric.small(); spec.dimension];
        let plain = spec.mode == Mode::PlainQuery;
        let query = if plain { Query::Plain(&vector) } else { Query::Encrypted(&encrypted) };
        let mut search = self.search(&e, query)?;
        let of_query = step();
        let mut read = |part| zero(self.part_form(part));
        let content = match spec.mode {
            Mode::PlainIndex => Block::Plain(&[]),
            Mode::Encrypted | Mode::PlainQuery => Block::Encrypted(&mut read),
        };
        let (of_block, of_end, outputs, output_level) = if self.selection.is_some() {
            search.add(0, content)?;
            let of_block = step();
            let answer = search.finish()?;
            (of_block, step(), answer.len(), Level(0))
        } else {
            let scores = search.scores(0, content)?;
            // The second step is empty, because scores need no work after the last block.
            (step(), step(), layout.blocks, scores.level)
        };
        // Two polynomials, as in a ciphertext by the public key.
        let bytes = |level| 2 * params.rlwe().basis().packed_bytes(params.rlwe().limbs(level));
        let block_parts = if spec.mode == Mode::PlainIndex { 0 } else { self.block_parts() };
        let parts = (0..block_parts).map(|part| bytes(self.part_form(part).0));
        Ok(Explanation {
            log_n: params.log_n(),
            security_bits: params.rlwe().security_bits(),
            levels: self.level.0,
            blocks: layout.blocks,
            block_len: layout.block(),
            block_parts,
            keys: self.required_keys().count(),
            key_bytes: self.required_keys().bytes(params.rlwe())?,
            index_bytes: layout.blocks as u64 * parts.sum::<u64>(),
            query_bytes: if plain { 0 } else { bytes(self.level) },
            answer_bytes: outputs as u64 * bytes(output_level),
            query: of_query,
            block: of_block,
            end: of_end,
            log2_incomplete: self.log2_incomplete(),
            log2_wrong: self.log2_wrong(),
            leakage: self.leakage(),
        })
    }

    fn leakage(&self) -> Vec<String> {
        let sizes = "the number of blocks, the dimension, the metric, and the kind of answer";
        let mut sentences = match self.spec.mode {
            Mode::PlainIndex => vec![
                "The server has the index. It learns the times of queries, nothing else of them."
                    .to_owned(),
            ],
            Mode::Encrypted => vec![
                format!("The server learns {sizes}, but no vectors, payloads or queries."),
                "It sees which blocks are encrypted again, and so roughly which records are \
                 appended or deleted."
                    .to_owned(),
            ],
            Mode::PlainQuery => vec![
                format!("The server learns queries, and {sizes}, but nothing about the index."),
                "It sees which blocks are encrypted again, and so roughly which records are \
                 appended or deleted."
                    .to_owned(),
            ],
        };
        if self.spec.mode == Mode::PlainIndex {
            sentences.push(match self.spec.answer {
                Answer::Scores => {
                    "The owner of the query learns the similarity of every record. One query for \
                     each coordinate reveals all vectors."
                        .to_owned()
                }
                Answer::Count(_) => {
                    "The owner of the query learns the number of matches, and from its error \
                     roughly how near other records are."
                        .to_owned()
                }
                Answer::Matches { .. } => {
                    "The owner of the query learns the numbers and payloads of matching records, \
                     the number of matches in each bucket, and from the errors of sums roughly how \
                     near other records are."
                        .to_owned()
                }
            });
        }
        sentences
    }
}

fn difference(a: Counts, b: Counts) -> Counts {
    Counts {
        products: a.products - b.products,
        constant_products: a.constant_products - b.constant_products,
        rescalings: a.rescalings - b.rescalings,
        automorphisms: a.automorphisms - b.automorphisms,
        raisings: a.raisings - b.raisings,
    }
}
