//! Lines over time, as an SVG.

use std::fmt::Write as _;

/// What was seen of one thing, by seconds.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 50.0;
/// Told apart also by who does not see red and green.
const COLOURS: [&str; 4] = ["#0072b2", "#e69f00", "#009e73", "#555555"];

/// The plot: time from the left, counts from below.
pub(crate) fn draw(title: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let last = points().map(|(time, _)| *time).fold(1.0, f64::max);
    let most = points().map(|(_, value)| *value).fold(1.0, f64::max);
    let (inner_width, inner_height) = (WIDTH - 2.0 * MARGIN, HEIGHT - 2.0 * MARGIN);
    let x = |time: f64| MARGIN + time / last * inner_width;
    let y = |value: f64| HEIGHT - MARGIN - value / most * inner_height;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\" font-size=\"14\">{title}</text>\n"
    );
    // Writing to a string does not fail.
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let (time, value) = (share * last, share * most);
        let _ = writeln!(
            svg,
            "<line x1=\"{MARGIN}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{time:.0} s</text>",
            WIDTH - MARGIN,
            y(value),
            y(value),
            MARGIN - 6.0,
            y(value) + 4.0,
            x(time),
            HEIGHT - MARGIN + 18.0,
        );
    }
    for (at, line) in lines.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let path: Vec<String> =
            line.points.iter().map(|(time, value)| format!("{:.1},{:.1}", x(*time), y(*value))).collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n\
             <text x=\"{:.1}\" y=\"38\" fill=\"{colour}\">{}</text>",
            path.join(" "),
            MARGIN + at as f64 * 90.0,
            line.name
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_value_is_at_the_top_and_the_last_time_at_the_right() {
        let line = Line { name: "wanted", points: vec![(0.0, 0.0), (10.0, 800.0)] };
        let svg = draw("t", &[line]);
        assert!(svg.contains("points=\"50.0,310.0 810.0,50.0\""), "{svg}");
        assert!(svg.contains(">800</text>") && svg.contains(">10 s</text>"));
    }
}
