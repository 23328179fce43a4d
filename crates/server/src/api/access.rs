//! Who asks.

use crate::{
    app::{App, Counters, aside},
    audit::Repeated,
    clock::now,
    problem::Problem,
    token::Token,
};
use axum::{
    extract::FromRequestParts,
    http::{StatusCode, header, request::Parts},
};
use std::time::Instant;

/// The tenant whose token came with a request.
pub struct Tenant(pub String);

impl FromRequestParts<App> for Tenant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let found = tenant(parts, app).await;
        if matches!(&found, Err(problem) if problem.status == StatusCode::UNAUTHORIZED) {
            aside(app, |app| app.note(&Repeated::Refused)).await?;
        }
        let Tenant(tenant) = found?;
        if let Err(wait) = app.rates.take(&tenant, Instant::now()) {
            Counters::add(&app.counters.limited_requests, 1);
            let most = app.limits.tenant_requests;
            let detail = format!("{most} requests a second are what a tenant may make here");
            // Whole seconds, the last one begun.
            let wait = wait.as_secs().saturating_add(1);
            return Err(Problem::too_many("TooManyRequests", detail, Some(wait)));
        }
        Ok(Tenant(tenant))
    }
}

async fn tenant(parts: &Parts, app: &App) -> Result<Tenant, Problem> {
    let refused = || {
        let detail = "a valid token is needed: send Authorization: Bearer TOKEN";
        Problem::new(StatusCode::UNAUTHORIZED, "Unauthorized", detail)
    };
    let value = parts.headers.get(header::AUTHORIZATION).ok_or_else(refused)?;
    let text = value.to_str().map_err(|_| refused())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(refused)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(refused());
    }
    let token = Token::parse(token.trim()).ok_or_else(refused)?;
    let found = aside(app, move |app| {
        let kept = app.records.token(token.id())?;
        Ok::<_, Problem>(token.tenant(kept.as_ref(), now()))
    });
    found.await?.map(Tenant).ok_or_else(refused)
}
