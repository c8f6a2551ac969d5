//! Words for the person at the terminal. A terminal or pipe that is gone must not end a gateway, so nothing
//! here fails.
//!
//! Colours are for terminals: standard error is asked whether it is one, and `NO_COLOR`, `CLICOLOR_FORCE` and
//! `TERM` are obeyed. Standard output has what a program may read, and is never coloured.

use std::io::Write as _;

use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Style, Styles};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const HEADING: Style = AnsiColor::Green.on_default().bold();
const COMMAND: Style = AnsiColor::Cyan.on_default().bold();

/// The colours of help and of what is wrong with a command line.
pub(crate) const STYLES: Styles = Styles::styled()
    .header(HEADING)
    .usage(HEADING)
    .literal(COMMAND)
    .placeholder(AnsiColor::Cyan.on_default())
    .error(ERROR)
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// To standard output, as it is.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// Lines to standard error. One that begins with `warning:` looks like one.
pub(crate) fn note(text: &str) {
    match text.strip_prefix("warning:") {
        Some(rest) => write_line(format_args!("sandgate: {WARNING}warning:{WARNING:#}{rest}")),
        None => write_line(format_args!("sandgate: {text}")),
    }
}

/// Why the command ends.
pub(crate) fn error(text: &str) {
    write_line(format_args!("{ERROR}error:{ERROR:#} {text}"));
}

/// A line to standard error that begins with the place it is about.
pub(crate) fn complaint(text: &str) {
    write_line(format_args!("{text}"));
}

fn write_line(line: std::fmt::Arguments<'_>) {
    // In one piece: Envoy writes to the same place.
    let _ = anstream::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The end of a help text: headings and commands stand out. Prose is one line a paragraph, which is wrapped
/// to the terminal.
pub(crate) fn lesson(text: &str) -> StyledStr {
    let mut styled = String::with_capacity(text.len() * 2);
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let command = body.trim_start();
        let style = match () {
            () if !body.starts_with(' ') && body.ends_with(':') => HEADING,
            () if ["sandgate ", "curl ", "kubectl "].iter().any(|name| command.starts_with(name)) => COMMAND,
            () => Style::new(),
        };
        let indent = &body[..body.len() - command.len()];
        styled.push_str(&format!("{indent}{style}{command}{style:#}{end}"));
    }
    styled.into()
}

/// A number and its word.
pub(crate) fn several(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
mod tests {
    use super::lesson;

    #[test]
    fn a_lesson_colours_headings_and_commands_and_changes_no_word() {
        let text = "Examples:\n  sandgate run --demo\n      Two demo sandboxes.\n\nProse: more of it.";
        let styled = lesson(text);
        assert_eq!(styled.to_string(), text);
        let raw = styled.ansi().to_string();
        assert_eq!(raw.matches("\u{1b}[0m").count(), 2, "{raw:?}");
    }
}
