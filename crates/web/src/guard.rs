//! What stands before every route: who is addressed, on whose page's behalf, and with what body.
//!
//! A page of another site can make a browser call a server on this machine. The name it calls us by
//! (`Host`) and its own (`Origin`) give it away; a body that a plain form can send is never taken.

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use serde_json::json;
use std::sync::Arc;
use taskyard_domain::{Class, Error, Result};

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names the server goes by.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    hosts: Vec<Authority>,
    origins: Vec<String>,
}

impl Guard {
    /// Loopback names, and beside them `hosts` (`name` or `name:port`) and `origins` (`https://name` or
    /// `https://name:port`).
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for one that can't be read.
    pub fn new(hosts: &[String], origins: &[String]) -> Result<Self> {
        let hosts = hosts
            .iter()
            .map(|host| host.parse().map_err(|_| Error::invalid("allowed_hosts", format!("{host:?} is neither a name nor name:port"))));
        let origins = origins.iter().map(|origin| {
            normal_origin(origin)
                .map(|(scheme, authority)| format!("{scheme}://{authority}"))
                .ok_or_else(|| Error::invalid("allowed_origins", format!("{origin:?} isn't like https://name or https://name:port")))
        });
        Ok(Self { hosts: hosts.collect::<Result<_>>()?, origins: origins.collect::<Result<_>>()? })
    }

    /// Lets a request pass or says why not.
    fn pass(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> std::result::Result<(), (StatusCode, Error)> {
        let host =
            host(uri, headers).ok_or_else(|| (StatusCode::BAD_REQUEST, Error::invalid("Host", "the request needs one Host header")))?;
        if !self.knows(&host) {
            let error = Error::forbidden("the Host header names a server that this one isn't").with_field("Host");
            return Err((StatusCode::FORBIDDEN, error.with_hint("call it by localhost or 127.0.0.1, or allow the name")));
        }
        if !self.trusts(&host, headers) {
            let error = Error::forbidden("the Origin header names another site").with_field("Origin");
            return Err((StatusCode::FORBIDDEN, error.with_hint("allow the origin if it is yours")));
        }
        if matches!(*method, Method::POST | Method::PUT | Method::PATCH) && !is_json(headers) {
            let error = Error::invalid("Content-Type", "Content-Type has to be application/json");
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
        }
        Ok(())
    }

    fn knows(&self, host: &Authority) -> bool {
        let named = |name: &str| host.host().eq_ignore_ascii_case(name);
        LOOPBACK.iter().any(|name| named(name))
            || self.hosts.iter().any(|known| named(known.host()) && (known.port().is_none() || known.port_u16() == host.port_u16()))
    }

    fn trusts(&self, host: &Authority, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return true };
        if origins.next().is_some() {
            return false;
        }
        let Some((scheme, authority)) = origin.to_str().ok().and_then(normal_origin) else { return false };
        let own = [normal_authority("http", host), normal_authority("https", host)];
        (scheme == "http" && authority == own[0])
            || (scheme == "https" && authority == own[1])
            || self.origins.contains(&format!("{scheme}://{authority}"))
    }
}

/// The middleware before every route.
pub(crate) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.pass(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err((status, error)) => {
            if error.class == Class::Forbidden {
                tracing::warn!(field = error.field.as_deref(), uri = %request.uri().path(), "a request of another site is refused");
            }
            (status, Json(json!({ "error": error }))).into_response()
        }
    }
}

fn host(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let mut named = headers.get_all(header::HOST).iter();
    let Some(first) = named.next() else { return uri.authority().cloned() };
    if named.next().is_some() {
        return None;
    }
    first.to_str().ok()?.parse().ok().filter(|host: &Authority| !host.as_str().contains('@'))
}

/// Scheme and authority of an origin, in lower case with the port written out.
fn normal_origin(origin: &str) -> Option<(String, String)> {
    let (scheme, rest) = origin.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    if !matches!(scheme.as_str(), "http" | "https") || rest.contains(['/', '?', '#', '@']) {
        return None;
    }
    let authority: Authority = rest.parse().ok()?;
    let authority = normal_authority(&scheme, &authority);
    Some((scheme, authority))
}

fn normal_authority(scheme: &str, authority: &Authority) -> String {
    let port = authority.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    format!("{}:{port}", authority.host().to_ascii_lowercase())
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    value.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(guard: &Guard, host: &str, origin: Option<&str>) -> u16 {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        guard.pass(&Method::GET, &"/healthz".parse().unwrap(), &headers).map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn loopback_names_pass_with_any_port_and_others_dont() {
        let guard = Guard::default();
        for good in ["localhost", "LocalHost:1", "127.0.0.1:4517", "[::1]:4517"] {
            assert_eq!(status(&guard, good, None), 200, "{good}");
        }
        for bad in ["evil.example", "evil.example:4517", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1:4517", "localhost."]
        {
            assert_eq!(status(&guard, bad, None), 403, "{bad}");
        }
        for broken in ["", "a b", "user@localhost"] {
            assert_eq!(status(&guard, broken, None), 400, "{broken}");
        }
    }

    #[test]
    fn only_pages_of_our_own_pass() {
        let guard = Guard::default();
        let at = |origin: &str| status(&guard, "localhost:4517", Some(origin));
        assert_eq!(at("http://localhost:4517"), 200);
        assert_eq!(at("https://localhost:4517"), 200);
        for bad in [
            "http://evil.example",
            "null",
            "http://localhost:3000",
            "http://localhost",
            "http://127.0.0.1:4517",
            "file://",
            "",
            "http://localhost:4517/",
        ] {
            assert_eq!(at(bad), 403, "{bad}");
        }
        assert_eq!(status(&guard, "localhost", Some("http://localhost:80")), 200);
    }

    #[test]
    fn declared_names_work() {
        let guard = Guard::new(&["yard.example".into(), "lan.example:8080".into()], &["https://front.example".into()]).unwrap();
        assert_eq!(status(&guard, "yard.example:9", Some("https://yard.example:9")), 200);
        assert_eq!(status(&guard, "lan.example:8080", None), 200);
        assert_eq!(status(&guard, "lan.example:8081", None), 403);
        assert_eq!(status(&guard, "localhost:1", Some("https://front.example")), 200);
        assert_eq!(status(&guard, "localhost:1", Some("http://front.example")), 403);
        assert!(Guard::new(&[], &["front.example".into()]).is_err());
        assert!(Guard::new(&["a b".into()], &[]).is_err());
    }

    #[test]
    fn two_hosts_or_two_origins_are_refused() {
        let mut headers = HeaderMap::new();
        headers.append(header::HOST, "localhost".parse().unwrap());
        headers.append(header::ORIGIN, "http://localhost".parse().unwrap());
        headers.append(header::ORIGIN, "http://localhost".parse().unwrap());
        let uri: Uri = "/".parse().unwrap();
        assert_eq!(Guard::default().pass(&Method::GET, &uri, &headers).unwrap_err().0, 403);
        headers.append(header::HOST, "localhost".parse().unwrap());
        assert_eq!(Guard::default().pass(&Method::GET, &uri, &headers).unwrap_err().0, 400);
    }
}
