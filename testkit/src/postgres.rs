//! Databases on the throw-away PostgreSQL that `scripts/test-postgres.sh` starts.
//!
//! The server's address comes in `TASKYARD_TEST_POSTGRES_URL`, because every test is a process of its own.
//! Without it the PostgreSQL half of a test is skipped, loudly; under `CI=true` that is a failure.

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable with the server's URL.
pub const URL_VARIABLE: &str = "TASKYARD_TEST_POSTGRES_URL";

/// Why there is no database.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server was given where one is a must.
    #[error("{URL_VARIABLE} is not set, and with CI=true nothing is skipped; run the tests by `scripts/test-postgres.sh run …`")]
    Missing,
    /// The server refused or didn't answer.
    #[error("the test server at {url}: {source}")]
    Server {
        /// Its URL.
        url: String,
        /// What the driver says.
        source: sqlx::Error,
    },
}

/// A fresh, empty database.
#[derive(Debug)]
pub struct TestDatabase {
    server: String,
    name: String,
    /// Its URL.
    pub url: String,
}

static MADE: AtomicU32 = AtomicU32::new(0);

impl TestDatabase {
    /// Makes a database; `None` where no server is at hand, after saying so on standard error.
    ///
    /// # Errors
    /// [`Error::Missing`] under `CI=true`; [`Error::Server`] when the server doesn't do its part.
    pub async fn make() -> Result<Option<Self>, Error> {
        let Some(server) = std::env::var(URL_VARIABLE).ok().filter(|url| !url.is_empty()) else {
            if std::env::var("CI").is_ok_and(|ci| ci == "true") {
                return Err(Error::Missing);
            }
            say_skipped();
            return Ok(None);
        };
        let name = format!("t{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let failed = |source| Error::Server { url: server.clone(), source };
        run(&server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.map_err(failed)?;
        run(&server, &format!("CREATE DATABASE {name}")).await.map_err(failed)?;
        let options = PgConnectOptions::from_str(&server).map_err(failed)?.database(&name);
        let url = options.to_url_lossy().to_string();
        Ok(Some(Self { server, name, url }))
    }

    /// Removes it. One that isn't removed goes with its server.
    ///
    /// # Errors
    /// [`Error::Server`] when the server doesn't do its part.
    pub async fn remove(self) -> Result<(), Error> {
        let done = run(&self.server, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).await;
        done.map_err(|source| Error::Server { url: self.server, source })
    }
}

async fn run(url: &str, sql: &str) -> Result<(), sqlx::Error> {
    let mut conn = PgConnectOptions::from_str(url)?.connect().await?;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await?;
    conn.close().await
}

#[allow(clippy::print_stderr)] // A skip that nobody sees would pass for a success.
fn say_skipped() {
    eprintln!(
        "SKIPPED: the PostgreSQL half of this test. {URL_VARIABLE} is not set. `scripts/test-postgres.sh run cargo nextest run` starts a \
         throw-away server; PostgreSQL itself comes with `apt-get install postgresql`."
    );
}
