//! What the user does with the target branch and its checkout while Taskyard merges into it.

use crate::dice::Dice;
use crate::stage::{Project, SHARED, Stage, TARGET};
use std::time::{Duration, Instant};

/// How long the user tries to do something while git is busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// Something that the user does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Commits on the target.
    Commit,
    /// Throws everything on the target away.
    Back,
    /// Has another branch checked out for a while.
    Elsewhere,
    /// Has the file that agents change edited for a while.
    Edit,
}

impl Move {
    /// Any of them; throwing everything away is rare.
    pub fn any(dice: &mut Dice) -> Self {
        match dice.below(10) {
            0..5 => Self::Commit,
            5..7 => Self::Elsewhere,
            7..9 => Self::Edit,
            _ => Self::Back,
        }
    }
}

/// Does it in one of the repositories.
///
/// # Errors
/// When something that the user may do at any time can't be done.
pub async fn perform(stage: &Stage, dice: &mut Dice, what: Move) -> Result<(), String> {
    let n = dice.below(stage.projects.len());
    let project = &stage.projects[n];
    let pause = dice.millis(50, 600);
    match what {
        Move::Commit => commit(stage, n, project, dice.next()).await,
        Move::Back => {
            stage.ledger.open().repositories.entry(n).or_default().moved_back = true;
            insist(stage, project, &["reset", "-q", "--keep", &project.start]).await
        }
        Move::Elsewhere => {
            if stage.git(&project.path, &["checkout", "-q", "elsewhere"]).await.is_ok() {
                tokio::time::sleep(pause).await;
                insist(stage, project, &["checkout", "-q", TARGET]).await?;
            }
            Ok(())
        }
        Move::Edit => {
            let file = project.path.join(SHARED);
            let Ok(text) = std::fs::read_to_string(&file) else { return Ok(()) };
            if std::fs::write(&file, format!("edited by the user\n{text}")).is_ok() {
                tokio::time::sleep(pause).await;
                insist(stage, project, &["checkout", "-q", "--", SHARED]).await?;
            }
            Ok(())
        }
    }
}

async fn commit(stage: &Stage, n: usize, project: &Project, number: u64) -> Result<(), String> {
    let name = format!("by-the-user-{number:x}.txt");
    let file = project.path.join(&name);
    if std::fs::write(&file, format!("{number}\n")).is_err() {
        return Ok(());
    }
    let work = async {
        insist(stage, project, &["add", &name]).await?;
        insist(stage, project, &["commit", "-q", "-m", "By the user", "--", &name]).await?;
        insist_text(stage, project, &["log", "-1", "--format=%H", "--", &name]).await
    };
    match work.await {
        Ok(commit) => {
            stage.ledger.open().repositories.entry(n).or_default().commits.push(commit);
            Ok(())
        }
        Err(error) => {
            // A hook or a full disk said no for long: the user gives up and tidies up.
            let _ = std::fs::remove_file(&file);
            insist(stage, project, &["rm", "-q", "-f", "--cached", "--ignore-unmatch", &name]).await?;
            tracing(stage, &error);
            Ok(())
        }
    }
}

fn tracing(stage: &Stage, error: &str) {
    stage.ledger.count(&format!("user gave up: {}", error.lines().next().unwrap_or_default().chars().take(60).collect::<String>()));
}

async fn insist(stage: &Stage, project: &Project, args: &[&str]) -> Result<(), String> {
    insist_text(stage, project, args).await.map(|_| ())
}

/// Tries again while git is busy with Taskyard's work.
async fn insist_text(stage: &Stage, project: &Project, args: &[&str]) -> Result<String, String> {
    let began = Instant::now();
    loop {
        match stage.git(&project.path, args).await {
            Ok(text) => return Ok(text),
            Err(error) if began.elapsed() > PATIENCE => {
                return Err(format!("the user can't do this for {} s: {error}", PATIENCE.as_secs()));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(30)).await,
        }
    }
}
