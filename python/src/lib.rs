//! The native module of the Python package `sudare`, whose Python files are its interface.

mod arguments;
mod array;
mod data;
mod error;
mod function;
mod integers;
mod job;
mod keys;
mod lineage;
mod nn;
mod numbers;
mod op;
mod outgoing;
mod plan;
mod pool;
mod receipt;
mod search;
mod share;
mod source;
mod table;
mod trace;
mod train;
mod trees;
mod words;

/// The module `sudare._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::{
        array::{
            Array, Engine, decrypt, encrypt, most_release_bits, release, release_in_simulation,
        },
        data::{Data, Rules, encode, fit_encoding},
        function::Function,
        integers::{
            IntegerParameters, IntegerPlan,
            array::{
                IntegerEngine, Integers, decrypt_integers, encrypt_integers, integer_noise_budget,
            },
            keys::{
                IntegerEvaluationKeys, IntegerPublicKey, IntegerSecretKey, check_integer_pair,
                generate_integer_keys,
            },
        },
        keys::{EvaluationKeys, PublicKey, SecretKey, check_pair, generate_keys},
        nn::{
            HiddenNetworkPlan, Network, NetworkBatch, NetworkKeys, NetworkPlan, NetworkSecret,
            NetworkWeights,
        },
        op::PyOp,
        outgoing::Outgoing,
        plan::{Parameters, Plan},
        pool::{Schema, Sums, Transform},
        receipt::{read_receipt, read_server_key},
        search::{SearchPlan, SearchSecretKey, SearchServer, SearchWriter},
        share::{Part, Worker},
        table::{Decrypted, Table, TablePlan, TableResult},
        trace::Trace,
        train::{Trainer, read_model, simulate, write_model},
        trees::{TreesForest, TreesPlan, TreesSecret, fit_trees_grid, generate_trees_keys},
        words::{WordArray, WordEngine, decrypt_words, encrypt_words},
    };
    use pyo3::prelude::*;
    use sudare_arith::{Isa, par};

    /// Returns the instruction set and the number of threads in use: see `sudare doctor`.
    #[pyfunction]
    fn cpu_info() -> (&'static str, usize) {
        (Isa::detect().name(), par::threads())
    }

    /// Returns the two-sided probability of Student's distribution for a `t` of this magnitude.
    #[pyfunction]
    fn student_two_sided(t: f64, degrees_of_freedom: f64) -> f64 {
        sudare_apps::stats::student_two_sided(t, degrees_of_freedom)
    }

    /// Runs the command `sudare` and returns its exit status. It handles Ctrl-C for the rest of the process.
    #[pyfunction]
    fn run_command(py: Python<'_>, args: Vec<std::ffi::OsString>) -> u8 {
        py.detach(|| sudare_cli::run(args))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // At import, before anything can fork: later calls compare their process with this one.
        crate::job::settle();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
