//! URLs of remotes: which name the same repository, and how to show one without what is secret in it.
//!
//! Only words; nothing is asked of the network.

/// Schemes with the ports that they use when none is said.
const PORTS: &[(&str, &str)] = &[("https", "443"), ("http", "80"), ("ssh", "22"), ("git", "9418")];

/// A URL split up.
struct Parts<'a> {
    scheme: String,
    user: Option<&'a str>,
    host: &'a str,
    path: &'a str,
}

/// The parts of `https://…`, `ssh://…` and the like, and of `git@host:path`; `None` for anything else, a path.
fn parts(url: &str) -> Option<Parts<'_>> {
    let (scheme, authority, path) = match url.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            (scheme.to_ascii_lowercase(), authority, path)
        }
        None => {
            let (authority, path) = url.split_once(':').filter(|(authority, _)| !authority.contains('/'))?;
            ("ssh".to_owned(), authority, path)
        }
    };
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    Some(Parts { scheme, user, host, path })
}

/// What tells two remotes apart, whichever way they are reached: `https://host/a/b.git`, `ssh://git@host/a/b` and
/// `git@host:a/b/` are one, and so is the page of one of its pull requests. A folder is itself.
pub(crate) fn plain(url: &str) -> String {
    let url = url.trim();
    let Some(parts) = parts(url) else { return trimmed(url).to_owned() };
    if parts.scheme == "file" {
        return format!("/{}", trimmed(parts.path));
    }
    let path = parts.path.split(['?', '#']).next().unwrap_or_default();
    let path = trimmed(path);
    let path = match path.rsplit_once("/pull/") {
        Some((path, number)) if number.bytes().all(|b| b.is_ascii_digit()) => trimmed(path),
        _ => path,
    };
    let host = parts.host.to_ascii_lowercase();
    let usual = PORTS.iter().find(|(scheme, _)| *scheme == parts.scheme).map_or("", |(_, port)| *port);
    let host = host.strip_suffix(usual).and_then(|host| host.strip_suffix(':')).unwrap_or(&host);
    format!("{host}/{}", path.trim_start_matches('/'))
}

fn trimmed(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.strip_suffix(".git").map_or(path, |path| path.trim_end_matches('/'))
}

/// The URL without passwords and tokens: of a user only the name that ssh needs is kept.
pub(crate) fn without_secrets(url: &str) -> String {
    let url = url.trim();
    let Some((_, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some(Parts { scheme, user, host, .. }) = parts(url) else { return url.to_owned() };
    let name = user.filter(|_| scheme == "ssh").map(|user| user.split(':').next().unwrap_or_default()).filter(|name| !name.is_empty());
    let path = rest.split_once('/').map(|(_, path)| path);
    let path = path.map(|path| if scheme == "file" { path } else { path.split(['?', '#']).next().unwrap_or_default() });
    let (at, slash) = (name.map_or(String::new(), |name| format!("{name}@")), path.map_or(String::new(), |path| format!("/{path}")));
    format!("{scheme}://{at}{host}{slash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_a_repository_is_the_same() {
        for url in [
            "https://example.org/a/b",
            "https://me:secret@Example.org/a/b.git/",
            "http://example.org:80/a/b.git",
            "https://example.org:443/a/b/",
            "ssh://git@example.org/a/b.git",
            "ssh://git@example.org:22/a/b",
            "git@example.org:a/b.git",
            "example.org:/a/b",
            "git://example.org/a/b.git",
            "https://example.org/a/b/pull/17",
            " https://example.org/a/b?tab=readme ",
        ] {
            assert_eq!(plain(url), "example.org/a/b", "{url}");
        }
        for other in ["https://example.org/a/B", "https://example.org:8443/a/b", "https://example.org/a/b/pull/x", "/example.org/a/b"] {
            assert_ne!(plain(other), "example.org/a/b", "{other}");
        }
    }

    #[test]
    fn a_folder_is_itself() {
        for url in ["file:///srv/git/app.git", "file:///srv/git/app/", "file://localhost/srv/git/app", "/srv/git/app.git"] {
            assert_eq!(plain(url), "/srv/git/app", "{url}");
        }
    }

    #[test]
    fn secrets_are_not_kept() {
        assert_eq!(without_secrets("https://me:secret@example.org/a/b.git?token=x"), "https://example.org/a/b.git");
        assert_eq!(without_secrets("https://token@example.org"), "https://example.org");
        assert_eq!(without_secrets("ssh://git:secret@example.org:2222/a"), "ssh://git@example.org:2222/a");
        assert_eq!(without_secrets("git@example.org:a/b.git"), "git@example.org:a/b.git");
        assert_eq!(without_secrets("file:///srv/a#b"), "file:///srv/a#b");
    }
}
