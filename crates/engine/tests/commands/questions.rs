//! What agents ask a person.

use crate::support::{Yard, claimed, input, size};
use serde_json::json;
use taskyard_domain::agent::DriverKind;
use taskyard_domain::id::{QuestionId, RunId};
use taskyard_domain::question::{Kind, Question, State};
use taskyard_domain::run;

/// Asks `count` questions in a run of TY-1, each with `bytes` of body.
async fn ask(yard: &Yard, count: usize, bytes: usize) {
    let profile = yard.agent("claude", DriverKind::Claude).await;
    let session = yard.session("TY-1", &profile).await;
    let task = yard.task("TY-1").await;
    let ids = yard.engine.store().ids();
    let run = run::Run { session_id: Some(session), kind: run::Kind::Managed, ..claimed(&task, RunId(ids.next()), task.created_at) };
    let question = |id: QuestionId| Question {
        id,
        workspace_id: task.workspace_id,
        task_id: task.id,
        session_id: session,
        run_id: run.id,
        kind: Kind::Permission,
        state: State::Open,
        request_id: Some("1".into()),
        title: "run make".into(),
        body: json!({ "tool": "execute", "input": "x".repeat(bytes) }),
        answer: None,
        answered_by: None,
        created_at: task.created_at,
        closed_at: None,
    };
    let questions: Vec<Question> = (0..count).map(|_| question(QuestionId(ids.next()))).collect();
    yard.write(move |tx| {
        Box::pin(async move {
            tx.run_insert(&run).await?;
            for question in &questions {
                tx.question_insert(question).await?;
            }
            Ok(())
        })
    })
    .await;
}

#[tokio::test]
async fn open_questions_are_listed_and_stand_on_the_task() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    yard.add(&list, "t").await;
    ask(&yard, 2, 10).await;
    let open = yard.engine.list_pending_questions(&yard.me(), input(json!({ "workspace_id": "main" }))).await.unwrap();
    assert_eq!((open.total, open.questions.len(), open.has_more), (2, 2, false));
    let first = &open.questions[0];
    assert_eq!((first.kind.as_str(), first.short_id.as_str(), first.body["tool"].as_str()), ("permission", "TY-1", Some("execute")));
    let task = yard.engine.get_task(&yard.me(), input(json!({ "task_id": "TY-1" }))).await.unwrap();
    assert_eq!(task.open_questions[0].question_bundle_id, first.question_bundle_id);
    assert_eq!(task.session_id, Some(first.session_id.clone()));
    assert_eq!(task.latest_run.unwrap().id, first.run_id);
}

#[tokio::test]
async fn many_or_long_questions_do_not_burst_the_answer() {
    for (count, bytes) in [(60, 500), (3, 50_000)] {
        let yard = Yard::new().await;
        let list = yard.list("L").await;
        yard.add(&list, "t").await;
        ask(&yard, count, bytes).await;
        let open = yard.engine.list_pending_questions(&yard.me(), input(json!({}))).await.unwrap();
        assert!(size(&open) <= 10 * 1024, "{} bytes", size(&open));
        assert_eq!((open.total, open.has_more), (count, open.questions.len() < count));
        assert_eq!(open.questions[0].body_omitted, bytes > 5000);
    }
}

#[tokio::test]
async fn a_question_of_another_workspace_is_not_answered_by_its_uuid() {
    let yard = Yard::new().await;
    let list = yard.list("L").await;
    yard.add(&list, "t").await;
    ask(&yard, 1, 10).await;
    let open = yard.engine.list_pending_questions(&yard.me(), input(json!({}))).await.unwrap();
    let id = json!(open)["questions"][0]["question_bundle_id"].clone();
    yard.engine.workspace_add(&yard.me(), input(json!({ "slug": "other" }))).await.unwrap();
    let elsewhere = yard.engine.confined(yard.me(), "other").await.unwrap();
    let error = yard.engine.answer_question(&elsewhere, input(json!({ "question_bundle_id": id }))).await.unwrap_err();
    assert_eq!((error.class, error.field.as_deref()), (taskyard_domain::Class::NotFound, Some("question_bundle_id")));
}
