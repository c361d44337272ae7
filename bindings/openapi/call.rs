//! One call of an operation: the input as a request, the response as a value.

use std::sync::Arc;

use reqwest::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderValue};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::super::http::fetch::{Fetcher, Redirect, Request};
use super::auth::Credentials;
use super::config::ResponseForm;
use super::operations::RequestPlan;
use super::parameters::{BODY, placeholders};
use super::responses;
use super::styles::RequestParts;
use crate::binding::BindingError;
use crate::package::Secrets;
use crate::protocol::plain::to_plain;
use crate::rpc::{ErrorObject, Kind};

/// Requests that one package has under way, over all sessions. Past it: calls fail with `Busy`.
pub(super) const REQUESTS_IN_FLIGHT_MAX: usize = 256;

/// What all operations of a package share.
pub(super) struct ApiClient {
    pub(super) package: String,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) credentials: Credentials,
    pub(super) secrets: Secrets,
    pub(super) response: ResponseForm,
    pub(super) places: Semaphore,
}

impl ApiClient {
    /// Calls an operation.
    pub(super) async fn call(&self, plan: &RequestPlan, input: Value) -> Result<Value, BindingError> {
        let Ok(_place) = self.places.try_acquire() else {
            let message = format!("`{}` has {REQUESTS_IN_FLIGHT_MAX} requests in flight", self.package);
            return Err(BindingError::of_kind(Kind::Busy, message));
        };
        let request = self.request(plan, input)?;
        let response = self.fetcher.fetch(request, Redirect::Follow).await;
        let response = response.map_err(|error| self.shown(&plan.place, error))?;
        responses::value_of(&plan.place, response, self.response, &self.secrets)
    }

    /// Texts of the HTTP library may have the URL, which may have a key.
    fn shown(&self, place: &str, error: ErrorObject) -> ErrorObject {
        let message = self.secrets.redact(&format!("{place}: {}", error.message));
        ErrorObject { message, ..error }
    }

    fn request(&self, plan: &RequestPlan, input: Value) -> Result<Request, ErrorObject> {
        let mut input = match input {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            _ => return Err(invalid(plan, "", "expected an object")),
        };
        let mut parts = RequestParts::default();
        for param in &plan.params {
            let refused = |reason: &str| invalid(plan, &param.property, reason);
            let value = input.shift_remove(&param.property).unwrap_or_default();
            match to_plain(value).map_err(|error| refused(&error.to_string()))? {
                Value::Null => {}
                value => parts.add(param, &value).map_err(|reason| refused(&reason))?,
            }
        }
        let body = match (&plan.body, input.shift_remove(BODY)) {
            (Some(body), Some(value)) => {
                let (bytes, media_type) =
                    body.encode(value).map_err(|reason| invalid(plan, BODY, &reason))?;
                let value = HeaderValue::from_str(&media_type)
                    .map_err(|error| invalid(plan, BODY, &error.to_string()))?;
                parts.headers.insert(CONTENT_TYPE, value);
                Some(bytes)
            }
            _ => None,
        };
        let bytes_max = self.fetcher.body_bytes_max();
        if body.as_ref().is_some_and(|body| body.len() > bytes_max) {
            return Err(invalid(plan, BODY, &format!("expected at most {bytes_max} bytes")));
        }
        let accept = HeaderValue::from_str(&plan.accept).unwrap_or(HeaderValue::from_static("*/*"));
        parts.headers.insert(ACCEPT, accept);
        self.credentials.apply(&mut parts);
        if !parts.cookies.is_empty() {
            let mut cookies = HeaderValue::from_str(&parts.cookies.join("; "))
                .map_err(|_| invalid(plan, "", "a cookie has an invalid value"))?;
            cookies.set_sensitive(true);
            parts.headers.insert(COOKIE, cookies);
        }
        let path = fill(&plan.path, &parts.path).map_err(|name| invalid(plan, &name, "expected a value"))?;
        let url = plan.base.join(&path, &parts.query);
        let url = url.map_err(|reason| invalid(plan, "", &self.secrets.redact(&reason)))?;
        Ok(Request { url, method: plan.method.clone(), headers: parts.headers, body })
    }
}

/// The path with the values of its placeholders; the error is the name of one that has none.
fn fill(path: &str, values: &[(String, String)]) -> Result<String, String> {
    let mut out = path.to_owned();
    for name in placeholders(path) {
        let value = values.iter().find(|(other, _)| other == name).ok_or_else(|| name.to_owned())?;
        out = out.replacen(&format!("{{{name}}}"), &value.1, 1);
    }
    Ok(out)
}

fn invalid(plan: &RequestPlan, member: &str, message: &str) -> ErrorObject {
    let path = if member.is_empty() { String::new() } else { format!("/{member}") };
    let errors = json!([{"path": path, "message": message}]);
    ErrorObject::new(Kind::InvalidInput, format!("{}: input{path}: {message}", plan.place))
        .with("errors", errors)
}
