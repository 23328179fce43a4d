//! The API over HTTP: one table of what there is, which requests go by and its description is made
//! from.

mod access;
mod body;
mod download;
mod jobs;
mod objects;
mod operation;
mod origins;
mod uploads;
mod work;

pub use operation::metrics_router;
pub use uploads::sweep;

use crate::{
    app::{App, Counters},
    problem::Problem,
    telemetry,
};
use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodRouter, delete, get, head, options, patch, post, put},
};
use serde_json::{Map, Value, json};
use tracing::Instrument;

/// Something that may be asked for.
pub struct Route {
    /// Method of HTTP, in lower case.
    pub method: &'static str,
    /// With `{names}` of what varies.
    pub path: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Status and meaning of what it answers when it goes well, each that there may be.
    pub answers: &'static [(u16, &'static str)],
    /// Whether a token is needed: that of a tenant or, below `/v1/work`, of a worker.
    pub by_token: bool,
    handler: fn() -> MethodRouter<App>,
}

macro_rules! route {
    ($method:ident $path:literal, $handler:path, $($status:literal $answer:literal)|+, $summary:literal) => {
        route!($method $path, $handler, $($status $answer)|+, $summary, true)
    };
    ($method:ident $path:literal, $handler:path, $($status:literal $answer:literal)|+, $summary:literal, $by_token:literal) => {
        Route {
            method: stringify!($method),
            path: $path,
            summary: $summary,
            answers: &[$(($status, $answer)),+],
            by_token: $by_token,
            handler: || $method($handler),
        }
    };
}

/// All that may be asked for.
pub const ROUTES: &[Route] = &[
    route!(get "/healthz", operation::healthy, 200 "it does", "Whether the server answers", false),
    route!(get "/readyz", operation::ready, 200 "it is", "Whether the server can be used", false),
    route!(get "/v1/openapi.json", describe, 200 "this", "What the server can be asked for", false),
    route!(get "/v1/server-key", operation::server_key, 200 "its Ed25519 key", "By which key receipts are signed", false),
    route!(get "/v1/usage", operation::usage, 200 "bytes, jobs, requests and seconds of processors", "What the tenant has taken, and what it may take"),
    route!(options "/v1/{collection}", uploads::options, 204 "headers of tus", "How uploads are sent", false),
    route!(post "/v1/{collection}", objects::create, 201 "where it is sent to" | 202 "a job", "Begin an upload by tus 1.0, with its digest as metadata; or, of jobs, a job"),
    route!(get "/v1/{collection}", objects::list, 200 "all of them", "What the tenant has: keys, tables, models, results or jobs"),
    route!(get "/v1/{collection}/{name}", objects::show, 200 "it; of a result its bytes" | 206 "a range of them", "One of them, by its digest, or a job by its name"),
    route!(delete "/v1/{collection}/{name}", objects::remove, 200 "a job as it was left" | 204 "it is gone", "Remove an object, or cancel a job"),
    route!(get "/v1/jobs/{name}/events", jobs::events, 200 "server-sent events", "What happens to a job, from Last-Event-ID on"),
    route!(get "/v1/jobs/{name}/receipt", jobs::receipt, 200 "a signed statement", "What the server says, under its signature, of a job that is done"),
    route!(options "/v1/uploads/{name}", uploads::options, 204 "headers of tus", "How uploads are sent", false),
    route!(head "/v1/uploads/{name}", uploads::offset, 200 "Upload-Offset", "How much of an upload is here"),
    route!(patch "/v1/uploads/{name}", uploads::append, 204 "Upload-Offset", "Send what comes next of an upload"),
    route!(post "/v1/uploads/{name}", uploads::overridden, 204 "as of that method", "Send what comes next, or give an upload up, as X-HTTP-Method-Override says"),
    route!(delete "/v1/uploads/{name}", uploads::give_up, 204 "it is gone", "Give an upload up"),
    route!(post "/v1/work/claim", work::claim, 200 "a job under a lease" | 204 "there is none", "Claim a job, for a worker"),
    route!(post "/v1/work/{name}/{fence}/renew", work::renew, 200 "seconds until the lease ends", "Renew the lease of a job, with how far it is"),
    route!(post "/v1/work/{name}/{fence}/leave", work::leave, 204 "it is left", "Leave a job without a result"),
    route!(put "/v1/work/{name}/{fence}/result/{digest}", work::finish, 204 "the job is done", "Hand the result of a job in"),
    route!(put "/v1/work/{name}/{fence}/states/{file}/{digest}", work::keep_state, 204 "it is kept", "Leave a state of a training"),
    route!(get "/v1/work/{name}/{fence}/files/{expires}/{signature}/{file}", work::file, 200 "its bytes" | 206 "a range of them", "Read a file of a job by a signed address", false),
];

/// What answers requests.
pub fn router(app: App) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, (route.handler)());
    }
    router
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Method", "that cannot be done here")
        })
        .layer(middleware::from_fn(uploads::speak_tus))
        .layer(middleware::from_fn_with_state(app.clone(), origins::allow))
        .layer(middleware::from_fn_with_state(app.clone(), counted))
        .with_state(app)
}

/// Counts requests, and takes down what was answered.
async fn counted(State(app): State<App>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("/", MatchedPath::as_str);
    let span = telemetry::request(request.method().as_str(), route);
    let response = next.run(request).instrument(span.clone()).await;
    Counters::add(&app.counters.requests, 1);
    telemetry::answered(&span, response.status().as_u16());
    response
}

async fn describe() -> Response {
    let document = description().to_string();
    ([("content-type", "application/json")], document).into_response()
}

/// The table in the form of OpenAPI 3.1.
#[must_use]
pub fn description() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let of_path = paths.entry(route.path).or_insert_with(|| json!({}));
        let names = route.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let parameter = |name| {
            let schema = match name {
                "collection" => json!({ "enum": ["keys", "tables", "models", "results", "jobs"] }),
                _ => json!({ "type": "string" }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        };
        let problem = json!({
            "description": "why not",
            "content": { "application/problem+json": {
                "schema": { "$ref": "#/components/schemas/Problem" } } },
        });
        let answers = route.answers.iter();
        let mut responses: Map<_, _> = answers
            .map(|(status, answer)| (status.to_string(), json!({ "description": answer })))
            .collect();
        responses.insert("default".into(), problem);
        of_path[route.method] = json!({
            "summary": route.summary,
            "parameters": names.map(parameter).collect::<Vec<_>>(),
            "security": if route.by_token { json!([{ "token": [] }]) } else { json!([]) },
            "responses": responses,
        });
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "sudare", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": {
                "Problem": {
                    "type": "object",
                    "required": ["type", "title", "status", "detail", "kind"],
                    "properties": {
                        "type": { "type": "string" },
                        "title": { "type": "string" },
                        "status": { "type": "integer" },
                        "detail": { "type": "string" },
                        "kind": { "type": "string", "description": "the command's word for the error" },
                    },
                },
                "Job": {
                    "type": "object",
                    "required": ["kind", "keys", "tables"],
                    "properties": {
                        "kind": { "enum": ["stats", "groups", "histogram", "train", "predict"] },
                        "keys": { "type": "string" },
                        "tables": { "type": "array", "items": { "type": "string" } },
                        "model": { "type": "string" },
                        "iterations": { "type": "integer", "minimum": 1 },
                        "history": { "type": "boolean" },
                    },
                },
            },
        },
    })
}
