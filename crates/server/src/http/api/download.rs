//! Downloads of files, whole or in ranges.

use crate::{
    jobs::app::{App, Counters},
    problem::{Answer, Problem},
};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
};
use futures_util::stream;
use std::{io, path::Path, sync::Arc};
use sudare_roles::error::Error;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt, SeekFrom},
};

/// Bytes of a file that are read at a time.
// Few calls for gigabytes, and little memory for thousands of open downloads.
const READ_AT_ONCE: u64 = 256 << 10;

/// Sends a file or a range of it. `tag` identifies the content.
pub async fn download(app: &App, path: &Path, tag: &str, headers: &HeaderMap) -> Answer {
    let failed = |error: io::Error| Problem::from(Error::io("read", path, error));
    let mut file = File::open(path).await.map_err(failed)?;
    let total = file.metadata().await.map_err(failed)?.len();
    let asked = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let range = asked.map_or(Range::All, |text| range(text, total));
    let (status, first, end) = match range {
        Range::All => (StatusCode::OK, 0, total),
        Range::Part(first, end) => (StatusCode::PARTIAL_CONTENT, first, end),
        Range::Impossible => {
            let detail = format!("the file has {total} bytes: request a range within them");
            let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "Range", detail);
            let range = [(header::CONTENT_RANGE, format!("bytes */{total}"))];
            return Ok((range, problem).into_response());
        }
    };
    file.seek(SeekFrom::Start(first)).await.map_err(failed)?;
    let mut response = (
        [
            (header::CONTENT_TYPE, "application/octet-stream".into()),
            (header::CONTENT_LENGTH, (end - first).to_string()),
            (header::ACCEPT_RANGES, "bytes".into()),
            (header::ETAG, format!("\"{tag}\"")),
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

/// Reads the next `left` bytes of a file.
fn contents(app: &App, file: File, left: u64) -> Body {
    let read = async |(app, mut file, left): (App, File, u64)| {
        if left == 0 {
            return None;
        }
        let mut bytes = Vec::new();
        let most = left.min(READ_AT_ONCE);
        let read = (&mut file).take(most).read_to_end(&mut bytes).await;
        let chunk = match read {
            // The response has announced more bytes. A broken connection tells the client that the
            // file is not whole.
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
    /// The first byte, and the byte after the last.
    Part(u64, u64),
    Impossible,
}

/// Parses a `Range` header for a file of `total` bytes (RFC 9110, 14.1.2). Anything but a single range of
/// bytes means the whole file.
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
