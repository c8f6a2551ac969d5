//! The page for people: one file, no script, nothing loaded from elsewhere.

use std::fmt::Write;

use super::Body;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2024;--soft:#60646c;--line:#d9dce0;--page:#f6f7f8;--card:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#edeef0;--soft:#b0b4ba;--line:#363a3f;--page:#111113;--card:#18191b}}\
body{margin:0;min-height:100vh;display:grid;place-items:center;background:var(--page);color:var(--ink);\
font:1rem/1.5 system-ui,sans-serif}\
main{box-sizing:border-box;width:min(36rem,100% - 2rem);margin:1rem;padding:1.5rem;background:var(--card);\
border:1px solid var(--line);border-radius:.5rem}\
h1{margin:0 0 .5rem;font-size:1.375rem;line-height:1.25}p{margin:0 0 1.25rem}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem;margin:0;font-size:.875rem}\
dt{color:var(--soft)}dd{margin:0;font-family:ui-monospace,monospace;overflow-wrap:anywhere}";

pub(super) fn render(title: &str, body: &Body<'_>) -> String {
    let mut page = String::with_capacity(2048);
    let title = Escaped(title);
    // Writing to a string does not fail.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>{}</p>\n<dl>\n",
        Escaped(body.message)
    );
    let code = body.code.to_string();
    let facts = [
        ("Sandbox", body.sandbox),
        ("State", body.state),
        ("Status", Some(code.as_str())),
        ("Reason", Some(body.reason)),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", Escaped(value));
        }
    }
    page.push_str("</dl>\n</main>\n</body>\n</html>\n");
    page
}

/// Text as it may stand in an HTML element or a quoted attribute.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(
    /// The text as it is meant.
    pub &'a str,
);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}
