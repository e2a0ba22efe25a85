//! A scenario being played: which reply a request gets, which failures are still to come, what went wrong.

use super::asked::{Api, Asked};
use super::scenario::{Failure, Scenario, Step, Stop, Times, Tokens};
use super::tools::{self, Call};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// What a request came to, for a test to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The wire format it came in.
    pub api: Api,
    /// The index of the reply; `None` for a side request.
    pub reply: Option<usize>,
    /// What the person had said last.
    pub user: String,
    /// The last tool's result.
    pub result: String,
    /// What it was given: `answered`, `error 429`, `reset`, `broken off`, `hanging` or `problem`.
    pub outcome: String,
}

/// A scenario with its counters.
#[derive(Debug)]
pub(super) struct Play {
    pub scenario: Scenario,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    served: Vec<Served>,
    problems: Vec<String>,
    /// How often the failure at (reply, step) has happened.
    failed: BTreeMap<(usize, usize), u32>,
    calls: u64,
}

/// What is sent.
#[derive(Debug)]
pub(super) enum Answer {
    /// An error instead of an answer.
    Error(Failure),
    /// Nothing: the connection breaks.
    Reset,
    /// An answer, whole or broken off.
    Reply(Reply),
}

/// An answer's parts in order.
#[derive(Debug)]
pub(super) struct Reply {
    pub parts: Vec<Part>,
    pub stop: Option<Stop>,
    /// The text at which it ended, when one was asked for.
    pub stop_text: Option<String>,
    pub tokens: Tokens,
}

/// A part of an answer.
#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    Thought(String),
    Call(Call),
    Pause(u64),
    /// Half of this text, then the connection breaks.
    Break(String),
    Hang,
    Error(Failure),
}

impl Reply {
    pub fn has_calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call(_)))
    }
}

impl Play {
    pub fn new(scenario: Scenario) -> Self {
        Self { scenario, state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn served(&self) -> Vec<Served> {
        self.state().served.clone()
    }

    pub fn problems(&self) -> Vec<String> {
        self.state().problems.clone()
    }

    pub fn problem(&self, what: String) {
        self.state().problems.push(what);
    }

    /// The answer to `asked`, noted.
    pub fn answer(&self, asked: &Asked) -> Answer {
        let side = asked.is_side();
        let answer = if side { Ok(self.side(asked)) } else { self.main(asked) };
        let answer = answer.unwrap_or_else(|problem| {
            self.problem(problem.clone());
            Answer::Error(Failure::status(400).message(&problem).kind("scenario_problem"))
        });
        let outcome = match &answer {
            Answer::Error(failure) => format!("error {}", failure.status),
            Answer::Reset => "reset".into(),
            Answer::Reply(reply) => match reply.parts.last() {
                Some(Part::Hang) => "hanging".into(),
                Some(Part::Break(_)) => "broken off".into(),
                Some(Part::Error(failure)) => format!("error {}", failure.status),
                _ => "answered".into(),
            },
        };
        let reply = (!side).then_some(asked.turns);
        let (user, result) = (asked.user.clone(), asked.result.clone());
        self.state().served.push(Served { api: asked.api, reply, user, result, outcome });
        answer
    }

    fn side(&self, asked: &Asked) -> Answer {
        let mut stop_text = None;
        let part = match (&asked.schema, asked.tools.as_slice()) {
            // Claude Code asks how harmful a call is.
            _ if asked.stops.iter().any(|stop| stop == "</severity>") => {
                stop_text = Some("</severity>".to_owned());
                Part::Text("<severity>0".into())
            }
            (Some(schema), _) => Part::Text(tools::instance(schema, 8).to_string()),
            (None, [only]) => {
                let arguments = tools::instance(&only.schema, 8);
                Part::Call(Call { id: self.call_id(), ..tools::exactly(asked, &only.name, arguments) })
            }
            _ => Part::Text(self.scenario.side.clone().unwrap_or_else(|| "ok".into())),
        };
        Answer::Reply(Reply { parts: vec![part], stop: None, stop_text, tokens: self.scenario.usage })
    }

    fn main(&self, asked: &Asked) -> Result<Answer, String> {
        let at = asked.turns;
        let steps = self.scenario.replies.get(at).ok_or_else(|| {
            let last = self.scenario.replies.len();
            format!("the scenario has {last} replies, number {} was asked for by: {}", at + 1, asked.user)
        })?;
        let mut reply = Reply { parts: Vec::new(), stop: None, stop_text: None, tokens: self.scenario.usage };
        for (index, step) in steps.iter().enumerate() {
            let due = |times: &Times| self.due((at, index), *times);
            match step {
                Step::Fail(failure) if due(&failure.times) => {
                    if reply.parts.is_empty() {
                        return Ok(Answer::Error(failure.clone()));
                    }
                    reply.parts.push(Part::Error(failure.clone()));
                    break;
                }
                Step::Reset { times } if due(times) => return Ok(Answer::Reset),
                Step::Break { text, times } if due(times) => {
                    reply.parts.push(Part::Break(text.clone()));
                    break;
                }
                Step::Hang { times } if due(times) => {
                    reply.parts.push(Part::Hang);
                    break;
                }
                Step::Fail(_) | Step::Reset { .. } | Step::Break { .. } | Step::Hang { .. } => {}
                Step::Stop(stop) => reply.stop = Some(*stop),
                Step::Pause(ms) => reply.parts.push(Part::Pause(*ms)),
                Step::Say(text) => reply.parts.push(Part::Text(fill(text, asked)?)),
                Step::Think(text) => reply.parts.push(Part::Thought(fill(text, asked)?)),
                step => reply.parts.push(Part::Call(self.call(step, asked)?)),
            }
        }
        Ok(Answer::Reply(reply))
    }

    fn call(&self, step: &Step, asked: &Asked) -> Result<Call, String> {
        let call = match step {
            Step::Run(command) => tools::run(asked, &fill(command, asked)?),
            Step::Write { path, content } => tools::write(asked, &fill(path, asked)?, &fill(content, asked)?),
            Step::Mcp { server, tool, arguments } => Some(tools::mcp(asked, server, tool, filled(arguments, asked)?)),
            Step::Call { tool, arguments } => Some(tools::exactly(asked, tool, filled(arguments, asked)?)),
            _ => None,
        };
        let call = call.ok_or_else(|| {
            let names: Vec<&str> = asked.tools.iter().map(|tool| tool.name.as_str()).collect();
            format!("no tool that is offered fits {step:?}; there are {names:?}")
        })?;
        Ok(Call { id: self.call_id(), ..call })
    }

    fn call_id(&self) -> String {
        let mut state = self.state();
        state.calls += 1;
        format!("call_{:08}", state.calls)
    }

    /// Whether a failure happens (once more).
    fn due(&self, place: (usize, usize), times: Times) -> bool {
        let mut state = self.state();
        let failed = state.failed.entry(place).or_default();
        *failed += 1;
        match times {
            Times::Always => true,
            Times::Only(times) => *failed <= times,
        }
    }
}

fn fill(text: &str, asked: &Asked) -> Result<String, String> {
    let mut text = text.replace("{{user}}", &asked.user).replace("{{result}}", &asked.result);
    if text.contains("{{cwd}}") {
        let cwd = asked.cwd().ok_or("the agent didn't tell the model in which folder it works")?;
        text = text.replace("{{cwd}}", &cwd);
    }
    while let Some((before, name, after)) = split_uuid(&text) {
        let uuid = asked.uuid_behind(name).ok_or_else(|| format!("no tool's result has a UUID behind {name}"))?;
        text = format!("{before}{uuid}{after}");
    }
    Ok(text)
}

/// What stands before, in and behind the first `{{uuid:…}}`.
fn split_uuid(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{uuid:")?;
    let (name, after) = rest.split_once("}}")?;
    Some((before, name, after))
}

fn filled(value: &Value, asked: &Asked) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => fill(text, asked)?.into(),
        Value::Array(values) => values.iter().map(|value| filled(value, asked)).collect::<Result<Vec<_>, _>>()?.into(),
        Value::Object(members) => {
            let filled = members.iter().map(|(name, value)| Ok((name.clone(), filled(value, asked)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}
