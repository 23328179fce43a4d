//! Records of objects and uploads.

use super::{
    Records, TenantLimits,
    audit::note,
    database::{Database, Row, values},
};
use crate::{
    clock::{Seconds, now},
    storage::audit::Event,
};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, io};
use sudare_roles::error::Result;

/// Collection of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Collection {
    /// Evaluation keys.
    Keys,
    /// Encrypted tables.
    Tables,
    /// Models for scoring, plain or encrypted.
    Models,
    /// Results of jobs.
    Results,
}

impl Collection {
    /// All collections.
    pub const ALL: [Self; 4] = [Self::Keys, Self::Tables, Self::Models, Self::Results];

    /// Returns the name of the collection in paths.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Tables => "tables",
            Self::Models => "models",
            Self::Results => "results",
        }
    }
}

stored_by_name!(Collection);

/// An object of a tenant, named by its digest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Object {
    /// Owner of the object.
    #[serde(skip)]
    pub tenant: String,
    /// BLAKE3 digest of the file, in hexadecimal.
    pub digest: String,
    /// Collection of the object.
    pub collection: Collection,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of creation.
    pub created: Seconds,
    /// Facts from the header.
    pub about: serde_json::Value,
}

/// An upload of a tenant, under way or complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Name of the upload.
    pub id: String,
    /// Owner of the upload.
    pub tenant: String,
    /// The server that receives the upload.
    pub server: String,
    /// Collection of the object to be.
    pub collection: Collection,
    /// Declared digest.
    pub digest: String,
    /// Declared size in bytes.
    pub bytes: u64,
    /// Bytes received.
    pub received: u64,
    /// The upload is an object now.
    pub complete: bool,
    /// Time of the last data.
    pub touched: Seconds,
}

fn object(row: &Row) -> io::Result<Object> {
    Ok(Object {
        tenant: row.get("tenant")?,
        digest: row.get("digest")?,
        collection: row.get("collection")?,
        bytes: row.get("bytes")?,
        created: row.get("created")?,
        about: serde_json::from_str(&row.get::<String>("about")?)
            .unwrap_or(serde_json::Value::Null),
    })
}

fn upload(row: &Row) -> io::Result<Upload> {
    Ok(Upload {
        id: row.get("id")?,
        tenant: row.get("tenant")?,
        server: row.get::<Option<_>>("server")?.unwrap_or_default(),
        collection: row.get("collection")?,
        digest: row.get("digest")?,
        bytes: row.get("bytes")?,
        received: row.get("received")?,
        complete: row.get("complete")?,
        touched: row.get("touched")?,
    })
}

/// Minimum bytes that a file counts for: even a small file takes a block of the disk, a name and a row of
/// the records.
pub const MIN_BYTES: u64 = 4096;

/// Sums the bytes of a tenant's objects, declared uploads, and results of jobs under way. Each file counts
/// for [`MIN_BYTES`] or more.
pub(super) fn bytes_of(db: &dyn Database, tenant: &str) -> io::Result<u64> {
    let sql = "SELECT CAST(coalesce(sum(CASE WHEN bytes < ?2 THEN ?2 ELSE bytes END), 0) AS BIGINT) FROM \
               (SELECT bytes FROM objects WHERE tenant = ?1 UNION ALL \
               SELECT bytes FROM uploads WHERE tenant = ?1 AND complete = 0 UNION ALL \
               SELECT result_bytes AS bytes FROM jobs \
               WHERE tenant = ?1 AND state IN ('queued', 'running')) AS had";
    db.value(sql, &values![tenant, MIN_BYTES])
}

/// Counts the objects of a tenant, and its uploads under way.
pub(super) fn objects_of(db: &dyn Database, tenant: &str) -> io::Result<u64> {
    let sql = "SELECT (SELECT count(*) FROM objects WHERE tenant = ?1) + \
               (SELECT count(*) FROM uploads WHERE tenant = ?1 AND complete = 0)";
    db.value(sql, &values![tenant])
}

/// Outcome of beginning an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The upload has begun.
    Taken,
    /// The tenant would exceed its storage.
    TooLarge,
    /// The tenant would exceed its number of objects.
    TooMany,
}

/// Signals that a file of the same digest is being removed, or may have been since this one was sent. The
/// caller must send the file again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removing;

/// Outcome of deleting an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The object is deleted, and its file must be removed.
    Begun,
    /// There is no such object, or another request deletes it.
    Absent,
    /// A job under way uses the object.
    InUse,
}

/// Counts the finished removals of a tenant's objects.
fn removals_done(db: &dyn Database, tenant: &str) -> io::Result<u64> {
    let sql = "SELECT coalesce(max(count), 0) FROM removals_done WHERE tenant = ?1";
    db.value(sql, &values![tenant])
}

/// Returns whether the file of a new object is still where it was put when `done` removals were finished:
/// no removal of its digest is under way, and no removal has finished since.
pub(super) fn is_kept(db: &dyn Database, new: &Object, done: u64) -> io::Result<bool> {
    let sql = "SELECT count(*) FROM removals WHERE tenant = ?1 AND digest = ?2";
    let under_way = db.value::<u64>(sql, &values![&new.tenant, &new.digest])?;
    Ok(under_way == 0 && removals_done(db, &new.tenant)? == done)
}

/// Adds an object, unless its tenant has it.
pub(super) fn add_object(db: &dyn Database, new: &Object) -> io::Result<()> {
    // A file of the same digest is the same file, so a conflict is no error.
    let sql = "INSERT INTO objects (tenant, digest, collection, bytes, created, about) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
    let Object { tenant, digest, collection, bytes, created, about } = new;
    let values = values![tenant, digest, *collection, bytes, created, about.to_string()];
    db.execute(sql, &values).map(|_| ())
}

/// Returns whether a tenant has an object.
pub(super) fn has_object(db: &dyn Database, tenant: &str, digest: &str) -> io::Result<bool> {
    let sql = "SELECT count(*) FROM objects WHERE tenant = ?1 AND digest = ?2";
    Ok(db.value::<u64>(sql, &values![tenant, digest])? > 0)
}

impl Records {
    /// Finds an object of a tenant by digest.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn object(&self, tenant: &str, digest: &str) -> Result<Option<Object>> {
        let sql = "SELECT * FROM objects WHERE tenant = ?1 AND digest = ?2";
        self.read(|db| db.find(sql, &values![tenant, digest], object))
    }

    /// Lists the objects of a tenant in a collection, oldest first.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn objects(&self, tenant: &str, collection: Collection) -> Result<Vec<Object>> {
        let sql = "SELECT * FROM objects WHERE tenant = ?1 AND collection = ?2 \
                   ORDER BY created, digest";
        self.read(|db| db.all(sql, &values![tenant, collection], object))
    }

    /// Lists the objects of all tenants, as tenants and digests.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn all_objects(&self) -> Result<HashSet<(String, String)>> {
        let read = |row: &Row| Ok((row.get("tenant")?, row.get("digest")?));
        let found = self.read(|db| db.all("SELECT tenant, digest FROM objects", &[], read))?;
        Ok(found.into_iter().collect())
    }

    /// Counts the objects of a tenant, and its uploads under way.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn objects_of(&self, tenant: &str) -> Result<u64> {
        self.read(|db| objects_of(db, tenant))
    }

    /// Sums the bytes of a tenant's objects, declared uploads, and results of jobs under way.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn bytes_of(&self, tenant: &str) -> Result<u64> {
        self.read(|db| bytes_of(db, tenant))
    }

    /// Begins an upload, unless the tenant would exceed a limit. An upload of an existing object counts for
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn begin_upload(&self, new: &Upload, limits: &TenantLimits) -> Result<Begun> {
        self.write(|db| {
            let more = new.bytes.max(MIN_BYTES);
            // In the transaction of the insertion: requests at the same time cannot exceed a limit
            // together.
            if !new.complete {
                if bytes_of(db, &new.tenant)?.saturating_add(more) > limits.bytes {
                    return Ok(Begun::TooLarge);
                }
                if objects_of(db, &new.tenant)? >= limits.objects {
                    return Ok(Begun::TooMany);
                }
            }
            let sql = "INSERT INTO uploads \
                       (id, tenant, server, collection, digest, bytes, received, complete, touched) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
            let Upload { id, tenant, server, collection, digest, .. } = new;
            let Upload { bytes, received, complete, touched, .. } = new;
            let mut values = values![id, tenant, server, *collection, digest].to_vec();
            values.extend(values![bytes, received, *complete, touched]);
            db.execute(sql, &values).map(|_| Begun::Taken)
        })
    }

    /// Finds an upload of a tenant by name.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn upload(&self, tenant: &str, id: &str) -> Result<Option<Upload>> {
        let sql = "SELECT * FROM uploads WHERE tenant = ?1 AND id = ?2";
        self.read(|db| db.find(sql, &values![tenant, id], upload))
    }

    /// Finds a complete upload of a tenant with this digest.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn whole_upload_of(&self, tenant: &str, digest: &str) -> Result<Option<Upload>> {
        let sql = "SELECT * FROM uploads WHERE tenant = ?1 AND digest = ?2 AND complete = 1 \
                   ORDER BY touched DESC LIMIT 1";
        self.read(|db| db.find(sql, &values![tenant, digest], upload))
    }

    /// Finds a tenant's upload of this digest that is under way at a server.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn upload_of(&self, tenant: &str, digest: &str, server: &str) -> Result<Option<Upload>> {
        let sql = "SELECT * FROM uploads \
                   WHERE tenant = ?1 AND digest = ?2 AND complete = 0 AND server = ?3";
        self.read(|db| db.find(sql, &values![tenant, digest, server], upload))
    }

    /// Records the number of bytes of an upload that are on the disk.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn received(&self, id: &str, received: u64, now: Seconds) -> Result<()> {
        let sql = "UPDATE uploads SET received = ?2, touched = ?3 WHERE id = ?1";
        self.write(|db| db.execute(sql, &values![id, received, now]).map(|_| ()))
    }

    /// Turns an upload into an object: `adopt` moves the file, and must not use the records. `done` is the
    /// number of finished removals before the file was uploaded to the shared store.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails; errors of `adopt`, which leave
    /// the records unchanged.
    pub fn complete_upload(
        &self,
        id: &str,
        new: &Object,
        done: u64,
        adopt: impl FnOnce() -> Result<()>,
    ) -> Result<core::result::Result<(), Removing>> {
        let mut adopted = Ok(());
        let kept = self.write_once(|db| {
            if !is_kept(db, new, done)? {
                return Ok(Err(Removing));
            }
            // Within the transaction, as in `finish`: no record is without its file.
            adopted = adopt();
            if adopted.is_err() {
                return Ok(Ok(()));
            }
            add_object(db, new)?;
            let Object { tenant, digest: object, bytes, created, .. } = new;
            let sql = "UPDATE uploads SET complete = 1, received = bytes, touched = ?2 \
                       WHERE id = ?1";
            db.execute(sql, &values![id, created])?;
            let collection = new.collection.name();
            let bytes = *bytes;
            note(db, &Event::UploadCompleted { tenant, collection, object, bytes }).map(Ok)
        })?;
        adopted.map(|()| kept)
    }

    /// Counts the finished removals of a tenant's objects.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn removals_done(&self, tenant: &str) -> Result<u64> {
        self.read(|db| removals_done(db, tenant))
    }

    /// Makes a server responsible for removing the file of a deleted object, if the file is not removed
    /// yet, and the removal is that server's or began `before` a time. Returns the time of the claim.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn claim_removal(
        &self,
        tenant: &str,
        digest: &str,
        server: &str,
        before: Seconds,
    ) -> Result<Option<Seconds>> {
        let sql = "UPDATE removals SET server = ?3, since = ?4 \
                   WHERE tenant = ?1 AND digest = ?2 AND (server = ?3 OR since < ?5)";
        let since = now();
        let values = values![tenant, digest, server, since, before];
        Ok((self.write(|db| db.execute(sql, &values))? > 0).then_some(since))
    }

    /// Records that a server has removed the file that it claimed at `since`. Another file may then have
    /// its name.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn removal_done(
        &self,
        tenant: &str,
        digest: &str,
        server: &str,
        since: Seconds,
    ) -> Result<()> {
        let done = "DELETE FROM removals \
                    WHERE tenant = ?1 AND digest = ?2 AND server = ?3 AND since = ?4";
        let count = "INSERT INTO removals_done (tenant, count) VALUES (?1, 1) \
                     ON CONFLICT (tenant) DO UPDATE SET count = removals_done.count + 1";
        self.write(|db| match db.execute(done, &values![tenant, digest, server, since])? {
            0 => Ok(()),
            _ => db.execute(count, &values![tenant]).map(|_| ()),
        })
    }

    /// Lists the removals that are not known to be finished, as tenants and digests: the ones of a server,
    /// and the ones of other servers from `before` a time, whose server may be lost.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn removals(&self, server: &str, before: Seconds) -> Result<Vec<(String, String)>> {
        let sql = "SELECT tenant, digest FROM removals WHERE server = ?1 OR since < ?2 \
                   ORDER BY since";
        let read = |row: &Row| Ok((row.get("tenant")?, row.get("digest")?));
        self.read(|db| db.all(sql, &values![server, before], read))
    }

    /// Makes a server responsible for removing the file of an object without a record, unless there is a
    /// record or an upload by now. Returns whether to remove it ([`Records::claim_removal`]).
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn remove_orphan(&self, tenant: &str, digest: &str, server: &str) -> Result<bool> {
        let sending = "SELECT count(*) FROM uploads \
                       WHERE tenant = ?1 AND digest = ?2 AND complete = 0";
        let sql = "INSERT INTO removals (tenant, digest, server, since) \
                   VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        self.write(|db| {
            let is_sent = db.value::<u64>(sending, &values![tenant, digest])? > 0;
            if is_sent || has_object(db, tenant, digest)? {
                return Ok(false);
            }
            Ok(db.execute(sql, &values![tenant, digest, server, now()])? > 0)
        })
    }

    /// Lists the tenants that have tokens or objects.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn tenants(&self) -> Result<HashSet<String>> {
        let sql = "SELECT owner FROM tokens WHERE role = 'tenant' UNION SELECT tenant FROM objects";
        Ok(self.read(|db| db.all(sql, &[], Row::first))?.into_iter().collect())
    }

    /// Deletes an upload.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn remove_upload(&self, id: &str) -> Result<()> {
        let sql = "DELETE FROM uploads WHERE id = ?1";
        self.write(|db| db.execute(sql, &values![id]).map(|_| ()))
    }

    /// Lists stalled uploads: the ones at a server without data since `before`, and the ones at other
    /// servers without data since `long_before`, whose server may be lost.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn stale_uploads(
        &self,
        server: &str,
        before: Seconds,
        long_before: Seconds,
    ) -> Result<Vec<Upload>> {
        let sql = "SELECT * FROM uploads WHERE (server = ?1 AND touched < ?2) OR touched < ?3 \
                   ORDER BY touched, id";
        self.read(|db| db.all(sql, &values![server, before, long_before], upload))
    }

    /// Lists the names of uploads under way at a server.
    ///
    /// # Errors
    /// [`Error::Io`](sudare_roles::error::Error::Io) if the database fails.
    pub fn uploads_at(&self, server: &str) -> Result<HashSet<String>> {
        let sql = "SELECT id FROM uploads WHERE server = ?1 AND complete = 0";
        let found = self.read(|db| db.all(sql, &values![server], Row::first))?;
        Ok(found.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::records::testing::places;
    use sudare_roles::error::Error;

    fn upload(id: &str, tenant: &str, bytes: u64) -> Upload {
        Upload {
            id: id.into(),
            tenant: tenant.into(),
            server: "one".into(),
            collection: Collection::Keys,
            digest: format!("digest of {id}"),
            bytes,
            received: 0,
            complete: false,
            touched: 10,
        }
    }

    /// Counts declared bytes once, like stored ones, and frees them at the end.
    #[test]
    fn bytes_of_a_tenant_are_counted_once() {
        for place in places() {
            let records = place.open();
            let first = upload("1", "a", 6000);
            let limits = TenantLimits { bytes: 10_500, objects: 2, ..TenantLimits::default() };
            let begin = |new: &Upload| records.begin_upload(new, &limits).unwrap();
            assert_eq!(begin(&first), Begun::Taken);
            assert_eq!(begin(&upload("2", "a", 4501)), Begun::TooLarge);
            assert_eq!(begin(&upload("3", "b", 4501)), Begun::Taken);
            // Even the smallest file takes a block.
            assert_eq!(begin(&upload("4", "a", 40)), Begun::Taken);
            assert_eq!(records.bytes_of("a").unwrap(), 6000 + MIN_BYTES);
            assert_eq!(begin(&upload("5", "a", 40)), Begun::TooLarge);
            let wide = TenantLimits { bytes: u64::MAX, ..limits };
            let fifth = upload("5", "a", 40);
            assert_eq!(records.begin_upload(&fifth, &wide).unwrap(), Begun::TooMany);
            // An object that exists already counts for nothing more.
            let found = Upload { complete: true, ..fifth };
            assert_eq!(begin(&found), Begun::Taken);
            let whole = records.whole_upload_of("a", &found.digest).unwrap();
            assert_eq!((whole, records.objects_of("a").unwrap()), (Some(found), 2));
            records.remove_upload("5").unwrap();
            assert_eq!(records.upload("b", "1").unwrap(), None);
            records.received("1", 33, 20).unwrap();
            let found = records.upload_of("a", &first.digest, "one").unwrap().unwrap();
            assert_eq!((found.received, found.touched), (33, 20));
            let object = Object {
                tenant: "a".into(),
                digest: first.digest.clone(),
                collection: Collection::Keys,
                bytes: 6000,
                created: 30,
                about: serde_json::json!({ "job": "stats:1x1" }),
            };
            let failing = || Err(Error::Bug("a disk".into()));
            records.complete_upload("1", &object, 0, failing).unwrap_err();
            assert_eq!(records.object("a", &first.digest).unwrap(), None);
            records.complete_upload("1", &object, 0, || Ok(())).unwrap().unwrap();
            assert_eq!(records.bytes_of("a").unwrap(), 6000 + MIN_BYTES);
            let done = records.upload("a", "1").unwrap().unwrap();
            assert!(done.complete && done.received == 6000);
            assert_eq!(records.upload_of("a", &first.digest, "one").unwrap(), None);
            assert_eq!(records.object("a", &first.digest).unwrap().as_ref(), Some(&object));
            assert_eq!(records.object("b", &first.digest).unwrap(), None);
            let known = records.objects("a", Collection::Keys).unwrap();
            assert_eq!(known, core::slice::from_ref(&object));
            assert!(records.objects("a", Collection::Tables).unwrap().is_empty());
            let stale = |server, long_before| {
                let found = records.stale_uploads(server, 20, long_before).unwrap();
                found.into_iter().map(|upload| upload.id).collect::<Vec<_>>()
            };
            assert_eq!(stale("one", 0), ["3", "4"]);
            assert!(stale("two", 10).is_empty());
            assert_eq!(stale("two", 11), ["3", "4"]);
            assert_eq!(records.uploads_at("one").unwrap().len(), 2);
            assert!(records.uploads_at("two").unwrap().is_empty());
            let remove = || records.remove_object("a", &first.digest, "one").unwrap();
            assert_eq!([remove(), remove()], [Removal::Begun, Removal::Absent]);
            assert_eq!(
                (records.bytes_of("a").unwrap(), records.upload("a", "1").unwrap()),
                (MIN_BYTES, None)
            );
            // The removal blocks the digest until the file is gone. Another server finishes it if the first
            // is lost.
            let unused = || panic!("nothing is adopted");
            let completed = || records.complete_upload("4", &object, 0, unused).unwrap();
            assert_eq!(completed(), Err(Removing));
            let named = [("a".to_owned(), first.digest.clone())];
            let removals = |server, before| records.removals(server, before).unwrap();
            assert_eq!([removals("one", 0), removals("two", now() + 9)], [named.clone(), named]);
            assert!(removals("two", now() - 100).is_empty());
            let digest = &first.digest[..];
            let claim =
                |server, before| records.claim_removal("a", digest, server, before).unwrap();
            assert_eq!(claim("two", now() - 100), None);
            let since = claim("one", 0).unwrap();
            // The second server has the removal now, and the first can no longer finish it.
            let taken = claim("two", now() + 9).unwrap();
            records.removal_done("a", digest, "one", since).unwrap();
            assert_eq!((completed(), removals("two", 0).len()), (Err(Removing), 1));
            records.removal_done("a", digest, "two", taken).unwrap();
            assert_eq!(claim("two", now() + 9), None);
            records.removal_done("a", digest, "two", taken).unwrap();
            // The object may have been removed since it was sent.
            assert_eq!(completed(), Err(Removing));
            let done = ["a", "b"].map(|tenant| records.removals_done(tenant).unwrap());
            assert_eq!(done, [1, 0]);
            records.complete_upload("4", &object, 1, || Ok(())).unwrap().unwrap();
            assert_eq!(remove(), Removal::Begun);
        }
    }
}
