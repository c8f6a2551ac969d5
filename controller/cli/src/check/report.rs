//! What was found: lines for people as they come, or one JSON text for programs at the end.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::terminal::{print, several};

/// The longest name of a step, and so where the texts begin.
const NAME: usize = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Ok,
    /// Worth knowing; a gateway would work.
    Warn,
    Fail,
    /// Not asked for, and not there.
    Skip,
}

impl Mark {
    fn as_str(self) -> &'static str {
        match self {
            Mark::Ok => "ok",
            Mark::Warn => "warn",
            Mark::Fail => "fail",
            Mark::Skip => "skip",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug)]
pub(super) struct Line {
    mark: Mark,
    name: String,
    text: String,
    hint: Option<String>,
    /// Particulars, one a line.
    details: Vec<String>,
    /// Numbers for programs.
    data: Value,
}

impl Line {
    fn new(mark: Mark, name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        Line { mark, name, text, hint: None, details: Vec::new(), data: Value::Null }
    }

    pub(super) fn ok(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Mark::Ok, name, text)
    }

    pub(super) fn warn(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Mark::Warn, name, text)
    }

    pub(super) fn fail(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Mark::Fail, name, text)
    }

    pub(super) fn skip(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(Mark::Skip, name, text)
    }

    /// What helps.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn details(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details = details.into_iter().collect();
        self
    }

    pub(super) fn data(mut self, data: Value) -> Self {
        self.data = data;
        self
    }

    fn to_text(&self) -> String {
        let mut text = format!("{:<6}{:<NAME$} {}\n", self.mark.as_str(), self.name, plain(&self.text));
        for detail in &self.details {
            let _ = writeln!(text, "{:indent$}- {}", "", plain(detail), indent = 6 + NAME + 1);
        }
        for (at, line) in self.hint.iter().flat_map(|hint| hint.lines()).enumerate() {
            let lead = if at == 0 { "hint: " } else { "      " };
            let _ = writeln!(text, "{:indent$}{lead}{}", "", plain(line), indent = 6 + NAME + 1);
        }
        text
    }
}

/// Much of what is shown was written by others: nothing of it moves a terminal's cursor.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

pub(super) struct Report {
    /// Whether lines are printed as they come.
    live: bool,
    lines: Vec<(String, Line)>,
    section: String,
    text: String,
}

impl Report {
    pub(super) fn new(live: bool) -> Self {
        Report { live, lines: Vec::new(), section: String::new(), text: String::new() }
    }

    /// What the lines from here on are about.
    pub(super) fn section(&mut self, title: &str) {
        title.clone_into(&mut self.section);
        let title = plain(title);
        let break_before = if self.lines.is_empty() { "" } else { "\n" };
        let break_behind = if title.is_empty() { "" } else { "\n" };
        self.show(&format!("{break_before}{title}{break_behind}"));
    }

    pub(super) fn add(&mut self, line: Line) {
        self.show(&line.to_text());
        self.lines.push((self.section.clone(), line));
    }

    fn show(&mut self, text: &str) {
        self.text.push_str(text);
        if self.live {
            print(text);
        }
    }

    fn count(&self, mark: Mark) -> usize {
        self.lines.iter().filter(|(_, line)| line.mark == mark).count()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.count(Mark::Fail) > 0
    }

    pub(super) fn exit_code(&self) -> u8 {
        u8::from(self.has_failed())
    }

    /// The last line.
    pub(super) fn finish(&mut self) {
        let text = match (self.count(Mark::Fail), self.count(Mark::Warn)) {
            (0, 0) => "All good.".to_owned(),
            (0, warnings) => format!("Good, with {}.", several(warnings, "warning")),
            (failures, 0) => format!("{}.", several(failures, "failure")),
            (failures, warnings) => {
                format!("{}, {}.", several(failures, "failure"), several(warnings, "warning"))
            }
        };
        self.show(&format!("\n{text}\n"));
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn to_json(&self) -> Value {
        let checks = self.lines.iter().map(|(section, line)| {
            let mut check = json!({ "mark": line.mark.as_str(), "name": line.name, "text": line.text });
            if !section.is_empty() {
                check["about"] = json!(section);
            }
            if let Some(hint) = &line.hint {
                check["hint"] = json!(hint);
            }
            if !line.details.is_empty() {
                check["details"] = json!(line.details);
            }
            if !line.data.is_null() {
                check["data"] = line.data.clone();
            }
            check
        });
        let checks: Vec<Value> = checks.collect();
        json!({ "ok": !self.has_failed(), "checks": checks })
    }
}
