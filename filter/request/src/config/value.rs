//! The values of the config, each refusing what the request path could not use. Pattern and check stand side by side;
//! a test holds them to the same judgement.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Unexpected, Visitor},
};

use crate::{address::is_valid_namespace, recognise::parse_port};

const MAX_DOMAINS: usize = 64;

/// What makes a text a value of one kind.
pub(super) trait Kind {
    const EXPECTED: &'static str;
    const PATTERN: &'static str;
    const MAX: usize;
    /// The value as it is kept, if the text is one.
    fn check(text: &str) -> Option<String>;
}

/// A text that has passed its check.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Text<K> {
    text: String,
    #[serde(skip)]
    kind: PhantomData<K>,
}

pub(super) type HeaderName = Text<Header>;
pub(super) type HostHeaderName = Text<HostHeader>;
pub(super) type Namespace = Text<DnsLabel>;
type Domain = Text<DnsName>;

impl<K: Kind> Text<K> {
    /// A default. Defaults are given in the form in which values are kept.
    pub(super) fn from_static(text: &'static str) -> Self {
        Self { text: text.into(), kind: PhantomData }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn into_string(self) -> String {
        self.text
    }
}

impl<K> fmt::Debug for Text<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl<'de, K: Kind> Deserialize<'de> for Text<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let checked = if text.len() <= K::MAX { K::check(&text) } else { None };
        match checked {
            Some(text) => Ok(Self { text, kind: PhantomData }),
            None => Err(D::Error::invalid_value(Unexpected::Str(&shortened(&text)), &K::EXPECTED)),
        }
    }
}

impl<K: Kind> JsonSchema for Text<K> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": K::PATTERN, "maxLength": K::MAX })
    }
}

pub(super) enum Header {}

impl Kind for Header {
    const EXPECTED: &'static str = "an HTTP header name of at most 128 characters";
    const PATTERN: &'static str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";
    const MAX: usize = 128;
    fn check(text: &str) -> Option<String> {
        header_name(text)
    }
}

pub(super) enum HostHeader {}

impl Kind for HostHeader {
    const EXPECTED: &'static str = "an HTTP header name of at most 128 characters, or \":authority\"";
    const PATTERN: &'static str = "^(:authority|[A-Za-z0-9!#$%&'*+.^_`|~-]+)$";
    const MAX: usize = 128;
    fn check(text: &str) -> Option<String> {
        if text == ":authority" { Some(text.into()) } else { header_name(text) }
    }
}

pub(super) enum DnsLabel {}

impl Kind for DnsLabel {
    const EXPECTED: &'static str =
        "a namespace: 1 to 63 characters out of a-z, 0-9 and '-', neither first nor last '-'";
    const PATTERN: &'static str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";
    const MAX: usize = 63;
    fn check(text: &str) -> Option<String> {
        is_valid_namespace(text.as_bytes()).then(|| text.into())
    }
}

pub(super) enum DnsName {}

impl Kind for DnsName {
    const EXPECTED: &'static str =
        "a DNS name such as sandboxes.example.com, with no wildcard and no trailing dot";
    const PATTERN: &'static str =
        r"^\.?[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$";
    const MAX: usize = 253;
    fn check(text: &str) -> Option<String> {
        domain(text)
    }
}

fn header_name(text: &str) -> Option<String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&byte);
    (!text.is_empty() && text.bytes().all(token)).then(|| text.to_ascii_lowercase())
}

/// One leading dot is tolerated: that is how cookies and proxies write a base domain.
fn domain(text: &str) -> Option<String> {
    let name = text.strip_prefix('.').unwrap_or(text).to_ascii_lowercase();
    let label = |label: &str| is_valid_namespace(label.as_bytes());
    name.split('.').all(label).then_some(name)
}

/// A config may hold anything; an error message should not repeat all of it.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}

/// The base domains, few enough to be tried one after the other.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Domains(Vec<Domain>);

impl Domains {
    pub(super) fn into_names(self) -> Vec<String> {
        self.0.into_iter().map(Text::into_string).collect()
    }
}

impl<'de> Deserialize<'de> for Domains {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let domains = Vec::<Domain>::deserialize(deserializer)?;
        if domains.len() > MAX_DOMAINS {
            return Err(D::Error::invalid_length(domains.len(), &"at most 64 domains"));
        }
        Ok(Self(domains))
    }
}

impl JsonSchema for Domains {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Domains".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": Domain::json_schema(generator), "maxItems": MAX_DOMAINS })
    }
}

/// A port, as a number or, as OpenKruise writes it, as a string.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Port(u16);

impl Port {
    pub(super) const fn from_static(port: u16) -> Self {
        Self(port)
    }
}

impl From<Port> for u16 {
    fn from(port: Port) -> Self {
        port.0
    }
}

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PortVisitor)
    }
}

struct PortVisitor;

impl Visitor<'_> for PortVisitor {
    type Value = Port;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a port from 1 to 65535, as a number or a decimal string")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Port, E> {
        match u16::try_from(number) {
            Ok(port) if port != 0 => Ok(Port(port)),
            _ => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    /// Numbers in a protobuf struct are doubles, and JSON schema takes 80.0 for an integer.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Port, E> {
        (1..=u16::MAX)
            .find(|port| f64::from(*port) == number)
            .map(Port)
            .ok_or_else(|| E::invalid_value(Unexpected::Float(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Port, E> {
        parse_port(text.as_bytes())
            .map(Port)
            .map_err(|_| E::invalid_value(Unexpected::Str(&shortened(text)), &self))
    }
}

impl JsonSchema for Port {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Port".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let decimal =
            "^([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": 65535 },
            { "type": "string", "pattern": decimal },
        ] })
    }
}

const MAX_RANGES: usize = 64;
const RANGE_EXPECTED: &str = "a port from 1 to 65535, or a range of ports such as \"3000-3999\"";
const RANGE_PATTERN: &str = concat!(
    "^([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])",
    "(-([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?$"
);

/// One port, or all ports from one to another, both included.
#[derive(Clone, Copy, Debug)]
struct PortRange(u16, u16);

impl Serialize for PortRange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}-{}", self.0, self.1))
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Range;

        impl Visitor<'_> for Range {
            type Value = PortRange;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(RANGE_EXPECTED)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<PortRange, E> {
                let port = PortVisitor
                    .visit_u64::<E>(number)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))?;
                Ok(PortRange(port.0, port.0))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<PortRange, E> {
                let port = PortVisitor
                    .visit_f64::<E>(number)
                    .map_err(|_| E::invalid_value(Unexpected::Float(number), &self))?;
                Ok(PortRange(port.0, port.0))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PortRange, E> {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                match (parse_port(first.as_bytes()), parse_port(last.as_bytes())) {
                    (Ok(first), Ok(last)) if first <= last => Ok(PortRange(first, last)),
                    _ => Err(E::invalid_value(Unexpected::Str(&shortened(text)), &self)),
                }
            }
        }

        deserializer.deserialize_any(Range)
    }
}

/// Ports, few enough ranges of them to be tried one after the other.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Ports(Vec<PortRange>);

impl Ports {
    pub(super) fn into_ranges(self) -> Vec<(u16, u16)> {
        self.0.into_iter().map(|PortRange(first, last)| (first, last)).collect()
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ranges = Vec::<PortRange>::deserialize(deserializer)?;
        if ranges.len() > MAX_RANGES {
            return Err(D::Error::invalid_length(ranges.len(), &"at most 64 ports and ranges"));
        }
        Ok(Self(ranges))
    }
}

impl JsonSchema for Ports {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Ports".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "items": { "anyOf": [
                { "type": "integer", "minimum": 1, "maximum": 65535 },
                { "type": "string", "pattern": RANGE_PATTERN },
            ] },
            "maxItems": MAX_RANGES,
        })
    }
}

/// The most that a limit can be.
pub(super) const MAX_COUNT: u32 = 1_000_000;

/// A limit: a whole number from 1.
pub(super) type Count = UpTo<MAX_COUNT>;

/// A part of a limit: a whole number from 1 to 100.
pub(super) type Percent = UpTo<100>;

/// A whole number from 1.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub(super) struct UpTo<const MOST: u32>(u32);

impl<const MOST: u32> UpTo<MOST> {
    pub(super) const fn from_static(count: u32) -> Self {
        Self(count)
    }
}

impl<const MOST: u32> From<UpTo<MOST>> for u32 {
    fn from(count: UpTo<MOST>) -> Self {
        count.0
    }
}

impl<'de, const MOST: u32> Deserialize<'de> for UpTo<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Numbers in a protobuf struct are doubles, and JSON schema takes 80.0 for an integer.
        let number = f64::deserialize(deserializer)?;
        let whole = number.fract() == 0.0 && (1.0..=f64::from(MOST)).contains(&number);
        if whole {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked on the line above"
            )]
            let count = number as u32;
            return Ok(Self(count));
        }
        let expected = format!("a whole number from 1 to {MOST}");
        Err(D::Error::invalid_value(Unexpected::Float(number), &expected.as_str()))
    }
}

impl<const MOST: u32> JsonSchema for UpTo<MOST> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("UpTo{MOST}").into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": MOST })
    }
}
