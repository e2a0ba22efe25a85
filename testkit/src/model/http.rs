//! Just enough HTTP/1.1 to play a model: requests with bodies, answers whole or as streams of events, and connections
//! that break on purpose, which is what a ready-made server won't do.

use super::wire::Sent;
use serde_json::Value;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Largest body that is read.
const BODY: usize = 64 << 20;

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub method: String,
    /// Without what follows a question mark.
    pub path: String,
    pub body: Vec<u8>,
}

/// What becomes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Keep,
    Close,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

impl Connection {
    pub fn new(stream: TcpStream) -> Self {
        // Small events mustn't wait for each other.
        let _ = stream.set_nodelay(true);
        Self { stream: BufReader::new(stream) }
    }

    /// The next request; `None` when the client is gone.
    pub async fn request(&mut self) -> io::Result<Option<Request>> {
        let Some(first) = self.line().await? else { return Ok(None) };
        let mut words = first.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return Err(bad("no request line")) };
        let path = target.split('?').next().unwrap_or(target);
        let mut request = Request { method: method.into(), path: path.into(), body: Vec::new() };
        let (mut length, mut chunked) = (0usize, false);
        while let Some(line) = self.line().await?.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').ok_or_else(|| bad("no header"))?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(|_| bad("no length"))?,
                "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
                "expect" => self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?,
                "content-encoding" if value != "identity" => return Err(bad("packed bodies aren't read")),
                _ => {}
            }
        }
        if chunked {
            loop {
                let line = self.line().await?.ok_or_else(|| bad("a body without an end"))?;
                let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).map_err(|_| bad("no size"))?;
                self.read(size, &mut request.body).await?;
                self.line().await?;
                if size == 0 {
                    break;
                }
            }
        } else {
            self.read(length, &mut request.body).await?;
        }
        Ok(Some(request))
    }

    async fn read(&mut self, size: usize, into: &mut Vec<u8>) -> io::Result<()> {
        let from = into.len();
        if size > BODY || from + size > BODY {
            return Err(bad("the body is too large"));
        }
        into.resize(from + size, 0);
        self.stream.read_exact(&mut into[from..]).await.map(drop)
    }

    async fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }

    /// Answers with one object.
    pub async fn object(&mut self, status: u16, headers: &[(String, String)], body: &Value, with_body: bool) -> io::Result<Next> {
        let text = body.to_string();
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut answer =
            format!("HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{more}\r\n", text.len());
        if with_body {
            answer.push_str(&text);
        }
        self.stream.write_all(answer.as_bytes()).await?;
        self.stream.flush().await?;
        Ok(Next::Keep)
    }

    /// Answers with a stream of events.
    pub async fn events(&mut self, events: &[Sent]) -> io::Result<Next> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
        self.stream.write_all(head.as_bytes()).await?;
        for event in events {
            let text = match event {
                Sent::Event(Some(name), body) => format!("event: {name}\ndata: {body}\n\n"),
                Sent::Event(None, body) => format!("data: {body}\n\n"),
                Sent::Done => "data: [DONE]\n\n".to_owned(),
                Sent::Pause(ms) => {
                    tokio::time::sleep(Duration::from_millis(*ms)).await;
                    continue;
                }
                Sent::Break => return self.reset().await,
                Sent::Hang => return self.silent().await,
            };
            self.stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await?;
            self.stream.flush().await?;
        }
        self.stream.write_all(b"0\r\n\r\n").await?;
        self.stream.flush().await?;
        Ok(Next::Keep)
    }

    /// Breaks the connection as a crash of the other side would.
    pub async fn reset(&mut self) -> io::Result<Next> {
        self.stream.flush().await?;
        self.stream.get_ref().set_zero_linger()?;
        Ok(Next::Close)
    }

    /// Says nothing until the client hangs up.
    async fn silent(&mut self) -> io::Result<Next> {
        let mut byte = [0; 1];
        while self.stream.read(&mut byte).await? > 0 {}
        Ok(Next::Close)
    }
}
