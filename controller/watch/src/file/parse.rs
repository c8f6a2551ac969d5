//! Bytes to observations.
//!
//! 1. The file is read without places, for speed: YAML by the YAML parser, JSON by the JSON parser.
//! 2. Only if something is wrong or odd, it is read once more with the place of every value. JSON takes this
//!    pass through the YAML parser too: JSON is a subset of YAML, and the JSON parser does not know where a
//!    value begins.
//!
//! Messages are made here. Those of the libraries may repeat a value, which could be a token.

use std::collections::HashMap;
use std::path::Path;

use sandgate_routes::{ObjectKey, Observation, Version};
use serde::Deserialize as _;
use serde_path_to_error::Segment;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error, Spanned};

use super::check::{Doubts, KEYS, Mistake, expected};
use super::error::Place;
use super::raw::{RawFile, Routes, Text};
use super::{FileError, MAX_BYTES, MAX_ROUTES};

/// How a routes file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2.
    Yaml,
    /// Strict JSON.
    Json,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Yaml => "YAML",
            Format::Json => "JSON",
        }
    }

    /// By the extension, else by the first byte that is not white space.
    pub fn of(path: &Path, content: &[u8]) -> Self {
        match path.extension().and_then(|e| e.to_str()) {
            Some("json") => Format::Json,
            Some("yaml" | "yml") => Format::Yaml,
            _ => match content.iter().find(|b| !b.is_ascii_whitespace()) {
                Some(b'{' | b'[') => Format::Json,
                _ => Format::Yaml,
            },
        }
    }
}

/// Reads a whole routes file. Each observation carries `version`, the number of the load. An unknown state
/// makes a route of [`State::Unknown`](sandgate_routes::State::Unknown).
///
/// # Errors
/// The first mistake in the file. Nothing of a file with a mistake is returned.
pub fn parse_routes(
    content: &[u8],
    format: Format,
    version: &Version,
) -> Result<Vec<Observation>, FileError> {
    parse_at_most::<MAX_ROUTES>(content, format, version).map(|(observations, _)| observations)
}

/// The same, and the file's unknown states.
pub(super) fn parse_at_most<const MAX: usize>(
    content: &[u8],
    format: Format,
    version: &Version,
) -> Result<(Vec<Observation>, Doubts), FileError> {
    if content.len() > MAX_BYTES {
        return Err(FileError::TooLarge);
    }
    let content = content.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(content);
    let text = str::from_utf8(content).map_err(|e| {
        FileError::invalid(Place::of_offset(content, e.valid_up_to()), "expected UTF-8, found other bytes")
    })?;
    let (mut observations, doubts) = match read_fast::<MAX>(text, format)? {
        Some(routes) if routes.doubts.count == 0 => (routes.observations, routes.doubts),
        // The file is good, whatever comes of the second pass.
        Some(routes) => read_places::<MAX>(text, format).unwrap_or((routes.observations, routes.doubts)),
        None => read_places::<MAX>(text, format)?,
    };
    for observation in &mut observations {
        observation.version = version.clone();
    }
    Ok((observations, doubts))
}

/// The first pass. `None` if there is a mistake that the second pass can say more about.
fn read_fast<const MAX: usize>(text: &str, format: Format) -> Result<Option<Routes<String, MAX>>, FileError> {
    let file: RawFile<String, MAX> = match format {
        Format::Yaml => match serde_saphyr::from_str_with_options(text, options()) {
            Ok(file) => file,
            Err(_) => return Ok(None),
        },
        Format::Json => match serde_json::from_str(text) {
            Ok(file) => file,
            Err(error) if error.is_data() => return Ok(None),
            Err(error) => return Err(not_json(text, &error)),
        },
    };
    let good = file.routes.mistake.is_none() && duplicate(&file.routes).is_none();
    Ok(good.then_some(file.routes))
}

/// The second pass.
fn read_places<const MAX: usize>(
    text: &str,
    format: Format,
) -> Result<(Vec<Observation>, Doubts), FileError> {
    let mut at = At::default();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |de| {
        let mut track = serde_path_to_error::Track::new();
        let de = serde_path_to_error::Deserializer::new(de, &mut track);
        RawFile::<Spanned<String>, MAX>::deserialize(de).inspect_err(|_| at = At::of(&track.path()))
    });
    let mut routes = read.map_err(|error| explain(&error, format, &at))?.routes;
    match routes.mistake.take().or_else(|| duplicate(&routes)) {
        Some(mistake) => Err(FileError::invalid(mistake.place.unwrap_or(Place::START), mistake.problem)),
        None => Ok((routes.observations, routes.doubts)),
    }
}

fn not_json(text: &str, error: &serde_json::Error) -> FileError {
    let message = error.to_string();
    let problem = message.split(" at line ").next().unwrap_or_default();
    let place = Place::of_line(text.as_bytes(), error.line(), error.column());
    FileError::invalid(place, format!("not {}: {problem}", Format::Json.name()))
}

fn options() -> serde_saphyr::Options {
    // The defaults are for small files. This file's size is bounded; what must stay tight is what makes a
    // small file large: aliases.
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(MAX_BYTES),
            max_events: 4 * MAX_BYTES,
            max_nodes: 4 * MAX_BYTES,
            max_total_scalar_bytes: 2 * MAX_BYTES,
            max_documents: 1,
            max_depth: 16,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        // `id: 0123` or `name: no` would be text here and a number or a boolean to every other reader of the
        // file.
        no_schema: true,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// How far into the file a parser came.
#[derive(Default)]
struct At {
    list: bool,
    index: Option<usize>,
    key: Option<&'static str>,
}

impl At {
    /// Takes only keys that the file may have: any other may hold a token.
    fn of(path: &serde_path_to_error::Path) -> Self {
        let mut at = At::default();
        for segment in path {
            match segment {
                Segment::Map { key } if key == "routes" => at.list = true,
                Segment::Seq { index } => at.index = Some(*index),
                Segment::Map { key } if at.key.is_none() => {
                    at.key = KEYS.iter().map(|(name, _)| *name).find(|name| name == key);
                }
                _ => {}
            }
        }
        at
    }

    /// Such as `routes[3].ip`.
    fn path(&self) -> String {
        match (self.index, self.key) {
            (Some(index), Some(key)) => format!("routes[{index}].{key}"),
            (Some(index), None) => format!("routes[{index}]"),
            (None, _) if self.list => "routes".to_owned(),
            (None, _) => "the file".to_owned(),
        }
    }

    /// What stands there in a good file.
    fn expected(&self) -> &'static str {
        match (self.index, self.key) {
            (Some(_), Some(key)) => expected(key),
            (Some(_), None) => "a mapping with at least the key `name`",
            (None, _) if self.list => "a list of routes, `[]` if there are none",
            (None, _) => "a mapping with the key `routes`",
        }
    }
}

/// Says what the YAML parser found.
fn explain(error: &Error, format: Format, at: &At) -> FileError {
    let (path, expected) = (at.path(), at.expected());
    let route = At { key: None, ..*at }.path();
    let problem = match innermost(error) {
        Error::ExternalMessage { msg, .. } => {
            // The parser's texts are fixed but for one, which ends in the character it did not expect.
            format!("not {}: {}", format.name(), msg.split(": `").next().unwrap_or_default())
        }
        Error::DuplicateMappingKey { key, .. } => {
            let mut known = KEYS.iter().map(|(name, _)| *name).chain(["routes"]);
            let name = known.find(|name| key.as_deref() == Some(name)).unwrap_or_default();
            format!("{route}: the key `{name}` is given twice")
        }
        Error::SerdeUnknownField { field, expected, .. } => unknown_key(&route, field, expected),
        Error::SerdeMissingField { field: "name", .. } => format!("{route}: the key `name` is missing"),
        Error::MultipleDocuments { .. } | Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "expected one YAML document, found more".to_owned()
        }
        Error::UnknownAnchor { .. } => format!("{path}: the alias names an anchor that is not there"),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            format!("{path}: too deep, or too many anchors and aliases")
        }
        Error::QuotingRequired { .. } => {
            format!("{path}: expected {expected}; quote text that reads as a number, a boolean or null")
        }
        _ => format!("{path}: expected {expected}"),
    };
    let place = error.location().and_then(Place::known).unwrap_or(Place::START);
    FileError::invalid(place, problem)
}

/// Shows the key only if it looks like one: a slip such as `access-token:s3cret` makes a key that holds a
/// secret.
fn unknown_key(route: &str, key: &str, known: &[&str]) -> String {
    let plain = (1..=32).contains(&key.len())
        && key.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-' || b == b'_');
    let key = if plain { format!("unknown key `{key}`") } else { "unknown key".to_owned() };
    format!("{route}: {key}, expected {}", known.join(", "))
}

fn innermost(error: &Error) -> &Error {
    match error.without_snippet() {
        Error::AliasError { error, .. } => innermost(error),
        other => other,
    }
}

/// The first route whose name or id another route has already.
fn duplicate<T: Text, const MAX: usize>(routes: &Routes<T, MAX>) -> Option<Mistake> {
    let mut by_key: HashMap<&ObjectKey, usize> = HashMap::with_capacity(routes.observations.len());
    let mut by_id: HashMap<&str, usize> = HashMap::with_capacity(routes.observations.len());
    let places = |index: usize| routes.places.get(index).copied().unwrap_or((Place::START, Place::START));
    for (index, Observation { key, id, .. }) in routes.observations.iter().enumerate() {
        if let Some(first) = by_key.insert(key, index) {
            let (namespace, name, line) = (key.namespace(), key.name(), places(first).0.line);
            let problem = format!(
                "routes[{index}].name: {namespace}/{name} is listed already as routes[{first}] on line {line}"
            );
            return Some(Mistake { place: Some(places(index).0), problem });
        }
        if let Some(first) = by_id.insert(id, index) {
            let line = places(first).1.line;
            let problem =
                format!("routes[{index}].id: {id} is the id of routes[{first}] on line {line} already");
            return Some(Mistake { place: Some(places(index).1), problem });
        }
    }
    None
}
