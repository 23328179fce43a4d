//! Decision trees on encrypted rows: random forests and gradient boosted trees.
//!
//! The server has the model in the clear, and sees neither the rows nor the predictions. Each row is
//! a slot, so one evaluation scores a row for each slot of a ciphertext.
//!
//! | role | step |
//! |---|---|
//! | server | reads a [`Forest`], chooses a [`Feature`] grid for each column, makes a [`ForestPlan`] |
//! | owner | makes keys, and encrypts the digits of each row by the [`Setup`] of the plan |
//! | server | [`ForestPlan::run`], block by block |
//! | owner | decrypts: [`Setup::raw`] gives scores, and [`Setup::predictions`] classes or values |
//!
//! # Exactness
//! The owner replaces each feature by the nearest point of a public grid. A threshold `T` becomes the
//! number of grid points that pass the test, found with the test itself, so the encrypted answer to
//! every test is the answer of the model on the row of grid points. A feature whose values are on the
//! grid, such as integers on a grid of step 1, keeps its exact answers. The thresholds stay with the
//! server: the grid does not depend on them.
//!
//! Leaves are rounded to integers whose sum fits the plaintext modulus, and are summed exactly.
//! [`Setup::error`] bounds the effect of this rounding on a raw score.
//!
//! # Circuit
//! A code is encrypted as digits of 4 bits. All powers of a digit up to 15 give every `[digit < a]`
//! and `[digit = a]` as a sum with constants, and a threshold on two digits is the product
//! `[high < a] + [high = a] [low < b]`. Trees of height `h` are polynomials of their tests, of
//! depth `ceil(log2(h + 1))`. Nothing is bootstrapped.
//!
//! ```
//! use sudare_apps::trees::{Feature, Forest, ForestPlan, PlanOptions};
//!
//! # fn main() -> Result<(), sudare_apps::trees::TreesError> {
//! let forest = Forest::from_json(
//!     br#"{"features": ["age"], "link": "identity", "offsets": [1.0], "trees": [{"output": 0, "nodes": [
//!         {"split": {"feature": 0, "at": 40.0, "or_equal": false, "left": 1, "right": 2}},
//!         {"leaf": [0.25]}, {"leaf": [4.0]}]}]}"#,
//! )?;
//! assert_eq!(forest.predict(&[40.0])?, [5.0]);
//! let age = Feature::new("age", 0.0, 1.0, 120)?;
//! let plan = ForestPlan::new(&forest, &[age], &PlanOptions::default())?;
//! assert_eq!(plan.explain()?.thresholds, 1);
//! # Ok(())
//! # }
//! ```

mod bound;
mod circuit;
mod error;
mod explain;
mod grid;
mod lightgbm;
mod model;
mod onnx;
mod output;
mod plan;
mod setup;
#[cfg(test)]
mod tests;
mod xgboost;

pub use error::TreesError;
pub use explain::Explanation;
pub use grid::{Feature, Outside};
pub use model::{Forest, Link, Node, Split, Tree};
pub use output::Output;
pub use plan::{ForestPlan, PlanOptions};
pub use setup::Setup;
