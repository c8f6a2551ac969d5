//! The types of the values that a query steps into.
//!
//! The library evaluates a query. This module evaluates each beginning of the query as well, and compares
//! the values found there with what the next segment needs.

use std::slice;

use jsonpath_rust::parser::model::{
    Comparable, Filter, FilterAtom, FnArg, JpQuery, Segment, Selector, SingularQuery, SingularQuerySegment,
    Test, TestFunction,
};
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

use crate::decode::{Segment as Place, path_text};
use crate::provider::Unreadable;

/// The segments of one query.
#[derive(Clone, Debug)]
pub(super) struct Steps(Vec<Step>);

#[derive(Clone, Debug)]
struct Step {
    /// The segments before this one.
    before: JpQuery,
    needs: Needs,
    is_singular: bool,
    /// What the segment's filters read of each element.
    filters: Vec<Steps>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Object,
    List,
    Either,
    Nothing,
}

/// A value that a query cannot step into.
pub(super) struct Misfit {
    /// A normalized path (RFC 9535, section 2.7) without its `$`.
    path: String,
    needs: Needs,
    found: &'static str,
}

impl Steps {
    pub(super) fn of(segments: &[Segment]) -> Result<Self, &'static str> {
        let step = |(at, segment)| Step::of(segment, &segments[..at]);
        segments.iter().enumerate().map(step).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the query may give more than one value.
    pub(super) fn have_branches(&self) -> bool {
        self.0.iter().any(|step| !step.is_singular)
    }

    pub(super) fn check(&self, value: &Value) -> Result<(), Misfit> {
        for step in &self.0 {
            let Ok(nodes) = js_path_process(&step.before, value) else {
                return Err(Misfit { path: String::new(), needs: step.needs, found: "something else" });
            };
            for node in nodes {
                let path = node.path.strip_prefix('$').unwrap_or_default();
                step.check(path, node.val)?;
            }
        }
        Ok(())
    }
}

impl Step {
    fn of(segment: &Segment, before: &[Segment]) -> Result<Self, &'static str> {
        let (selectors, visits_all) = match segment {
            Segment::Selector(selector) => (slice::from_ref(selector), false),
            Segment::Selectors(selectors) => (selectors.as_slice(), false),
            Segment::Descendant(below) => match &**below {
                Segment::Selector(selector) => (slice::from_ref(selector), true),
                Segment::Selectors(selectors) => (selectors.as_slice(), true),
                Segment::Descendant(_) => (&[][..], true),
            },
        };
        let mut filters = Vec::new();
        for selector in selectors {
            if let Selector::Filter(filter) = selector {
                queries_of_filter(filter, &mut filters)?;
            }
        }
        let needs = selectors.iter().map(|selector| match selector {
            Selector::Name(_) => Needs::Object,
            Selector::Index(_) | Selector::Slice(..) => Needs::List,
            Selector::Wildcard | Selector::Filter(_) => Needs::Either,
        });
        let needs = needs.reduce(|one, other| if one == other { one } else { Needs::Either });
        Ok(Self {
            before: JpQuery::new(before.to_vec()),
            needs: needs.filter(|_| !visits_all).unwrap_or(Needs::Nothing),
            is_singular: !visits_all && matches!(selectors, [Selector::Name(_) | Selector::Index(_)]),
            filters: if visits_all { Vec::new() } else { filters },
        })
    }

    fn check(&self, path: &str, value: &Value) -> Result<(), Misfit> {
        let fits = match self.needs {
            Needs::Nothing => true,
            _ if value.is_null() => true,
            Needs::Object => value.is_object(),
            Needs::List => value.is_array(),
            Needs::Either => value.is_object() || value.is_array(),
        };
        if !fits {
            return Err(Misfit { path: path.to_owned(), needs: self.needs, found: name_of(value) });
        }
        if self.filters.is_empty() {
            return Ok(());
        }
        let check = |element: &Value, at: &dyn Fn() -> String| {
            let below =
                |misfit: Misfit| Misfit { path: format!("{path}[{}]{}", at(), misfit.path), ..misfit };
            self.filters.iter().try_for_each(|filter| filter.check(element)).map_err(below)
        };
        match value {
            Value::Array(list) => {
                list.iter().enumerate().try_for_each(|(at, element)| check(element, &|| at.to_string()))
            }
            Value::Object(map) => map
                .iter()
                .try_for_each(|(key, element)| check(element, &|| Value::from(key.as_str()).to_string())),
            _ => Ok(()),
        }
    }
}

const ABSOLUTE: &str =
    "expected a filter that reads its element (`@`), found one that reads the object (`$`)";
const UNKNOWN: &str = "expected one of the functions length, count, value, match and search";

/// Collects the queries of a filter.
fn queries_of_filter(filter: &Filter, into: &mut Vec<Steps>) -> Result<(), &'static str> {
    match filter {
        Filter::Or(filters) | Filter::And(filters) => {
            filters.iter().try_for_each(|filter| queries_of_filter(filter, into))
        }
        Filter::Atom(FilterAtom::Filter { expr, .. }) => queries_of_filter(expr, into),
        Filter::Atom(FilterAtom::Test { expr, .. }) => queries_of_test(expr, into),
        Filter::Atom(FilterAtom::Comparison(comparison)) => {
            let (left, right) = comparison.vals();
            [left, right].into_iter().try_for_each(|side| match side {
                Comparable::Literal(_) => Ok(()),
                Comparable::Function(function) => queries_of_function(function, into),
                Comparable::SingularQuery(SingularQuery::Root(_)) => Err(ABSOLUTE),
                Comparable::SingularQuery(SingularQuery::Current(segments)) => {
                    let segment = |segment: &SingularQuerySegment| {
                        Segment::Selector(match segment {
                            SingularQuerySegment::Index(index) => Selector::Index(*index),
                            SingularQuerySegment::Name(name) => Selector::Name(name.clone()),
                        })
                    };
                    into.push(Steps::of(&segments.iter().map(segment).collect::<Vec<_>>())?);
                    Ok(())
                }
            })
        }
    }
}

fn queries_of_test(test: &Test, into: &mut Vec<Steps>) -> Result<(), &'static str> {
    match test {
        Test::RelQuery(segments) => into.push(Steps::of(segments)?),
        Test::AbsQuery(_) => return Err(ABSOLUTE),
        Test::Function(function) => queries_of_function(function, into)?,
    }
    Ok(())
}

fn queries_of_function(function: &TestFunction, into: &mut Vec<Steps>) -> Result<(), &'static str> {
    let arguments = match function {
        TestFunction::Custom(..) => return Err(UNKNOWN),
        TestFunction::Length(argument) => vec![&**argument],
        TestFunction::Value(argument) | TestFunction::Count(argument) => vec![argument],
        TestFunction::Search(text, pattern) | TestFunction::Match(text, pattern) => vec![text, pattern],
    };
    arguments.into_iter().try_for_each(|argument| match argument {
        FnArg::Literal(_) => Ok(()),
        FnArg::Test(test) => queries_of_test(test, into),
        FnArg::Filter(filter) => queries_of_filter(filter, into),
    })
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl From<Misfit> for Unreadable {
    fn from(misfit: Misfit) -> Self {
        let expected = match misfit.needs {
            Needs::Object => "an object",
            Needs::List => "a list",
            Needs::Either | Needs::Nothing => "an object or a list",
        };
        let place = |segment| match segment {
            Segment::Selector(Selector::Name(key)) => Place::Map { key },
            Segment::Selector(Selector::Index(index)) => {
                Place::Seq { index: usize::try_from(index).unwrap_or_default() }
            }
            _ => Place::Unknown,
        };
        // The path is one that the library has written, so it parses.
        let query = parse_json_path(&format!("${}", misfit.path)).map(|query| query.segments);
        let path: Vec<Place> = query.unwrap_or_default().into_iter().map(place).collect();
        Self::new(path_text(&path), format!("expected {expected}, found {}", misfit.found))
    }
}
