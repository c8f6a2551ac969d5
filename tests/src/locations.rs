//! Where the binaries under test are: one environment variable each, set by `make test`.

use std::path::PathBuf;

use crate::image;

fn required(variable: &str, what: &str) -> PathBuf {
    let Some(value) = std::env::var_os(variable) else {
        panic!("{variable} is not set: it is the path of {what}; `make test` sets it");
    };
    let path = PathBuf::from(value);
    assert!(path.exists(), "{variable}={} does not exist; `make test` builds or installs it", path.display());
    path.canonicalize().expect("an existing path has a canonical form")
}

/// The Envoy binary (`SANDGATE_ENVOY`).
pub fn envoy() -> PathBuf {
    required("SANDGATE_ENVOY", "the Envoy binary")
}

/// Envoy as `sandgate` finds it: in the image, where that is what is tested.
pub fn envoy_of_cli() -> PathBuf {
    if image::root().is_some() { image::ENVOY.into() } else { envoy() }
}

/// The module under test (`SANDGATE_MODULE`, or the image's), as Envoy finds it.
pub fn module() -> PathBuf {
    if image::root().is_some() {
        return image::MODULE.into();
    }
    required("SANDGATE_MODULE", "libsandgate.so")
}

/// The module built with the cargo feature `failpoints` (`SANDGATE_MODULE_FAILPOINTS`).
pub fn module_with_failpoints() -> PathBuf {
    required("SANDGATE_MODULE_FAILPOINTS", "libsandgate.so built with the feature `failpoints`")
}

/// The command line tool (`SANDGATE_BIN`).
pub fn cli() -> PathBuf {
    required("SANDGATE_BIN", "the sandgate command")
}

/// The cluster in one program: API server, controllers, scheduler, node, kubectl (`SANDGATE_CLUSTER`).
pub fn cluster() -> PathBuf {
    required("SANDGATE_CLUSTER", "the cluster for tests, which `make cluster` builds")
}

/// The operator (`SANDGATE_OPERATOR`).
pub fn operator() -> PathBuf {
    required("SANDGATE_OPERATOR", "the sandgate-operator command")
}

/// What runs tasks inside a pod (`SANDGATE_TASK_EXECUTOR`). The nodes of the scenarios find it there too.
pub fn task_executor() -> PathBuf {
    required("SANDGATE_TASK_EXECUTOR", "the task-executor command")
}

/// The manager (`SANDGATE_MANAGER`).
pub fn manager() -> PathBuf {
    required("SANDGATE_MANAGER", "the sandgate-manager command")
}

/// The folder with helm, kustomize and kube-score (`SANDGATE_TOOLS`).
pub fn tools() -> PathBuf {
    required("SANDGATE_TOOLS", "the folder that `tests/tools/build` prints")
}

/// A real browser (`SANDGATE_CHROMIUM`, else `chromium` from PATH).
pub fn chromium() -> PathBuf {
    if std::env::var_os("SANDGATE_CHROMIUM").is_some() {
        return required("SANDGATE_CHROMIUM", "Chromium");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join("chromium"))
        .find(|candidate| candidate.is_file())
        .expect("no chromium in PATH and SANDGATE_CHROMIUM is not set; `make test` installs it")
}

/// The folder with the archives of `make image` (`SANDGATE_IMAGE`).
pub fn images() -> PathBuf {
    required("SANDGATE_IMAGE", "the folder of the images, which `make test-image` builds")
}

/// The folder with the programs that are in the images (`SANDGATE_IMAGE_BUILT`).
pub fn built_for_images() -> PathBuf {
    required("SANDGATE_IMAGE_BUILT", "the folder of what is in the images")
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .expect("the crate lives in the repository")
}
