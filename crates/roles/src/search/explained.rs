//! Costs and leakage of a search, for commands and programs.

use serde::Serialize;
use sudare::circuits::ckks::cost::Rates;
use sudare_apps::search::Plan;

use crate::error::Result;

/// Costs and leakage of a search, before any key exists. Sizes are sizes of files without headers.
/// The sizes of index and query hold for the public key. The secret key halves them, and they are 0
/// in the clear.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// `log2(N)` of the ring.
    pub log_n: u32,
    /// Security of the parameters, in bits.
    pub security_bits: f64,
    /// Levels from the vectors to the answer.
    pub levels: u32,
    /// Number of blocks of the index.
    pub blocks: usize,
    /// Number of records in a block.
    pub block_rows: usize,
    /// Number of ciphertexts in a block; 0 if the index is in the clear.
    pub block_ciphertexts: usize,
    /// Number of keys of the server.
    pub keys: usize,
    /// Bytes of these keys in the memory of the server. Their files have half the size.
    pub key_memory_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of a query.
    pub query_bytes: u64,
    /// Bytes of an answer.
    pub answer_bytes: u64,
    /// Automorphisms of a whole search.
    pub automorphisms: u64,
    /// Relinearised products of a whole search.
    pub products: u64,
    /// Predicted time in seconds on one thread of a reference machine ([`Rates::reference`]),
    /// without reading files.
    pub seconds: f64,
    /// Largest error of the similarity in an answer of scores.
    pub largest_error: f64,
    /// `log2` of the probability that an answer omits some of the planned number of matches.
    pub log2_incomplete: Option<f64>,
    /// `log2` of a bound on the probability that noise makes a count or a match wrong.
    pub log2_wrong: Option<f64>,
    /// Sentences about the information that each party learns.
    pub leakage: Vec<String>,
}

impl Explained {
    /// Explains a plan for an index of the planned size.
    ///
    /// # Errors
    /// [`Error::Search`](crate::error::Error::Search) if the plan cannot be simulated.
    pub fn of(plan: &Plan) -> Result<Self> {
        let e = plan.explain()?;
        // Searches count in blocks: every block costs the same, whether it is full or not.
        let blocks = e.blocks as u64;
        let whole = |of_query, of_block, of_end| of_query + blocks * of_block + of_end;
        let query = e.query.counts;
        let block = e.block.counts;
        let end = e.end.counts;
        Ok(Self {
            log_n: e.log_n,
            security_bits: e.security_bits,
            levels: e.levels,
            blocks: e.blocks,
            block_rows: e.block_len,
            block_ciphertexts: e.block_parts,
            keys: e.keys,
            key_memory_bytes: e.key_bytes,
            index_bytes: e.index_bytes,
            query_bytes: e.query_bytes,
            answer_bytes: e.answer_bytes,
            automorphisms: whole(query.automorphisms, block.automorphisms, end.automorphisms),
            products: whole(query.products, block.products, end.products),
            seconds: e.seconds(&Rates::reference(e.log_n)),
            largest_error: plan.largest_error(),
            log2_incomplete: e.log2_incomplete,
            log2_wrong: e.log2_wrong,
            leakage: e.leakage,
        })
    }
}
