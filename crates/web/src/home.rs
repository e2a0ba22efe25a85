//! What a browser finds at the server's address: what this is, and where its faces are. Owns nothing.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, header};

/// A short page; as plain text for whoever doesn't ask for HTML.
pub(crate) async fn home(headers: HeaderMap) -> Response {
    let wants_page = headers.get_all(header::ACCEPT).iter().any(|value| value.to_str().is_ok_and(|value| value.contains("text/html")));
    let (kind, text) = if wants_page { ("text/html; charset=utf-8", page()) } else { ("text/plain; charset=utf-8", plain()) };
    // What is shown depends on `Accept`; and a page of ours shows nothing of anybody else's.
    let headers = [(header::CONTENT_TYPE, kind), (header::VARY, "accept"), (header::CONTENT_SECURITY_POLICY, "default-src 'none'")];
    (headers, text).into_response()
}

const TITLE: &str = concat!("Taskyard ", env!("CARGO_PKG_VERSION"));
const WHAT: &str = "This server puts coding agents to work on git repositories and keeps a person in charge.";
const BOARD: &str = "The board in the browser is still to come. Until then the board is the command line:";
const COMMANDS: [(&str, &str); 4] = [
    ("taskyard task list", "the tasks"),
    ("taskyard queue", "what runs and what waits"),
    ("taskyard task show TY-1", "one task"),
    ("taskyard --help", "everything else"),
];
const ADDRESSES: [(&str, &str); 2] =
    [("/mcp", "for agents and MCP clients; ?mode=core for the short list of tools"), ("/healthz", "whether the server is ready")];

fn plain() -> String {
    let rows = |all: &[(&str, &str)]| all.iter().map(|(name, what)| format!("  {name:<24} {what}\n")).collect::<String>();
    format!("{TITLE}\n\n{WHAT}\n\n{BOARD}\n{}\nAddresses:\n{}", rows(&COMMANDS), rows(&ADDRESSES))
}

fn page() -> String {
    let rows = |all: &[(&str, &str)]| all.iter().map(|(name, what)| format!("<li><code>{name}</code> {what}</li>\n")).collect::<String>();
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{TITLE}</title>\n<h1>{TITLE}</h1>\n<p>{WHAT}</p>\n\
         <p>{BOARD}</p>\n<ul>\n{}</ul>\n<p>Addresses:</p>\n<ul>\n{}</ul>\n</html>\n",
        rows(&COMMANDS),
        rows(&ADDRESSES)
    )
}
