//! One HTTP/1.1 connection that is kept open, as lean as can be: what a client costs must not show.
//!
//! Loopback only. Reads bodies with a length, in chunks and as event streams.

use anyhow::{Context as _, Result, bail};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// How long the rest of an event stream is waited for once the answer is there.
const REST: Duration = Duration::from_millis(50);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `127.0.0.1:PORT`.
    pub host: String,
    /// With its query.
    pub path: String,
}

impl Address {
    /// Reads `http://HOST:PORT/PATH`.
    ///
    /// # Errors
    /// For anything else.
    pub fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("http://").with_context(|| format!("not http: {url}"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Self { host: host.into(), path: format!("/{path}") })
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The header `Mcp-Session-Id`.
    pub session: Option<String>,
    /// The body; of an event stream, the JSON-RPC answer in it.
    pub body: Vec<u8>,
    /// When the answer was complete.
    pub at: Instant,
}

/// The connection.
pub struct Http {
    host: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Http {
    /// To `host` (`127.0.0.1:PORT`), opened at the first request.
    pub fn new(host: &str) -> Self {
        Self { host: host.into(), stream: None }
    }

    /// Sends one request and reads its answer. `headers` are whole lines, each with its line end.
    ///
    /// # Errors
    /// When the connection breaks or the answer can't be understood.
    pub async fn request(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<Reply> {
        let mut message = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n",
            self.host,
            body.len()
        )
        .into_bytes();
        message.extend_from_slice(body);
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.host).await?;
                stream.set_nodelay(true)?;
                BufReader::with_capacity(64 << 10, stream)
            }
        };
        stream.get_mut().write_all(&message).await?;
        let (reply, reusable) = read(&mut stream).await?;
        if reusable {
            self.stream = Some(stream);
        }
        Ok(reply)
    }
}

/// What the head of an answer says about its body.
#[derive(Default)]
struct Head {
    status: u16,
    length: Option<usize>,
    chunked: bool,
    events: bool,
    closes: bool,
    session: Option<String>,
}

async fn head(stream: &mut BufReader<TcpStream>) -> Result<Head> {
    let mut head = Head::default();
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            bail!("the server closed the connection instead of answering");
        }
        let text = line.trim_end();
        if text.is_empty() {
            return Ok(head);
        }
        if head.status == 0 {
            head.status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).with_context(|| format!("no status line: {text}"))?;
            continue;
        }
        let Some((name, value)) = text.split_once(':') else { continue };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length = Some(value.parse()?),
            "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
            "content-type" => head.events = value.starts_with("text/event-stream"),
            "connection" => head.closes = value.eq_ignore_ascii_case("close"),
            "mcp-session-id" => head.session = Some(value.into()),
            _ => {}
        }
    }
}

/// The answer, and whether the connection can be used again.
async fn read(stream: &mut BufReader<TcpStream>) -> Result<(Reply, bool)> {
    let head = head(stream).await?;
    let mut body = Vec::new();
    let mut whole = true;
    let mut at = None;
    match head.length {
        Some(length) => {
            body.resize(length, 0);
            stream.read_exact(&mut body).await?;
        }
        None if head.chunked && head.events => {
            while chunk(stream, &mut body).await? {
                if answer(&body).is_some() {
                    at = Some(Instant::now());
                    let rest = async {
                        while chunk(stream, &mut Vec::new()).await? {}
                        anyhow::Ok(())
                    };
                    whole = matches!(tokio::time::timeout(REST, rest).await, Ok(Ok(())));
                    break;
                }
            }
        }
        None if head.chunked => while chunk(stream, &mut body).await? {},
        None if matches!(head.status, 202 | 204 | 304) => {}
        None => {
            stream.read_to_end(&mut body).await?;
            whole = false;
        }
    }
    if head.events {
        body = answer(&body).unwrap_or_default();
    }
    let reply = Reply { status: head.status, session: head.session, body, at: at.unwrap_or_else(Instant::now) };
    Ok((reply, whole && !head.closes))
}

/// Reads one chunk behind `body`; `false` after the last.
async fn chunk(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> Result<bool> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let size = line.trim_end().split(';').next().unwrap_or_default();
    let size = usize::from_str_radix(size, 16).with_context(|| format!("no chunk size: {line:?}"))?;
    let start = body.len();
    body.resize(start + size + 2, 0);
    stream.read_exact(body.get_mut(start..).unwrap_or_default()).await?;
    body.truncate(start + size);
    Ok(size > 0)
}

/// The JSON-RPC answer in an event stream, once it is whole.
fn answer(stream: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(stream).ok()?;
    let (whole, _) = text.rsplit_once("\n\n").or_else(|| text.rsplit_once("\r\n\r\n"))?;
    let is_answer = |data: &&str| data.contains("\"id\"") && (data.contains("\"result\"") || data.contains("\"error\""));
    let mut datas = whole.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start);
    datas.find(is_answer).map(|data| data.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        let address = Address::parse("http://127.0.0.1:4517/mcp?mode=core").unwrap();
        assert_eq!((address.host.as_str(), address.path.as_str()), ("127.0.0.1:4517", "/mcp?mode=core"));
        assert!(Address::parse("https://x/").is_err());
    }

    #[test]
    fn an_answer_is_found_once_it_is_whole() {
        assert_eq!(answer(b"data: {\"id\":1,\"result\":{}}"), None);
        assert_eq!(answer(b": hi\n\ndata: {\"id\":1,\"result\":{}}\n\n").unwrap(), b"{\"id\":1,\"result\":{}}");
        assert_eq!(answer(b"data: {\"method\":\"notifications/progress\"}\n\n"), None);
    }
}
