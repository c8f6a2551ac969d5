//! Routes files as prose: `routes([route("demo").ip(sandbox.ip()), route("asleep").state("paused")])`.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// The token every fixture uses, so that one search finds it wherever it must not be.
pub const SECRET: &str = "tok-3f9c1e77-must-never-be-seen";

/// One entry of a routes file.
#[derive(Clone, Debug)]
pub struct RouteEntry(Map<String, Value>);

/// An entry with a name and nothing else.
pub fn route(name: &str) -> RouteEntry {
    RouteEntry(Map::new()).set("name", name)
}

impl RouteEntry {
    /// Sets any key.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Sets the lookup ID.
    #[must_use]
    pub fn id(self, id: &str) -> Self {
        self.set("id", id)
    }

    /// Sets the namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.set("namespace", namespace)
    }

    /// Sets the address.
    #[must_use]
    pub fn ip(self, ip: impl Into<IpAddr>) -> Self {
        self.set("ip", ip.into().to_string())
    }

    /// Sets the state.
    #[must_use]
    pub fn state(self, state: &str) -> Self {
        self.set("state", state)
    }

    /// Sets the owner.
    #[must_use]
    pub fn owner(self, owner: &str) -> Self {
        self.set("owner", owner)
    }

    /// Sets the access token.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        self.set("access-token", token)
    }
}

/// The text of a routes file with these entries.
pub fn routes(entries: impl IntoIterator<Item = RouteEntry>) -> String {
    let entries: Vec<Value> = entries.into_iter().map(|entry| Value::Object(entry.0)).collect();
    json!({ "routes": entries }).to_string()
}

/// Replaces `file` as editors do: a new file beside it, renamed over it.
pub fn replace_by_rename(file: &Path, text: &str) {
    let fresh = file.with_extension("fresh");
    fs::write(&fresh, text).expect("write beside the file");
    fs::rename(&fresh, file).expect("rename over the file");
}

/// A folder as the kubelet mounts a ConfigMap: the file is a link through `..data`, and `..data` is swapped
/// by rename.
pub struct ConfigMap {
    folder: PathBuf,
    revision: u32,
}

impl ConfigMap {
    /// Mounts `text` as `routes.yaml` under `folder`.
    pub fn mount(folder: &Path, text: &str) -> Self {
        fs::create_dir_all(folder).expect("create the folder");
        let mut map = Self { folder: folder.to_owned(), revision: 0 };
        map.swap(text);
        symlink("..data/routes.yaml", map.file()).expect("link the file");
        map
    }

    /// The path a container sees.
    pub fn file(&self) -> PathBuf {
        self.folder.join("routes.yaml")
    }

    /// Replaces the content: the new revision's folder first, then the link, then the old folder goes.
    pub fn swap(&mut self, text: &str) {
        let old = format!("..revision-{}", self.revision);
        self.revision += 1;
        let new = format!("..revision-{}", self.revision);
        fs::create_dir(self.folder.join(&new)).expect("create the revision");
        fs::write(self.folder.join(&new).join("routes.yaml"), text).expect("write the revision");
        let link = self.folder.join("..data_tmp");
        symlink(&new, &link).expect("link the revision");
        fs::rename(&link, self.folder.join("..data")).expect("swap the link");
        if self.revision > 1 {
            fs::remove_dir_all(self.folder.join(old)).expect("remove the old revision");
        }
    }
}
