//! Bytes to observations.
//!
//! A file is read for speed first: YAML by the YAML parser, JSON by the JSON parser, without noting where a value
//! stands. Only if something is wrong is it read once more, to say where. JSON takes that second pass through the YAML
//! parser, which knows the place of every value and of which JSON is a subset. The readers keep a note of the key they
//! are at, so that an error of the library, which knows the place but not the key, can name both.

use std::collections::HashMap;
use std::path::Path;

use sandgate_routes::{ObjectKey, Observation, Version};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error};

use super::error::Place;
use super::notes::{Doubts, Key, Notes};
use super::places::{Places, With, Without};
use super::read::Reader;
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

/// Reads a whole routes file. Each observation carries `version`, the number of the load. A state that is none of ours
/// makes a route of [`State::Unknown`](sandgate_routes::State::Unknown).
///
/// # Errors
/// The first mistake in the file. Nothing of a file with a mistake is returned.
pub fn parse_routes(
    content: &[u8],
    format: Format,
    version: &Version,
) -> Result<Vec<Observation>, FileError> {
    parse_at_most(MAX_ROUTES, content, format, version).map(|(observations, _)| observations)
}

/// The same, and what is odd about the file.
pub(super) fn parse_at_most(
    max_routes: usize,
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
    let read = match format {
        Format::Yaml => read_yaml::<Without>(text, max_routes, version).ok(),
        Format::Json => read_json(content, max_routes, version)?,
    };
    let observations =
        |entries: Vec<Entry>| entries.into_iter().map(|entry| entry.observation).collect::<Vec<_>>();
    if let Some((entries, doubts)) = read
        && duplicate(&entries).is_none()
    {
        // Read once more for the places of what is odd. The file is good, whatever comes of that.
        let with_places = (doubts.count > 0).then(|| read_yaml::<With>(text, max_routes, version).ok());
        let doubts = with_places.flatten().map_or(doubts, |(_, doubts)| doubts);
        return Ok((observations(entries), doubts));
    }
    let (entries, doubts) = read_yaml::<With>(text, max_routes, version)
        .map_err(|failed| explain(&failed.0, format, &failed.1))?;
    match duplicate(&entries) {
        Some(error) => Err(error),
        None => Ok((observations(entries), doubts)),
    }
}

/// What a reader has read, and what it found odd.
type Read = (Vec<Entry>, Doubts);

fn read_yaml<P: Places>(
    text: &str,
    max_routes: usize,
    version: &Version,
) -> Result<Read, Box<(Error, Notes)>> {
    let notes = Notes::default();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options(), |de| {
        Reader::<P>::new(&notes, version, max_routes).read(de)
    });
    match read {
        Ok(entries) => Ok((entries, notes.take_doubts())),
        Err(error) => Err(Box::new((error, notes))),
    }
}

/// `None` where the file is JSON but not a routes file.
fn read_json(content: &[u8], max_routes: usize, version: &Version) -> Result<Option<Read>, FileError> {
    let notes = Notes::default();
    let mut json = serde_json::Deserializer::from_slice(content);
    let read = Reader::<Without>::new(&notes, version, max_routes).read(&mut json);
    let error = match read.and_then(|entries| json.end().map(|()| entries)) {
        Ok(entries) => return Ok(Some((entries, notes.take_doubts()))),
        Err(error) if error.is_data() => return Ok(None),
        Err(error) => error,
    };
    let text = error.to_string();
    let problem = text.split(" at line ").next().unwrap_or_default();
    let place = Place::of_line(content, error.line(), error.column());
    Err(FileError::invalid(place, format!("not {}: {problem}", Format::Json.name())))
}

fn options() -> serde_saphyr::Options {
    // The defaults are for small files. Ours is bounded by its size; what must stay tight is what makes a small
    // file large: aliases.
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
        // `id: 0123` or `name: no` would be text here and a number or a boolean to every other reader of the file.
        no_schema: true,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// Says what the library found in our words: its own may repeat a value, which could be a token.
fn explain(error: &Error, format: Format, notes: &Notes) -> FileError {
    let found = error.location().and_then(Place::known);
    if let Some((place, problem)) = notes.take_problem() {
        return FileError::invalid(place.or(found).unwrap_or(Place::START), problem);
    }
    let at = notes.at();
    let expected = notes.expected();
    let problem = match innermost(error) {
        Error::ExternalMessage { msg, .. } => {
            // The parser's texts are fixed but for one, which ends in the character it did not expect.
            format!("not {}: {}", format.name(), msg.split(": `").next().unwrap_or_default())
        }
        Error::DuplicateMappingKey { key, .. } => {
            let known = Key::ALL.iter().map(|key| key.as_str()).chain(["routes"]);
            let name = known.into_iter().find(|name| key.as_deref() == Some(name)).unwrap_or_default();
            format!("{at}: the key `{name}` is given twice")
        }
        Error::MultipleDocuments { .. } | Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "expected one YAML document, found more".to_owned()
        }
        Error::UnknownAnchor { .. } => format!("{at}: the alias names an anchor that is not there"),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            format!("{at}: too deep, or too many anchors and aliases")
        }
        Error::QuotingRequired { .. } => {
            format!("{at}: expected {expected}; quote text that reads as a number, a boolean or null")
        }
        _ => format!("{at}: expected {expected}"),
    };
    FileError::invalid(found.unwrap_or(Place::START), problem)
}

fn innermost(error: &Error) -> &Error {
    match error.without_snippet() {
        Error::AliasError { error, .. } => innermost(error),
        other => other,
    }
}

/// An observation and where its name and its id stand.
pub(super) struct Entry {
    pub(super) observation: Observation,
    pub(super) name_at: Option<Place>,
    pub(super) id_at: Option<Place>,
}

/// The first entry that says again what another has said.
fn duplicate(entries: &[Entry]) -> Option<FileError> {
    let mut by_key: HashMap<&ObjectKey, usize> = HashMap::with_capacity(entries.len());
    let mut by_id: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
    let known = |place: Option<Place>| place.unwrap_or(Place::START);
    for (index, entry) in entries.iter().enumerate() {
        let key = &entry.observation.key;
        if let Some(first) = by_key.insert(key, index) {
            let (namespace, name) = (key.namespace(), key.name());
            let line = known(entries[first].name_at).line;
            let problem = format!(
                "routes[{index}].name: {namespace}/{name} is listed already as routes[{first}] on line {line}"
            );
            return Some(FileError::invalid(known(entry.name_at), problem));
        }
        let id = entry.observation.id.as_str();
        if let Some(first) = by_id.insert(id, index) {
            let line = known(entries[first].id_at).line;
            let problem =
                format!("routes[{index}].id: {id} is the id of routes[{first}] on line {line} already");
            return Some(FileError::invalid(known(entry.id_at), problem));
        }
    }
    None
}
