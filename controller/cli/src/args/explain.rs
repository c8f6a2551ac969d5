//! The options of `sandgate explain`.

use std::path::PathBuf;

use clap::Args;

use crate::terminal::lesson;

/// Say which sandbox a request addresses, what would happen to it, and why.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate explain http://8080-default--demo.example.com/path
  sandgate explain --routes routes.yaml -H 'e2b-sandbox-id: default--demo' /
  sandgate explain --admin http://127.0.0.1:9901 /kruise/default--demo/8080/

--routes asks a routes file, --admin a running gateway. With neither, only the address is explained. The filter's settings \
are those of `sandgate run` with the same --config.

Exit code: 0 if the request would be forwarded (with no table to ask: if it addresses a sandbox), 1 if it would be refused \
or addresses none, 2 if the command line or a file is wrong."))]
pub(crate) struct Explain {
    /// Ask this routes file
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    pub(crate) routes: Option<PathBuf>,
    /// Ask the gateway whose admin pages are here
    #[arg(long, value_name = "URL")]
    pub(crate) admin: Option<String>,
    /// The config file given to `sandgate run`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A header of the request; may be repeated. `Host` replaces the host of the URL
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// The method of the request
    #[arg(short = 'X', long = "request", value_name = "METHOD", default_value = "GET")]
    pub(crate) method: String,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The URL of the request, or only its path
    pub(crate) url: String,
}
