//! The scheduler of tasks with real task executors: processes on addresses of this machine, one a pod.

#![forbid(unsafe_code)]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandgate_operator::{
    BatchTasks, FromTemplate, HttpExecutors, Intent, Key, Leadership, Report, SystemClock, TaskMetrics,
    TaskPod, TaskSource, Tasks, TokenFile, WhenCompleted,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// The program. It is part of another package, so that nobody has built it yet, perhaps.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let built = Command::new(env!("CARGO")).args(["build", "-p", "sandgate-task-executor"]).status();
        assert!(built.unwrap().success());
        let folder = Path::new(env!("CARGO_BIN_EXE_sandgate-operator")).parent().unwrap();
        folder.join("task-executor")
    })
}

/// Pods, their executors and the operator's half of the work.
struct Site {
    folder: PathBuf,
    port: u16,
    executors: Vec<Option<Child>>,
    pods: Vec<TaskPod>,
    token: Option<PathBuf>,
    tasks: Tasks,
}

impl Site {
    fn new(pods: usize, token: Option<&str>) -> Self {
        // Loopback addresses of this site's own, so that all of its executors have one port.
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sandgate-tasks-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let token = token.map(|token| {
            let path = folder.join("token");
            fs::write(&path, token).unwrap();
            path
        });
        let ip = |index: usize| format!("127.77.{number}.{}", index + 1);
        let port = TcpListener::bind((ip(0), 0)).unwrap().local_addr().unwrap().port();
        let pod = |index: usize| TaskPod {
            uid: format!("uid{index}").into(),
            name: format!("p{index}").into(),
            index: Some(index),
            ip: Some(ip(index).into()),
            has_ended: false,
            is_leaving: false,
            is_deleting: false,
        };
        let client =
            HttpExecutors::at_port(port, token.as_deref().map(|path| TokenFile::open(path).unwrap()));
        let mut site = Self {
            folder,
            port,
            executors: Vec::new(),
            pods: (0..pods).map(pod).collect(),
            token,
            tasks: tasks(client),
        };
        for index in 0..pods {
            site.executors.push(None);
            site.start(index);
        }
        site
    }

    fn data(&self, index: usize) -> PathBuf {
        self.folder.join(format!("data{index}"))
    }

    fn start(&mut self, index: usize) {
        let address = format!("{}:{}", self.pods[index].ip.as_deref().unwrap(), self.port);
        let mut command = Command::new(program());
        command.args(["--listen-addr", &address, "--data-dir"]).arg(self.data(index));
        if let Some(token) = &self.token {
            command.arg("--token-file").arg(token);
        }
        self.executors[index] = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    fn kill(&mut self, index: usize) {
        if let Some(mut executor) = self.executors[index].take() {
            executor.kill().unwrap();
            executor.wait().unwrap();
        }
    }

    /// The operator is another process now.
    fn restart_operator(&mut self) {
        let token = self.token.as_deref().map(|path| TokenFile::open(path).unwrap());
        self.tasks = tasks(HttpExecutors::at_port(self.port, token));
    }

    async fn pass(&self, template: &Value, replicas: usize, intent: Intent) -> Report {
        let batch = BatchTasks {
            key: &Key::new("n", "bs"),
            uid: &"uid".into(),
            source: TaskSource { batch: "bs", replicas, template: Some(template), patches: &[] },
            pods: &self.pods,
            is_whole: true,
            intent,
            when_completed: WhenCompleted::Retain,
            done: None,
        };
        self.tasks.pass(&batch).await.unwrap()
    }

    async fn until(
        &self,
        template: &Value,
        replicas: usize,
        intent: Intent,
        is_so: impl Fn(&Report) -> bool,
    ) -> Report {
        let began = Instant::now();
        loop {
            let report = self.pass(template, replicas, intent).await;
            if is_so(&report) {
                return report;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{report:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// How often the task of [`endless`] was started.
    fn starts(&self) -> usize {
        fs::read_to_string(self.folder.join("starts")).map_or(0, |text| text.lines().count())
    }

    fn endless(&self) -> Value {
        let script = format!("echo started >> {}/starts; exec sleep 1000", self.folder.display());
        json!({"spec": {"process": {"command": ["/bin/sh", "-c", script]}}})
    }
}

fn tasks(client: HttpExecutors) -> Tasks {
    let (strategy, clock) = (Box::new(FromTemplate), Arc::new(SystemClock));
    Tasks::new(strategy, Arc::new(client), Leadership::always(), clock, TaskMetrics::default())
}

impl Drop for Site {
    fn drop(&mut self) {
        (0..self.executors.len()).for_each(|index| self.kill(index));
        let _removed = fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test]
async fn tasks_run_to_their_end_and_are_cleared_away() {
    let site = Site::new(2, None);
    let template = json!({"spec": {"process": {"command": ["echo", "hello"]}, "timeoutSeconds": 20}});
    site.until(&template, 2, Intent::Run, |report| report.counts.succeed == 2).await;
    let output = fs::read_to_string(site.data(1).join("bs-1/stdout.log")).unwrap();
    assert_eq!(output, "hello\n");
    site.until(&template, 2, Intent::Delete, |report| report.all_released).await;
    assert!(!site.data(0).join("bs-0").exists() && !site.data(1).join("bs-1").exists());
}

#[tokio::test]
async fn a_task_that_fails_has_failed_and_is_not_run_again() {
    let site = Site::new(1, None);
    let script = format!("echo started >> {}/starts; exit 3", site.folder.display());
    let template = json!({"spec": {"process": {"command": ["/bin/sh", "-c", script]}}});
    site.until(&template, 1, Intent::Run, |report| report.counts.failed == 1).await;
    site.pass(&template, 1, Intent::Run).await;
    assert_eq!(site.starts(), 1);
}

#[tokio::test]
async fn a_task_outlives_its_executor_and_the_operator_and_is_started_once() {
    let mut site = Site::new(2, None);
    let template = site.endless();
    site.until(&template, 1, Intent::Run, |report| report.counts.running == 1 && site.starts() == 1).await;
    site.kill(0);
    site.until(&template, 1, Intent::Run, |report| report.counts.unknown == 1).await;
    site.restart_operator();
    // The other pod answers, and has to wait: nobody knows what the silent one has.
    site.until(&template, 1, Intent::Run, |report| report.trouble.is_some()).await;
    assert_eq!(site.starts(), 1);
    site.start(0);
    site.until(&template, 1, Intent::Run, |report| report.counts.running == 1).await;
    assert_eq!(site.starts(), 1);
    site.until(&template, 1, Intent::Delete, |report| report.all_released).await;
}

#[tokio::test]
async fn a_task_whose_pod_has_ended_runs_on_another() {
    let mut site = Site::new(2, None);
    let template = site.endless();
    site.until(&template, 1, Intent::Run, |report| report.counts.running == 1 && site.starts() == 1).await;
    site.kill(0);
    site.pods[0].has_ended = true;
    let report = site.pass(&template, 1, Intent::Run).await;
    assert_eq!(report.retried, 1);
    site.until(&template, 1, Intent::Run, |report| report.counts.running == 1 && site.starts() == 2).await;
    assert!(site.data(1).join("bs-0").exists());
    site.until(&template, 1, Intent::Delete, |report| report.all_released).await;
    // Here the pod is no container, and its process is still there: end it as the kubelet would have.
    site.pods[0].has_ended = false;
    site.restart_operator();
    site.start(0);
    site.until(&template, 1, Intent::Delete, |report| report.all_released).await;
}

#[tokio::test]
async fn an_executor_with_a_token_takes_tasks_only_from_an_operator_that_has_it() {
    let mut site = Site::new(1, Some("secret"));
    let template = json!({"spec": {"process": {"command": ["true"]}}});
    site.tasks = tasks(HttpExecutors::at_port(site.port, None));
    let refused = |report: &Report| {
        report.trouble.as_ref().is_some_and(|why| why.contains("--task-executor-token-file"))
    };
    site.until(&template, 1, Intent::Run, refused).await;
    site.restart_operator();
    site.until(&template, 1, Intent::Run, |report| report.counts.succeed == 1).await;
}
