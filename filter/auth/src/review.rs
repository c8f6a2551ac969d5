//! What somebody else said of a bearer token: the API server, by a TokenReview.

/// The answer about one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reviewed {
    /// It is good, and this is who has it.
    Good(Caller),
    /// It is not.
    Bad,
    /// There was no answer. It is remembered for a while, so that a silent API server is not asked by every
    /// request.
    Failed,
}

/// Who has a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Such as `system:serviceaccount:NAMESPACE:NAME`.
    pub username: String,
    /// The groups that the API server names.
    pub groups: Vec<String>,
}

impl Caller {
    /// The namespace of a service account; `None` for other users.
    pub fn namespace(&self) -> Option<&str> {
        let (namespace, name) = self.username.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some(namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_account_has_a_namespace() {
        let namespace = |name: &str| Caller { username: name.to_owned(), ..Caller::default() };
        assert_eq!(namespace("system:serviceaccount:team:agent").namespace(), Some("team"));
        for name in [
            "",
            "jane",
            "system:serviceaccount:team",
            "system:serviceaccount::agent",
            "system:node:a:b",
            "system:serviceaccount:team:",
            "system:serviceaccount:team:a:b",
            "x:system:serviceaccount:team:a",
        ] {
            assert_eq!(namespace(name).namespace(), None, "{name}");
        }
    }
}
