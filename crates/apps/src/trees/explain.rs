//! Costs of a plan, before a key exists.

use super::{
    error::Result,
    plan::{ForestPlan, Simulated},
    setup::Setup,
};
use serde::Serialize;
use sudare::{
    exact::serial::{self, Label},
    rlwe::Rates,
};

/// Costs of a block of rows, and the facts that the parties learn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// `log2` of the degree of the ring.
    pub log_n: u32,
    /// Bits of the modulus of keys.
    pub log2_qp: f64,
    /// Security of the parameters, in bits.
    pub security_bits: f64,
    /// The plaintext modulus.
    pub t: u64,
    /// Levels from the encrypted digits to the scores.
    pub levels: u32,
    /// Number of rows of a block. A block costs the same whether it is full or not.
    pub block_rows: usize,
    /// Number of trees.
    pub trees: usize,
    /// Number of tests on the longest path of a tree.
    pub height: usize,
    /// Number of different tests.
    pub thresholds: usize,
    /// Ciphertexts of a block of rows.
    pub inputs: usize,
    /// Bytes of a block of rows under the public key. The secret key halves them.
    pub input_bytes: u64,
    /// Ciphertexts of the scores of a block.
    pub outputs: usize,
    /// Bytes of the scores of a block.
    pub output_bytes: u64,
    /// Bytes of the file of evaluation keys.
    pub key_bytes: u64,
    /// Relinearisations of a block, which dominate the time.
    pub relinearizations: usize,
    /// Products of ciphertexts with constants.
    pub constant_products: u64,
    /// Bootstrapped ciphertexts: none.
    pub bootstraps: usize,
    /// Predicted seconds for a block on one thread of a reference machine, without reading files.
    pub seconds: f64,
    /// Approximate bytes of memory for a block.
    pub memory_bytes: u64,
    /// A bound on the error of a raw score by rounded leaves.
    pub error: f64,
    /// Sentences about the information that each party learns.
    pub leakage: Vec<String>,
}

impl ForestPlan {
    /// Returns the costs of a block of rows.
    ///
    /// # Errors
    /// [`TreesError::Library`](super::TreesError::Library) if sizes cannot be computed.
    pub fn explain(&self) -> Result<Explanation> {
        let params = self.params();
        let rlwe = params.rlwe();
        let Simulated { keys, counts, work, relinearizations } = self.simulated();
        let packed = |level| 2 * rlwe.basis().packed_bytes(rlwe.limbs(level));
        let circuit = self.circuit();
        let held = 16 * (rlwe.limbs(circuit.test_level()).q() << params.log_n()) as u64;
        let setup = self.setup();
        let [trees, thresholds] = self.sizes();
        let names = setup.features.len();
        Ok(Explanation {
            log_n: params.log_n(),
            log2_qp: params.spec().log2_qp(),
            security_bits: rlwe.security_bits(),
            t: params.plaintext_modulus().prime(),
            levels: circuit.depth(),
            block_rows: Setup::block_rows(params),
            trees,
            height: circuit.height(),
            thresholds,
            inputs: setup.inputs(),
            input_bytes: setup.inputs() as u64 * packed(params.top()),
            outputs: setup.outputs.len(),
            output_bytes: setup.outputs.len() as u64 * packed(sudare::rlwe::Level(0)),
            key_bytes: serial::evaluation_keys_bytes(params, keys, &Label::default())?,
            relinearizations: *relinearizations,
            constant_products: counts.constant_products,
            bootstraps: 0,
            seconds: work.seconds(&Rates::reference(params.log_n())),
            memory_bytes: held * circuit.held() as u64 + keys.bytes(rlwe)?,
            error: setup.error(),
            leakage: vec![
                format!("the server learns the number of rows and the grids of {names} features"),
                "the server does not learn rows or predictions".into(),
                "the owner of rows learns predictions, the grids, and the levels of the circuit, which \
                 bound the height of the trees"
                    .into(),
                "predictions of many rows reveal a model to the owner of the rows".into(),
            ],
        })
    }
}
