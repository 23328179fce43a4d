//! What tenants have: objects by their digests, and jobs by their names.

use super::{access::Tenant, jobs, uploads};
use crate::{
    app::{App, Counters, aside},
    audit::Repeated,
    problem::{Answer, Problem},
    records::{Collection, Object},
};
use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::IntoResponse,
};
use futures_util::stream;
use std::{io, sync::Arc};
use sudare_roles::error::Error;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt, SeekFrom},
};

/// Bytes of a download that are read at a time.
const READ_AT_ONCE: u64 = 256 << 10;

/// What a path names.
enum Named {
    Objects(Collection),
    Jobs,
}

fn named(name: &str) -> Answer<Named> {
    Ok(match name {
        "keys" => Named::Objects(Collection::Keys),
        "tables" => Named::Objects(Collection::Tables),
        "models" => Named::Objects(Collection::Models),
        "results" => Named::Objects(Collection::Results),
        "jobs" => Named::Jobs,
        _ => return Err(Problem::not_found()),
    })
}

/// Begins an upload, or asks for a job.
pub async fn create(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(collection): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    match named(&collection)? {
        Named::Objects(collection) => Ok(uploads::begin(app, tenant, collection, headers).await),
        Named::Jobs => jobs::create(app, tenant, &headers, body).await,
    }
}

/// All of a collection.
pub async fn list(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(collection): Path<String>,
) -> Answer {
    match named(&collection)? {
        Named::Objects(collection) => {
            let found = aside(&app, move |app| app.records.objects(&tenant, collection));
            Ok(Json(found.await?).into_response())
        }
        Named::Jobs => jobs::list(app, tenant).await,
    }
}

async fn find(app: &App, tenant: &str, collection: Collection, digest: &str) -> Answer<Object> {
    let (tenant, digest) = (tenant.to_owned(), digest.to_owned());
    let found = aside(app, move |app| app.records.object(&tenant, &digest)).await?;
    found.filter(|object| object.collection == collection).ok_or_else(Problem::not_found)
}

/// One of a collection: of results their bytes, of others what is known of them.
pub async fn show(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path((collection, name)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Answer {
    match named(&collection)? {
        Named::Objects(Collection::Results) => {
            let object = find(&app, &tenant, Collection::Results, &name).await?;
            if method == Method::GET {
                let fetched = Repeated::Fetched { tenant, result: name };
                aside(&app, move |app| app.note(&fetched)).await?;
            }
            download(&app, &object, &headers).await
        }
        Named::Objects(collection) => {
            Ok(Json(find(&app, &tenant, collection, &name).await?).into_response())
        }
        Named::Jobs => jobs::show(app, tenant, name).await,
    }
}

/// Removes an object, or cancels a job.
pub async fn remove(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path((collection, name)): Path<(String, String)>,
) -> Answer {
    let collection = match named(&collection)? {
        Named::Objects(collection) => collection,
        Named::Jobs => return jobs::cancel(app, tenant, name).await,
    };
    let object = find(&app, &tenant, collection, &name).await?;
    aside(&app, move |app| {
        if app.records.is_used(&tenant, &object.digest)? {
            let detail = "a job under way takes it: wait until it ends, or cancel it";
            return Err(Problem::conflict("InUse", detail));
        }
        app.records.remove_object(&tenant, &object.digest)?;
        app.store.remove_object(&tenant, &object.digest)?;
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The bytes of a result, or a range of them.
async fn download(app: &App, object: &Object, headers: &HeaderMap) -> Answer {
    let total = object.bytes;
    let asked = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let range = asked.map_or(Range::All, |text| range(text, total));
    let (status, first, end) = match range {
        Range::All => (StatusCode::OK, 0, total),
        Range::Part(first, end) => (StatusCode::PARTIAL_CONTENT, first, end),
        Range::Impossible => {
            let detail = format!("there are {total} bytes");
            let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "Range", detail);
            let range = [(header::CONTENT_RANGE, format!("bytes */{total}"))];
            return Ok((range, problem).into_response());
        }
    };
    let path = app.store.object(&object.tenant, &object.digest);
    let failed = |error: io::Error| Problem::from(Error::io("read", &path, error));
    let mut file = File::open(&path).await.map_err(failed)?;
    file.seek(SeekFrom::Start(first)).await.map_err(failed)?;
    let mut response = (
        [
            (header::CONTENT_TYPE, "application/octet-stream".into()),
            (header::CONTENT_LENGTH, (end - first).to_string()),
            (header::ACCEPT_RANGES, "bytes".into()),
            (header::ETAG, format!("\"{}\"", object.digest)),
        ],
        contents(app, file, end - first),
    )
        .into_response();
    *response.status_mut() = status;
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {first}-{}/{total}", end - 1);
        if let Ok(value) = range.parse() {
            response.headers_mut().insert(header::CONTENT_RANGE, value);
        }
    }
    Ok(response)
}

/// The next `left` bytes of a file.
fn contents(app: &App, file: File, left: u64) -> Body {
    let read = async |(app, mut file, left): (App, File, u64)| {
        if left == 0 {
            return None;
        }
        let mut bytes = Vec::new();
        let most = left.min(READ_AT_ONCE);
        let read = (&mut file).take(most).read_to_end(&mut bytes).await;
        let chunk = match read {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(_) => Ok(Bytes::from(bytes)),
            Err(error) => Err(error),
        };
        let count = chunk.as_ref().map_or(left, |chunk| chunk.len() as u64);
        Counters::add(&app.counters.downloaded_bytes, count);
        Some((chunk, (app, file, left - count)))
    };
    Body::from_stream(stream::unfold((Arc::clone(app), file, left), read))
}

#[derive(Debug, PartialEq, Eq)]
enum Range {
    All,
    /// From the first to before the last.
    Part(u64, u64),
    Impossible,
}

/// What is asked for of so many bytes (RFC 9110, 14.1.2). What is no single range of bytes counts
/// for nothing.
fn range(text: &str, total: u64) -> Range {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|text| text.split_once('-'))
    else {
        return Range::All;
    };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (first.trim(), last.trim()) {
        ("", last) => match number(last) {
            None => Range::All,
            Some(0) => Range::Impossible,
            Some(count) => Range::Part(total.saturating_sub(count), total),
        },
        (first, last) => match (number(first), last, number(last)) {
            (Some(first), "", _) if first < total => Range::Part(first, total),
            (Some(first), _, Some(last)) if first <= last && first < total => {
                Range::Part(first, last.saturating_add(1).min(total))
            }
            (Some(first), "", _) if first >= total => Range::Impossible,
            (Some(first), _, Some(last)) if first <= last => Range::Impossible,
            _ => Range::All,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_http() {
        for (text, expected) in [
            ("bytes=0-", Range::Part(0, 10)),
            ("bytes=3-5", Range::Part(3, 6)),
            ("bytes=9-99", Range::Part(9, 10)),
            ("bytes=-4", Range::Part(6, 10)),
            ("bytes=-99", Range::Part(0, 10)),
            ("bytes=10-", Range::Impossible),
            ("bytes=10-12", Range::Impossible),
            ("bytes=-0", Range::Impossible),
            ("bytes=5-3", Range::All),
            ("bytes=0-1,3-4", Range::All),
            ("bytes=a-", Range::All),
            ("lines=0-1", Range::All),
            ("bytes=18446744073709551615-18446744073709551615", Range::Impossible),
        ] {
            assert_eq!(range(text, 10), expected, "{text}");
        }
    }
}
