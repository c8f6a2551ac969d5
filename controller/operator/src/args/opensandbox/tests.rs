use clap::Parser as _;

use super::*;

fn parse(args: &[&str]) -> Result<OpenSandboxArgs, clap::Error> {
    let args = ["sandgate-operator"].iter().chain(args);
    crate::Args::try_parse_from(args).map(|args| args.opensandbox)
}

fn without_effect(args: &OpenSandboxArgs) -> Vec<&'static str> {
    args.without_effect().into_iter().map(|(name, _)| name).collect()
}

/// The arguments of the Deployment that its Kustomize base makes, with the default overlay's.
const KUSTOMIZE: [&str; 11] = [
    "--metrics-bind-address=:8443",
    "--leader-elect",
    "--health-probe-bind-address=:8081",
    "--snapshot-registry=docker-registry.default.svc.cluster.local:5000",
    "--snapshot-registry-insecure=true",
    "--snapshot-push-secret=registry-snapshot-push-secret",
    "--resume-pull-secret=registry-pull-secret",
    "--image-committer-image=image-committer:dev",
    "--image-committer-pod-template-file=",
    "--commit-job-timeout=2m",
    "--image-committer-pull-secret=",
];

/// Those of its Helm chart, with every value that adds one.
const HELM: [&str; 15] = [
    "--leader-elect",
    "--health-probe-bind-address=:8081",
    "--zap-log-level=info",
    "--watch-namespace=team",
    "--kube-client-qps=100",
    "--kube-client-burst=200",
    "--task-executor-image=registry/task-executor:1",
    "--image-committer-image=registry/committer:1",
    "--containerd-socket-path=/var/run/containerd/containerd.sock",
    "--commit-job-timeout=10m",
    "--snapshot-registry=registry/snapshots",
    "--snapshot-registry-insecure=true",
    "--snapshot-push-secret=push",
    "--image-committer-pull-secret=committer",
    "--resume-pull-secret=pull",
];

#[test]
fn the_command_lines_that_opensandbox_installs_work() {
    let kustomize = parse(&KUSTOMIZE).unwrap();
    assert_eq!(without_effect(&kustomize), ["metrics-bind-address"]);
    assert_eq!(kustomize.health_probe_bind_address.0, Some("[::]:8081".parse().unwrap()));
    assert_eq!(kustomize.commit_job_timeout, Duration::from_secs(120));
    assert!(kustomize.snapshot_registry_insecure);
    let helm = parse(&HELM).unwrap();
    let expected = ["kube-client-qps", "kube-client-burst", "task-executor-image", "zap-log-level"];
    assert_eq!(without_effect(&helm), expected);
    assert_eq!(helm.image_committer_pull_secret, "committer");
    let helm = crate::Args::try_parse_from(["sandgate-operator"].iter().chain(&HELM)).unwrap();
    assert_eq!(helm.namespace.as_deref(), Some("team"));
}

#[test]
fn every_other_option_of_opensandboxs_operator_works() {
    let args = parse(&[
        "--metrics-bind-address=:8443",
        "--metrics-secure=false",
        "--metrics-cert-path=/certs",
        "--kube-client-burst",
        "200",
        "--concurrency",
        "batchsandbox=64; pool=128;other=3",
        "--expectation-timeout=5m",
        "--enable-file-log",
        "--log-file-path=/var/log/x",
        "--image-committer-pod-template-file=/etc/template.yaml",
        "--commit-job-timeout=1h30m",
        "--snapshot-registry-insecure",
    ])
    .unwrap();
    assert_eq!(args.concurrency, Concurrency { batch: 64, pool: 128, snapshot: 1 });
    assert_eq!(args.commit_job_timeout, Duration::from_secs(5400));
    assert_eq!(args.metrics_address(), Some("[::]:8443".parse().unwrap()));
    assert!(args.snapshot_registry_insecure);
    let expected = [
        "kube-client-burst",
        "expectation-timeout",
        "metrics-cert-path",
        "enable-file-log",
        "log-file-path",
        "image-committer-pod-template-file",
    ];
    assert_eq!(without_effect(&args), expected);
}

#[test]
fn values_are_read_as_go_reads_them() {
    let insecure = |args: &[&str]| parse(args).map(|args| args.snapshot_registry_insecure);
    for (text, expected) in
        [("1", true), ("t", true), ("T", true), ("True", true), ("0", false), ("F", false)]
    {
        assert_eq!(insecure(&[&format!("--snapshot-registry-insecure={text}")]).unwrap(), expected, "{text}");
    }
    assert!(insecure(&["--snapshot-registry-insecure=yes"]).is_err());
    // Of an option that is given twice the last counts.
    assert!(!insecure(&["--snapshot-registry-insecure", "--snapshot-registry-insecure=false"]).unwrap());
    let twice =
        ["--zap-log-level=info", "--zap-log-level=debug", "--resume-pull-secret=a", "--resume-pull-secret=b"];
    assert_eq!(parse(&twice).unwrap().resume_pull_secret, "b");
}

#[test]
fn without_options_it_is_as_opensandboxs_operator_is() {
    let args = parse(&[]).unwrap();
    assert_eq!((args.alloc_concurrency, args.recycle_concurrency), (256, 64));
    assert_eq!(args.commit_job_timeout, Duration::from_secs(600));
    assert_eq!(args.concurrency, Concurrency { batch: 32, pool: 16, snapshot: 1 });
    assert!(!args.strict_recovery && args.without_effect().is_empty());
}

#[test]
fn metrics_that_are_to_have_tls_are_not_served_without() {
    for (secure, expected) in [(&[][..], None), (&["--metrics-secure=false"], Some("[::]:8443"))] {
        let args = parse(&[&["--metrics-bind-address=:8443"][..], secure].concat()).unwrap();
        assert_eq!(args.metrics_address(), expected.map(|address| address.parse().unwrap()));
        assert_eq!(without_effect(&args).contains(&"metrics-bind-address"), expected.is_none());
    }
    assert_eq!(parse(&["--metrics-secure=false"]).unwrap().metrics_address(), None);
}

#[test]
fn what_cannot_be_read_is_refused_with_what_is_expected() {
    for (args, expected) in [
        (["--concurrency", "pool"], "expected NAME=N"),
        (["--concurrency", "pool=0"], "from 1 to 4096"),
        (["--concurrency", "pool=-1"], "from 1 to 4096"),
        (["--commit-job-timeout", "10"], "such as 90s"),
        (["--commit-job-timeout", "0s"], "such as 90s"),
        (["--commit-job-timeout", "5 m"], "such as 90s"),
        (["--health-probe-bind-address", "8081"], "expected IP:PORT"),
        (["--metrics-bind-address", "host:1"], "expected IP:PORT"),
        (["--alloc-concurrency", "0"], "1..=4096"),
    ] {
        let error = parse(&args).unwrap_err().to_string();
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}
