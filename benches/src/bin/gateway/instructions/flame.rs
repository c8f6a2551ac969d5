//! A flame graph of the module's hooks: a bar for each function, as wide as it and all it called spent, on
//! top of who called it.
//!
//! callgrind knows who called whom and not by which way, so a function that several call shares what it
//! called among them as they share it. Envoy's callbacks are not opened: what is in them is Envoy's, and has
//! no names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::callgrind::Profile;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const TOP: f64 = 44.0;
/// Narrower bars are left out.
const LEAST: f64 = 2.0;
/// How wide a letter is.
const LETTER: f64 = 6.0;
const DEEPEST: usize = 24;
const CALLBACK: &str = "envoy_dynamic_module_callback_";

struct Bar {
    name: String,
    cost: f64,
    above: Vec<Bar>,
}

/// The picture, of all functions whose names begin with `roots`.
pub(super) fn draw(profile: &Profile, roots: &str, requests: usize) -> String {
    let bars: Vec<Bar> = profile
        .named(roots)
        .into_iter()
        .map(|root| bar(profile, root, profile.inclusive(root) as f64, 0))
        .collect();
    let all: f64 = bars.iter().map(|bar| bar.cost).sum();
    let depth = bars.iter().map(height).max().unwrap_or_default();
    let bottom = TOP + ROW * depth as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\">Sandgate’s hooks, instructions a request: {:.0}</text>\n",
        bottom + 8.0,
        all / requests as f64
    );
    let mut left = 0.0;
    for bar in &bars {
        left += lay(&mut svg, bar, left, bottom - ROW, WIDTH / all.max(1.0), requests);
    }
    svg.push_str("</svg>\n");
    svg
}

/// `cost` is the part of the function's cost that belongs here.
fn bar(profile: &Profile, function: u64, cost: f64, depth: usize) -> Bar {
    let name = short(profile.name_of(function));
    let share = cost / (profile.inclusive(function) as f64).max(1.0);
    let mut above: BTreeMap<u64, f64> = BTreeMap::new();
    if depth < DEEPEST && !name.starts_with(CALLBACK) {
        for (callee, part) in profile.called_by(function).filter(|(callee, _)| *callee != function) {
            *above.entry(callee).or_default() += part as f64 * share;
        }
    }
    let above = above.into_iter().map(|(callee, part)| bar(profile, callee, part, depth + 1)).collect();
    Bar { name, cost, above }
}

fn height(bar: &Bar) -> usize {
    1 + bar.above.iter().map(height).max().unwrap_or_default()
}

fn lay(svg: &mut String, bar: &Bar, left: f64, y: f64, scale: f64, requests: usize) -> f64 {
    let width = bar.cost * scale;
    if width < LEAST {
        return width;
    }
    let colour = if bar.name.starts_with(CALLBACK) { "#9ec9e2" } else { "#f2b872" };
    let name = bar.name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let cost = bar.cost / requests as f64;
    // Cut to what fits; the whole name is shown by pointing at the bar.
    let fits: String = bar
        .name
        .trim_start_matches(CALLBACK)
        .chars()
        .zip(1u32..)
        .take_while(|(_, number)| f64::from(*number) * LETTER <= width - LETTER)
        .map(|(letter, _)| letter)
        .collect();
    let fits = fits.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<g><title>{name}: {cost:.0}</title><rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\" \
         stroke=\"white\"/><text x=\"{:.1}\" y=\"{:.1}\">{fits}</text></g>",
        width,
        ROW - 1.0,
        left + 3.0,
        y + 12.0
    );
    let mut at = left;
    for above in &bar.above {
        at += lay(svg, above, at, y - ROW, scale, requests);
    }
    width
}

/// Without the paths of generic arguments, which are long and say little.
fn short(name: &str) -> String {
    let mut short = String::new();
    let mut depth = 0_usize;
    // `<Type as Trait>::method` begins with a bracket that is part of the name.
    let inner = name.strip_prefix('<').and_then(|rest| rest.split_once(" as "));
    let name = match inner {
        Some((kind, rest)) => match rest.rsplit_once(">::") {
            Some((_, method)) => format!("{kind}::{method}"),
            None => name.to_owned(),
        },
        None => name.to_owned(),
    };
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => short.push(letter),
            _ => {}
        }
    }
    short.trim_start_matches("::").replace("::::", "::")
}

#[cfg(test)]
mod tests {
    use super::super::callgrind::tests::DUMP;
    use super::*;

    #[test]
    fn bars_stand_on_their_callers_and_are_as_wide_as_what_they_cost() {
        let profile = Profile::parse(DUMP).expect("a dump");
        let svg = draw(&profile, "hook_", 1);
        for part in ["hook_one: 50", "decide: 40", "memcpy: 15", "hook_two: 1"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        let width = |name: &str| -> f64 {
            let bar = svg.lines().find(|line| line.contains(&format!("<title>{name}:"))).expect("a bar");
            let (_, rest) = bar.split_once("width=\"").expect("a width");
            rest.split('"').next().expect("a number").parse().expect("a number")
        };
        assert!((width("decide") / width("hook_one") - 0.8).abs() < 0.01);
    }

    #[test]
    fn names_are_shown_without_their_generics() {
        assert_eq!(
            short("<sandgate::http::Filter as sdk::HttpFilter<EHF>>::on_request_headers"),
            "sandgate::http::Filter::on_request_headers"
        );
        assert_eq!(short("core::cell::once::OnceCell<T>::try_init"), "core::cell::once::OnceCell::try_init");
        assert_eq!(short("memcpy"), "memcpy");
    }
}
