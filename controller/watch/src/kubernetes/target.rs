//! What to ask the API server for.

use form_urlencoded::Serializer;

use super::provider::{Provider, Resource};

/// The address of a scope's objects.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) provider: String,
    path: String,
    selector: String,
}

impl Target {
    pub(super) fn new(provider: &dyn Provider, namespace: Option<&str>, selector: &str) -> Self {
        let Resource { group, version, plural, .. } = provider.resource();
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let path = match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        };
        Target { provider: provider.name().to_owned(), path, selector: selector.to_owned() }
    }

    pub(super) fn page(&self, limit: u32, next: Option<&str>) -> String {
        let limit = limit.to_string();
        let next = next.map(|token| ("continue", token));
        self.with([("limit", limit.as_str())].into_iter().chain(next))
    }

    pub(super) fn streamed_list(&self, seconds: u64) -> String {
        let seconds = seconds.to_string();
        self.with([
            ("watch", "true"),
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &seconds),
        ])
    }

    pub(super) fn watch(&self, version: &str, seconds: u64) -> String {
        let seconds = seconds.to_string();
        self.with([
            ("watch", "true"),
            ("resourceVersion", version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", &seconds),
        ])
    }

    fn with<'a>(&self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
        let mut query = Serializer::for_suffix(format!("{}?", self.path), self.path.len() + 1);
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
    use std::time::SystemTime;

    use super::super::provider::{Projection, Unreadable};
    use super::*;

    struct Named(Resource);

    impl Provider for Named {
        fn name(&self) -> &str {
            "p"
        }
        fn resource(&self) -> &Resource {
            &self.0
        }
        fn project(&self, _: &[u8], _: SystemTime) -> Result<Projection, Unreadable> {
            Err(Unreadable::new("object", "not for reading"))
        }
    }

    fn target(group: &str, namespace: Option<&str>, selector: &str) -> Target {
        let resource = Resource {
            group: group.into(),
            version: "v1".into(),
            kind: "Thing".into(),
            plural: "things".into(),
        };
        Target::new(&Named(resource), namespace, selector)
    }

    #[test]
    fn the_path_has_group_and_namespace_where_there_are_any() {
        assert_eq!(target("g.io", None, "").page(7, None), "/apis/g.io/v1/things?limit=7");
        assert_eq!(target("", Some("a"), "").page(7, None), "/api/v1/namespaces/a/things?limit=7");
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
