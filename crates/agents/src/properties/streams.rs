//! The line-based conversations: any lines and commands in any order.

use super::lines::{Protocol, line, pieces};
use crate::contract::{Answer, Command, Event};
use crate::dialogue::{Dialogue, Out};
use crate::frame::{Frame, Framer};
use crate::{claude, codex};
use proptest::prelude::*;
use serde_json::Value;
use taskyard_domain::transcript::Item;
use taskyard_testkit::property::{any_text, config};

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/streams.txt");
/// Longest line that is read here.
const CAP: usize = 64 << 10;

/// A [`Command`] that can be given again.
#[derive(Debug, Clone)]
enum Said {
    Prompt,
    Steer(String),
    Cancel,
    Answer(String, Answer),
}

impl Said {
    fn command(&self) -> Command {
        match self.clone() {
            Self::Prompt => Command::Prompt("go".into()),
            Self::Steer(text) => Command::Steer(text),
            Self::Cancel => Command::CancelTurn,
            Self::Answer(request_id, answer) => Command::Permission { request_id, answer },
        }
    }
}

fn said() -> impl Strategy<Value = Said> {
    let request = prop::sample::select(vec!["r1", "r2", "a1", "7"]).prop_map(str::to_owned);
    let answer = prop_oneof![
        Just(Answer::Cancelled),
        any_text().prop_map(|reason| Answer::Deny { reason, option_id: None }),
        prop::option::of("[a-z]{1,6}").prop_map(Answer::Allow),
    ];
    prop_oneof![
        3 => Just(Said::Prompt),
        1 => any_text().prop_map(Said::Steer),
        1 => Just(Said::Cancel),
        1 => (request, answer).prop_map(|(request, answer)| Said::Answer(request, answer)),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Line(Vec<u8>),
    Say(Said),
    Overdue,
    Gone,
}

fn steps(protocol: Protocol) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => line(protocol).prop_map(Step::Line),
        3 => said().prop_map(Step::Say),
        1 => Just(Step::Overdue),
        1 => Just(Step::Gone),
    ];
    prop::collection::vec(step, 0..30)
}

fn dialogue(protocol: Protocol) -> Box<dyn Dialogue> {
    match protocol {
        Protocol::Claude => claude::tests::conversation(),
        Protocol::Codex | Protocol::Acp => codex::tests::conversation(),
    }
}

/// What came out of a step can be sent on: whole lines, items of a size a transcript can hold.
fn check(out: &Out, longest: usize) -> Result<(), TestCaseError> {
    for line in &out.lines {
        prop_assert!(!line.contains('\n') && serde_json::from_str::<Value>(line).is_ok(), "{}", line);
    }
    for event in &out.events {
        if let Event::Item(item) = event {
            let size = serde_json::to_vec(item).unwrap().len();
            // Text passes whole, JSON escapes at most sixfold.
            prop_assert!(size <= 6 * longest + 4096, "an item of {} bytes from lines of {}", size, longest);
        }
    }
    Ok(())
}

fn run(protocol: Protocol, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut dialogue = dialogue(protocol);
    let mut out = Out::default();
    let mut longest = 0;
    dialogue.begin(&mut out);
    for step in steps {
        match step {
            Step::Line(bytes) => {
                longest = longest.max(bytes.len());
                dialogue.line(&String::from_utf8_lossy(bytes), &mut out);
            }
            Step::Say(said) => dialogue.command(said.command(), &mut out),
            Step::Overdue if dialogue.deadline().is_some() => dialogue.overdue(&mut out),
            Step::Overdue => {}
            Step::Gone => dialogue.gone(&mut out),
        }
        check(&out, longest)?;
        out = Out::default();
    }
    Ok(())
}

/// Everything that a conversation makes of `bytes` when they come in these pieces.
fn told(protocol: Protocol, chunks: &[Vec<u8>]) -> Vec<String> {
    let (mut dialogue, mut framer, mut out) = (dialogue(protocol), Framer::new(CAP), Out::default());
    dialogue.begin(&mut out);
    dialogue.command(Command::Prompt("go".into()), &mut out);
    let mut take = |framer: &mut Framer| {
        while let Some(frame) = framer.pop() {
            match frame {
                Frame::Line(line) => dialogue.line(&line, &mut out),
                other => out.events.extend(other.notice().map(Event::Item)),
            }
        }
    };
    for chunk in chunks {
        framer.push(chunk);
        take(&mut framer);
    }
    framer.finish();
    take(&mut framer);
    out.lines.into_iter().chain(out.events.iter().map(|event| format!("{event:?}"))).map(|text| without_ids(&text)).collect()
}

/// `text` without UUIDs: a conversation that is begun anew has another one each time.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| word.len() == 36 && uuid::Uuid::try_parse(word).is_ok();
    text.split('"').map(|word| if is_id(word) { "ID" } else { word }).collect::<Vec<_>>().join("\"")
}

/// Lines that mean nothing in any protocol.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100),
        Just(b"\xff\xfe{\"type\":\"result\"".to_vec()),
        Just(b"{\"type\":\"assistant\",\"message\":{\"id\":".to_vec()),
        (CAP..CAP + 5000).prop_map(|length| vec![b'y'; length]),
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| {
        lines
            .into_iter()
            .flat_map(|mut line| {
                line.retain(|byte| *byte != b'\n');
                line.push(b'\n');
                line
            })
            .collect()
    })
}

/// Handshake, then a turn that says a word, ends, with `between` in between.
fn conversation(protocol: Protocol, between: &[u8]) -> Vec<u8> {
    let good = protocol.good();
    let pick = |words: &[&str]| good.iter().find(|line| words.iter().all(|word| line.contains(word))).unwrap().clone() + "\n";
    let (start, end): (Vec<String>, Vec<String>) = match protocol {
        Protocol::Claude => {
            (vec![pick(&["taskyard-1", "success"]), pick(&["isReplay"])], vec![pick(&["Writing."]), pick(&["\"end_turn\""])])
        }
        Protocol::Codex | Protocol::Acp => (
            vec![pick(&["\"id\":1,"]), pick(&["\"id\":2,"]), pick(&["\"id\":3,"])],
            vec![pick(&["\"agentMessage\"", "Writing."]), pick(&["turn/completed", "\"completed\""])],
        ),
    };
    [start.concat().into_bytes(), between.to_vec(), end.concat().into_bytes()].concat()
}

proptest! {
    #![proptest_config(config(96, KEPT))]

    #[test]
    fn claude_may_write_anything(steps in steps(Protocol::Claude)) {
        run(Protocol::Claude, &steps)?;
    }

    #[test]
    fn codex_may_write_anything(steps in steps(Protocol::Codex)) {
        run(Protocol::Codex, &steps)?;
    }

    #[test]
    fn pieces_make_no_difference(
        lines in prop::collection::vec(line(Protocol::Claude), 0..10),
        codex in prop::collection::vec(line(Protocol::Codex), 0..10),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        for (protocol, lines) in [(Protocol::Claude, lines), (Protocol::Codex, codex)] {
            let bytes = conversation(protocol, &[lines.join(&b'\n'), b"\n".to_vec()].concat());
            prop_assert_eq!(told(protocol, &pieces(&bytes, &cuts)), told(protocol, std::slice::from_ref(&bytes)));
        }
    }

    #[test]
    fn good_lines_after_garbage_arrive(garbage in garbage(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        for protocol in [Protocol::Claude, Protocol::Codex] {
            let told = told(protocol, &pieces(&conversation(protocol, &garbage), &cuts)).join("\n");
            prop_assert!(told.contains("text: \"Writing.\""), "{}", told);
            prop_assert_eq!(told.matches("TurnEnded(TurnEnd { stop: Ended").count(), 1, "{}", told);
        }
    }
}

#[test]
fn every_line_of_the_corpus_has_a_meaning() {
    for protocol in [Protocol::Claude, Protocol::Codex] {
        for line in protocol.good() {
            let mut out = Out::default();
            dialogue(protocol).line(&line, &mut out);
            let stray = out.events.iter().any(|event| matches!(event, Event::Item(Item::Notice { text, .. }) if text.contains("wrote")));
            assert!(!stray, "{line}");
        }
    }
}

/// Figures at the ends of their range, which a sum must survive.
#[test]
fn absurd_figures_do_no_harm() {
    let (most, least) = (i64::MAX, i64::MIN);
    let claude = format!(
        r#"{{"type":"result","subtype":"success","num_turns":{most},"modelUsage":{{"m":{{"inputTokens":{most},"cacheReadInputTokens":{most}}},"n":{{"inputTokens":{most}}}}}}}"#
    );
    let usage = |total: i64, last: i64| {
        format!(
            r#"{{"method":"thread/tokenUsage/updated","params":{{"threadId":"th","turnId":"tu","tokenUsage":{{"total":{{"inputTokens":{total},"outputTokens":{total}}},"last":{{"inputTokens":{last},"outputTokens":{last}}}}}}}}}"#
        )
    };
    let claude = conversation(Protocol::Claude, format!("{claude}\n{claude}\n").as_bytes());
    let codex =
        conversation(Protocol::Codex, format!("{}\n{}\n{}\n", usage(least, most), usage(most, least), usage(least, most)).as_bytes());
    for (protocol, bytes) in [(Protocol::Claude, claude), (Protocol::Codex, codex)] {
        assert!(told(protocol, &[bytes]).iter().any(|event| event.starts_with("Usage(")), "{protocol:?}");
    }
}
