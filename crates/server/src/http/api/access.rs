//! Authentication of requests.

use crate::{
    accounts::{
        rates::OpenRequest,
        token::{Owner, Token},
    },
    clock::now,
    jobs::app::{App, Counters, blocking},
    problem::Problem,
    storage::audit::Repeated,
};
use axum::{
    extract::{self, FromRequestParts},
    http::{StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// Slot in the extensions of a request, for the open request that counts until the response is sent.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<Option<OpenRequest>>>);

impl Held {
    fn hold(&self, request: OpenRequest) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
    }

    /// Takes the counted request, if there is one.
    pub fn take(&self) -> Option<OpenRequest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Counts a request of a tenant or a worker as open.
pub fn count_open(parts: &Parts, app: &App, owner: &Owner) -> Result<(), Problem> {
    let role = match owner {
        Owner::Tenant(_) => "tenant",
        Owner::Worker(_) => "worker",
    };
    // A tenant and a worker may have the same name.
    let Some(request) = app.open.open(&format!("{role} {}", owner.name())) else {
        Counters::add(&app.counters.limited_requests, 1);
        let most = app.limits.tenant_open;
        let detail = format!("a {role} may have {most} open requests: wait for responses to end");
        return Err(Problem::too_many("TooManyRequests", detail, Some(1)));
    };
    if let Some(held) = parts.extensions.get::<Held>() {
        held.hold(request);
    }
    Ok(())
}

/// The parts of the path that vary.
pub struct Path<T>(pub T);

/// The tenant whose token authenticates the request.
pub struct Tenant(pub String);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        // A path that is not valid UTF-8 names nothing.
        let path = extract::Path::from_request_parts(parts, app).await;
        path.map(|extract::Path(path)| Self(path)).map_err(|_| Problem::not_found())
    }
}

impl FromRequestParts<App> for Tenant {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let owner = owner(parts, app).await?;
        count_open(parts, app, &owner)?;
        let Owner::Tenant(tenant) = owner else {
            return Err(forbidden("this is a token of a worker: use a token of a tenant"));
        };
        if let Err(wait) = app.rates.take(&tenant, Instant::now()) {
            Counters::add(&app.counters.limited_requests, 1);
            let most = app.limits.tenant_requests;
            let detail =
                format!("a tenant may make {most} requests per second: wait, and try again");
            // Round up to whole seconds.
            let wait = wait.as_secs().saturating_add(1);
            return Err(Problem::too_many("TooManyRequests", detail, Some(wait)));
        }
        Ok(Tenant(tenant))
    }
}

/// Refuses a token of the wrong role.
pub fn forbidden(detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "Forbidden", detail)
}

/// Returns the owner of the token of a request.
pub async fn owner(parts: &Parts, app: &App) -> Result<Owner, Problem> {
    let found = known_owner(parts, app).await;
    // Attempts to guess a token must be in the audit log.
    if matches!(&found, Err(problem) if problem.status == StatusCode::UNAUTHORIZED) {
        blocking(app, |app| app.note(&Repeated::Refused)).await?;
    }
    found
}

async fn known_owner(parts: &Parts, app: &App) -> Result<Owner, Problem> {
    // The same answer for every reason, so that it reveals nothing about existing tokens.
    let refused = || {
        let detail = "the request has no valid token: send Authorization: Bearer TOKEN";
        Problem::new(StatusCode::UNAUTHORIZED, "Unauthorized", detail)
    };
    let value = parts.headers.get(header::AUTHORIZATION).ok_or_else(refused)?;
    let text = value.to_str().map_err(|_| refused())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(refused)?;
    // RFC 9110, 11.1: names of schemes ignore case.
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(refused());
    }
    let token = Token::parse(token.trim()).ok_or_else(refused)?;
    let found = blocking(app, move |app| {
        let kept = app.records.token(token.id())?;
        Ok::<_, Problem>(token.owner(kept.as_ref(), now()))
    });
    found.await?.ok_or_else(refused)
}
