//! Which objects to follow, and the requests for them.

use std::fmt;

use form_urlencoded::Serializer;
use sandgate_routes::Version;

/// The objects that one follower reads: a resource, in one namespace or all, with one selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version of the group, as in `v1alpha1`.
    pub version: String,
    /// The plural name of the resource, as in `sandboxes`.
    pub plural: String,
    /// The namespace; none is all of them.
    pub namespace: Option<String>,
    /// A label selector, as `kubectl -l` takes it; empty selects every object.
    pub selector: String,
}

/// The resource, as `plural.group/version`; `plural/version` in the core group.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}/{}", self.plural, self.group, self.version)
    }
}

impl Target {
    fn path(&self) -> String {
        let Target { group, version, plural, namespace, .. } = self;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }

    pub(crate) fn page(&self, limit: u32, next: Option<&str>) -> String {
        let limit = limit.to_string();
        let next = next.map(|token| ("continue", token));
        self.with([("limit", limit.as_str())].into_iter().chain(next))
    }

    pub(crate) fn streamed_list(&self, seconds: u64) -> String {
        let seconds = seconds.to_string();
        self.with([
            ("watch", "true"),
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &seconds),
        ])
    }

    pub(crate) fn watch(&self, version: &Version, seconds: u64) -> String {
        let (version, seconds) = (version.to_string(), seconds.to_string());
        self.with([
            ("watch", "true"),
            ("resourceVersion", version.as_str()),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &seconds),
        ])
    }

    fn with<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let path = self.path();
        let query_at = path.len() + 1;
        let mut query = Serializer::for_suffix(path + "?", query_at);
        for (key, value) in pairs {
            query.append_pair(key, value);
        }
        if !self.selector.is_empty() {
            query.append_pair("labelSelector", &self.selector);
        }
        query.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(group: &str, namespace: Option<&str>, selector: &str) -> Target {
        Target {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: "things".to_owned(),
            namespace: namespace.map(str::to_owned),
            selector: selector.to_owned(),
        }
    }

    #[test]
    fn the_path_has_group_and_namespace_where_there_are_any() {
        assert_eq!(target("g.io", None, "").page(7, None), "/apis/g.io/v1/things?limit=7");
        assert_eq!(target("", Some("a"), "").page(7, None), "/api/v1/namespaces/a/things?limit=7");
    }

    #[test]
    fn a_resource_of_the_core_group_is_shown_without_a_group() {
        assert_eq!(target("g.io", None, "").to_string(), "things.g.io/v1");
        assert_eq!(target("", None, "").to_string(), "things/v1");
    }

    #[test]
    fn a_selector_and_a_token_are_escaped() {
        let path = target("g.io", None, "a in (b, c),d!=e").page(1, Some("x+/="));
        assert_eq!(
            path,
            "/apis/g.io/v1/things?limit=1&continue=x%2B%2F%3D&labelSelector=a+in+%28b%2C+c%29%2Cd%21%3De"
        );
    }
}
