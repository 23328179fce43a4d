//! Signed URLs: each permits a worker to download one file, under one lease, until it expires.

use crate::clock::Seconds;
use sudare_roles::server::receipt::SigningKey;
use zeroize::Zeroizing;

/// Context of the signing key.
// Separates this key from other uses of the signing key. A change makes all URLs under way invalid.
const CONTEXT: &str = "sudare v1 addresses of files for workers";

/// The file that a URL leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// The job that uses the file.
    pub job: &'a str,
    /// Number of the lease.
    pub fence: u64,
    /// Time of expiry.
    pub expires: Seconds,
    /// Digest of an object, or name of a state of the job.
    pub name: &'a str,
}

/// Signs URLs and verifies signatures.
pub struct Addresses(Zeroizing<[u8; 32]>);

impl Addresses {
    /// Derives the signer from the key of the server, so that URLs outlive the process.
    #[must_use]
    pub fn of(key: &SigningKey) -> Self {
        Self(key.derive(CONTEXT))
    }

    /// Signs an address. No part contains a newline, so no two addresses sign the same text.
    fn signature(&self, address: &Address<'_>) -> blake3::Hash {
        let Address { job, fence, expires, name } = address;
        let text = format!("{job}\n{fence}\n{expires}\n{name}");
        blake3::keyed_hash(&self.0, text.as_bytes())
    }

    /// Returns the signed path of a file.
    #[must_use]
    pub fn path(&self, address: &Address<'_>) -> String {
        let Address { job, fence, expires, name } = address;
        let signature = self.signature(address);
        format!("/v1/work/{job}/{fence}/files/{expires}/{signature}/{name}")
    }

    /// Returns whether the signature is right for the address and the address is valid now.
    #[must_use]
    pub fn is_valid(&self, address: &Address<'_>, signature: &str, now: Seconds) -> bool {
        // A newline would move the borders between the fields of the signed text.
        let plain = !address.job.contains('\n') && !address.name.contains('\n');
        // This comparison takes constant time.
        let signed = blake3::Hash::from_hex(signature)
            .is_ok_and(|signature| signature == self.signature(address));
        plain && signed && now < address.expires
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rejects signatures of other files, leases, times and servers, and altered ones.
    #[test]
    fn addresses_are_valid_as_they_were_signed_until_they_expire() {
        let addresses = Addresses::of(&SigningKey::random().unwrap());
        let address = Address { job: "0123", fence: 7, expires: 1000, name: "iteration-000002.ct" };
        let path = addresses.path(&address);
        let parts: Vec<&str> = path.split('/').collect();
        let signature = parts[7];
        let name = parts[8];
        assert_eq!((&parts[1..7].join("/")[..], name), ("v1/work/0123/7/files/1000", address.name));
        assert!(addresses.is_valid(&address, signature, 999));
        assert!(!addresses.is_valid(&address, signature, 1000));
        for other in [
            Address { job: "0124", ..address },
            Address { fence: 8, ..address },
            Address { expires: 1001, ..address },
            Address { name: "iteration-000001.ct", ..address },
        ] {
            assert!(!addresses.is_valid(&other, signature, 0), "{other:?}");
        }
        let split = Address { job: "0123\n7", fence: 1000, expires: 5, name: "x" };
        assert!(!addresses.is_valid(&split, &addresses.signature(&split).to_string(), 0));
        for at in 0..signature.len() {
            let mut altered = signature.as_bytes().to_vec();
            altered[at] = if altered[at] == b'0' { b'1' } else { b'0' };
            let altered = String::from_utf8(altered).unwrap();
            assert!(!addresses.is_valid(&address, &altered, 0), "{at}");
        }
        let stranger = Addresses::of(&SigningKey::random().unwrap());
        assert!(!stranger.is_valid(&address, signature, 0));
    }
}
