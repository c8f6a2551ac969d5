use std::io::Write as _;
use std::process::{Command, Stdio};

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use super::{pages, write_pages};
use crate::args::Cli;

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sandgate", &mut script);
    String::from_utf8(script).unwrap()
}

#[test]
fn every_command_that_help_lists_has_a_page_with_its_options_and_examples() {
    let folder = tempfile::tempdir().unwrap();
    write_pages(folder.path()).unwrap();
    let read = |name: &str| {
        std::fs::read_to_string(folder.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    assert!(read("sandgate.1").contains("sandgate\\-run(1)"));
    let mut commands = 0;
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        commands += 1;
        let page = read(&format!("sandgate-{}.1", command.get_name()));
        for long in command.get_arguments().filter_map(|arg| arg.get_long()) {
            let long = format!("\\-\\-{}", long.replace('-', "\\-"));
            assert!(page.contains(&long), "{}: {long} is missing", command.get_name());
        }
        let examples = command.get_after_help().is_some_and(|help| help.to_string().contains("Examples:"));
        assert_eq!(page.contains("Examples:"), examples, "{}", command.get_name());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), commands + 1);
    assert_eq!(pages().len(), commands + 1);
}

#[test]
fn groff_renders_every_page_without_a_warning() {
    for page in pages() {
        let mut text = Vec::new();
        page.render(&mut text).unwrap();
        let groff = Command::new("groff")
            .args(["-man", "-Tutf8", "-ww", "-z"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut groff = match groff {
            Ok(groff) => groff,
            Err(error) => return eprintln!("skipped: needs groff: {error}"),
        };
        groff.stdin.take().unwrap().write_all(&text).unwrap();
        let output = groff.wait_with_output().unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaints.is_empty(), "{}: {complaints}", page.get_filename());
    }
}

#[test]
fn every_shell_has_a_script_with_every_command_and_bash_can_parse_its_own() {
    for &shell in Shell::value_variants() {
        let script = script(shell);
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(script.contains(command.get_name()), "{shell}: {}", command.get_name());
        }
    }
    let bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut bash = bash.expect("bash is needed");
    bash.stdin.take().unwrap().write_all(script(Shell::Bash).as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
