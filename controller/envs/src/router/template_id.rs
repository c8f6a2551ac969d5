//! What a caller asks for: `[cluster::]name[//image]`.

use std::str::FromStr;

/// The longest name of a cluster.
const CLUSTER: usize = 63;
/// The longest name of an environment or of a pool.
const NAME: usize = 253;
/// The longest image: a repository of 255, a tag of 128 and a digest fit.
const IMAGE: usize = 512;

/// A `templateID`. A bare name is an environment's; behind a cluster it is a pool's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateId {
    /// The cluster, if one is named.
    pub cluster: Option<String>,
    /// The environment, or the pool if a cluster is named.
    pub name: String,
    /// The image of the first container, if it is not to be the pool's.
    pub image: Option<String>,
}

/// Why a text is not a `templateID`. A retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateIdError {
    /// The cluster is empty, too long, or has other characters than `a-z`, `0-9` and `-`.
    #[error("the cluster of a templateID has 1 to 63 characters of a-z, 0-9 and -")]
    Cluster,
    /// The name is empty, too long, or not a name of Kubernetes.
    #[error("the name in a templateID has 1 to 253 characters of a-z, 0-9, - and .")]
    Name,
    /// The image is empty, too long, or has characters that no image has.
    #[error("the image in a templateID has 1 to 512 characters of an image's name")]
    Image,
}

impl FromStr for TemplateId {
    type Err = TemplateIdError;

    fn from_str(text: &str) -> Result<Self, TemplateIdError> {
        // The image is cut off first: it may have colons and slashes of its own.
        let (place, image) = match text.split_once("//") {
            Some((place, image)) => (place, Some(image)),
            None => (text, None),
        };
        let (cluster, name) = match place.split_once("::") {
            Some((cluster, name)) => (Some(cluster), name),
            None => (None, place),
        };
        if !cluster.is_none_or(|cluster| cluster.len() <= CLUSTER && is_label(cluster)) {
            return Err(TemplateIdError::Cluster);
        }
        if name.len() > NAME || !name.split('.').all(is_label) {
            return Err(TemplateIdError::Name);
        }
        if !image.is_none_or(is_image) {
            return Err(TemplateIdError::Image);
        }
        Ok(Self {
            cluster: cluster.map(str::to_owned),
            name: name.to_owned(),
            image: image.map(str::to_owned),
        })
    }
}

fn is_label(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| is_word(byte) || byte == b'-')
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().next_back().is_some_and(is_word)
}

fn is_image(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    (1..=IMAGE).contains(&text.len())
        && text.bytes().all(is_allowed)
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests;
