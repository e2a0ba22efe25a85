//! The SDK's connection: lines in and out, and what the agent may ask of its client.
//!
//! Every handler hands its request on and returns at once; nothing here waits for a person.

use super::conversation::{self, Context};
use super::files;
use crate::process::Stdin;
use agent_client_protocol::v1::{ConnectionTo, Dispatch, Responder};
use agent_client_protocol::{Agent, Client, Error, Handled, Lines, UntypedMessage};
use futures::{SinkExt, StreamExt};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// A request for permission on its way to the conversation.
#[derive(Debug)]
pub(super) struct Asked {
    pub params: Value,
    pub responder: Responder<Value>,
}

/// Speaks with the agent until the conversation is over; how long each step of ending it may take.
pub(super) async fn serve(root: PathBuf, stdin: Stdin, lines: mpsc::Receiver<String>, context: Context) -> Duration {
    let emitter = context.emitter.clone();
    let outgoing = futures::sink::unfold(stdin, async |stdin: Stdin, line: String| {
        // An agent that reads no more ends by itself or is ended; the connection needn't fail for it.
        stdin.line(&line);
        Ok::<_, std::io::Error>(stdin)
    });
    let incoming = futures::stream::unfold(lines, async |mut lines| lines.recv().await.map(|line| (Ok::<_, std::io::Error>(line), lines)));
    let (asked, asks) = mpsc::unbounded_channel();
    let result = Client
        .v1()
        .name("taskyard")
        .on_receive_dispatch(
            async move |message: Dispatch<UntypedMessage, UntypedMessage>, cx: ConnectionTo<Agent>| match message {
                Dispatch::Request(request, responder) => {
                    answer(request, responder, &cx, &root, &asked)?;
                    Ok(Handled::Yes)
                }
                other => Ok(Handled::No { message: other, retry: false }),
            },
            agent_client_protocol::on_receive_dispatch!(),
        )
        .connect_with(Lines::new(Box::pin(outgoing).sink_map_err(|error: std::io::Error| error), incoming.boxed()), async move |cx| {
            Ok(conversation::run(cx, context, asks).await)
        })
        .await;
    match result {
        Ok(grace) => grace,
        Err(error) => {
            emitter.notice("error", format!("The connection to the agent broke: {}", error.message)).await;
            super::GRACE
        }
    }
}

fn answer(
    request: UntypedMessage,
    responder: Responder<Value>,
    cx: &ConnectionTo<Agent>,
    root: &Path,
    asked: &mpsc::UnboundedSender<Asked>,
) -> Result<(), Error> {
    let (method, params) = request.into_parts();
    let file: fn(&Path, &Value) -> Result<Value, Error> = match method.as_str() {
        "session/request_permission" => {
            // When the conversation is over, the dropped responder answers with an error by itself.
            let _ = asked.send(Asked { params, responder });
            return Ok(());
        }
        "fs/read_text_file" => files::read,
        "fs/write_text_file" => files::write,
        _ => return responder.respond_with_error(Error::method_not_found().data(method)),
    };
    let root = root.to_owned();
    cx.spawn(async move {
        let done = tokio::task::spawn_blocking(move || file(&root, &params)).await;
        responder.respond_with_result(done.unwrap_or_else(|error| Err(Error::internal_error().data(error.to_string()))))
    })
}
