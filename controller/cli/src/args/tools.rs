//! The options of the commands that look at one thing and say yes or no.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::terminal::lesson;

/// Check a config file of `sandgate run`, or a routes file, and say where each mistake is.
#[derive(Args)]
#[command(
    group = ArgGroup::new("what").args(["config", "routes"]).required(true).multiple(true),
    after_help = lesson("\
Examples:
  sandgate validate gateway.yaml
      The file given to `sandgate run --config`, and the routes file it names.
  sandgate validate --routes routes.yaml
      A routes file alone.

Each mistake (of a routes file the first) is a line FILE:LINE:COLUMN: KEY: REASON on standard error, as editors and CI read it. Nothing is started \
and no cluster is asked: `sandgate check --config FILE` does that.

Exit code: 0 if a gateway would take the files, 2 if not.")
)]
pub(crate) struct Validate {
    /// The config file, YAML or JSON
    #[arg(value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A routes file, YAML or JSON; instead of the one that the config names
    #[arg(long, value_name = "FILE")]
    pub(crate) routes: Option<PathBuf>,
}

/// Send one GET and say whether the answer has the expected status: for probes in images without curl.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate probe http://127.0.0.1:9901/ready
  sandgate probe -H 'e2b-sandbox-id: default--demo' http://gateway:7788/

Plain http only. Exit code: 0 if the status is the expected one, 1 if it is another or nobody answers, 2 if the command line is \
wrong."))]
pub(crate) struct Probe {
    /// The expected status
    #[arg(long, default_value_t = 200, value_name = "CODE", value_parser = clap::value_parser!(u16).range(100..=599))]
    pub(crate) status: u16,
    /// A header of the request; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// How long the answer may take
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
    /// Where to send it: http://HOST[:PORT][/PATH]
    #[allow(rustdoc::broken_intra_doc_links, reason = "the text is the help, where brackets mean optional")]
    pub(crate) url: String,
}

/// Print the completion script of a shell.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate completions bash > ~/.local/share/bash-completion/completions/sandgate
  sandgate completions zsh > ~/.zfunc/_sandgate
      The folder must be in fpath before compinit is called.
  sandgate completions fish > ~/.config/fish/completions/sandgate.fish"))]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print a man page, or write all of them into a folder.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate man | man -l -
      The page of sandgate itself.
  sandgate man run | man -l -
      The page of one command.
  sandgate man --out ~/.local/share/man/man1
      Every page: sandgate.1, sandgate-run.1, ...

Exit code: 0 if the pages are written, 1 if the folder cannot be written, 2 if there is no such command."))]
pub(crate) struct ManPages {
    /// The command [default: sandgate itself]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub(crate) command: Option<String>,
    /// Write every page into this folder, which is made if need be
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
}
