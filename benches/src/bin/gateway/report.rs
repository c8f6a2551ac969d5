//! The tables and plots, made from the raw data alone: whoever has the journal can make them again.

mod svg;
mod table;

use std::fs;
use std::path::Path;

use crate::failure::{Doing as _, Failure, Result};
use crate::journal;
use crate::run::journal_path;
use crate::summary::summarise;

const BEGIN: &str = "<!-- gateway: made by `gateway report` -->";
const END: &str = "<!-- gateway: end -->";

/// Writes `table.md` and the plots beside the journal, and the tables into the readme between its marks.
pub(crate) fn write(out: &Path, readme: Option<&Path>) -> Result<String> {
    let (_, slots, _) = journal::read(&journal_path(out))?;
    if slots.is_empty() {
        return Err(Failure::Asked(format!("{} has no finished round", out.display())));
    }
    let summaries = summarise(&slots);
    let run = fs::read_to_string(out.join("run.md")).unwrap_or_default();
    let mut text = table::all(&summaries);
    for (file, plot) in svg::all(&summaries) {
        fs::write(out.join(&file), plot).doing(format!("writing {file}"))?;
        let title = file.trim_end_matches(".svg");
        text.push_str(&format!("\n![{title}](results/gateway/{file})\n"));
    }
    text.push_str(&format!("\n{run}"));
    fs::write(out.join("table.md"), &text).doing("writing table.md")?;
    if let Some(readme) = readme {
        let old = fs::read_to_string(readme).doing(format!("reading {}", readme.display()))?;
        let new = between_marks(&old, &text).ok_or_else(|| {
            Failure::Asked(format!("{} has no lines {BEGIN:?} and {END:?}", readme.display()))
        })?;
        fs::write(readme, new).doing(format!("writing {}", readme.display()))?;
    }
    Ok(text)
}

/// The readme with what is between its marks replaced.
fn between_marks(readme: &str, text: &str) -> Option<String> {
    let begin = readme.find(BEGIN)? + BEGIN.len();
    let end = begin + readme[begin..].find(END)?;
    Some(format!("{}\n\n{}\n\n{}", &readme[..begin], text.trim(), &readme[end..]))
}

#[cfg(test)]
mod tests;
