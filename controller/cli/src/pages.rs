//! `sandgate completions` and `sandgate man`: made from the definitions that `--help` is made from.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Cli, Completions, ManPages};
use crate::failure::{Failure, failed};
use crate::terminal::print;

#[cfg(test)]
mod tests;

pub(crate) fn completions(args: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sandgate", &mut script);
    print(&String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManPages) -> Result<ExitCode, Failure> {
    if let Some(folder) = &args.out {
        write_pages(folder).map_err(|error| failed!("cannot write {}: {error}", folder.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = args.command.as_ref().map_or("sandgate".to_owned(), |name| format!("sandgate-{name}"));
    let page = pages().into_iter().find(|page| page.get_filename() == format!("{wanted}.1"));
    let page = page.ok_or_else(|| Failure::usage("no such command; `sandgate --help` lists them"))?;
    let mut text = Vec::new();
    page.render(&mut text).map_err(|error| Failure::new(error.to_string()))?;
    print(&String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}

fn write_pages(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    pages().iter().try_for_each(|page| page.generate_to(folder).map(drop))
}

/// The page of `sandgate` and one for each command that `--help` lists.
fn pages() -> Vec<Man> {
    let mut sandgate = Cli::command().disable_help_subcommand(true);
    sandgate.build();
    let commands = sandgate.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    std::iter::once(sandgate.clone()).chain(commands).map(Man::new).collect()
}
