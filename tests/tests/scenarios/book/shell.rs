//! The shell blocks of the book.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sandgate_tests::book::{Block, Page, pages};
use sandgate_tests::deploy::kubernetes_version;
use sandgate_tests::{Cli, DEADLINE, LoopbackPort, eventually, locations};
use tempfile::TempDir;

use super::blocks;

/// The folder with what blocks are run with.
const PRELUDES: &str = "tests/tests/scenarios/book";

/// Programs that the blocks of the book may use as they are.
const PROGRAMS: [&str; 16] = [
    "base64",
    "cat",
    "cut",
    "date",
    "env",
    "grep",
    "head",
    "install",
    "make",
    "mkdir",
    "mv",
    "sed",
    "sha256sum",
    "sleep",
    "tail",
    "tr",
];

/// What a page's blocks are run in: a folder with a copy of what ships for Kubernetes, and ports of its own.
struct Session {
    folder: TempDir,
    /// Each usual port with the one in its place.
    ports: [(&'static str, LoopbackPort); 4],
    servers: Vec<Server>,
}

/// A block that runs in the background, in a process group of its own.
struct Server {
    child: Child,
    log: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The group: the shell may have started what does not end with it.
        let ended = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
        assert!(ended.is_ok(), "run kill");
        let _ = self.child.wait(); // It was ended a moment ago, by a signal: there is nothing to learn.
        if std::thread::panicking() {
            eprintln!(
                "--- a block in the background ---\n{}",
                fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
    }
}

impl Session {
    fn new() -> Self {
        let folder = TempDir::with_prefix("sandgate-book-").expect("create a folder");
        for part in ["envoy/deploy", "envoy/config"] {
            copy(&locations::repository().join(part), &folder.path().join(part));
        }
        let programs = folder.path().join(".programs");
        fs::create_dir(&programs).expect("create a folder");
        for program in PROGRAMS {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let found =
                std::env::split_paths(&path).map(|part| part.join(program)).find(|file| file.is_file());
            symlink(found.unwrap_or_else(|| panic!("no {program} in PATH")), programs.join(program))
                .expect("link");
        }
        let ports = ["7788", "9901", "7789", "8000"].map(|usual| (usual, LoopbackPort::reserve()));
        Self { folder, ports, servers: Vec::new() }
    }

    /// A text with this session's ports.
    fn here(&self, text: &str) -> String {
        let replace = |text: String, (usual, port): &(&str, LoopbackPort)| {
            text.replace(usual, &port.number().to_string())
        };
        self.ports.iter().fold(text.to_owned(), replace)
    }

    fn shell(&self, prelude: &str, block: &Block) -> Command {
        let mut command = Command::new("/bin/bash");
        let within = block.marks.get("in").map(String::as_str).unwrap_or_default();
        command
            .args(["-c", &format!(". \"$REPOSITORY/{PRELUDES}/{prelude}\"\n{}", block.text)])
            .current_dir(self.folder.path().join(within))
            .env("SANDGATE_BIN", locations::cli())
            .env("REPOSITORY", locations::repository())
            .env("TMPDIR", self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a block with stand-ins for what needs a cluster.
    async fn check(&self, block: &Block) -> Result<(), String> {
        let mut command = self.shell("check.sh", block);
        command.env("TOOLS", locations::tools()).env("KUBERNETES", kubernetes_version());
        command.env("PATH", self.folder.path().join(".programs"));
        let done = Cli::finish(command).await;
        if done.code == Some(0) { Ok(()) } else { Err(format!("{}\n{}", done.stdout, done.stderr)) }
    }

    /// The block as it is run here.
    fn in_earnest(&self, block: &Block) -> Command {
        let block = Block { text: self.here(&block.text), ..block.clone() };
        let mut command = self.shell("run.sh", &block);
        let [(_, gateway), (_, admin), ..] = &self.ports;
        command
            .env("SANDGATE_ENVOY", locations::envoy_of_cli())
            .env("SANDGATE_MODULE", locations::module())
            .env("GATEWAY_PORT", gateway.number().to_string())
            .env("ADMIN_PORT", admin.number().to_string());
        command
    }

    fn serve(&mut self, block: &Block) {
        let log = self.folder.path().join(format!(".server-{}", self.servers.len()));
        let file = fs::File::create(&log).expect("create a file");
        let mut command = self.in_earnest(block);
        command.stdout(file.try_clone().expect("a file")).stderr(file).process_group(0);
        self.servers.push(Server { child: command.spawn().expect("start bash"), log });
    }

    /// Runs a block until it succeeds: what it asks may take a moment to be there.
    async fn run(&self, block: &Block) -> Result<(), String> {
        let mut last = String::new();
        let done = tokio::time::timeout(
            DEADLINE,
            eventually(&block.place, DEADLINE * 2, async || {
                let done = Cli::finish(self.in_earnest(block)).await;
                last = format!("{}\n{}", done.stdout, done.stderr);
                (done.code == Some(0)).then_some(())
            }),
        );
        done.await.map_err(|_| last)
    }

    /// Does with a block what its marks say.
    async fn follow(&mut self, block: &Block) -> Result<(), String> {
        if let Some(file) = block.marks.get("file") {
            fs::write(self.folder.path().join(file), self.here(&block.text)).expect("write");
        }
        if block.is("sh", "serve") {
            self.serve(block);
            Ok(())
        } else if block.is("sh", "run") {
            self.run(block).await
        } else if block.is("sh", "check") {
            self.check(block).await
        } else if block.is("console", "check") {
            let typed: Vec<&str> = block.text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
            assert!(!typed.is_empty(), "{}: nothing is typed", block.place);
            self.check(&Block { text: typed.join("\n"), ..block.clone() }).await
        } else {
            Ok(())
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("create a folder");
    for entry in fs::read_dir(from).expect("read a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copy a file");
        }
    }
}

#[tokio::test]
async fn what_the_book_says_to_type_works() {
    let (mut typed, mut wrong) = (0, Vec::new());
    for page in pages() {
        let mut session = Session::new();
        for block in page.blocks() {
            typed += usize::from(["sh", "console"].contains(&block.language.as_str()));
            if let Err(why) = session.follow(&block).await {
                wrong.push(format!("{}: {why}", block.place));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(typed > 20, "only {typed} blocks");
}

#[test]
fn something_is_run_in_earnest() {
    assert!(blocks("sh", "run").len() > 2 && !blocks("sh", "serve").is_empty());
}

/// The checks can fail: each line is wrong in one way.
#[tokio::test]
async fn what_cannot_be_typed_is_found() {
    let session = Session::new();
    for (line, why) in [
        ("sandgate run --colour blue", "refused"),
        ("sandgate routes --state asleep", "refused"),
        ("sandgate paint", "refused"),
        ("make no-such-target", "no such target"),
        ("helm install sandgate envoy/deploy/chart --set colour=blue", "refused"),
        ("kubectl apply -f envoy/deploy/rbac/no-such.yaml", "no file"),
        ("kubectl apply -k envoy/deploy/kustomize/overlays/no-such", "no Kustomize folder"),
        ("kubectl paint", "not checked"),
        ("paint --colour blue", "no check for the command"),
        ("cd no-such-folder", "No such file"),
        ("if true", "syntax error"),
    ] {
        let page = Page { path: "page.md".to_owned(), text: format!("```sh,check\n{line}\n```\n") };
        let refused = session.check(&page.blocks()[0]).await.expect_err(line);
        assert!(refused.contains(why), "{line}: {refused}");
    }
}
