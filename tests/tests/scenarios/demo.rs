//! `make demo`, as the person who types it sees it: what it prints works, and nothing is left of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use sandgate_tests::book::Page;
use sandgate_tests::{Cli, LoopbackPort, eventually, image};
use tempfile::TempDir;

/// How long a start or an end may take: some seconds alone; more among all the others.
const PATIENCE: Duration = Duration::from_secs(120);

/// A demo that was started. Dropping it ends it.
struct Started {
    child: Child,
    folder: TempDir,
}

impl Started {
    fn with(arguments: &[&str]) -> Self {
        let folder = TempDir::with_prefix("sandgate-demo-").expect("create a folder");
        std::fs::create_dir(folder.path().join("tmp")).expect("create a folder");
        let file = |name| File::create(folder.path().join(name)).expect("create a file");
        let child = Command::new(env!("CARGO_BIN_EXE_demo"))
            .args(arguments)
            .env("TMPDIR", folder.path().join("tmp"))
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .expect("start the demo");
        Self { child, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// Waits until one of its outputs is as `holds` asks.
    async fn until(&mut self, what: &str, name: &str, holds: impl Fn(&str) -> bool) -> String {
        eventually(what, PATIENCE, async || {
            let text = self.read(name);
            let ended = self.child.try_wait().expect("ask for the child");
            assert!(ended.is_none() || holds(&text), "the demo ended ({ended:?}):\n{}", self.read("stderr"));
            holds(&text).then_some(text)
        })
        .await
    }

    /// Waits for its last line, and gives what it printed.
    async fn ready(&mut self) -> String {
        self.until("the demo is ready", "stdout", |text| text.ends_with("\nready\n")).await
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("run kill").success(), "signal {name}");
    }

    /// Every process that it has started, directly or not.
    fn processes(&self) -> BTreeSet<u32> {
        let (mut found, mut left) = (BTreeSet::new(), vec![self.child.id()]);
        while let Some(pid) = left.pop() {
            left.extend(image::children(pid));
            found.insert(pid);
        }
        found
    }

    async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the demo ends", PATIENCE, async || child.try_wait().expect("ask for the child")).await
    }

    /// Nothing is left of what it was a moment ago.
    async fn left_nothing(&self, processes: &BTreeSet<u32>) {
        // One that has ended and that process 1 has not looked after yet has no command line.
        let names = processes.iter().map(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")));
        let names: Vec<String> = names.filter_map(Result::ok).filter(|name| !name.is_empty()).collect();
        assert!(names.is_empty(), "processes are left: {names:#?}");
        let tmp = self.path("tmp");
        let files =
            std::fs::read_dir(&tmp).expect("read the folder").map(|entry| entry.expect("an entry").path());
        let files: Vec<PathBuf> = files.collect();
        assert!(files.is_empty(), "files are left: {files:?}");
        for address in addresses(&self.read("stdout")) {
            let open = tokio::net::TcpStream::connect(address).await;
            assert!(open.is_err(), "{address} still listens");
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal("TERM");
            let _status = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- the demo's output ---\n{}\n{}\n---", self.read("stdout"), self.read("stderr"));
        }
    }
}

/// Every address in a text of URLs.
fn addresses(text: &str) -> BTreeSet<SocketAddr> {
    let urls = text.split("http://").skip(1);
    urls.filter_map(|url| {
        url.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ':').next()?.parse().ok()
    })
    .collect()
}

async fn shell(line: &str) -> String {
    let done = Cli::shell(line).await;
    assert_eq!(done.code, Some(0), "{line}\n{}{}", done.stdout, done.stderr);
    done.stdout
}

/// Installs an SDK, and gives the folder with its packages.
fn installed(install: &str, arguments: &[&str]) -> String {
    let install = sandgate_tests::locations::repository().join("tests/e2b").join(install);
    let done = Command::new(install).args(arguments).output().expect("install the SDK");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let packages = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    assert!(Path::new(&packages).is_dir(), "{packages}");
    packages
}

#[tokio::test]
async fn what_the_demo_prints_works_and_ctrl_c_leaves_nothing() {
    // Before the deadline of a line of shell runs.
    let (packages, node) = (installed("install", &[]), installed("js/install", &[]));
    let older = installed("install", &["2.8.1"]);
    let mut demo = Started::with(&[]);
    let printed = demo.ready().await;

    let curl = printed.lines().find(|line| line.starts_with("curl ")).expect("a curl line");
    assert_eq!(shell(curl).await, "hello from demo\n");

    // In another shell, that knows nothing but the exports.
    let exports = format!("eval \"$(grep '^export ' '{}')\"", demo.path("stdout").display());
    let available = "kubectl get sandboxset base -o jsonpath='{.status.availableReplicas}'";
    assert_eq!(shell(&format!("{exports}; {available}")).await, "2");
    let pods = shell(&format!("{exports}; kubectl get pods -o name")).await;
    assert_eq!(pods.lines().count(), 3, "two warm ones and the demo's: {pods}");
    assert_eq!(shell(&format!("{exports}; curl -s \"$SANDGATE_ADMIN/ready\"")).await.trim(), "LIVE");
    let page = "curl -s \"$SANDGATE_GATEWAY/kruise/default--demo/3000/\"";
    assert_eq!(shell(&format!("{exports}; {page}")).await, "hello from demo\n");
    let file =
        printed.lines().find_map(|line| line.split_once(" or: . ")).expect("a file with the exports").1;
    assert_eq!(
        shell(&format!(". {file}; kubectl exec demo -c page -- sh -c 'echo $POD_NAME'")).await,
        "demo\n"
    );

    // The three lines for the SDK, but that it is installed already.
    let mut pasted = printed.lines().skip_while(|line| *line != "pip install e2b").skip(1);
    let (account, snippet) = (pasted.next().expect("a line"), pasted.next().expect("a line"));
    assert!(account.starts_with("export E2B_API_KEY='e2b_") && snippet.starts_with("python3 -c "));
    let python =
        |packages: &str| format!("{account}; export PYTHONPATH='{packages}' PYTHONDONTWRITEBYTECODE=1");
    let made = shell(&format!("{}; {snippet}", python(&packages))).await;
    assert!(made.trim_end().ends_with(" written through the gateway"), "{made}");
    // The programs of the page, and what the page says of an older SDK, at the same time.
    let page = Page::read("envoy/docs/demo.md").blocks();
    let program = |language: &str, name: &str| {
        let program = page.iter().find(|block| block.is(language, "test")).expect("a program");
        std::fs::write(demo.path(name), &program.text).expect("write");
        demo.path(name).display().to_string()
    };
    let runs = [
        format!("{}; python3 '{}'", python(&packages), program("python", "program.py")),
        format!("{account}; NODE_PATH='{node}' node '{}'", program("js", "program.cjs")),
        format!("{}; {snippet}", python(&older)),
    ];
    let [python, javascript, older] = runs.each_ref().map(|line| shell(line));
    let (python, javascript, older) = tokio::join!(python, javascript, older);
    assert!(python.starts_with("hello\n") && python.lines().count() == 3, "{python}");
    assert_eq!(javascript, "hello\n\ntrue\n");
    assert!(older.trim_end().ends_with(" written through the gateway"), "{older}");
    assert!(demo.read("stderr").lines().all(|line| line.starts_with("demo: ")), "{}", demo.read("stderr"));

    let processes = demo.processes();
    assert!(processes.len() > 6, "control plane, node, operator, manager, gateway, Envoy: {processes:?}");
    // Twice, as make passes on what the terminal has said already.
    demo.signal("INT");
    demo.signal("INT");
    assert!(demo.ended().await.success(), "{}", demo.read("stderr"));
    demo.left_nothing(&processes).await;
}

#[tokio::test]
async fn a_demo_starts_again_on_the_same_ports_and_ends_by_sigterm() {
    let ports = [(); 3].map(|()| LoopbackPort::reserve());
    let [port, admin, api] = [0, 1, 2].map(|number: usize| ports[number].number().to_string());
    let mut arguments = vec!["--port", &port, "--admin-port", &admin, "--api-port", &api];
    arguments.extend(["--warm", "1", "--nodes", "2"]);
    for _ in 0..2 {
        let mut demo = Started::with(&arguments);
        let printed = demo.ready().await;
        assert!(
            printed.contains(&format!("export SANDGATE_GATEWAY='http://127.0.0.1:{port}'\n")),
            "{printed}"
        );
        assert!(
            printed.contains(&format!("export SANDGATE_ADMIN='http://127.0.0.1:{admin}'\n")),
            "{printed}"
        );
        assert!(printed.contains(&format!(" E2B_API_URL='http://127.0.0.1:{api}' ")), "{printed}");
        let processes = demo.processes();
        demo.signal("TERM");
        assert!(demo.ended().await.success(), "{}", demo.read("stderr"));
        demo.left_nothing(&processes).await;
    }
}

#[tokio::test]
async fn a_demo_that_is_ended_while_it_starts_leaves_nothing() {
    let mut demo = Started::with(&[]);
    demo.until("its node starts", "stderr", |text| text.contains("a node that runs pods")).await;
    let processes = demo.processes();
    demo.signal("INT");
    assert!(demo.ended().await.success(), "{}", demo.read("stderr"));
    assert_eq!(demo.read("stdout"), "", "nothing that does not work is printed");
    demo.left_nothing(&processes).await;
}
