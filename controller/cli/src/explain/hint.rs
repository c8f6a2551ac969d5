//! What was probably meant by a request that reaches nobody: an ID without its namespace, or an ID in the
//! place of a URL.

use super::report::{Report, Verdict};
use super::{Explain, Table};
use crate::admin::Admin;
use crate::failure::Failure;
use crate::routes::one;

/// The namespace of a route that names none.
const DEFAULT_NAMESPACE: &str = "default";
const NOT_FOUND: &str = "sandbox_not_found";

/// Whether this is neither a URL nor a path nor a host with a domain.
pub(super) fn is_word(url: &str) -> bool {
    !url.is_empty() && url.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
}

pub(super) async fn hint(
    args: &Explain,
    report: &Report,
    table: Option<&Table>,
) -> Result<Option<String>, Failure> {
    match (&report.address, &report.verdict) {
        (Some(address), Verdict::Refused(reply)) if reply.details.contains(NOT_FOUND) => {
            let id = address.id();
            let whole = with_namespace(id);
            let there = !id.contains("--") && is_there(args, table, &whole).await?;
            Ok(there.then(|| format!("there is no {id}, but there is {whole}: an id is NAMESPACE--NAME")))
        }
        (None, _) if is_word(&args.url) => {
            let word = args.url.as_str();
            let mut id = word.to_owned();
            if !word.contains("--")
                && !is_there(args, table, word).await?
                && is_there(args, table, &with_namespace(word)).await?
            {
                id = with_namespace(word);
            }
            Ok(Some(format!(
                "{word} was read as a URL, with that host. If the sandbox {id} is meant: sandgate explain{} -H 'e2b-sandbox-id: \
                 {id}' /",
                table_option(args)
            )))
        }
        _ => Ok(None),
    }
}

fn with_namespace(name: &str) -> String {
    format!("{DEFAULT_NAMESPACE}--{name}")
}

/// The option that asks the same table.
fn table_option(args: &Explain) -> String {
    match (&args.routes, &args.admin) {
        (Some(file), _) => format!(" --routes {}", file.display()),
        (None, Some(url)) => format!(" --admin {url}"),
        (None, None) => String::new(),
    }
}

async fn is_there(args: &Explain, table: Option<&Table>, id: &str) -> Result<bool, Failure> {
    match (&args.admin, table) {
        (Some(url), _) => Ok(one(&Admin::new(url), id).await?.is_some()),
        (None, Some(table)) => Ok(table.reader.get(id).is_some()),
        (None, None) => Ok(false),
    }
}
