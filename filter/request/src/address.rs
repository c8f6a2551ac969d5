//! The address of a sandbox as one request gives it: by value, valid, free of the request's buffers.

use std::borrow::Cow;

use sandgate_routes::{MAX_ID, is_valid_id};

/// Whose conventions an address follows. It also decides the statuses of refusals and the header of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenKruise Agents and its E2B-compatible clients.
    Kruise,
    /// kubernetes-sigs/agent-sandbox.
    AgentSandbox,
    /// OpenSandbox.
    OpenSandbox,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 3] = [Self::Kruise, Self::AgentSandbox, Self::OpenSandbox];

    /// The name used in config, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kruise => "kruise",
            Self::AgentSandbox => "agent-sandbox",
            Self::OpenSandbox => "opensandbox",
        }
    }
}

/// One way to write an address. The order of the variants is the order of recognition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// `/kruise/{id}/{port}/{rest}`
    KruisePath,
    /// `e2b-sandbox-id: {id}`, `e2b-sandbox-port: {port}`
    KruiseHeader,
    /// `OpenSandbox-Ingress-To: {id}-{port}[.{domain}]`
    OpenSandboxHeader,
    /// `X-Sandbox-ID: {name}`, `X-Sandbox-Namespace: {namespace}`, `X-Sandbox-Port: {port}`
    AgentSandboxHeader,
    /// `{port}-{id}.{domain}`
    KruiseHost,
    /// `{id}-{port}.{domain}`
    OpenSandboxHost,
    /// `/{id}/{port}/{rest}`
    OpenSandboxPath,
}

impl Form {
    /// Every form, in the order of recognition.
    pub const ALL: [Self; 7] = [
        Self::KruisePath,
        Self::KruiseHeader,
        Self::OpenSandboxHeader,
        Self::AgentSandboxHeader,
        Self::KruiseHost,
        Self::OpenSandboxHost,
        Self::OpenSandboxPath,
    ];

    /// The dialect the form belongs to.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::KruisePath | Self::KruiseHeader | Self::KruiseHost => Dialect::Kruise,
            Self::AgentSandboxHeader => Dialect::AgentSandbox,
            Self::OpenSandboxHeader | Self::OpenSandboxHost | Self::OpenSandboxPath => Dialect::OpenSandbox,
        }
    }

    /// The name used in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KruisePath => "kruise-path",
            Self::KruiseHeader => "kruise-header",
            Self::OpenSandboxHeader => "opensandbox-header",
            Self::AgentSandboxHeader => "agent-sandbox-header",
            Self::KruiseHost => "kruise-host",
            Self::OpenSandboxHost => "opensandbox-host",
            Self::OpenSandboxPath => "opensandbox-path",
        }
    }

    /// What the form looks like, for people. Header names are the defaults.
    pub const fn pattern(self) -> &'static str {
        match self {
            Self::KruisePath => "path /kruise/{id}/{port}/{rest}",
            Self::KruiseHeader => "headers e2b-sandbox-id: {id} and e2b-sandbox-port: {port}",
            Self::OpenSandboxHeader => "header OpenSandbox-Ingress-To: {id}-{port}",
            Self::AgentSandboxHeader => {
                "headers X-Sandbox-ID: {name}, X-Sandbox-Namespace: {namespace} and X-Sandbox-Port: {port}"
            }
            Self::KruiseHost => "host {port}-{id}.{domain}",
            Self::OpenSandboxHost => "host {id}-{port}.{domain}",
            Self::OpenSandboxPath => "path /{id}/{port}/{rest}",
        }
    }

    /// Whether IDs of this form come from a host name, where case carries no meaning.
    const fn is_host(self) -> bool {
        matches!(self, Self::KruiseHost | Self::OpenSandboxHost)
    }
}

/// The part of an address that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The sandbox ID or name.
    Id,
    /// The port of the sandbox.
    Port,
    /// The namespace.
    Namespace,
    /// The host around the label that names the sandbox.
    Host,
    /// The path as a whole: segments are missing.
    Path,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 5] = [Self::Id, Self::Port, Self::Namespace, Self::Host, Self::Path];

    /// The name used in replies and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Port => "port",
            Self::Namespace => "namespace",
            Self::Host => "host",
            Self::Path => "path",
        }
    }

    /// The response code detail of a request that is wrong in this part.
    pub const fn details(self) -> &'static str {
        match self {
            Self::Id => "malformed_id",
            Self::Port => "malformed_port",
            Self::Namespace => "malformed_namespace",
            Self::Host => "malformed_host",
            Self::Path => "malformed_path",
        }
    }

    /// What a right one looks like, as a sentence.
    pub const fn expectation(self) -> &'static str {
        match self {
            Self::Id => {
                "An ID has 1 to 253 characters out of A-Z, a-z, 0-9, '.', '_' and '-', none of them encoded."
            }
            Self::Port => "A port is a decimal number from 1 to 65535 with no sign and no leading zero.",
            Self::Namespace => {
                "A namespace has 1 to 63 characters out of a-z, 0-9 and '-', and neither starts nor ends with '-'."
            }
            Self::Host => "A host is a DNS name, optionally followed by ':' and a port number.",
            Self::Path => "The path must have both an ID and a port segment.",
        }
    }
}

/// What a request addresses: a lookup ID and a port, both valid, and how they were given.
#[derive(Clone)]
pub struct Address {
    id: [u8; MAX_ID],
    len: u8,
    /// Length of the namespace in front of `--`; only agent-sandbox addresses have one.
    namespace_len: u8,
    form: Form,
    port: u16,
    /// Where the path for the sandbox begins in the request's path; 0 when the path stays as it is.
    cut: usize,
}

impl Address {
    /// An address whose ID is taken as it is. Of several wrong parts, the ID is named first.
    pub(crate) fn new(form: Form, id: &[u8], port: Result<u16, Part>, cut: usize) -> Result<Self, Part> {
        let (true, Ok(len)) = (is_valid_id(id), u8::try_from(id.len())) else {
            return Err(Part::Id);
        };
        let mut address = Self { id: [0; MAX_ID], len, namespace_len: 0, form, port: port?, cut };
        address.id[..id.len()].copy_from_slice(id);
        Ok(address)
    }

    /// An agent-sandbox address, whose ID is composed as `{namespace}--{name}`.
    pub(crate) fn composed(namespace: &[u8], name: &[u8], port: Result<u16, Part>) -> Result<Self, Part> {
        if !is_valid_namespace(namespace) {
            return Err(Part::Namespace);
        }
        let start = namespace.len() + SEPARATOR.len();
        let len = start + name.len();
        let (true, Ok(len8), Ok(namespace_len)) =
            (is_valid_id(name) && len <= MAX_ID, u8::try_from(len), u8::try_from(namespace.len()))
        else {
            return Err(Part::Id);
        };
        let port = port?;
        let mut id = [0; MAX_ID];
        id[..namespace.len()].copy_from_slice(namespace);
        id[namespace.len()..start].copy_from_slice(SEPARATOR);
        id[start..len].copy_from_slice(name);
        Ok(Self { id, len: len8, namespace_len, form: Form::AgentSandboxHeader, port, cut: 0 })
    }

    /// The dialect of the form.
    pub fn dialect(&self) -> Dialect {
        self.form.dialect()
    }

    /// How the address was given.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The ID to look up, in the case it was sent in.
    pub fn id(&self) -> &str {
        as_str(self.id_bytes())
    }

    /// The same as bytes, which is all that a lookup needs.
    #[inline]
    pub(crate) fn id_bytes(&self) -> &[u8] {
        self.id.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The port of the sandbox, 1 to 65535.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The namespace and name an agent-sandbox request asked for. They must be compared with the object that was found:
    /// two pairs can compose to one ID.
    pub fn object(&self) -> Option<(&str, &str)> {
        if self.form != Form::AgentSandboxHeader {
            return None;
        }
        let (namespace, rest) = self.id().split_at_checked(usize::from(self.namespace_len))?;
        Some((namespace, rest.get(SEPARATOR.len()..)?))
    }

    /// Calls `f` with the lower-case ID if the address came from a host and is not lower case already.
    pub(crate) fn with_folded_id<R>(&self, f: impl FnOnce(&[u8]) -> Option<R>) -> Option<R> {
        let id = self.id_bytes();
        if !self.form.is_host() || !id.iter().any(u8::is_ascii_uppercase) {
            return None;
        }
        let mut folded = self.id;
        folded.make_ascii_lowercase();
        f(folded.get(..id.len())?)
    }

    /// Whether the path must be replaced by [`Address::rewrite`] before the request is forwarded.
    pub fn rewrites_path(&self) -> bool {
        self.cut != 0
    }

    /// The path for the sandbox, given the `:path` the address was read from; `None` when it stays as it is.
    ///
    /// Only the prefix goes: what follows the port segment, query included, is kept byte for byte, and a missing slash
    /// is added. So `/kruise/demo/80//x` becomes `//x`, just as a client using the host form would have sent it: the
    /// path is in origin form, begins with `/` and is carried apart from the authority, so a second slash cannot be
    /// taken for one. Borrowed in all cases but `…/{port}?query`.
    pub fn rewrite<'p>(&self, path: &'p [u8]) -> Option<Cow<'p, [u8]>> {
        if self.cut == 0 {
            return None;
        }
        let rest = path.get(self.cut..)?;
        match rest.first() {
            None => Some(Cow::Borrowed(b"/")),
            Some(b'/') => Some(Cow::Borrowed(rest)),
            Some(b'?') => Some(Cow::Owned([b"/", rest].concat())),
            Some(_) => None,
        }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address")
            .field("form", &self.form)
            .field("id", &self.id())
            .field("port", &self.port)
            .field("cut", &self.cut)
            .finish()
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        (self.form, self.id(), self.namespace_len, self.port, self.cut)
            == (other.form, other.id(), other.namespace_len, other.port, other.cut)
    }
}

impl Eq for Address {}

const SEPARATOR: &[u8] = b"--";

/// The stored bytes are checked to be ASCII when an address is made, so the fallback is never seen.
fn as_str(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// A DNS label as Kubernetes wants it for namespaces.
pub(crate) fn is_valid_namespace(namespace: &[u8]) -> bool {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    matches!(namespace.len(), 1..=63)
        && namespace.iter().all(inner)
        && namespace.first() != Some(&b'-')
        && namespace.last() != Some(&b'-')
}
