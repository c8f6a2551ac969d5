use clap::{CommandFactory as _, Parser as _};

use super::Args;

fn parsed(words: &[&str]) -> Args {
    let words = std::iter::once("task-executor").chain(words.iter().copied()).map(Into::into);
    Args::try_parse_from(Args::with_two_dashes(words)).unwrap()
}

#[test]
fn the_definition_is_consistent() {
    Args::command().debug_assert();
}

#[test]
fn the_defaults_are_opensandboxs() {
    let args = parsed(&[]);
    assert_eq!(args.data_dir, "/var/lib/sandbox/tasks");
    assert_eq!(args.listen_addr, "0.0.0.0:5758");
    assert_eq!(args.cri_socket, "/var/run/containerd/containerd.sock");
    assert!(!args.enable_sidecar_mode);
    assert_eq!(args.main_container_name, "main");
    assert_eq!((args.log_max_size, args.log_max_backups, args.log_max_age), (100, 10, 7));
    assert_eq!(args.main_container(), None);
    assert_eq!(args.token_file(), None);
}

#[test]
fn the_port_is_the_one_that_the_operator_knows() {
    assert!(parsed(&[]).listen_addr.ends_with(&format!(":{}", sandgate_executor_wire::PORT)));
}

#[test]
fn the_variables_are_opensandboxs() {
    let command = Args::command();
    let variables: Vec<_> = command
        .get_arguments()
        .filter_map(|argument| Some(argument.get_env()?.to_str()?.to_owned()))
        .collect();
    let theirs = ["DATA_DIR", "LISTEN_ADDR", "CRI_SOCKET", "ENABLE_SIDECAR_MODE", "MAIN_CONTAINER_NAME"];
    assert_eq!(variables[..5], theirs);
    assert_eq!(variables[5..], ["TOKEN_FILE"]);
}

#[test]
fn options_are_written_as_go_writes_them() {
    let args = parsed(&[
        "-data-dir=/d",
        "-enable-sidecar-mode",
        "-main-container-name",
        "app",
        "-listen-addr",
        ":80",
    ]);
    assert_eq!((args.data_dir.as_str(), args.listen_addr.as_str()), ("/d", ":80"));
    assert_eq!(args.main_container().as_deref(), Some("app"));
    assert!(!parsed(&["-enable-sidecar-mode=F"]).enable_sidecar_mode);
    assert!(parsed(&["--enable-sidecar-mode=1"]).enable_sidecar_mode);
}

#[test]
fn an_empty_value_is_none() {
    let args = parsed(&["--data-dir=", "--listen-addr=", "--main-container-name=", "--token-file="]);
    assert_eq!(args.data_dir, "/var/lib/sandbox/tasks");
    assert_eq!(args.listen_addr, "0.0.0.0:5758");
    assert_eq!(args.main_container_name, "main");
    assert_eq!(args.token_file(), None);
}

#[test]
fn what_is_wrong_is_refused() {
    for wrong in ["--enable-sidecar-mode=maybe", "--listen-addr=host", "--log-max-size=0", "--nonsense"] {
        assert!(Args::try_parse_from(["task-executor", wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn the_log_is_a_file_only_if_its_folder_is_given() {
    assert_eq!(parsed(&["--log-max-size", "5"]).log_file(), None);
    let settings = parsed(&["--log-dir", "/logs", "--log-max-size", "5"]).log_file().unwrap();
    assert_eq!((settings.folder.to_str(), settings.most_bytes), (Some("/logs"), 5_000_000));
}
