mod choices;
mod predicates;
mod profiles;
mod selectors;
mod strategies;

use serde_json::{Value, json};

use super::{Labels, PoolOffer, SandboxNeeds};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A template whose containers have these images.
fn images(images: &[&str]) -> Value {
    let containers: Vec<Value> = images.iter().map(|image| json!({ "image": image })).collect();
    json!({ "spec": { "containers": containers } })
}

fn needs(template: Option<&Value>) -> SandboxNeeds<'_> {
    SandboxNeeds { labels: None, template, replicas: 1 }
}

fn offer<'a>(name: &'a str, template: Option<&'a Value>) -> PoolOffer<'a> {
    PoolOffer { name, labels: None, template, most: 10, total: 10, allocated: 5 }
}
