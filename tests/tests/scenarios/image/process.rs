//! The gateway's image as a runtime runs it: entrypoint and command as they stand, as PID 1, on the default
//! ports.
//!
//! It has a network namespace of its own for that (which needs root), with the sandbox and the clients in it.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sandgate_tests::netns::Network;
use sandgate_tests::{
    Client, DEADLINE, Reply, Request, Sandbox, eventually, image, locations, route, routes,
};
use serde_json::Value;
use tempfile::TempDir;

use super::told;
use crate::support::{ask, sandbox};

const GATEWAY: &str = "127.0.0.1:7788";

/// The image, running.
struct Shipped {
    child: Child,
    /// PID 1 of the image, by its number here.
    pid: u32,
    folder: TempDir,
}

impl Shipped {
    /// Starts the image with `/etc/sandgate` as a cluster would mount it.
    fn start(demo: &Sandbox) -> Self {
        let unpacked = locations::images().join("unpacked/bundle");
        let spec = fs::read(unpacked.join("config.json")).expect("the runtime's config");
        let spec: Value = serde_json::from_slice(&spec).expect("JSON");
        let process = &spec["process"];
        let words = |value: &Value| -> Vec<String> {
            let list = value.as_array().expect("a list").iter();
            list.map(|word| word.as_str().expect("text").to_owned()).collect()
        };
        let (user, group) = (process["user"]["uid"].to_string(), process["user"]["gid"].to_string());
        assert_eq!((user.as_str(), group.as_str()), ("65532", "65532"));

        // That user must reach the files by its own rights, which it may not have where they were unpacked.
        let folder = TempDir::with_prefix("sandgate-image-").expect("create a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("open the folder");
        let (root, mount) = (folder.path().join("root"), folder.path().join("mount"));
        told(Command::new("cp").args(["-a", "--reflink=auto"]).arg(unpacked.join("rootfs")).arg(&root));
        fs::create_dir(&mount).expect("create a folder");
        fs::write(mount.join("routes.yaml"), routes([route("demo").ip(demo.ip())])).expect("write");
        let config = "gateway:\n  routes-file: /etc/sandgate/routes.yaml\n  pod-ranges: [127.0.0.0/8]\n";
        fs::write(mount.join("gateway.yaml"), config).expect("write");

        let file = |name| File::create(folder.path().join(name)).expect("create a file");
        let mut command = Command::new("setpriv");
        command
            .args([
                "--reuid",
                &user,
                "--regid",
                &group,
                "--clear-groups",
                "bwrap",
                "--die-with-parent",
                "--as-pid-1",
            ])
            .args(["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--clearenv"])
            .arg("--ro-bind")
            .arg(&root)
            .args(["/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind"])
            .arg(&mount)
            .args(["/etc/sandgate", "--chdir", process["cwd"].as_str().expect("a folder")]);
        for variable in words(&process["env"]) {
            let (name, value) = variable.split_once('=').expect("a variable");
            command.args(["--setenv", name, value]);
        }
        command.arg("--").args(words(&process["args"])).stdin(Stdio::null());
        let mut child =
            command.stdout(file("stdout")).stderr(file("stderr")).spawn().expect("start setpriv and bwrap");
        let pid = image::only_child(&mut child);
        Self { child, pid, folder }
    }

    fn said(&self) -> String {
        let read = |name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        format!("{}{}", read("stdout"), read("stderr"))
    }

    async fn ready(&mut self) {
        eventually("the image serves", DEADLINE, async || {
            let ended = self.child.try_wait().expect("ask for the child");
            assert!(ended.is_none(), "the image ended with {ended:?}: {}", self.said());
            (get(ask("default--demo")).await.ok()?.status == 200).then_some(())
        })
        .await;
    }

    /// A path inside the image.
    fn inside(&self, path: &str) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.pid)).join(path)
    }
}

impl Drop for Shipped {
    fn drop(&mut self) {
        // With PID 1 everything in the image ends.
        let _sent = Command::new("kill").args(["-KILL", &self.pid.to_string()]).output();
        let _ended = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- what the image said ---\n{}\n---", self.said());
        }
    }
}

/// Why a request got no answer. A retry helps until the gateway listens.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("cannot connect: {0}")]
    Connect(#[from] std::io::Error),
    #[error(transparent)]
    Exchange(#[from] hyper::Error),
}

async fn get(request: Request) -> Result<Reply, NoAnswer> {
    let gateway = GATEWAY.parse().expect("an address");
    Ok(Client::http1(gateway).await?.send(request).await?)
}

fn field(pid: u32, name: &str) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a known field");
    line.split_whitespace().map(ToOwned::to_owned).collect()
}

/// Its own network, with the image and a sandbox in it, or a word on the terminal why there is none.
fn with_image<F: Future<Output = ()> + 'static>(
    scenario: &'static str,
    work: impl FnOnce(Sandbox, Shipped) -> F + Send + 'static,
) {
    let Some(network) = Network::or_skip(scenario, 1, 1) else {
        return;
    };
    network.place(0).run(async move || {
        let demo = sandbox("demo").await;
        let mut shipped = Shipped::start(&demo);
        shipped.ready().await;
        work(demo, shipped).await;
    });
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn its_entrypoint_serves_from_a_read_only_root_as_user_65532_without_any_right() {
    with_image("the entrypoint serves", async |_demo, shipped| {
        assert_eq!(get(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
        let envoy = image::children(shipped.pid);
        assert_eq!(envoy.len(), 1, "one child, which is Envoy: {envoy:?}");
        let program = fs::read_link(format!("/proc/{}/exe", envoy[0])).expect("it runs");
        assert!(program.ends_with("usr/local/bin/envoy"), "{}", program.display());
        for (process, number) in [(shipped.pid, "1"), (envoy[0], "")] {
            let numbers = field(process, "NSpid:");
            assert!(number.is_empty() || numbers.last().is_some_and(|last| last == number), "{numbers:?}");
            assert_eq!(field(process, "Uid:"), ["65532"; 4]);
            assert_eq!(field(process, "Gid:"), ["65532"; 4]);
            assert_eq!(field(process, "CapEff:"), ["0000000000000000"]);
        }
        for path in ["new", "etc/new", "etc/sandgate/new", "usr/local/lib/new"] {
            let written = fs::write(shipped.inside(path), "");
            let refused = written.is_err_and(|error| error.kind() == ErrorKind::ReadOnlyFilesystem);
            assert!(refused, "/{path} can be written");
        }
        assert!(shipped.inside("usr/local/bin/sandgate").exists());
        assert!(
            !shipped.inside("bin/sh").exists() && !shipped.inside("usr/bin/sh").exists(),
            "there is a shell"
        );
    });
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn as_process_1_it_drains_on_sigterm() {
    with_image("SIGTERM drains", async |demo, mut shipped| {
        let held = tokio::task::spawn_local(get(ask("default--demo").path("/slow")));
        demo.holding(1).await;
        told(Command::new("kill").args(["-TERM", &shipped.pid.to_string()]));
        eventually("it says that it drains", DEADLINE, async || {
            shipped.said().contains("drain").then_some(())
        })
        .await;
        assert!(!held.is_finished(), "the request under way was cut");
        demo.release(1);
        assert_eq!(held.await.expect("no panic").expect("an answer").sandbox(), "demo");
        let ended = eventually("the image ends", DEADLINE, async || {
            shipped.child.try_wait().expect("ask for the child")
        });
        assert_eq!(ended.await.code(), Some(0), "{}", shipped.said());
    });
}

#[test]
#[ignore = "needs the images: make test-image runs it"]
fn as_process_1_it_reaps_what_others_leave_behind() {
    with_image("orphans are reaped", async |_demo, shipped| {
        let envoy = image::children(shipped.pid);
        // There is no shell inside; this one is the machine's, among the processes of the image.
        let target = shipped.pid.to_string();
        let orphan = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & "];
        told(Command::new("nsenter").args(["--target", &target, "--pid"]).args(orphan));
        let orphan = eventually("the orphan is the child of PID 1", DEADLINE, async || {
            image::children(shipped.pid).into_iter().find(|child| !envoy.contains(child))
        })
        .await;
        told(Command::new("kill").args(["-KILL", &orphan.to_string()]));
        eventually("PID 1 has reaped the orphan", DEADLINE, async || {
            (image::children(shipped.pid) == envoy).then_some(())
        })
        .await;
        assert_eq!(get(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
    });
}
