//! Who is calling: the bearer token of a desktop.

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, header};

use super::Failure;
use crate::Hub;
use crate::model::DeviceRecord;
use crate::token::TokenHash;

/// The token of an `Authorization: Bearer` header. Of two such headers none counts: what stands before the hub may have
/// looked at the other one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = only.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The desktop that calls.
pub(super) struct Desktop(pub(super) DeviceRecord);

impl FromRequestParts<Hub> for Desktop {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, hub: &Hub) -> Result<Self, Failure> {
        let token = bearer(&parts.headers).ok_or(Failure::unauthorized("a device token is needed"))?;
        let device = hub.store().device_by_token(&TokenHash::of(token)).await?;
        device.map(Self).ok_or(Failure::unauthorized("the device token is unknown or revoked"))
    }
}
