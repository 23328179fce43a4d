/// An invalid receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// A text that is not a receipt in its only valid form.
    #[error("it is no receipt as servers write them: {problem}; fetch it again from the server")]
    Malformed {
        /// The problem.
        problem: String,
    },
    /// A signature that does not match its key.
    #[error(
        "its signature is false: it was altered, or nobody signed it; keep it, and do not trust the \
         result"
    )]
    Forged,
    /// A receipt of another server.
    #[error(
        "it is signed by the server {found}, {expected} was expected: ask the server's operator, by \
         another way, whether its key was changed"
    )]
    OtherServer {
        /// The key that signed the receipt.
        found: String,
        /// The key that was expected.
        expected: String,
    },
    /// A receipt for another job or other data.
    #[error(
        "it is for {what} {found}, {expected} was expected: the server did something else than it was \
         asked to, or this is the receipt of another job"
    )]
    Differs {
        /// The field that differs.
        what: &'static str,
        /// The value in the receipt.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// A requested receipt does not exist.
    #[error(
        "the server has no receipt of job {job}: it was done before servers gave receipts; ask for it \
         again after removing its result"
    )]
    Missing {
        /// The job.
        job: String,
    },
}
