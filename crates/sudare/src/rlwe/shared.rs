//! Keys whose secret several key holders share, so that no party decrypts alone.
//!
//! The secret is the sum of uniform ternary *pieces* ([`Sharing`]). Key holders make keys in a
//! ceremony of two messages each ([`Joined`], [`Shared`]), and anyone combines the messages
//! ([`combine`]). To decrypt a ciphertext, a set of key holders sends one share each ([`Opening`]).
//! `docs/notes/shared-keys.md` has the protocols, their noise and their security.
//!
//! Every message follows from the root of its sender and from everything that it answers. The same
//! step on the same messages gives the same bytes, so sending it again reveals nothing.
//!
//! ```
//! use sudare::{
//!     ckks::{Encoder, Encryptor, Opening, Params, Spec},
//!     rlwe::{
//!         CanonicalBounds, KeyRequest,
//!         shared::{Ceremony, FirstSums, Joined, Pieces, Sharing, combine},
//!     },
//! };
//! use sudare_arith::prng::Seed;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Two key holders agree on everything, and on a digest of their names and keys.
//! let sharing = Sharing::new(2, 2)?;
//! let spec = Spec::uniform(13, 60.0, 1, 58.0, vec![60.0]);
//! let params = Params::new(Spec { secret: sharing.distribution(), ..spec })?;
//! let ceremony = Ceremony::new(params.rlwe(), &sharing, &KeyRequest::new(), [7; 32])?;
//!
//! // Each draws a root, publishes digests, and then its first message.
//! let mine = Seed::random()?;
//! let yours = Seed::random()?;
//! let me = Joined::new(&ceremony, 0, &mine)?;
//! let you = Joined::new(&ceremony, 1, &yours)?;
//! let commitments = [me.commitment()?, you.commitment()?];
//! let mut from_me = Vec::new();
//! let mut from_you = Vec::new();
//! let me = me.share(&commitments, &mut from_me)?;
//! let you = you.share(&commitments, &mut from_you)?;
//!
//! // Second messages complete relinearisation keys. Here there are none.
//! let first = || vec![&from_me[..], &from_you[..]];
//! let sums = FirstSums::read(&ceremony, &commitments, first())?;
//! let mut last_of_me = Vec::new();
//! let mut last_of_you = Vec::new();
//! me.finish(&sums, &mut last_of_me)?;
//! you.finish(&sums, &mut last_of_you)?;
//! let last = vec![&last_of_me[..], &last_of_you[..]];
//! let keys = combine(&ceremony, &commitments, first(), last)?;
//!
//! // Anyone encrypts.
//! let plain = Encoder::new(&params).encode_real(&[0.75, -2.5])?;
//! let encrypted = Encryptor::new(&params, keys.public)?.encrypt(&plain)?;
//!
//! // Both decrypt together. The bound of the error follows from the circuit: here an encryption.
//! let fresh = CanonicalBounds::new(params.rlwe()).fresh() + params.max_slots() as f64;
//! let error = fresh / encrypted.scale().to_f64();
//! let opening = || Opening::new(&ceremony, &params, &encrypted, 2, error, &[0, 1]);
//! let share = |party: usize, root: &Seed| {
//!     opening()?.share(&Pieces::new(&ceremony, party, root, &[], &commitments)?)
//! };
//! let opened = opening()?.open(&[share(0, &mine)?, share(1, &yours)?])?;
//! let found = Encoder::new(&params).decode_real(&opened)?;
//! assert!((found[0] - 0.75).abs() < 0.05 && (found[1] + 2.5).abs() < 0.05);
//! # Ok(())
//! # }
//! ```

mod ceremony;
mod combine;
mod commitment;
mod contribution;
mod flood;
mod opening;
mod pieces;
mod sharing;

pub use ceremony::Ceremony;
pub use combine::{FirstSums, JointKeys, combine};
pub use commitment::Commitment;
pub use contribution::{Joined, Shared};
pub use flood::Flood;
pub use opening::{Opening, OpeningShare};
pub use pieces::Pieces;
pub use sharing::Sharing;

#[cfg(test)]
pub(crate) mod tests;
