//! The book (`envoy/docs`) and the README files, as the tests read them: pages, blocks, headings, links.
//!
//! The info string of a fenced block is its language and, after commas, how the block is checked:
//! `yaml,config`, `sh,run`, `yaml,routes,file=routes.yaml`. The scenarios of `book` say what the marks mean.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::locations;

mod reference;

pub use reference::reference;

/// Pages outside the book whose blocks are checked like the book's.
const READMES: [&str; 2] = ["README.md", "envoy/deploy/README.md"];

/// A Markdown page of the repository.
pub struct Page {
    /// The path from the root of the repository.
    pub path: String,
    /// The text.
    pub text: String,
}

/// A fenced block of a page.
#[derive(Clone)]
pub struct Block {
    /// `PAGE:LINE` of the opening fence, for messages.
    pub place: String,
    /// The page it stands on.
    pub page: String,
    /// The first word of the info string.
    pub language: String,
    /// The words after it, each with its value: `run` has an empty one, `file=x` has `x`.
    pub marks: BTreeMap<String, String>,
    /// The lines between the fences, without the indent of the fence.
    pub text: String,
}

impl Block {
    /// Whether the block is in this language and has this mark.
    pub fn is(&self, language: &str, mark: &str) -> bool {
        self.language == language && self.marks.contains_key(mark)
    }
}

impl Page {
    /// Reads a page.
    ///
    /// # Panics
    /// When there is none.
    pub fn read(path: &str) -> Self {
        let file = locations::repository().join(path);
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { path: path.to_owned(), text }
    }

    /// The fenced blocks, in order.
    ///
    /// # Panics
    /// When a fence is never closed.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix("```") else { continue };
            let place = format!("{}:{}", self.path, number + 1);
            let indent = line.len() - line.trim_start().len();
            let mut text = String::new();
            loop {
                let (_, line) = lines.next().unwrap_or_else(|| panic!("{place}: a fence that is not closed"));
                if line.trim() == "```" {
                    break;
                }
                text.push_str(line.get(indent..).unwrap_or_default());
                text.push('\n');
            }
            let mut words = info.trim().split(',').map(str::trim);
            let language = words.next().unwrap_or_default().to_owned();
            let mark = |word: &str| {
                let (name, value) = word.split_once('=').unwrap_or((word, ""));
                (name.to_owned(), value.to_owned())
            };
            blocks.push(Block {
                place,
                page: self.path.clone(),
                language,
                marks: words.map(mark).collect(),
                text,
            });
        }
        blocks
    }

    /// The text with its fenced blocks blanked out: what is prose.
    pub fn prose(&self) -> String {
        let mut fenced = false;
        let keep = |line: &str| {
            let fence = line.trim_start().starts_with("```");
            let prose = if fenced || fence { "" } else { line }.to_owned();
            fenced ^= fence;
            prose
        };
        self.text.lines().map(keep).collect::<Vec<_>>().join("\n")
    }

    /// The anchors of the headings, as GitHub and mdBook make them.
    pub fn anchors(&self) -> Vec<String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let prose = self.prose();
        let headings = prose.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|heading| {
                let kept: String = heading
                    .trim_start_matches('#')
                    .trim()
                    .to_lowercase()
                    .chars()
                    .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
                    .map(|c| if c == ' ' { '-' } else { c })
                    .collect();
                let count = seen.entry(kept.clone()).or_default();
                *count += 1;
                if *count == 1 { kept } else { format!("{kept}-{}", *count - 1) }
            })
            .collect()
    }

    /// The targets of the links and images, each with its line.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut links = Vec::new();
        for (number, line) in self.prose().lines().enumerate() {
            // What stands in back-ticks is no link.
            let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            for rest in plain.split("](").skip(1) {
                if let Some(target) = rest.split(')').next() {
                    links.push((number + 1, target.to_owned()));
                }
            }
        }
        links
    }

    /// The folder of the page.
    pub fn folder(&self) -> PathBuf {
        let file = locations::repository().join(&self.path);
        file.parent().map_or_else(PathBuf::new, Path::to_path_buf)
    }
}

/// The chapters of the book, in the order of its table of contents.
///
/// # Panics
/// When there is no table of contents.
pub fn chapters() -> Vec<Page> {
    let summary = Page::read("envoy/docs/SUMMARY.md");
    summary.links().iter().map(|(_, target)| Page::read(&format!("envoy/docs/{target}"))).collect()
}

/// Every page whose blocks are checked: the book, and the README files that show how to install and to run.
pub fn pages() -> Vec<Page> {
    READMES.iter().map(|path| Page::read(path)).chain(chapters()).collect()
}
