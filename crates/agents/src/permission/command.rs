//! Shell commands, read just well enough to be careful: what isn't understood isn't allowed.

use super::inside;
use std::path::Path;

/// Folders of programs and harmless devices that a command may name.
const SYSTEM: &[&str] = &["/usr/bin/", "/bin/", "/usr/local/bin/", "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// Whether every simple command of `command` fits `pattern` (`git *`, `cargo test:*`). Substitutions,
/// redirections and background jobs fit nothing but `*`.
pub(super) fn fits(pattern: &str, command: &str) -> bool {
    if pattern == "*" || pattern == ":*" {
        return true;
    }
    if command.contains(['`', '<', '>']) || command.contains("$(") || command.contains("${") {
        return false;
    }
    let simple = command.replace("&&", "\n").replace("||", "\n").replace([';', '|'], "\n");
    let mut parts = simple.split('\n').map(str::trim).filter(|part| !part.is_empty()).peekable();
    let fits_one = |part: &str| !part.contains('&') && one_fits(pattern, part);
    parts.peek().is_some() && parts.all(fits_one)
}

fn one_fits(pattern: &str, part: &str) -> bool {
    match pattern.strip_suffix(":*") {
        Some(prefix) => part.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
        None => glob(pattern, part),
    }
}

/// Whether `text` fits `pattern`, in which `*` stands for anything.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let Some(last) = pattern.rsplit_once('*').map(|(_, last)| last) else { return rest.is_empty() };
    let middle = parts.clone().count().saturating_sub(1);
    for part in parts.take(middle) {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether all paths that `command` names lie in `worktree` (or are programs).
pub(super) fn stays_inside(command: &str, worktree: &Path) -> bool {
    let separators = |c: char| c.is_whitespace() || "'\"();|&<>=,`{}[]".contains(c);
    !command.contains("$HOME") && !command.contains("${") && command.split(separators).all(|word| word_stays(word, worktree))
}

fn word_stays(word: &str, worktree: &Path) -> bool {
    if word.starts_with('~') {
        return false;
    }
    if word.contains("://") || SYSTEM.iter().any(|system| word.starts_with(system)) && !word.contains("..") {
        return true;
    }
    // "-C/etc" names a path too.
    let flag = word.starts_with('-').then(|| word.find('/')).flatten();
    let path = flag.map_or(word, |at| &word[at..]);
    let absolute = path.starts_with('/');
    let climbs = path.split('/').any(|part| part == "..");
    let linked = path.contains('/') || worktree.join(path).is_symlink();
    // A lone ".." may be a range of something else, but "cd .." is the likelier reading.
    !(absolute || climbs || linked) || inside::relative(worktree, Path::new(path)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("", "", true),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
        }
    }
}
