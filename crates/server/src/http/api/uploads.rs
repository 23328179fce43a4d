//! `/v1/uploads`: uploads by tus 1.0, with creation, expiration and termination
//! (<https://tus.io/protocols/resumable-upload>).
//!
//! An upload declares its digest. A client that begins the same upload again resumes it.

use super::{
    access::{Path, Tenant},
    body,
    route::{Route, route},
    spec::{requests, responses},
};
use crate::{
    accounts::token::random_id,
    clock::{http_date, now},
    http::receive::{Receiving, finish},
    jobs::app::{App, Server, blocking},
    problem::{Answer, Problem, internal},
    storage::{
        records::{Begun, Collection, MIN_BYTES, TenantLimits, Upload},
        uploads::Progress,
    },
};
use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use sudare_roles::error::Error;
use tokio::sync::OwnedMutexGuard;

const VERSION: &str = "1.0.0";
const RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const VERSIONS: HeaderName = HeaderName::from_static("tus-version");
const EXTENSIONS: HeaderName = HeaderName::from_static("tus-extension");
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const LENGTH: HeaderName = HeaderName::from_static("upload-length");
const METADATA: HeaderName = HeaderName::from_static("upload-metadata");
const EXPIRES: HeaderName = HeaderName::from_static("upload-expires");

/// Path of an upload under way.
const PATH: &str = "/v1/uploads/{name}";
/// Paths at which uploads begin.
const BEGIN_PATHS: [&str; 3] = ["/v1/keys", "/v1/tables", "/v1/models"];
/// Hexadecimal digits of a digest.
const DIGEST_HEX_LEN: usize = 64;

/// Lists the routes of uploads under way.
pub fn routes() -> Vec<Route> {
    vec![
        route!(options PATH, options, "Describe the protocol of uploads")
            .with_response(204, "Version and extensions of tus", &responses::TUS)
            .public(),
        route!(head PATH, show, "Show the progress of an upload")
            .with_request(&requests::TUS)
            .with_response(200, "The progress is in the headers", &responses::PROGRESS)
            .with_failures(&[422, 503]),
        route!(patch PATH, append, "Append bytes to an upload")
            .with_request(&requests::PART)
            .with_response(204, "The bytes are stored", &responses::PROGRESS)
            .with_failures(&[400, 409, 413, 415, 422, 423, 503]),
        route!(post PATH, override_method, "Append to an upload or cancel it, without PATCH and DELETE")
            .with_request(&requests::OVERRIDE)
            .with_response(204, "As for the method in X-HTTP-Method-Override", &responses::OVERRIDE)
            .with_failures(&[400, 405, 409, 413, 415, 422, 423, 503]),
        route!(delete PATH, cancel, "Cancel an upload")
            .with_request(&requests::TUS)
            .with_response(204, "The upload is deleted", &responses::CANCELLED)
            .with_failures(&[423]),
    ]
}

/// Adds the headers that tus requires in every response about uploads, even if the router rejects the
/// request. A 412 also gets the supported version.
pub async fn add_tus_headers(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let may_begin = matches!(*request.method(), Method::POST | Method::OPTIONS);
    let is_about_uploads = path == PATH || (may_begin && BEGIN_PATHS.contains(&path));
    let mut response = next.run(request).await;
    if !is_about_uploads {
        return response;
    }
    let is_version = response.status() == StatusCode::PRECONDITION_FAILED;
    let headers = response.headers_mut();
    headers.insert(RESUMABLE, HeaderValue::from_static(VERSION));
    // tus requires this, so that no proxy responds with an old offset.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if is_version {
        headers.insert(VERSIONS, HeaderValue::from_static(VERSION));
    }
    response
}

/// Shows the version and the extensions of tus.
pub async fn options() -> Response {
    let headers = [(VERSIONS, VERSION), (EXTENSIONS, "creation,expiration,termination")];
    (StatusCode::NO_CONTENT, headers).into_response()
}

fn expect_version(headers: &HeaderMap) -> Answer<()> {
    if headers.get(RESUMABLE).is_some_and(|version| version == VERSION) {
        return Ok(());
    }
    let detail = "uploads use tus 1.0: send Tus-Resumable: 1.0.0";
    Err(Problem::new(StatusCode::PRECONDITION_FAILED, "TusVersion", detail))
}

fn number(headers: &HeaderMap, name: &HeaderName) -> Answer<u64> {
    let text = headers.get(name).and_then(|value| value.to_str().ok());
    // `parse` alone would accept a plus sign.
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.filter(is_number).and_then(|text| text.parse().ok());
    number.ok_or_else(|| Problem::bad("Usage", format!("send the number of bytes as {name}")))
}

/// Reads the digest from the metadata of a new upload.
fn digest_of(headers: &HeaderMap) -> Answer<String> {
    let missing = || {
        let detail = "Upload-Metadata has no valid digest: send `digest` and the BLAKE3 digest of the file, \
                      64 hexadecimal digits in base64";
        Problem::bad("Usage", detail)
    };
    let text = headers.get(METADATA).and_then(|value| value.to_str().ok()).ok_or_else(missing)?;
    let pairs = text.split(',').filter_map(|pair| pair.trim().split_once(' '));
    let (_, value) = pairs.into_iter().find(|(key, _)| *key == "digest").ok_or_else(missing)?;
    let bytes = STANDARD.decode(value.trim()).map_err(|_| missing())?;
    let digest = String::from_utf8(bytes).map_err(|_| missing())?;
    // Each digest has one spelling, because it becomes the name of a file.
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let valid = digest.len() == DIGEST_HEX_LEN && digest.bytes().all(is_digit);
    valid.then_some(digest).ok_or_else(missing)
}

/// Begins an upload, or resumes it.
pub async fn begin(app: App, tenant: String, to: Collection, headers: HeaderMap) -> Answer {
    expect_version(&headers)?;
    let bytes = number(&headers, &LENGTH)?;
    let digest = digest_of(&headers)?;
    let upload = blocking(&app, move |app| find_or_begin(app, tenant, to, bytes, digest)).await?;
    let upload = finished(&app, upload).await?;
    let headers = [
        (header::LOCATION, format!("/v1/uploads/{}", upload.id)),
        (OFFSET, upload.received.to_string()),
        (EXPIRES, expiry(&app, &upload)),
    ];
    Ok((StatusCode::CREATED, headers).into_response())
}

fn find_or_begin(
    app: &Server,
    tenant: String,
    collection: Collection,
    bytes: u64,
    digest: String,
) -> Answer<Upload> {
    if bytes == 0 {
        return Err(Problem::unusable("Usage", "the upload is empty: send a file"));
    }
    let other = || {
        let detail =
            "an upload of another size or kind has this digest: cancel it, or send the same file";
        Err(Problem::conflict("UploadDiffers", detail))
    };
    let server = app.store.name().to_owned();
    if let Some(known) = app.records.upload_of(&tenant, &digest, &server)? {
        let same = (known.collection, known.bytes) == (collection, bytes);
        return if same { Ok(known) } else { other() };
    }
    let known = app.records.object(&tenant, &digest)?;
    if let Some(object) = &known
        && (object.collection, object.bytes) != (collection, bytes)
    {
        return other();
    }
    let complete = known.is_some();
    if complete {
        // Repeated requests share one row.
        if let Some(whole) = app.records.whole_upload_of(&tenant, &digest)? {
            app.records.received(&whole.id, bytes, now())?;
            return Ok(Upload { touched: now(), ..whole });
        }
    } else {
        app.disk.expect_room(bytes)?;
        app.count_act(&tenant)?;
    }
    let upload = Upload {
        id: random_id()?,
        tenant,
        server,
        collection,
        digest,
        bytes,
        received: if complete { bytes } else { 0 },
        complete,
        touched: now(),
    };
    let TenantLimits { bytes, objects, .. } = app.limits.tenant;
    let most = match app.records.begin_upload(&upload, &app.limits.tenant)? {
        Begun::Taken => return Ok(upload),
        Begun::TooLarge => format!("{bytes} bytes, at least {MIN_BYTES} for each file"),
        Begun::TooMany => format!("{objects} keys, tables, models and results"),
    };
    let detail = format!("a tenant may have {most}: remove objects that you no longer need");
    Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "Quota", detail))
}

async fn find(app: &App, tenant: String, id: String) -> Answer<Upload> {
    let found = blocking(app, move |app| {
        // The data of an upload at another server is not available here.
        let is_here = |upload: &Upload| upload.complete || upload.server == app.store.name();
        Ok::<_, Problem>(app.records.upload(&tenant, &id)?.filter(is_here))
    });
    found.await?.ok_or_else(Problem::not_found)
}

/// Makes an object of an upload that has all its bytes, unless it is one already.
async fn finished(app: &App, upload: Upload) -> Answer<Upload> {
    if upload.complete || upload.received < upload.bytes {
        return Ok(upload);
    }
    // The request with the last bytes may be about to finish the upload, or was killed before.
    let progress = app.uploads.wait(&upload.id).await;
    let upload = find(app, upload.tenant, upload.id).await?;
    if upload.complete {
        app.uploads.forget(&upload.id);
        return Ok(upload);
    }
    blocking(app, move |app| finish(app, upload, progress)).await
}

/// Returns the time at which the upload expires without more data, as an HTTP date.
fn expiry(app: &App, upload: &Upload) -> String {
    http_date(upload.touched.saturating_add(app.limits.upload_seconds))
}

/// Deletes an upload that no request writes to.
fn discard(app: &Server, id: &str) -> Result<(), Error> {
    // The record first: a sweep removes a file without a record, but a record without its file
    // would count bytes that are gone.
    app.records.remove_upload(id)?;
    app.store.remove_upload(id)?;
    app.uploads.forget(id);
    Ok(())
}

fn progress_of(app: &App, upload: &Upload) -> [(HeaderName, String); 4] {
    [
        (OFFSET, upload.received.to_string()),
        (LENGTH, upload.bytes.to_string()),
        (METADATA, format!("digest {}", STANDARD.encode(&upload.digest))),
        (EXPIRES, expiry(app, upload)),
    ]
}

/// Shows the progress of an upload.
async fn show(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    expect_version(&headers)?;
    let upload = finished(&app, find(&app, tenant, id).await?).await?;
    Ok(progress_of(&app, &upload).into_response())
}

/// Cancels an upload.
async fn cancel(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    expect_version(&headers)?;
    let upload = find(&app, tenant, id).await?;
    let _writing = app.uploads.take(&upload.id).ok_or_else(in_use)?;
    blocking(&app, move |app| discard(app, &upload.id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn in_use() -> Problem {
    let detail = "another request writes to this upload: wait, and ask for its offset";
    Problem::new(StatusCode::LOCKED, "UploadInUse", detail)
}

/// Appends to an upload, and stores the data received even if the connection breaks.
async fn append(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    // The handler is dropped with the connection. The task goes on, and stores the data received.
    let receiving = tokio::spawn(async move {
        let (mut upload, progress) = ready_for(&app, tenant, id, &headers).await?;
        if let Some(progress) = progress {
            let begun = blocking(&app, move |app| Receiving::begin(app, upload, progress)).await?;
            let (receiving, written, passed_on) =
                body::consume(&app, body, begun, Receiving::write).await?;
            upload = blocking(&app, move |app| receiving.end(app, written)).await?;
            // Reported last: the data that arrived before the connection broke is stored.
            passed_on?;
        }
        Ok((StatusCode::NO_CONTENT, progress_of(&app, &upload)).into_response())
    });
    receiving.await.unwrap_or_else(|error| Err(internal(error).into()))
}

/// Handles `X-HTTP-Method-Override`, for clients that cannot send PATCH or DELETE.
async fn override_method(
    app: State<App>,
    tenant: Tenant,
    id: Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    match headers.get("x-http-method-override").map(HeaderValue::as_bytes) {
        Some(b"PATCH") => append(app, tenant, id, headers, body).await,
        Some(b"DELETE") => cancel(app, tenant, id, headers).await,
        _ => {
            let detail = "send X-HTTP-Method-Override: PATCH or DELETE, or use these methods";
            Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Method", detail))
        }
    }
}

/// Returns the upload that a request may write to, with the lock. The lock is missing if all bytes are
/// stored and the request has none.
async fn ready_for(
    app: &App,
    tenant: String,
    id: String,
    headers: &HeaderMap,
) -> Answer<(Upload, Option<OwnedMutexGuard<Progress>>)> {
    expect_version(headers)?;
    let kind = headers.get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind != "application/offset+octet-stream") {
        let detail = "send the bytes as application/offset+octet-stream";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "ContentType", detail));
    }
    let offset = number(headers, &OFFSET)?;
    let known = finished(app, find(app, tenant.clone(), id.clone()).await?).await?;
    let is_empty = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length == "0");
    // A client that missed the response to its last part may send an empty one.
    if known.complete && offset == known.bytes && is_empty {
        return Ok((known, None));
    }
    // Refuses a second writer and does not queue it, since its offset would be outdated.
    let progress = app.uploads.take(&known.id).ok_or_else(in_use)?;
    // Another request may have written before this one had the lock.
    let upload = find(app, tenant, id).await?;
    if upload.complete {
        app.uploads.forget(&upload.id);
        return Err(Problem::conflict("UploadComplete", "the upload is complete already"));
    }
    if offset != upload.received {
        let detail =
            format!("the server has {} bytes: continue there, not at {offset}", upload.received);
        return Err(Problem::conflict("UploadOffset", detail));
    }
    Ok((upload, Some(progress)))
}

/// Deletes expired uploads, records repeated events, and removes files that are no longer needed.
pub async fn sweep(app: &App) {
    let swept = blocking(app, |app| {
        let name = app.store.name();
        let kept = app.limits.upload_seconds;
        let before = now().saturating_sub(kept);
        for upload in app.records.stale_uploads(name, before, before.saturating_sub(kept))? {
            // An upload that a request writes to is not stalled.
            if let Some(_writing) = app.uploads.take(&upload.id) {
                // A part may have arrived before the lock was written.
                let found = app.records.upload(&upload.tenant, &upload.id)?;
                if found.is_some_and(|found| found.touched == upload.touched) {
                    discard(app, &upload.id)?;
                }
            }
        }
        app.store.tidy_uploads(&app.records.uploads_at(name)?)?;
        app.restore_ballast();
        app.note_repeats()?;
        // Other processes may have added lines.
        app.records.sync_log()?;
        app.tidy_folder()
    });
    if let Err(error) = swept.await {
        tracing::error!(%error, "the sweep failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_from_metadata() {
        let digest = "0f".repeat(32);
        let read = |text: String| {
            let mut headers = HeaderMap::new();
            headers.insert(METADATA, text.parse().unwrap());
            digest_of(&headers).ok()
        };
        let encoded = STANDARD.encode(&digest);
        assert_eq!(read(format!("digest {encoded}")).as_ref(), Some(&digest));
        assert_eq!(read(format!("name bmFtZQ==,digest {encoded}, empty")).as_ref(), Some(&digest));
        let upper = STANDARD.encode(digest.to_uppercase());
        let path = STANDARD.encode("../".repeat(22));
        for bad in [String::new(), "digest".into(), format!("digest {digest}"), upper, path] {
            assert_eq!(read(bad.clone()), None, "{bad}");
        }
    }

    #[test]
    fn numbers_are_digits_alone() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LENGTH, text.parse().unwrap());
            number(&headers, &LENGTH).ok()
        };
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        for bad in ["", "-1", "+1", "1.0", "18446744073709551616", "0x1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
