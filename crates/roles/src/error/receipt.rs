/// Why a receipt is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// Not a receipt, or one that was altered in its form.
    #[error("it is no receipt as servers write them: {problem}; fetch it again from the server")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// The signature is not that of the key that it names.
    #[error(
        "its signature is false: it was altered, or nobody signed it; keep it, and do not trust the \
         result"
    )]
    Forged,
    /// Signed by another server than was expected.
    #[error(
        "it is signed by the server {found}, {expected} was expected: ask the server's operator, by \
         another way, whether its key was changed"
    )]
    OtherServer {
        /// The key that signed it.
        found: String,
        /// The key that was expected.
        expected: String,
    },
    /// For something else than was asked for.
    #[error(
        "it is for {what} {found}, {expected} was expected: the server did something else than it was \
         asked to, or this is the receipt of another job"
    )]
    Differs {
        /// What differs.
        what: &'static str,
        /// What it says.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// There is none, and one was asked for.
    #[error(
        "the server has no receipt of job {job}: it was done before servers gave receipts; ask for it \
         again after removing its result"
    )]
    Missing {
        /// The job.
        job: String,
    },
}
