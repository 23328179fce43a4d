/// The digests that a key holder publishes before it sees a message of any other: of its first
/// message, and of the pieces that it draws, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commitment {
    /// BLAKE3 digest of the first message.
    pub first: [u8; 32],
    /// Digests of the seeds of pieces.
    pub pieces: Vec<[u8; 32]>,
}
