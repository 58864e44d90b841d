//! Refuses requests that a browser was tricked into sending: a foreign `Host` (DNS rebinding) or `Origin`.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri, header};

use super::Failure;
use crate::Hub;

/// Names of this machine itself, which no foreign page can resolve to something else.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

pub(super) async fn check_host(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    match check(hub.public_url(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(message) => Failure::new(StatusCode::FORBIDDEN, "forbidden", message).into_response(),
    }
}

/// A request without any host cannot come from a browser, and passes.
fn check(public_url: &str, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
    let public: Option<Uri> = public_url.parse().ok();
    let public_host = public.as_ref().and_then(Uri::host).unwrap_or_default();
    let is_ours = |host: &str| {
        LOOPBACK.iter().any(|name| host.eq_ignore_ascii_case(name)) || host.eq_ignore_ascii_case(public_host)
    };
    for host in headers.get_all(header::HOST) {
        let authority: Option<Authority> = host.to_str().ok().and_then(|text| text.parse().ok());
        if !authority.is_some_and(|authority| is_ours(authority.host())) {
            return Err("the Host header names another host than this hub's public URL");
        }
    }
    if uri.host().is_some_and(|host| !is_ours(host)) {
        return Err("the request names another host than this hub's public URL");
    }
    for origin in headers.get_all(header::ORIGIN) {
        let origin: Option<Uri> = origin.to_str().ok().and_then(|text| text.parse().ok());
        if !origin.is_some_and(|origin| is_own_origin(&origin, public.as_ref())) {
            return Err("the Origin header names a page that does not belong to this hub");
        }
    }
    Ok(())
}

fn is_own_origin(origin: &Uri, public: Option<&Uri>) -> bool {
    let host = origin.host().unwrap_or_default();
    let is_loopback = LOOPBACK.iter().any(|name| host.eq_ignore_ascii_case(name));
    let is_public = public.is_some_and(|public| {
        origin.scheme() == public.scheme()
            && origin.port_u16() == public.port_u16()
            && public.host().is_some_and(|name| name.eq_ignore_ascii_case(host))
    });
    origin.scheme().is_some() && (is_loopback || is_public)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(host: Option<&str>, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        check("https://hub.example.org", &Uri::from_static("/mcp"), &headers).is_ok()
    }

    #[test]
    fn only_the_public_host_and_this_machine_may_be_named() {
        for host in ["hub.example.org", "HUB.example.org:443", "localhost:8787", "127.0.0.1:8787", "[::1]:8787"] {
            assert!(ask(Some(host), None), "{host}");
        }
        for host in ["evil.example", "hub.example.org.evil.example", "", "a b", "evil@hub.example", "10.0.0.1"] {
            assert!(!ask(Some(host), None), "{host}");
        }
        assert!(ask(None, None));
    }

    #[test]
    fn a_foreign_page_may_not_call() {
        for origin in ["https://hub.example.org", "http://localhost:6274"] {
            assert!(ask(None, Some(origin)), "{origin}");
        }
        for origin in ["https://evil.example", "null", "http://hub.example.org", "https://hub.example.org:444"] {
            assert!(!ask(None, Some(origin)), "{origin}");
        }
    }
}
