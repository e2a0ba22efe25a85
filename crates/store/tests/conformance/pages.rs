//! Paging: complete, without repeats, the same on both databases, whatever the page's size.

use crate::support::Harness;
use crate::support::make::World;
use crate::{on_both, read_tx, write_tx};
use taskyard_domain::name::ShortId;
use taskyard_domain::run;
use taskyard_domain::task::{Kind, Status, Task};
use taskyard_store::{RunCursor, TaskCursor, TaskFilter};

async fn all_pages(h: &Harness, filter: &TaskFilter, limit: i64) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    loop {
        let (filter, after) = (filter.clone(), tasks.last().map(TaskCursor::from));
        let page = read_tx!(h.store, |read| read.task_page(&filter, after, limit).await).unwrap();
        let short = i64::try_from(page.len()).unwrap() < limit;
        tasks.extend(page);
        if short {
            return tasks;
        }
    }
}

on_both! {
    /// Many tasks share a sort order and a creation time: only the id tells them apart.
    async fn tasks_page_by_page(h) {
        let w = World::stored(h, "home", "TY").await;
        let at = h.sources.now();
        let mut tasks: Vec<Task> = (2..60)
            .map(|number| {
                let mut task = h.sources.task(&w.list, ShortId::new("TY", number));
                task.sort_order = f64::from(u32::try_from(number % 3).unwrap()) * 0.1;
                task.created_at = if number % 2 == 0 { at } else { h.sources.now() };
                task
            })
            .collect();
        let copies = tasks.clone();
        write_tx!(h.store, |tx| {
            for task in copies.iter().rev() {
                tx.task_insert(task).await?;
            }
            Ok(())
        })
        .unwrap();
        tasks.push(w.task.clone());
        tasks.sort_by(|a, b| a.sort_order.total_cmp(&b.sort_order).then(a.created_at.cmp(&b.created_at)).then(a.id.cmp(&b.id)));
        for limit in [1, 7, 59, 1000] {
            assert_eq!(all_pages(h, &TaskFilter::all(w.workspace.id), limit).await, tasks, "pages of {limit}");
        }
        let list = w.list.id;
        assert_eq!(read_tx!(h.store, |read| read.task_max_sort(list).await).unwrap(), Some(1000.25));
        let gone = taskyard_domain::id::ListId::new(&*h.sources.ids);
        assert_eq!(read_tx!(h.store, |read| read.task_max_sort(gone).await).unwrap(), None);
    }

    /// Every part of the filter, alone and together.
    async fn task_filters(h) {
        let w = World::stored(h, "home", "TY").await;
        let other = h.sources.list(w.workspace.id);
        let copy = other.clone();
        write_tx!(h.store, |tx| tx.list_insert(&copy).await).unwrap();
        let mut child = h.sources.task(&other, ShortId::new("TY", 2));
        child.parent_id = Some(w.task.id);
        child.status = Status::Done;
        child.title = "Straße 100%".into();
        child.description = "ÄÖÜ a_b !x".into();
        let mut epic = h.sources.task(&other, ShortId::new("TY", 13));
        epic.kind = Kind::Epic;
        epic.status = Status::Draft;
        epic.title = "Plain".into();
        epic.description = "axb 100 percent".into();
        let mut archived = h.sources.task(&other, ShortId::new("TY", 4));
        archived.archived_at = Some(archived.created_at);
        for task in [&child, &epic, &archived] {
            let copy = task.clone();
            write_tx!(h.store, |tx| tx.task_insert(&copy).await).unwrap();
        }
        let all = TaskFilter::all(w.workspace.id);
        let query = |text: &str| TaskFilter { query: Some(text.into()), ..all.clone() };
        let cases: Vec<(TaskFilter, Vec<&Task>)> = vec![
            (all.clone(), vec![&w.task, &child, &epic]),
            (TaskFilter { include_archived: true, ..all.clone() }, vec![&w.task, &child, &epic, &archived]),
            (TaskFilter { list: Some(other.id), ..all.clone() }, vec![&child, &epic]),
            (TaskFilter { parent: Some(w.task.id), ..all.clone() }, vec![&child]),
            (TaskFilter { kind: Some(Kind::Epic), ..all.clone() }, vec![&epic]),
            (TaskFilter { status: vec![Status::Done, Status::Draft], ..all.clone() }, vec![&child, &epic]),
            (TaskFilter { status: vec![Status::Done], list: Some(other.id), kind: Some(Kind::Task), ..all.clone() }, vec![&child]),
            // Words in any letter case, umlauts included; wildcards are letters like others.
            (query("straße"), vec![&child]),
            (query("äöü STRAßE"), vec![&child]),
            (query("über"), vec![&w.task]),
            (query("100%"), vec![&w.task, &child]),
            (query("a_b"), vec![&child]),
            (query("!X"), vec![&child]),
            (query("ty-13"), vec![&epic]),
            (query("no-such-word"), vec![]),
            (query("  "), vec![&w.task, &child, &epic]),
        ];
        for (filter, expected) in cases {
            let expected: Vec<Task> = expected.into_iter().cloned().collect();
            assert_eq!(all_pages(h, &filter, 2).await, expected, "{filter:?}");
        }
        // A changed title is found by its new words only.
        child.title = "Renamed".into();
        child.description = String::new();
        let copy = child.clone();
        write_tx!(h.store, |tx| tx.task_update(&copy).await).unwrap();
        assert_eq!(all_pages(h, &query("straße"), 2).await, vec![]);
        assert_eq!(all_pages(h, &query("renamed"), 2).await, vec![child]);
        let counts = read_tx!(h.store, |read| read.task_counts_by_status(other.id).await).unwrap();
        assert_eq!(counts, vec![(Status::Done, 1), (Status::Draft, 1)]);
    }

    /// Runs, newest first.
    async fn runs_page_by_page(h) {
        let w = World::stored(h, "home", "TY").await;
        let at = h.sources.now();
        let mut runs: Vec<_> = (0..23)
            .map(|n| {
                let mut run = h.sources.run(&w.task, Some(&w.session));
                run.state = run::State::Ended;
                run.started_at = if n % 2 == 0 { at } else { h.sources.now() };
                run
            })
            .collect();
        let copies = runs.clone();
        write_tx!(h.store, |tx| {
            for run in &copies {
                tx.run_insert(run).await?;
            }
            Ok(())
        })
        .unwrap();
        runs.push(w.run.clone());
        runs.sort_by(|a, b| b.started_at.cmp(&a.started_at).then(b.id.cmp(&a.id)));
        let (workspace, task) = (w.workspace.id, w.task.id);
        for (workspace, task) in [(None, None), (Some(workspace), None), (None, Some(task)), (Some(workspace), Some(task))] {
            let mut found = Vec::new();
            loop {
                let after = found.last().map(RunCursor::from);
                let page = read_tx!(h.store, |read| read.run_page(workspace, task, after, 5).await).unwrap();
                let last = page.len() < 5;
                found.extend(page);
                if last {
                    break;
                }
            }
            assert_eq!(found, runs);
        }
    }
}
