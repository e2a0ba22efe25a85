//! The tools that ask their caller something: in the answer since 2026-07-28, by a request of the server before.
//!
//! The state that goes out with a question and comes back with the answer is sealed: whoever changes it is refused.

use rmcp::model::{ErrorData, InputRequiredResult, InputResponses};
use serde_json::{Map, Value, json};
use std::hash::{BuildHasher, RandomState};

/// What came back with a repeated call.
pub struct Replies<'a> {
    /// The answers by their question's name.
    pub responses: Option<&'a InputResponses>,
    /// The state as it came back.
    pub state: Option<&'a str>,
}

/// Seals states with a key of this process.
#[derive(Default)]
pub struct Seal(RandomState);

impl Seal {
    fn close(&self, content: &str) -> String {
        format!("{content}.{:016x}", self.0.hash_one(content))
    }

    fn open<'a>(&self, sealed: &'a str) -> Result<&'a str, ErrorData> {
        match sealed.rsplit_once('.') {
            Some((content, _)) if self.close(content) == sealed => Ok(content),
            _ => Err(ErrorData::invalid_params("requestState was changed on its way", None)),
        }
    }
}

/// A question and its name.
type Question = (&'static str, Value);

/// A form of one required field.
pub fn form(name: &'static str, message: &str, field: &str, kind: &str) -> Question {
    let schema = json!({ "type": "object", "properties": { field: { "type": kind } }, "required": [field] });
    (name, json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } }))
}

fn sample(name: &'static str, prompt: &str, tokens: u32) -> Question {
    (name, json!({ "method": "sampling/createMessage", "params": sampling(prompt, tokens) }))
}

/// The parameters of a request to the client's model.
pub fn sampling(prompt: &str, tokens: u32) -> Value {
    json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }], "maxTokens": tokens })
}

fn roots(name: &'static str) -> Question {
    (name, json!({ "method": "roots/list", "params": {} }))
}

/// Asks `questions`; `state` comes back with the answers.
pub fn ask(questions: Vec<Question>, state: Option<String>) -> InputRequiredResult {
    let requests: Map<String, Value> = questions.into_iter().map(|(name, question)| (name.to_owned(), question)).collect();
    let requests = serde_json::from_value(Value::Object(requests)).expect("questions that the protocol knows");
    InputRequiredResult::new(Some(requests), state)
}

/// The answer to `name` as an object.
fn answer<'a>(replies: &Replies<'a>, name: &str) -> Option<&'a Map<String, Value>> {
    replies.responses?.get(name)?.as_object()
}

/// The answer to the form `name`, when it was filled in.
pub fn filled<'a>(replies: &Replies<'a>, name: &str) -> Option<&'a Value> {
    let answer = answer(replies, name)?;
    (answer.get("action")? == "accept").then(|| answer.get("content")).flatten()
}

/// What a tool that asks says: a text, or a question.
pub type Outcome = Result<Result<String, InputRequiredResult>, ErrorData>;

/// Runs the tool `name`, one of those that ask; `None` for another.
pub fn run(name: &str, replies: &Replies<'_>, capabilities: &Value, seal: &Seal) -> Option<Outcome> {
    let name_form = || form("user_name", "What is your name?", "name", "string");
    let confirm = || form("confirm", "Please confirm", "ok", "boolean");
    Some(Ok(match name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => match filled(replies, "user_name") {
            Some(content) => Ok(format!("Hello, {}!", content["name"].as_str().unwrap_or("stranger"))),
            None => Err(ask(vec![name_form()], None)),
        },
        "test_input_required_result_sampling" => match answer(replies, "capital_question") {
            Some(reply) => Ok(reply.get("content").map(|content| content["text"].to_string()).unwrap_or_default()),
            None => Err(ask(vec![sample("capital_question", "What is the capital of France?", 100)], None)),
        },
        "test_input_required_result_list_roots" => match answer(replies, "client_roots") {
            Some(reply) => Ok(format!("Roots: {}", reply.get("roots").unwrap_or(&Value::Null))),
            None => Err(ask(vec![roots("client_roots")], None)),
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            return Some(sealed(replies, seal, "confirm", vec![confirm()], |_| "state-ok".to_owned()));
        }
        "test_input_required_result_multiple_inputs" => {
            let questions = vec![name_form(), sample("greeting", "Generate a greeting", 50), roots("client_roots")];
            let all = ["user_name", "greeting", "client_roots"].iter().all(|name| answer(replies, name).is_some());
            let last = if all { "client_roots" } else { "" };
            return Some(sealed(replies, seal, last, questions, |_| "All three answered".to_owned()));
        }
        "test_input_required_result_multi_round" => return Some(rounds(replies, seal)),
        "test_input_required_result_capabilities" => Err(ask(allowed(capabilities, name_form()), None)),
        _ => return None,
    }))
}

/// One question, then `done`, if the state came back whole.
fn sealed(replies: &Replies<'_>, seal: &Seal, name: &str, questions: Vec<Question>, done: impl Fn(&str) -> String) -> Outcome {
    let state = replies.state.map(|state| seal.open(state)).transpose()?;
    match (answer(replies, name), state) {
        (Some(_), Some(state)) => Ok(Ok(done(state))),
        (Some(_), None) => Err(ErrorData::invalid_params("requestState has to come back with the answers", None)),
        (None, _) => Ok(Err(ask(questions, Some(seal.close("asked"))))),
    }
}

/// Two questions, one after the other.
fn rounds(replies: &Replies<'_>, seal: &Seal) -> Outcome {
    let state = replies.state.map(|state| seal.open(state)).transpose()?;
    let colour = || form("step2", "Step 2: What is your favorite color?", "color", "string");
    Ok(match state.and_then(|state| state.split_once(':')) {
        None => Err(ask(vec![form("step1", "Step 1: What is your name?", "name", "string")], Some(seal.close("1:")))),
        Some(("1", _)) => match filled(replies, "step1").and_then(|content| content["name"].as_str()) {
            Some(name) => Err(ask(vec![colour()], Some(seal.close(&format!("2:{name}"))))),
            None => Err(ask(vec![form("step1", "Step 1: What is your name?", "name", "string")], Some(seal.close("1:")))),
        },
        Some((_, name)) => match filled(replies, "step2").and_then(|content| content["color"].as_str()) {
            Some(colour) => Ok(format!("{name} likes {colour}")),
            None => Err(ask(vec![colour()], Some(seal.close(&format!("2:{name}"))))),
        },
    })
}

/// Those of three questions that the client says it can answer.
fn allowed(capabilities: &Value, name_form: Question) -> Vec<Question> {
    let questions =
        [("elicitation", name_form), ("sampling", sample("greeting", "Generate a greeting", 50)), ("roots", roots("client_roots"))];
    questions.into_iter().filter(|(needs, _)| capabilities.get(needs).is_some()).map(|(_, question)| question).collect()
}
