//! Files are read, and changed where they differ and nowhere else.

use super::*;
use proptest::prelude::*;

const TASK: &str = "---
# kept by hand
kind: task
slug: fix-the-login   # never changes
title: Fix the login
plan_slug: \"agent-coordination\"
epic_slug:
status: ready
priority: P2
tenant_id: global
labels: [a, b]
owner:
  name: Ada
updated_at: \"2026-06-01\"
---

# Summary

Text with `---` and {{title}}.
";

fn parse(text: &str) -> File {
    File::parse(text).unwrap().unwrap()
}

#[test]
fn a_file_is_read() {
    let file = parse(TASK);
    assert_eq!((file.kind, file.slug.as_str()), (Kind::Task, "fix-the-login"));
    let fields = file.fields;
    assert_eq!((fields.title.as_str(), fields.plan_slug.as_deref(), fields.epic_slug), ("Fix the login", Some("agent-coordination"), None));
    assert_eq!((fields.status, fields.priority), (Some(Status::Ready), Some(Priority::Medium)));
    assert_eq!(fields.body, "# Summary\n\nText with `---` and {{title}}.");
}

#[test]
fn what_is_no_item_is_left_alone() {
    for text in [
        "",
        "# Readme\n",
        "---\nnot closed\n",
        "---\n\nkind: of a text\n",
        "---\ntitle: x\n---\n",
        "---\nkind:\n---\n",
        "text\n---\nkind: task\n---\n",
    ] {
        assert_eq!(File::parse(text).unwrap(), None, "{text}");
    }
}

#[test]
fn what_cant_be_read_says_why() {
    for (text, field) in [
        ("---\nkind: story\n---\n", "kind"),
        ("---\nkind: task\n---\n", "slug"),
        ("---\nkind: task\nslug: a b\n---\n", "slug"),
        ("---\nkind: task\nslug: ../x\n---\n", "slug"),
        ("---\nkind: task\nslug: x\n---\n", "title"),
        ("---\nkind: task\nslug: x\ntitle: [a]\n---\n", "title"),
        ("---\nkind: task\nslug: x\ntitle: a\nstatus: blocked\n---\n", "status"),
        ("---\nkind: task\nslug: x\ntitle: a\ntitle: b\n---\n", "title"),
        ("---\nkind: task\nslug: x\ntitle: \"a\n---\n", "front matter"),
        ("---\n- kind\n---\n", "front matter"),
        ("---\nslug: x\nkind: task\ntitle: a\n\nWhat is to be done.\n", "front matter"),
    ] {
        assert_eq!(File::parse(text).unwrap_err().field.as_deref(), Some(field), "{text}");
    }
}

#[test]
fn only_what_differs_is_written() {
    let file = parse(TASK);
    assert_eq!(file.with(&file.fields).unwrap(), TASK);
    let mut fields = file.fields.clone();
    fields.title = "Fix: the \"login\"".into();
    fields.plan_slug = None;
    fields.epic_slug = Some("mcp".into());
    fields.status = Some(Status::Done);
    fields.priority = Some(Priority::Critical);
    let expected = TASK
        .replace("title: Fix the login", "title: \"Fix: the \\\"login\\\"\"")
        .replace("\"agent-coordination\"", "null")
        .replace("epic_slug:\n", "epic_slug: mcp\n")
        .replace("status: ready", "status: done")
        .replace("P2", "P0");
    assert_eq!(file.with(&fields).unwrap(), expected);
    assert_eq!(parse(&expected).fields, fields);
    fields.body = "New\n\ntext".into();
    let rewritten = file.with(&fields).unwrap();
    assert!(rewritten.ends_with("---\n\nNew\n\ntext\n"), "{rewritten}");
    assert_eq!(parse(&rewritten).fields, fields);
}

#[test]
fn line_ends_and_long_values_survive() {
    let text = "---\r\nkind: plan\r\nslug: p\r\ntitle: >-\r\n  A long\r\n  title\r\nextra: 1\r\n---\r\nBody\r\n";
    let file = parse(text);
    assert_eq!((file.fields.title.as_str(), file.fields.body.as_str()), ("A long title", "Body"));
    let fields = Fields { title: "Short".into(), status: Some(Status::Draft), body: "One\nTwo".into(), ..file.fields.clone() };
    let expected = "---\r\nkind: plan\r\nslug: p\r\ntitle: Short\r\nextra: 1\r\nstatus: draft\r\n---\r\nOne\r\nTwo\r\n";
    assert_eq!(file.with(&fields).unwrap(), expected);
    assert_eq!(parse("\u{feff}---\nkind: plan\nslug: p\ntitle: Ä ö\n---").fields.title, "Ä ö");
}

#[test]
fn a_fresh_file_reads_back() {
    let fields = Fields {
        title: "yes".into(),
        plan_slug: Some("p".into()),
        epic_slug: None,
        status: Some(Status::Draft),
        priority: Some(Priority::Low),
        body: "Text".into(),
    };
    let file = parse(&File::fresh(Kind::Epic, "e-1", &fields));
    assert_eq!((file.kind, file.slug.as_str(), file.fields), (Kind::Epic, "e-1", fields));
}

#[test]
fn the_side_that_changed_is_known_by_what_was_agreed() {
    let fields = |title: &str| Fields { title: title.into(), ..parse(TASK).fields };
    let agreed_on = |title: &str| {
        let mut agreed = Agreed::nothing(&fields("?"));
        agreed.on(&fields(title), Field::Title);
        agreed
    };
    for (here, file, agreed, expected) in [
        ("a", "a", "a", Changed::Neither),
        ("b", "b", "a", Changed::Neither),
        ("b", "a", "a", Changed::Here),
        ("a", "b", "a", Changed::File),
        ("b", "c", "a", Changed::Both),
    ] {
        assert_eq!(changed(Field::Title, &fields(here), &fields(file), &agreed_on(agreed)), expected, "{here} {file} {agreed}");
    }
    let never = Agreed::nothing(&fields("a"));
    assert_eq!(changed(Field::Title, &fields("a"), &fields("b"), &never), Changed::Both);
    assert_eq!(changed(Field::Title, &fields("a"), &fields("a"), &never), Changed::Neither);
}

#[test]
fn a_file_that_says_nothing_of_a_field_only_follows() {
    let here = parse(TASK).fields;
    let silent = Fields { status: None, plan_slug: None, epic_slug: Some("e".into()), ..here.clone() };
    let mut agreed = Agreed::nothing(&here);
    assert_eq!(changed(Field::Status, &here, &silent, &agreed), Changed::Neither);
    agreed.on(&here, Field::Status);
    assert_eq!(changed(Field::Status, &here, &silent, &agreed), Changed::Neither);
    let moved = Fields { status: Some(Status::Done), ..here.clone() };
    assert_eq!(changed(Field::Status, &moved, &silent, &agreed), Changed::Here);
    assert_eq!(changed(Field::PlanSlug, &here, &silent, &agreed), Changed::Neither, "the epic speaks for its plan");
}

prop_compose! {
    fn any_fields()(
        title in "[^\\p{Cc}]{0,20}[a-z]",
        plan in proptest::option::of("[a-z0-9][a-z0-9._-]{0,8}"),
        epic in proptest::option::of("[a-z0-9][a-z0-9._-]{0,8}"),
        status in proptest::option::of(proptest::sample::select(Status::ALL.to_vec())),
        priority in proptest::option::of(proptest::sample::select(Priority::ALL.to_vec())),
        body in "[a-zé#\\-\n: ]{0,40}",
    ) -> Fields {
        Fields { title, plan_slug: plan, epic_slug: epic, status, priority, body: unify(&body) }
    }
}

proptest! {
    #[test]
    fn any_item_survives_being_written(fields in any_fields(), other in any_fields()) {
        let file = parse(&File::fresh(Kind::Task, "x", &fields));
        prop_assert_eq!(&file.fields, &fields);
        let changed = parse(&file.with(&other).unwrap());
        prop_assert_eq!(&changed.fields, &other);
        let in_place = parse(&parse(TASK).with(&fields).unwrap());
        prop_assert_eq!(&in_place.fields, &fields);
        prop_assert!(in_place.with(&fields).unwrap().contains("# kept by hand") && in_place.with(&fields).unwrap().contains("owner:\n  name: Ada\n"));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(---\n)?[a-z: #\"'\\[\\]{}>|&*!%é\n-]{0,80}(---\n)?") {
        let _ = File::parse(&text);
    }
}

/// What is written in a way that a line of its own can't be changed in is left to a person.
#[test]
fn what_cannot_be_changed_alone_is_not_changed() {
    for text in [
        "---\n  kind: task\n  slug: ind\n  title: t\n---\n",
        "---\n{kind: task, slug: flw, title: t}\n---\n",
        "---\nkind: task\nslug: a\ntitle: &t hello\nother: *t\n---\n",
        "---\nkind: task\nslug: c\ntitle: |-\n  t\n# keep me\nz: 1\n---\n",
    ] {
        let file = parse(text);
        assert_eq!(file.with(&file.fields).unwrap(), text, "unchanged");
        let wanted = Fields { title: "Other".into(), priority: Some(Priority::High), ..file.fields.clone() };
        match file.with(&wanted) {
            Ok(written) => assert!(parse(&written).fields == wanted && written.contains("other") == text.contains("other"), "{written}"),
            Err(error) => assert!(error.message.contains("by hand"), "{error}"),
        }
    }
    let refused = ["---\n{kind: task, slug: flw, title: t}\n---\n", "---\nkind: task\nslug: a\ntitle: &t hello\nother: *t\n---\n"];
    for text in refused {
        let file = parse(text);
        let wanted = Fields { title: "Other".into(), priority: Some(Priority::High), ..file.fields.clone() };
        assert!(file.with(&wanted).is_err(), "{text}");
    }
}
