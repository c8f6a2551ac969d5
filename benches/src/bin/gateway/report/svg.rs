//! Plots: a dot for the median, a bar for the quartiles, one row a contender.

use std::fmt::Write as _;

use sandgate_benches::stats::Spread;

use super::table::{contenders, find};
use crate::cell::{BASE, axes};
use crate::contender::LIMIT;
use crate::summary::Summary;

const LEFT: f64 = 230.0;
const WIDTH: f64 = 560.0;
const ROW: f64 = 18.0;
const TOP: f64 = 62.0;
/// Told apart also by who does not see red and green.
const COLOURS: [&str; 3] = ["#0072b2", "#e69f00", "#555555"];

/// The files and what is in them.
pub(super) fn all(summaries: &[Summary]) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    for axis in axes() {
        let cells: Vec<(&str, String)> =
            axis.cells.iter().map(|(value, cell)| (*value, cell.name())).collect();
        let series = series(summaries, &cells, &|summary| summary.share);
        if series.iter().filter(|one| !one.points.is_empty()).count() > 1 {
            let title = format!("Requests a second, as a share of plain Envoy’s: {}", axis.title);
            plots.push((
                format!("throughput-{}.svg", axis.file),
                Plot { title, one: Some(1.0), series }.draw(),
            ));
        }
    }
    let cell = BASE.name();
    let percentiles = ["p50", "p99", "p99.9"];
    let added: Vec<Series> = percentiles
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let cells = [(*name, cell.clone())];
            let figure =
                |summary: &Summary| summary.latency.filter(|_| summary.contender != LIMIT).map(|all| all[at]);
            series_of(summaries, &cells[0], &figure)
        })
        .collect();
    if added.iter().any(|one| !one.points.is_empty()) {
        let title = "Latency added to plain Envoy’s, µs, at a constant rate".to_owned();
        plots.push(("latency.svg".to_owned(), Plot { title, one: Some(0.0), series: added }.draw()));
    }
    plots
}

/// One value of the axis: a point for each contender that has one.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(String, Spread)>,
}

fn series(
    summaries: &[Summary],
    cells: &[(&str, String)],
    figure: &dyn Fn(&Summary) -> Option<Spread>,
) -> Vec<Series> {
    cells.iter().map(|cell| series_of(summaries, cell, figure)).collect()
}

fn series_of(
    summaries: &[Summary],
    (name, cell): &(&str, String),
    figure: &dyn Fn(&Summary) -> Option<Spread>,
) -> Series {
    let found = contenders(summaries, std::slice::from_ref(cell)).into_iter().filter(|&one| one != LIMIT);
    let points =
        found.filter_map(|one| Some((one.to_owned(), figure(find(summaries, cell, one)?)?))).collect();
    Series { name: (*name).to_owned(), points }
}

pub(super) struct Plot {
    pub(super) title: String,
    /// Where the limit is.
    pub(super) one: Option<f64>,
    pub(super) series: Vec<Series>,
}

impl Plot {
    pub(super) fn draw(&self) -> String {
        let names = self.names();
        let rows = names.len() * self.series.len() + names.len();
        let height = TOP + rows as f64 * ROW + 34.0;
        let scale = self.scale();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"10\" y=\"20\" font-size=\"14\">{}</text>\n",
            LEFT + WIDTH + 40.0,
            escaped(&self.title)
        );
        self.legend(&mut svg);
        let bottom = height - 26.0;
        for tick in scale.ticks() {
            let x = scale.x(tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#dddddd\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                scale.word(tick)
            );
        }
        if let Some(one) = self.one {
            let x = scale.x(one);
            let _ = writeln!(
                svg,
                "<line class=\"limit\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"black\"/>"
            );
        }
        let mut y = TOP + ROW / 2.0;
        for name in names {
            let middle = y + (self.series.len() as f64 - 1.0) * ROW / 2.0 + 4.0;
            let _ = writeln!(
                svg,
                "<text x=\"{:.0}\" y=\"{middle:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 10.0,
                escaped(name)
            );
            for (series, colour) in self.series.iter().zip(COLOURS) {
                if let Some((_, spread)) = series.points.iter().find(|(one, _)| one == name) {
                    mark(&mut svg, &scale, y, *spread, colour);
                }
                y += ROW;
            }
            y += ROW;
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.series.iter().flat_map(|series| &series.points) {
            if !names.contains(&&**name) {
                names.push(name);
            }
        }
        names
    }

    fn legend(&self, svg: &mut String) {
        let mut x = LEFT;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.0}\" y=\"34\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\
                 <text x=\"{:.0}\" y=\"43\">{}</text>",
                x + 15.0,
                escaped(&series.name)
            );
            x += 40.0 + 8.0 * series.name.chars().count() as f64;
        }
    }

    fn scale(&self) -> Scale {
        let ends = self.series.iter().flat_map(|series| &series.points).flat_map(|(_, s)| [s.low, s.high]);
        let (mut low, mut high) = (0.0f64, self.one.unwrap_or(0.0));
        for end in ends {
            low = low.min(end);
            high = high.max(end);
        }
        Scale::new(low, high)
    }
}

fn mark(svg: &mut String, scale: &Scale, y: f64, spread: Spread, colour: &str) {
    let [low, median, high] = [spread.low, spread.median, spread.high].map(|value| scale.x(value));
    let _ = writeln!(
        svg,
        "<line x1=\"{low:.1}\" y1=\"{y:.1}\" x2=\"{high:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"3\" stroke-opacity=\"0.5\"/>\
         <circle cx=\"{median:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\">{}</text>",
        high + 7.0,
        y + 3.5,
        scale.word(spread.median)
    );
}

/// Values to places, between round numbers.
pub(super) struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    pub(super) fn new(low: f64, high: f64) -> Self {
        let span = (high - low).max(1e-9);
        let power = 10f64.powf((span / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|one| one * power).find(|step| span / step <= 8.0);
        let step = step.unwrap_or(10.0 * power);
        Self { low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    pub(super) fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.low) / (self.high - self.low) * WIDTH
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "fewer than a dozen")]
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(|at| self.low + at as f64 * self.step)
    }

    fn word(&self, value: f64) -> String {
        let digits = if self.step >= 1.0 { 0 } else { 2 };
        // Not "-0".
        format!("{:.digits$}", value + 0.0)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
