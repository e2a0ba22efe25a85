//! The command inside Codex's shell wrapper: `/bin/bash -lc 'git status'` is `git status`.

/// What `line` has its shell do; `line` itself when it isn't a wrapped command.
pub(super) fn unwrapped(line: &str) -> String {
    inner(line).unwrap_or_else(|| line.to_owned())
}

fn inner(line: &str) -> Option<String> {
    let (program, rest) = line.split_once(' ')?;
    let (flags, script) = rest.split_once(' ')?;
    let is_shell = matches!(program.rsplit('/').next()?, "sh" | "bash" | "zsh");
    (is_shell && flags.starts_with('-') && flags.ends_with('c')).then(|| one_word(script)).flatten()
}

/// `text` as a shell reads it, when it is exactly one word.
fn one_word(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\'' => loop {
                match chars.next()? {
                    '\'' => break,
                    char => out.push(char),
                }
            },
            '"' => loop {
                match chars.next()? {
                    '"' => break,
                    '\\' => match chars.next()? {
                        char @ ('"' | '\\' | '$' | '`') => out.push(char),
                        char => out.extend(['\\', char]),
                    },
                    char => out.push(char),
                }
            },
            '\\' => out.push(chars.next()?),
            char if char.is_whitespace() || ";|&<>()$`".contains(char) => return None,
            char => out.push(char),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrappers_are_taken_off() {
        for (line, command) in [
            ("/bin/bash -lc 'echo a; sleep 1'", "echo a; sleep 1"),
            (r#"/bin/bash -lc "git commit -m 'x' && echo \"\$HOME\"""#, r#"git commit -m 'x' && echo "$HOME""#),
            ("sh -c ls", "ls"),
            (r#"bash -lc 'it'"'"'s'"#, "it's"),
            ("bash -lc 'a' b", "bash -lc 'a' b"),
            ("bash -lc 'a'; rm x", "bash -lc 'a'; rm x"),
            ("bash -lc 'open", "bash -lc 'open"),
            ("git status", "git status"),
            ("ls", "ls"),
        ] {
            assert_eq!(unwrapped(line), command);
        }
    }
}
