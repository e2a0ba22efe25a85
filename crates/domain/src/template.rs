//! Prompts with `{{field}}` placeholders: put in literally, once, nothing evaluated.

/// `text` with every `{{name}}` that `value` knows replaced by its value. Spaces inside the braces don't count. What
/// `value` doesn't know stays as typed, and what was put in is never looked at again.
pub fn fill<'a>(text: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(end) = rest.find("}}") {
        let (part, behind) = rest.split_at(end + 2);
        // The braces that belong together are the innermost ones.
        let placeholder = part[..end].rfind("{{").map(|start| (start, part[start + 2..end].trim()));
        match placeholder.and_then(|(start, name)| value(name).map(|value| (start, value))) {
            Some((start, value)) => {
                filled.push_str(&part[..start]);
                filled.push_str(value);
            }
            None => filled.push_str(part),
        }
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn known(name: &str) -> Option<&'static str> {
        match name {
            "title" => Some("Fix {{description}}"),
            "description" => Some("secret"),
            _ => None,
        }
    }

    #[test]
    fn placeholders_are_filled_literally_and_once() {
        for (text, expected) in [
            ("Do {{title}}.", "Do Fix {{description}}."),
            ("{{ title }}", "Fix {{description}}"),
            ("{{unknown}} {{Title}}", "{{unknown}} {{Title}}"),
            ("{{title", "{{title"),
            ("{{ a {{description}} b }}", "{{ a secret b }}"),
            ("{{{description}}}", "{secret}"),
            ("{{description}}{{description}}", "secretsecret"),
            ("${{description}} `{{1+1}}`", "$secret `{{1+1}}`"),
            ("{{}} }} {", "{{}} }} {"),
            ("", ""),
        ] {
            assert_eq!(fill(text, known), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_without_known_names_stays_as_it_is(text in "[{} aé\n]{0,40}") {
            prop_assert_eq!(fill(&text, |_| None), text);
        }
    }
}
