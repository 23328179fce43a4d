/// An invalid receipt.
#[derive(
    Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames,
)]
pub enum ReceiptError {
    /// A text that is not a receipt in its only valid form.
    #[error("it is not a valid receipt: {problem}; download it again from the server")]
    Malformed {
        /// The problem.
        problem: String,
    },
    /// A signature that does not match its key.
    #[error(
        "its signature is invalid: somebody altered the receipt, or the server did not sign it; \
         keep the receipt, and do not trust the result"
    )]
    Forged,
    /// A receipt of another server.
    #[error(
        "it is signed by the server {found}, but {expected} was expected: ask the server's \
         operator, through another channel, whether its key was changed"
    )]
    OtherServer {
        /// The key that signed the receipt.
        found: String,
        /// The key that was expected.
        expected: String,
    },
    /// A receipt for another job or other data.
    #[error(
        "it is for {what} {found}, but {expected} was expected: the server did something else than \
         you asked, or this is the receipt of another job"
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
        "the server has no receipt of job {job}: the job finished before servers issued receipts; \
         remove its result and submit the job again"
    )]
    Missing {
        /// The job.
        job: String,
    },
}
