//! The definitions that are published are those of the types.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use sandgate_objects::openkruise::resources::Definition;
use sandgate_objects::{openkruise, opensandbox, sandbox_env};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../envoy/deploy/crds")
}

fn definitions() -> impl Iterator<Item = Definition> {
    openkruise::resources::definitions()
        .into_iter()
        .chain(opensandbox::resources::definitions())
        .chain(sandbox_env::resources::definitions())
}

fn file_name(definition: &Definition) -> String {
    format!("{}_{}.yaml", definition.spec.group, definition.spec.names.plural)
}

/// `make crds` writes them anew.
#[test]
fn the_published_definitions_are_the_generated_ones() {
    for definition in definitions() {
        let path = folder().join(file_name(&definition));
        let generated =
            format!("# Made of the types in controller/objects by `make crds`.\n{}", yaml(&definition));
        if std::env::var_os("SANDGATE_BLESS").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &generated).unwrap();
        }
        let published = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(published == generated, "{} is out of date: make crds writes it anew", path.display());
    }
}

/// Bounds are floats in the type; `0` and `1` are what people write.
fn yaml(definition: &Definition) -> String {
    let yaml = serde_saphyr::to_string(definition).unwrap();
    yaml.replace("minimum: 0.0\n", "minimum: 0\n").replace("minimum: 1.0\n", "minimum: 1\n")
}
