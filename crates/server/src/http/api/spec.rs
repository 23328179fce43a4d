//! Specifications of requests and responses, from which routes are described.

use crate::job::MAX_IDEMPOTENCY_CHARS;

/// Media type of bytes with no schema.
pub const BYTES: &str = "application/octet-stream";
/// Media type of a part of an upload.
pub const PART: &str = "application/offset+octet-stream";
pub const EVENTS: &str = "text/event-stream";
pub const TEXT: &str = "text/plain";
pub const JSON: &str = "application/json";
pub const PROBLEM: &str = "application/problem+json";

/// Headers and body of a request, besides its path and its token.
pub struct RequestSpec {
    pub headers: &'static [Header],
    pub body: Option<Body>,
}

/// Headers and contents of a response.
pub struct ResponseSpec {
    pub headers: &'static [Header],
    /// Possible media types. The response has one of them.
    pub contents: &'static [Content],
}

/// Body of a request.
#[derive(Clone, Copy)]
pub struct Body {
    pub content: Content,
    pub required: bool,
}

/// A media type and its schema.
#[derive(Clone, Copy)]
pub enum Content {
    /// JSON with a named schema.
    Json(&'static str),
    /// Server-sent events.
    Events,
    /// A media type without a schema of its own.
    Of(&'static str),
}

/// A header of a request or a response.
#[derive(Clone, Copy)]
pub struct Header {
    pub name: &'static str,
    pub meaning: &'static str,
    pub form: Form,
    pub required: bool,
}

/// The form of a header's value.
#[derive(Clone, Copy)]
pub enum Form {
    Text,
    /// Text with a maximum number of characters.
    Short(usize),
    Count,
    OneOf(&'static [&'static str]),
}

/// Specifications of requests.
pub mod requests {
    use super::*;

    const fn headers(headers: &'static [Header]) -> RequestSpec {
        RequestSpec { headers, body: None }
    }

    pub const EMPTY: RequestSpec = headers(&[]);
    pub const RANGE: RequestSpec = headers(&[Header::RANGE]);
    pub const LAST_EVENT: RequestSpec = headers(&[Header::LAST_EVENT_ID]);
    pub const TUS: RequestSpec = headers(&[Header::TUS_RESUMABLE.required()]);
    pub const UPLOAD: RequestSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::UPLOAD_LENGTH.required(),
        Header::UPLOAD_METADATA.required(),
    ]);

    pub const JOB: RequestSpec = RequestSpec {
        headers: &[Header::IDEMPOTENCY_KEY],
        body: Some(Body { content: Content::Json("JobRequest"), required: true }),
    };

    pub const PART: RequestSpec = RequestSpec {
        headers: &[Header::TUS_RESUMABLE.required(), Header::UPLOAD_OFFSET.required()],
        body: Some(Body { content: Content::Of(super::PART), required: true }),
    };

    /// A part with PATCH, nothing with DELETE.
    pub const OVERRIDE: RequestSpec = RequestSpec {
        headers: &[
            Header::METHOD_OVERRIDE.required(),
            Header::TUS_RESUMABLE.required(),
            Header {
                meaning: "Number of bytes that the server has, required with PATCH",
                ..Header::UPLOAD_OFFSET
            },
        ],
        body: Some(Body { content: Content::Of(super::PART), required: false }),
    };

    #[cfg(feature = "cluster")]
    const fn body(content: Content) -> RequestSpec {
        RequestSpec { headers: &[], body: Some(Body { content, required: true }) }
    }

    #[cfg(feature = "cluster")]
    pub const FILE: RequestSpec = body(Content::Of(BYTES));
    #[cfg(feature = "cluster")]
    pub const OFFER: RequestSpec = body(Content::Json("Offer"));
    #[cfg(feature = "cluster")]
    pub const REPORT: RequestSpec = body(Content::Json("Report"));
    #[cfg(feature = "cluster")]
    pub const LEAVING: RequestSpec = body(Content::Json("Leaving"));
}

/// Specifications of responses.
pub mod responses {
    use super::*;

    const fn contents(contents: &'static [Content]) -> ResponseSpec {
        ResponseSpec { headers: &[], contents }
    }

    const fn headers(headers: &'static [Header]) -> ResponseSpec {
        ResponseSpec { headers, contents: &[] }
    }

    pub const EMPTY: ResponseSpec = contents(&[]);
    pub const TEXT: ResponseSpec = contents(&[Content::Of(super::TEXT)]);
    pub const EVENTS: ResponseSpec = contents(&[Content::Events]);
    pub const DOCUMENT: ResponseSpec = contents(&[Content::Json("Document")]);
    pub const SERVER_KEY: ResponseSpec = contents(&[Content::Json("ServerKey")]);
    pub const USAGE: ResponseSpec = contents(&[Content::Json("Usage")]);
    pub const OBJECT: ResponseSpec = contents(&[Content::Json("Object")]);
    pub const OBJECT_LIST: ResponseSpec = contents(&[Content::Json("ObjectList")]);
    pub const JOB: ResponseSpec = contents(&[Content::Json("Job")]);
    pub const JOB_LIST: ResponseSpec = contents(&[Content::Json("JobList")]);
    pub const RECEIPT: ResponseSpec = contents(&[Content::Json("Receipt")]);
    #[cfg(feature = "cluster")]
    pub const ASSIGNMENT: ResponseSpec = contents(&[Content::Json("Assignment")]);
    #[cfg(feature = "cluster")]
    pub const LEASE: ResponseSpec = contents(&[Content::Json("Lease")]);

    pub const JOB_CREATED: ResponseSpec =
        ResponseSpec { headers: &[Header::LOCATION.required()], contents: &[Content::Json("Job")] };

    pub const FILE: ResponseSpec = ResponseSpec {
        headers: &[Header::ACCEPT_RANGES.required(), Header::ETAG.required()],
        contents: &[Content::Of(BYTES)],
    };

    pub const FILE_RANGE: ResponseSpec = ResponseSpec {
        headers: &[
            Header::CONTENT_RANGE.required(),
            Header::ACCEPT_RANGES.required(),
            Header::ETAG.required(),
        ],
        contents: &[Content::Of(BYTES)],
    };

    pub const TUS: ResponseSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::TUS_VERSION.required(),
        Header::TUS_EXTENSION.required(),
    ]);

    pub const UPLOAD_CREATED: ResponseSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::LOCATION.required(),
        Header::UPLOAD_OFFSET.required(),
        Header::UPLOAD_EXPIRES.required(),
    ]);

    pub const PROGRESS: ResponseSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::UPLOAD_OFFSET.required(),
        Header::UPLOAD_LENGTH.required(),
        Header::UPLOAD_METADATA.required(),
        Header::UPLOAD_EXPIRES.required(),
    ]);

    /// Progress after PATCH, nothing after DELETE.
    pub const OVERRIDE: ResponseSpec = headers(&[
        Header::TUS_RESUMABLE.required(),
        Header::UPLOAD_OFFSET,
        Header::UPLOAD_LENGTH,
        Header::UPLOAD_METADATA,
        Header::UPLOAD_EXPIRES,
    ]);

    pub const CANCELLED: ResponseSpec = headers(&[Header::TUS_RESUMABLE.required()]);
}

const fn header(name: &'static str, form: Form, meaning: &'static str) -> Header {
    Header { name, meaning, form, required: false }
}

impl Header {
    pub const TUS_RESUMABLE: Self =
        header("Tus-Resumable", Form::OneOf(&["1.0.0"]), "Version of tus in use");
    pub const TUS_VERSION: Self =
        header("Tus-Version", Form::OneOf(&["1.0.0"]), "Versions of tus that the server supports");
    pub const TUS_EXTENSION: Self = header(
        "Tus-Extension",
        Form::Text,
        "Extensions of tus that the server supports, separated by commas",
    );
    pub const UPLOAD_LENGTH: Self =
        header("Upload-Length", Form::Count, "Size of the whole file in bytes, at least 1");
    pub const UPLOAD_OFFSET: Self =
        header("Upload-Offset", Form::Count, "Number of bytes that the server has");
    pub const UPLOAD_METADATA: Self = header(
        "Upload-Metadata",
        Form::Text,
        "`digest`, a space and the BLAKE3 digest of the whole file: 64 hexadecimal digits, in \
         base64. The server ignores other pairs, which commas separate",
    );
    pub const UPLOAD_EXPIRES: Self = header(
        "Upload-Expires",
        Form::Text,
        "Time at which the server deletes the upload if no more data arrives, as an HTTP date",
    );
    pub const METHOD_OVERRIDE: Self = header(
        "X-HTTP-Method-Override",
        Form::OneOf(&["PATCH", "DELETE"]),
        "Method to use in place of POST",
    );
    pub const IDEMPOTENCY_KEY: Self = header(
        "Idempotency-Key",
        Form::Short(MAX_IDEMPOTENCY_CHARS),
        "A name for the request, in ASCII. Requests with the same name make one job",
    );
    pub const LAST_EVENT_ID: Self = header(
        "Last-Event-ID",
        Form::Count,
        "The last event received. The server sends later events only",
    );
    pub const RANGE: Self = header(
        "Range",
        Form::Text,
        "The bytes to send, such as `bytes=0-99`. The server ignores anything but a single range",
    );
    pub const CONTENT_RANGE: Self =
        header("Content-Range", Form::Text, "The range of bytes sent, and the size of the file");
    pub const ACCEPT_RANGES: Self =
        header("Accept-Ranges", Form::OneOf(&["bytes"]), "The server accepts ranges of bytes");
    pub const ETAG: Self = header("ETag", Form::Text, "Identifier of the bytes, in quotes");
    pub const LOCATION: Self = header("Location", Form::Text, "Path of the new resource");
    pub const RETRY_AFTER: Self =
        header("Retry-After", Form::Count, "Seconds to wait before the next attempt");
    pub const WWW_AUTHENTICATE: Self =
        header("WWW-Authenticate", Form::OneOf(&["Bearer"]), "The server requires a token");

    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }
}
