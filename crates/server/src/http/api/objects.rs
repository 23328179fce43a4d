//! What tenants have: objects by their digests, and jobs by their names.

use super::{
    access::{Path, Tenant},
    download::download,
    jobs, uploads,
};
use crate::{
    jobs::app::{App, Server, aside},
    problem::{Answer, Problem},
    storage::{
        audit::Repeated,
        records::{Collection, Object, Removal},
    },
};
use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, Method, StatusCode},
    response::IntoResponse,
};

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
        Named::Objects(collection) => uploads::begin(app, tenant, collection, headers).await,
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
                let fetched = Repeated::Fetched { tenant: tenant.clone(), result: name };
                aside(&app, move |app| app.note(&fetched)).await?;
            }
            let digest = object.digest.clone();
            let bring = move |app: &Server| app.store.bring_object(&tenant, &digest);
            let file = aside(&app, bring).await?;
            download(&app, &file, &object.digest, &headers).await
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
        app.act(&tenant)?;
        match app.records.remove_object(&tenant, &object.digest, app.store.name())? {
            Removal::Begun => Ok(app.end_removal(&tenant, &object.digest)?),
            Removal::Absent => Ok(()),
            Removal::InUse => {
                let detail = "a job under way takes it: wait until it ends, or cancel it";
                Err(Problem::conflict("InUse", detail))
            }
        }
    })
    .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
