//! `/v1/results`: the files that jobs make.

use super::{
    access::{Path, Tenant},
    download::download,
    objects,
    route::{Route, route},
    spec::{requests, responses},
};
use crate::{
    jobs::app::{App, Server, blocking},
    problem::Answer,
    storage::{audit::Repeated, records::Collection},
};
use axum::{
    extract::State,
    http::{HeaderMap, Method},
};

/// Lists the routes of results.
pub fn routes() -> Vec<Route> {
    vec![
        objects::list_route(Collection::Results),
        route!(get "/v1/results/{digest}", show, "Download a result")
            .with_request(&requests::RANGE)
            .with_response(200, "The whole file", &responses::FILE)
            .with_response(206, "The requested range of the file", &responses::FILE_RANGE),
        objects::remove_route(Collection::Results),
    ]
}

async fn show(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(digest): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Answer {
    let object = objects::find(&app, &tenant, Collection::Results, &digest).await?;
    // HEAD, which this handler serves too, downloads nothing.
    if method == Method::GET {
        let fetched = Repeated::Fetched { tenant: tenant.clone(), result: digest };
        // The audit line is durable before a byte leaves the server.
        blocking(&app, move |app| app.note(&fetched)).await?;
    }
    let digest = object.digest.clone();
    let fetch = move |app: &Server| app.store.fetch_object(&tenant, &digest);
    let file = blocking(&app, fetch).await?;
    download(&app, &file, &object.digest, &headers).await
}
