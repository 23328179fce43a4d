//! Addresses that are signed: by each a worker reads one file, under one lease, until it expires.

use crate::clock::Seconds;
use sudare_roles::receipt::SigningKey;
use zeroize::Zeroizing;

/// What the key of addresses is for.
const CONTEXT: &str = "sudare v1 addresses of files for workers";

/// A file that an address leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address<'a> {
    /// The job that takes it.
    pub job: &'a str,
    /// The number of the lease.
    pub fence: u64,
    /// When the address ends.
    pub expires: Seconds,
    /// The digest of an object, or the name of a state of the job.
    pub name: &'a str,
}

/// What signs addresses and knows those that it signed.
pub struct Addresses(Zeroizing<[u8; 32]>);

impl Addresses {
    /// What signs for the server with this key: its addresses outlive its process.
    #[must_use]
    pub fn of(key: &SigningKey) -> Self {
        Self(key.derive(CONTEXT))
    }

    /// No two addresses have the same text: in what is signed no part holds a line end.
    fn signature(&self, address: &Address<'_>) -> blake3::Hash {
        let Address { job, fence, expires, name } = address;
        let text = format!("{job}\n{fence}\n{expires}\n{name}");
        blake3::keyed_hash(&self.0, text.as_bytes())
    }

    /// The path of a file, which nobody else can make.
    #[must_use]
    pub fn path(&self, address: &Address<'_>) -> String {
        let Address { job, fence, expires, name } = address;
        let signature = self.signature(address);
        format!("/v1/work/{job}/{fence}/files/{expires}/{signature}/{name}")
    }

    /// Whether this is the signature of an address that is valid now.
    #[must_use]
    pub fn is_valid(&self, address: &Address<'_>, signature: &str, now: Seconds) -> bool {
        let plain = !address.job.contains('\n') && !address.name.contains('\n');
        // In constant time.
        let signed = blake3::Hash::from_hex(signature)
            .is_ok_and(|signature| signature == self.signature(address));
        plain && signed && now < address.expires
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signatures of other files, leases, times and servers are none, nor is an altered one.
    #[test]
    fn addresses_are_valid_as_they_were_signed_until_they_expire() {
        let addresses = Addresses::of(&SigningKey::random().unwrap());
        let address = Address { job: "0123", fence: 7, expires: 1000, name: "iteration-000002.ct" };
        let path = addresses.path(&address);
        let parts: Vec<&str> = path.split('/').collect();
        let (signature, name) = (parts[7], parts[8]);
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
