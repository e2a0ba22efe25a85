//! Two programs of the same kind, measured beside Taskyard: same run, same disk, same driver, fresh folders.
//!
//! They run only where nothing but the loopback interface exists: one of them listens on every interface it finds.

mod kanban;
mod kandev;
mod ours;
mod subject;

use crate::place::Place;
use crate::process::environment;
use crate::report::Line;
use crate::stats::{Samples, median, ms, rate};
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use subject::{Catalogue, Client, Subject};

const PART: &str = "peers";
const CLIENTS: usize = 16;
/// Tasks that each has when its list is read.
const LISTED: usize = 1_000;
/// Starts of each, of which the middle one counts.
const STARTS: usize = 5;
/// How long tasks are made before the kill.
const BEFORE_KILL: Duration = Duration::from_millis(1_500);

/// What was measured of one of them.
#[derive(Default)]
struct Figures {
    start: Vec<f64>,
    idle: f64,
    catalogue: Catalogue,
    one: Samples,
    sixteen: Vec<f64>,
    list: Samples,
    list_bytes: f64,
    acknowledged: usize,
    kept: usize,
}

/// The lines of this part.
///
/// # Errors
/// When one of them doesn't work as it should.
pub async fn lines(place: &Place) -> Result<Vec<Line>> {
    let peers = place.peers.as_ref().context("the peers aren't installed: scripts/install-peers.sh does it, and --peers says where")?;
    ensure!(only_loopback()?, "there is a network besides the loopback interface: `make bench` starts this in a namespace without");
    let mut subjects = vec![ours::subject(place)?, kandev::subject(place, peers).await?, kanban::subject(place, peers).await?];
    let mut figures: Vec<Figures> = subjects.iter().map(|_| Figures::default()).collect();
    for _ in 0..STARTS {
        for (subject, figures) in subjects.iter_mut().zip(&mut figures) {
            figures.start.push(ms(subject.start().await?));
            subject.stop().await?;
        }
    }
    let mut clients = Vec::new();
    for (subject, figures) in subjects.iter_mut().zip(&mut figures) {
        subject.start().await?;
        let mut client = subject.client().await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        figures.idle = subject.memory();
        figures.catalogue = client.catalogue().await?;
        subject.set_up(&mut client).await?;
        clients.push(client);
    }
    let number = AtomicUsize::new(0);
    one(place, &subjects, &mut clients, &mut figures, &number).await?;
    sixteen(place, &mut subjects, &mut figures, &number).await?;
    lists(place, &subjects, &mut clients, &mut figures, &number).await?;
    for (index, subject) in subjects.iter_mut().enumerate() {
        drop(clients.remove(0));
        let figures = figures.get_mut(index).context("no figures")?;
        (figures.acknowledged, figures.kept) = kept(subject, &number).await?;
        subject.stop().await?;
    }
    Ok(compared(&subjects, &figures))
}

/// A git repository for one of them to know, in `repos/demo`.
async fn demo(folder: &Path) -> Result<()> {
    let repo = folder.join("repos/demo");
    std::fs::create_dir_all(&repo)?;
    let env = environment(folder)?;
    for args in ["init -q -b main", "commit -q --allow-empty -m First"] {
        let mut git = tokio::process::Command::new("git");
        let status = git.args(args.split(' ')).current_dir(&repo).env_clear().envs(env.iter().cloned()).status().await?;
        ensure!(status.success(), "git {args} failed");
    }
    Ok(())
}

/// Whether there is no network interface but `lo`.
fn only_loopback() -> Result<bool> {
    let table = std::fs::read_to_string("/proc/net/dev")?;
    Ok(table.lines().skip(2).all(|line| line.trim_start().starts_with("lo:")))
}

async fn one(place: &Place, subjects: &[Subject], clients: &mut [Client], figures: &mut [Figures], number: &AtomicUsize) -> Result<()> {
    for round in 0..place.count(10) + 1 {
        for ((subject, client), figures) in subjects.iter().zip(clients.iter_mut()).zip(figures.iter_mut()) {
            for _ in 0..30 {
                let took = client.create(subject, number.fetch_add(1, Ordering::Relaxed)).await?;
                if round > 0 {
                    figures.one.push(took);
                }
            }
        }
    }
    Ok(())
}

async fn sixteen(place: &Place, subjects: &mut [Subject], figures: &mut [Figures], number: &AtomicUsize) -> Result<()> {
    for _ in 0..3 {
        for (subject, figures) in subjects.iter_mut().zip(figures.iter_mut()) {
            let each = place.count(160) / CLIENTS;
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                clients.push(subject.client().await?);
            }
            let (begun, subject) = (Instant::now(), &*subject);
            let work = clients.iter_mut().map(|client| async move {
                for _ in 0..each {
                    client.create(subject, number.fetch_add(1, Ordering::Relaxed)).await?;
                }
                anyhow::Ok(())
            });
            futures::future::try_join_all(work).await?;
            figures.sixteen.push(rate(each * CLIENTS, begun.elapsed()));
        }
    }
    Ok(())
}

async fn lists(place: &Place, subjects: &[Subject], clients: &mut [Client], figures: &mut [Figures], number: &AtomicUsize) -> Result<()> {
    for (subject, client) in subjects.iter().zip(clients.iter_mut()) {
        // Each made as many so far; the rest up to a thousand.
        let made = 30 * (place.count(10) + 1) + 3 * (place.count(160) / CLIENTS) * CLIENTS;
        for _ in made..place.count(LISTED) {
            client.create(subject, number.fetch_add(1, Ordering::Relaxed)).await?;
        }
    }
    for _ in 0..place.count(10) {
        for ((subject, client), figures) in subjects.iter().zip(clients.iter_mut()).zip(figures.iter_mut()) {
            for _ in 0..3 {
                let answer = client.list(subject).await?;
                figures.list.push(answer.took);
                figures.list_bytes = f64::from(u32::try_from(answer.body.len())?);
            }
        }
    }
    Ok(())
}

/// Kills it while tasks are made: how many it had acknowledged, and how many of those are there after the next start.
async fn kept(subject: &mut Subject, number: &AtomicUsize) -> Result<(usize, usize)> {
    let acknowledged = std::sync::Mutex::new(BTreeSet::new());
    let over = AtomicBool::new(false);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(subject.client().await?);
    }
    let mut process = subject.take_process().context("it isn't running")?;
    {
        let (shared, told, over) = (&*subject, &acknowledged, &over);
        let work = clients.iter_mut().map(|client| async move {
            while !over.load(Ordering::Relaxed) {
                let number = number.fetch_add(1, Ordering::Relaxed);
                // After the kill calls fail; what was answered before it counts.
                let Ok(Ok(_)) = tokio::time::timeout(Duration::from_secs(2), client.create(shared, number)).await else { return };
                told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(number);
            }
        });
        let kill = async {
            tokio::time::sleep(BEFORE_KILL).await;
            process.alive()?;
            process.kill().await?;
            over.store(true, Ordering::Relaxed);
            anyhow::Ok(())
        };
        let (_, killed) = futures::future::join(futures::future::join_all(work), kill).await;
        killed?;
    }
    drop(clients);
    subject.end_front();
    subject.start().await?;
    let mut client = subject.client().await?;
    let found = client.titles(subject).await?;
    let acknowledged = acknowledged.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    ensure!(acknowledged.len() > 10, "{} made next to nothing before it was killed", subject.name);
    Ok((acknowledged.len(), acknowledged.intersection(&found).count()))
}

fn whole(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn compared(subjects: &[Subject], figures: &[Figures]) -> Vec<Line> {
    let mut lines = Vec::new();
    let Some(ours) = figures.first() else { return lines };
    for (subject, peer) in subjects.iter().zip(figures).skip(1) {
        let name = subject.name;
        let line = |what: &str, unit, ours: f64, peer: f64| Line::ratio(PART, format!("{what}: against {name}"), unit, ours, peer, 1.0);
        let share =
            |figures: &Figures| 100.0 * rate(figures.kept, Duration::from_secs(1)) / rate(figures.acknowledged, Duration::from_secs(1));
        lines.extend([
            line("create, 1 client: p50", "ms", ours.one.p50(), peer.one.p50()),
            line("create, 16 in flight", "/s", median(ours.sixteen.clone()), median(peer.sixteen.clone())).more_is_better(),
            line("default list of 1,000: p50", "ms", ours.list.p50(), peer.list.p50()),
            line("default list of 1,000: answer", "bytes", ours.list_bytes, peer.list_bytes),
            line("catalogue, as a model reads it", "bytes", whole(ours.catalogue.read), whole(peer.catalogue.read)).note(format!(
                "with result schemas and hints {} and {}; {} and {} tools",
                ours.catalogue.listed, peer.catalogue.listed, ours.catalogue.tools, peer.catalogue.tools
            )),
            line("start to ready", "ms", median(ours.start.clone()), median(peer.start.clone())),
            line("idle memory (PSS)", "MB", ours.idle, peer.idle),
            line("kept of those acknowledged before kill -9", "%", share(ours), share(peer))
                .more_is_better()
                .note(format!("{} of {}, {} of {}", ours.kept, ours.acknowledged, peer.kept, peer.acknowledged)),
        ]);
    }
    lines
}
