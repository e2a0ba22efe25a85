//! Lines as agents write them: good ones of each protocol, JSON of any shape with the protocol's words, good ones
//! after an accident, and bytes of any kind.

use proptest::prelude::*;
use serde_json::{Value, json};
use taskyard_testkit::property::{any_json, any_text, damaged, number};

/// A protocol whose lines are made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Claude's stream-json.
    Claude,
    /// Codex's app server.
    Codex,
    /// The Agent Client Protocol.
    Acp,
}

impl Protocol {
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Acp];

    /// Lines as the real programs write them, each kind once.
    pub fn good(self) -> Vec<String> {
        let text = match self {
            Self::Claude => include_str!("corpus/claude.jsonl"),
            Self::Codex => include_str!("corpus/codex.jsonl"),
            Self::Acp => include_str!("corpus/acp.jsonl"),
        };
        text.lines().map(str::to_owned).collect()
    }

    /// The words that its messages are told apart by, with the fields that hold them.
    fn words(self) -> (Vec<&'static str>, Vec<String>) {
        let fields = match self {
            Self::Claude => vec!["type", "subtype", "stop_reason", "terminal_reason", "status", "name"],
            Self::Codex => vec!["method", "type", "status", "id", "threadId", "itemId"],
            Self::Acp => vec!["method", "sessionUpdate", "stopReason", "status", "kind", "id"],
        };
        let mut words = Vec::new();
        for line in self.good() {
            gather(&serde_json::from_str(&line).unwrap(), &fields, &mut words);
        }
        (fields, words)
    }
}

fn gather(value: &Value, fields: &[&str], words: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let (true, Some(word)) = (fields.contains(&name.as_str()), value.as_str())
                    && !words.iter().any(|known| known == word)
                {
                    words.push(word.to_owned());
                }
                gather(value, fields, words);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, fields, words)),
        _ => {}
    }
}

/// Any line of `protocol` without its line end, most of them near to good ones.
pub fn line(protocol: Protocol) -> BoxedStrategy<Vec<u8>> {
    let good = prop::sample::select(protocol.good());
    let mutated =
        (good.clone(), prop::collection::vec((any::<prop::sample::Index>(), replacement(protocol)), 1..4)).prop_map(|(line, changes)| {
            let mut value: Value = serde_json::from_str(&line).unwrap();
            for (at, new) in changes {
                replace(&mut value, at, new);
            }
            value.to_string().into_bytes()
        });
    prop_oneof![
        3 => good.clone().prop_map(String::into_bytes),
        5 => mutated,
        2 => damaged(good.prop_map(String::into_bytes)).prop_map(without_ends),
        1 => any_json().prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(without_ends),
        1 => (1usize..60).prop_map(|depth| [vec![b'['; depth * 8], b"1".to_vec()].concat()),
    ]
    .boxed()
}

fn without_ends(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.retain(|byte| *byte != b'\n');
    bytes
}

/// Something to stand where something else stood: a word of the protocol, a number, any JSON.
fn replacement(protocol: Protocol) -> impl Strategy<Value = Value> {
    let (_, words) = protocol.words();
    prop_oneof![
        4 => prop::sample::select(words).prop_map(Value::from),
        2 => number(),
        2 => any_text().prop_map(Value::from),
        1 => any_json(),
        1 => Just(json!([{}])),
    ]
}

/// Puts `new` in the place of one of the values of `value`.
fn replace(value: &mut Value, at: prop::sample::Index, new: Value) {
    let places = count(value);
    let mut left = at.index(places);
    put(value, &mut left, &mut Some(new));
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(map) => map.values().map(count).sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

fn put(value: &mut Value, left: &mut usize, new: &mut Option<Value>) {
    if *left == 0 {
        if let Some(new) = new.take() {
            *value = new;
        }
        return;
    }
    *left -= 1;
    let inner: Box<dyn Iterator<Item = &mut Value>> = match value {
        Value::Object(map) => Box::new(map.values_mut()),
        Value::Array(items) => Box::new(items.iter_mut()),
        _ => return,
    };
    for value in inner {
        if new.is_none() {
            return;
        }
        put(value, left, new);
    }
}

/// `bytes` in pieces, as a pipe may give them.
pub fn pieces(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
}
