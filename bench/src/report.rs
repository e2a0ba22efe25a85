//! What was measured: one line each, with what it is held against and whether it holds.

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// What a line is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A ratio of two figures of this run: the verdict counts.
    Ratio,
    /// A fact that is true or not whatever the machine: the verdict counts.
    Fact,
    /// A figure of this machine: shown and marked, never a failure.
    Figure,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Less is better: times, bytes.
    Less,
    /// More is better: throughput, tasks kept.
    More,
}

/// One measured thing.
#[derive(Debug, Clone)]
pub struct Line {
    /// The part of the run it belongs to.
    pub part: &'static str,
    /// What was measured.
    pub what: String,
    /// Of what.
    pub unit: &'static str,
    /// Taskyard's figure.
    pub ours: f64,
    /// What it is held against, where that was measured too.
    pub baseline: Option<f64>,
    /// The bar for ours ÷ baseline, or for ours where there is no baseline.
    pub bar: f64,
    /// Which way is better.
    pub better: Better,
    /// What the verdict counts for.
    pub kind: Kind,
    /// What else is worth knowing.
    pub note: String,
}

impl Line {
    /// Ours against a baseline of the same run: at most `bar` times it.
    pub fn ratio(part: &'static str, what: impl Into<String>, unit: &'static str, ours: f64, baseline: f64, bar: f64) -> Self {
        let (what, note) = (what.into(), String::new());
        Self { part, what, unit, ours, baseline: Some(baseline), bar, better: Better::Less, kind: Kind::Ratio, note }
    }

    /// A figure of this machine against a bar of its own.
    pub fn figure(part: &'static str, what: impl Into<String>, unit: &'static str, ours: f64, bar: f64) -> Self {
        let (what, note) = (what.into(), String::new());
        Self { part, what, unit, ours, baseline: None, bar, better: Better::Less, kind: Kind::Figure, note }
    }

    /// A count or size that doesn't depend on the machine, against its bar.
    pub fn fact(part: &'static str, what: impl Into<String>, unit: &'static str, ours: f64, bar: f64) -> Self {
        Self { kind: Kind::Fact, ..Self::figure(part, what, unit, ours, bar) }
    }

    /// The same where more is better.
    #[must_use]
    pub fn more_is_better(self) -> Self {
        Self { better: Better::More, ..self }
    }

    /// The same with a remark.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// What is held against the bar.
    fn measure(&self) -> f64 {
        self.baseline.map_or(self.ours, |baseline| self.ours / baseline.max(1e-9))
    }

    /// Whether the bar holds.
    pub fn holds(&self) -> bool {
        match self.better {
            Better::Less => self.measure() <= self.bar,
            Better::More => self.measure() >= self.bar,
        }
    }

    /// Whether the run has failed by this line.
    pub fn fails(&self) -> bool {
        self.kind != Kind::Figure && !self.holds()
    }

    fn verdict(&self) -> &'static str {
        match (self.kind, self.holds()) {
            (Kind::Figure, true) => "ok *",
            (Kind::Figure, false) => "MISSED *",
            (_, true) => "ok",
            (_, false) => "MISSED",
        }
    }

    fn cells(&self) -> [String; 7] {
        let sign = if self.better == Better::Less { "≤" } else { "≥" };
        let times = if self.baseline.is_some() { "×" } else { self.unit };
        [
            self.what.clone(),
            amount(self.ours, self.unit),
            self.baseline.map_or_else(|| "–".into(), |baseline| amount(baseline, self.unit)),
            self.baseline.map_or_else(|| "–".into(), |_| format!("{:.2}", self.measure())),
            amount(self.bar, times).replace(" ×", "×").replacen("", sign, 1),
            self.verdict().into(),
            self.note.clone(),
        ]
    }
}

fn amount(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        v if v >= 1000.0 || v.fract() == 0.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$} {unit}")
}

/// The table of all lines, in Markdown.
pub fn table(lines: &[Line]) -> String {
    let head = ["", "Taskyard", "beside it", "ratio", "bar", "", ""].map(str::to_owned);
    let rows: Vec<[String; 7]> = std::iter::once(head).chain(lines.iter().map(Line::cells)).collect();
    let width = |column: usize| rows.iter().map(|row| row.get(column).map_or(0, |cell| cell.chars().count())).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            widths.iter().for_each(|width| text.push_str(&format!("|{}", "-".repeat(width + 2))));
            text.push_str("|\n");
        }
    }
    text
}

/// Everything as JSON.
pub fn json(lines: &[Line]) -> Value {
    let line = |line: &Line| {
        json!({ "part": line.part, "what": line.what, "unit": line.unit, "ours": line.ours, "baseline": line.baseline,
                "ratio": line.baseline.map(|_| line.measure()), "bar": line.bar, "holds": line.holds(),
                "counts": line.kind != Kind::Figure, "note": line.note })
    };
    Value::Array(lines.iter().map(line).collect())
}

/// Writes the JSON file.
///
/// # Errors
/// When it can't be written.
pub fn write(path: &Path, lines: &[Line]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, format!("{:#}\n", json(lines)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_facts_count_and_figures_dont() {
        let ratio = Line::ratio("p", "x", "ms", 3.0, 2.0, 1.4);
        assert!(ratio.fails() && ratio.verdict() == "MISSED");
        let figure = Line::figure("p", "x", "ms", 3.0, 2.0);
        assert!(!figure.fails() && figure.verdict() == "MISSED *");
        assert!(Line::fact("p", "lost", "", 1.0, 0.0).fails());
        let more = Line::ratio("p", "x", "/s", 10.0, 5.0, 1.0).more_is_better();
        assert!(!more.fails());
        assert!(table(&[more]).lines().count() == 3);
    }
}
