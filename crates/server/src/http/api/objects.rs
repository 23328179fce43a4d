//! `/v1/keys`, `/v1/tables` and `/v1/models`: the files that tenants upload, named by their digests.

use super::{
    access::{Path, Tenant},
    route::{Route, route},
    spec::{requests, responses},
    uploads,
};
use crate::{
    jobs::app::{App, blocking},
    problem::{Answer, Problem},
    storage::records::{Collection, Object, Removal},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
};

/// Lists the routes of a collection that tenants upload to.
pub fn routes(of: Collection) -> Vec<Route> {
    let name = of.name();
    let all = format!("/v1/{name}");
    let one = format!("/v1/{name}/{{digest}}");
    let begin = async move |State(app): State<App>, Tenant(tenant): Tenant, headers: HeaderMap| {
        uploads::begin(app, tenant, of, headers).await
    };
    vec![
        route!(options all.clone(), uploads::options, "Describe the protocol of uploads")
            .with_response(204, "Version and extensions of tus", &responses::TUS)
            .public(),
        route!(post all, begin, format!("Begin an upload to {name}, by tus 1.0"))
            .with_request(&requests::UPLOAD)
            .with_response(201, "The address to send the file to", &responses::UPLOAD_CREATED)
            .with_failures(&[400, 409, 413, 422, 503]),
        list_route(of),
        route!(
            get one,
            async move |State(app): State<App>, Tenant(tenant): Tenant, Path(digest): Path<String>| {
                Answer::Ok(Json(find(&app, &tenant, of, &digest).await?).into_response())
            },
            format!("Describe one of the {name}")
        )
        .with_response(200, "The description, without the file", &responses::OBJECT),
        remove_route(of),
    ]
}

/// Makes the route that lists a collection.
pub fn list_route(of: Collection) -> Route {
    let list = async move |State(app): State<App>, Tenant(tenant): Tenant| {
        let found = blocking(&app, move |app| app.records.objects(&tenant, of));
        Answer::Ok(Json(found.await?).into_response())
    };
    let name = of.name();
    route!(get format!("/v1/{name}"), list, format!("List the {name} of the tenant")).with_response(
        200,
        "The descriptions, oldest first",
        &responses::OBJECT_LIST,
    )
}

/// Makes the route that removes an object of a collection.
pub fn remove_route(of: Collection) -> Route {
    let remove =
        async move |State(app): State<App>, Tenant(tenant): Tenant, Path(digest): Path<String>| {
            remove(app, tenant, of, digest).await
        };
    let name = of.name();
    route!(delete format!("/v1/{name}/{{digest}}"), remove, format!("Remove one of the {name}"))
        .with_response(204, "The object is removed", &responses::EMPTY)
        .with_failures(&[409])
}

/// Finds an object of a tenant in a collection.
///
/// # Errors
/// A [`Problem`] of 404 if the tenant does not have it there.
pub async fn find(app: &App, tenant: &str, of: Collection, digest: &str) -> Answer<Object> {
    let tenant = tenant.to_owned();
    let digest = digest.to_owned();
    let found = blocking(app, move |app| app.records.object(&tenant, &digest)).await?;
    found.filter(|object| object.collection == of).ok_or_else(Problem::not_found)
}

async fn remove(app: App, tenant: String, of: Collection, digest: String) -> Answer {
    let object = find(&app, &tenant, of, &digest).await?;
    blocking(&app, move |app| {
        app.count_act(&tenant)?;
        match app.records.remove_object(&tenant, &object.digest, app.store.name())? {
            Removal::Begun => Ok(app.finish_removal(&tenant, &object.digest)?),
            // Another request has removed it meanwhile.
            Removal::Absent => Ok(()),
            Removal::InUse => {
                let detail = "a job under way uses this object: wait for its end, or cancel it";
                Err(Problem::conflict("InUse", detail))
            }
        }
    })
    .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
