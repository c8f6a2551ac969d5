//! The address of a sandbox as one request gives it: by value, valid, free of the request's buffers.

use std::borrow::Cow;

use sandgate_routes::{MAX_ID, is_valid_id};

use crate::recognise::host::Reading;
use crate::recognise::signature::RouteSignature;

/// Whose conventions an address follows. It also decides the statuses of refusals and the header of the
/// token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenKruise Agents and its E2B-compatible clients.
    Kruise,
    /// kubernetes-sigs/agent-sandbox.
    AgentSandbox,
    /// OpenSandbox.
    OpenSandbox,
    /// scitix Agent-Sandbox, whose kind is SandboxEnv.
    SandboxEnv,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: [Self; 4] = [Self::Kruise, Self::AgentSandbox, Self::OpenSandbox, Self::SandboxEnv];

    /// The name used in config, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kruise => "kruise",
            Self::AgentSandbox => "agent-sandbox",
            Self::OpenSandbox => "opensandbox",
            Self::SandboxEnv => "sandbox-env",
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
    /// `OpenSandbox-Ingress-To: {id}-{port}[-{expires}-{signature}][.{domain}]`
    OpenSandboxHeader,
    /// `X-Sandbox-ID: {name}`, `X-Sandbox-Namespace: {namespace}`, `X-Sandbox-Port: {port}`
    AgentSandboxHeader,
    /// `X-Sandbox-ID: {id}`, `X-Sandbox-Port: {port}`
    SandboxEnvHeader,
    /// `{port}-{id}.{domain}`
    KruiseHost,
    /// `{id}-{port}[-{expires}-{signature}].{domain}`
    OpenSandboxHost,
    /// `/sandboxes/{id}/{port}/{rest}`
    SandboxEnvPath,
    /// `/sandboxes/{id}/proxy/{port}/{rest}`, also below `/v1`: what OpenSandbox's server says where it is
    /// asked for endpoints behind itself
    OpenSandboxProxyPath,
    /// `/{id}/{port}[/{expires}/{signature}]/{rest}`
    OpenSandboxPath,
}

impl Form {
    /// Every form, in the order of recognition.
    pub const ALL: [Self; 10] = [
        Self::KruisePath,
        Self::KruiseHeader,
        Self::OpenSandboxHeader,
        Self::AgentSandboxHeader,
        Self::SandboxEnvHeader,
        Self::KruiseHost,
        Self::OpenSandboxHost,
        Self::SandboxEnvPath,
        Self::OpenSandboxProxyPath,
        Self::OpenSandboxPath,
    ];

    /// The dialect the form belongs to.
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::KruisePath | Self::KruiseHeader | Self::KruiseHost => Dialect::Kruise,
            Self::AgentSandboxHeader => Dialect::AgentSandbox,
            Self::OpenSandboxHeader
            | Self::OpenSandboxHost
            | Self::OpenSandboxProxyPath
            | Self::OpenSandboxPath => Dialect::OpenSandbox,
            Self::SandboxEnvHeader | Self::SandboxEnvPath => Dialect::SandboxEnv,
        }
    }

    /// The name used in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::KruisePath => "kruise-path",
            Self::KruiseHeader => "kruise-header",
            Self::OpenSandboxHeader => "opensandbox-header",
            Self::AgentSandboxHeader => "agent-sandbox-header",
            Self::SandboxEnvHeader => "sandbox-env-header",
            Self::KruiseHost => "kruise-host",
            Self::OpenSandboxHost => "opensandbox-host",
            Self::SandboxEnvPath => "sandbox-env-path",
            Self::OpenSandboxProxyPath => "opensandbox-proxy-path",
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
            Self::SandboxEnvHeader => "headers X-Sandbox-ID: {id} and X-Sandbox-Port: {port}",
            Self::KruiseHost => "host {port}-{id}.{domain}",
            Self::OpenSandboxHost => "host {id}-{port}.{domain}",
            Self::SandboxEnvPath => "path /sandboxes/{id}/{port}/{rest}",
            Self::OpenSandboxProxyPath => "path /sandboxes/{id}/proxy/{port}/{rest}",
            Self::OpenSandboxPath => "path /{id}/{port}/{rest}",
        }
    }

    /// Whether the form is a path that an application may have for itself. Such a form is tried last, and is
    /// none beside another address.
    pub(crate) const fn is_weak(self) -> bool {
        matches!(self, Self::SandboxEnvPath | Self::OpenSandboxProxyPath | Self::OpenSandboxPath)
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
    /// A header that was sent more than once: servers differ on which of them counts.
    Repeated,
    /// The address that a client believes its sandbox to have.
    PodIp,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 7] =
        [Self::Id, Self::Port, Self::Namespace, Self::Host, Self::Path, Self::Repeated, Self::PodIp];

    /// The name used in replies and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Port => "port",
            Self::Namespace => "namespace",
            Self::Host => "host",
            Self::Path => "path",
            Self::Repeated => "header",
            Self::PodIp => "pod_ip",
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
            Self::Repeated => "duplicate_header",
            Self::PodIp => "malformed_pod_ip",
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
            Self::Repeated => {
                "A header that names a sandbox or holds its token must be sent once, under one name."
            }
            Self::PodIp => "X-Sandbox-Pod-IP must be an IP address.",
        }
    }
}

/// What a request addresses: a lookup ID and a port, both valid, and how they were given.
///
/// A host such as `80-web-3000.example.com` can be read in two ways, and so can `X-Sandbox-ID` where two
/// dialects read it. Then the address is the first of them until [`choose_reading`](crate::choose_reading)
/// has asked the table which one is meant.
#[derive(Clone)]
pub struct Address {
    /// The ID, or a whole text that has the IDs of both readings in it: a host label, or an agent-sandbox ID,
    /// which ends with the name.
    text: [u8; MAX_ID],
    start: u8,
    len: u8,
    /// Length of the namespace in front of `--`; only agent-sandbox addresses have one.
    namespace_len: u8,
    form: Form,
    port: u16,
    /// Whether the request named no port and this is the form's default.
    default_port: bool,
    /// Where the path for the sandbox begins in the request's path; 0 when the path stays as it is.
    cut: usize,
    /// Of a signed route. Of two readings of a host it belongs to that of OpenSandbox.
    signature: Option<RouteSignature>,
    other: Option<Other>,
}

/// The second reading: as [`Form::OpenSandboxHost`] of a host label, as [`Form::SandboxEnvHeader`] of
/// `X-Sandbox-ID`. It says where in the text its ID is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Other {
    start: u8,
    len: u8,
    form: Form,
    port: u16,
}

/// A port as a request gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedPort {
    pub(crate) number: u16,
    pub(crate) is_default: bool,
}

impl From<u16> for AskedPort {
    fn from(number: u16) -> Self {
        Self { number, is_default: false }
    }
}

impl Address {
    /// An address of a text that has been checked.
    #[inline]
    pub(crate) fn of_valid(text: &[u8], form: Form, port: AskedPort, cut: usize) -> Self {
        let mut address = Self {
            text: [0; MAX_ID],
            start: 0,
            len: 0,
            namespace_len: 0,
            form,
            port: port.number,
            default_port: port.is_default,
            cut,
            signature: None,
            other: None,
        };
        address.put(text);
        address
    }

    /// The same address with the signature of its route, if it has one.
    #[inline]
    pub(crate) fn signed(mut self, signature: Option<RouteSignature>) -> Self {
        self.signature = signature;
        self
    }

    /// Sets the text. It has been checked, so it fits.
    #[inline]
    fn put(&mut self, text: &[u8]) {
        if let (Some(room), Ok(len)) = (self.text.get_mut(..text.len()), u8::try_from(text.len())) {
            room.copy_from_slice(text);
            self.len = len;
        }
    }

    /// An address from a host label, whose readings have been checked.
    ///
    /// `other` is a second reading of the same label. A label that is longer than an ID can be has none: no
    /// DNS name is.
    #[inline]
    pub(crate) fn of_label(label: &[u8], first: &Reading<'_>, other: Option<&Reading<'_>>) -> Self {
        let mut address = Self::of_valid(first.id, first.form, first.port.into(), 0);
        address.signature = first.signature.or_else(|| other?.signature);
        if let Some(other) = other {
            address.add_reading(label, other);
        }
        address
    }

    #[cold]
    fn add_reading(&mut self, label: &[u8], other: &Reading<'_>) {
        let (true, Ok(len)) = (label.len() <= MAX_ID, u8::try_from(other.id.len())) else { return };
        let id = self.len;
        self.put(label);
        self.start = self.len.saturating_sub(id);
        self.len = id;
        self.other = Some(Other { start: 0, len, form: other.form, port: other.port });
    }

    /// An agent-sandbox address, whose ID is composed as `{namespace}--{name}`.
    pub(crate) fn composed(
        namespace: &[u8],
        name: &[u8],
        port: Result<AskedPort, Part>,
    ) -> Result<Self, Part> {
        if !is_valid_namespace(namespace) {
            return Err(Part::Namespace);
        }
        let start = namespace.len() + SEPARATOR.len();
        let len = start + name.len();
        let (true, Ok(namespace_len)) = (is_valid_id(name) && len <= MAX_ID, u8::try_from(namespace.len()))
        else {
            return Err(Part::Id);
        };
        let port = port?;
        let mut id = [0; MAX_ID];
        id[..namespace.len()].copy_from_slice(namespace);
        id[namespace.len()..start].copy_from_slice(SEPARATOR);
        id[start..len].copy_from_slice(name);
        let address = Self::of_valid(&id[..len], Form::AgentSandboxHeader, port, 0);
        Ok(Self { namespace_len, ..address })
    }

    /// An agent-sandbox address that may also be one of [`Form::SandboxEnvHeader`], whose ID is the name.
    #[inline]
    pub(crate) fn or_as_sandbox_env(self) -> Self {
        let start = self.namespace_len.saturating_add(SEPARATOR_LEN);
        let len = self.len.saturating_sub(start);
        let other = Other { start, len, form: Form::SandboxEnvHeader, port: self.port };
        Self { other: Some(other), ..self }
    }

    /// Whether another form of the same request names the same: the ID, and the port where both name one.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        let port = AskedPort { number: other.port, is_default: other.default_port };
        self.names(other.form, other.id_bytes(), port)
    }

    /// Whether a reading of the host names the same.
    pub(crate) fn agrees_with_host(&self, reading: &Reading<'_>) -> bool {
        self.names(reading.form, reading.id, reading.port.into())
    }

    /// The same, of the parts of an address in another form.
    pub(crate) fn names(&self, form: Form, id: &[u8], port: AskedPort) -> bool {
        let own = self.id_bytes();
        let same_id = match (self.form.is_host(), form.is_host()) {
            (true, true) => own.eq_ignore_ascii_case(id),
            (true, false) => is_named_by_host(own, id),
            (false, true) => is_named_by_host(id, own),
            (false, false) => own == id,
        };
        same_id && (self.default_port || port.is_default || port.number == self.port)
    }

    /// The second reading, where there is one that the table has not ruled out.
    pub fn other_reading(&self) -> Option<Self> {
        let Other { start, len, form, port } = self.other?;
        Some(Self { start, len, namespace_len: 0, form, port, other: None, ..self.clone() })
    }

    /// Whether there is a second reading, so that the address has to be settled.
    #[inline]
    pub fn has_two_readings(&self) -> bool {
        self.other.is_some()
    }

    /// The first reading is meant.
    pub(crate) fn drop_other_reading(&mut self) {
        self.other = None;
    }

    /// The dialect of the form.
    pub fn dialect(&self) -> Dialect {
        self.form.dialect()
    }

    /// How the address was given.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The signature, where the route is a signed one of OpenSandbox. It is over the [ID](Self::id) as it was
    /// sent, the [port](Self::port) and its expiry. A signature in another form of the same request is not
    /// looked at.
    pub fn signature(&self) -> Option<&RouteSignature> {
        self.signature.as_ref().filter(|_| self.dialect() == Dialect::OpenSandbox)
    }

    /// The ID to look up, in the case it was sent in.
    pub fn id(&self) -> &str {
        as_str(self.id_bytes())
    }

    /// The same as bytes, which is all that a lookup needs.
    #[inline]
    pub(crate) fn id_bytes(&self) -> &[u8] {
        let start = usize::from(self.start);
        self.text.get(start..start + usize::from(self.len)).unwrap_or_default()
    }

    /// The port of the sandbox, 1 to 65535.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The namespace and name an agent-sandbox request asked for. They must be compared with the object that
    /// was found: two pairs can compose to one ID.
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
        let mut folded = [0; MAX_ID];
        let folded = folded.get_mut(..id.len())?;
        folded.copy_from_slice(id);
        folded.make_ascii_lowercase();
        f(folded)
    }

    /// Whether the path must be replaced by [`Address::rewrite`] before the request is forwarded.
    pub fn rewrites_path(&self) -> bool {
        self.cut != 0
    }

    /// The path for the sandbox, given the `:path` the address was read from; `None` when it stays as it is.
    ///
    /// `signed` says whether a signature in the path is one: the sandbox is closed with a token. To a sandbox
    /// that is not, a path that looks signed is a path like any other, and all of it behind the port is sent
    /// on. It changes nothing where there is no signature.
    ///
    /// Only the prefix goes: what follows it, query included, is kept byte for byte, and a missing slash is
    /// added. So `/kruise/demo/80//x` becomes `//x`, just as a client using the host form would have sent it:
    /// the path is in origin form, begins with `/` and is carried apart from the authority, so a second slash
    /// cannot be taken for one. Borrowed in all cases but `…/{port}?query`.
    pub fn rewrite<'p>(&self, path: &'p [u8], signed: bool) -> Option<Cow<'p, [u8]>> {
        if self.cut == 0 {
            return None;
        }
        let signature = self.signature.as_ref().filter(|_| signed).map_or(0, RouteSignature::path_len);
        let rest = path.get(self.cut + signature..)?;
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
            .field("signature", &self.signature)
            .field("other", &self.other)
            .finish()
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        (self.form, self.id(), self.namespace_len, self.port, self.cut, self.signature, self.other)
            == (
                other.form,
                other.id(),
                other.namespace_len,
                other.port,
                other.cut,
                other.signature,
                other.other,
            )
    }
}

impl Eq for Address {}

const SEPARATOR: &[u8] = b"--";
const SEPARATOR_LEN: u8 = 2;

/// Whether the ID in a host names this ID. Case carries no meaning in a host, and browsers send it in lower
/// case. In an ID it does: `Team--a` is another sandbox than `team--a`, and must not be shown in the origin
/// of that one.
fn is_named_by_host(host: &[u8], id: &[u8]) -> bool {
    id == host || id.iter().copied().eq(host.iter().map(u8::to_ascii_lowercase))
}

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
