//! `sandgate probe`: one GET, and whether its answer has the expected status.

use std::process::ExitCode;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::admin::root_cause;
use crate::args::Probe;
use crate::failure::{Failure, failed, usage};
use crate::terminal::print;

pub(crate) async fn probe(args: &Probe) -> Result<ExitCode, Failure> {
    let url: Uri = args.url.parse().map_err(|error| usage!("{}: {error}", args.url))?;
    if url.scheme_str() != Some("http") || url.host().is_none() {
        return Err(usage!("{}: expected http://HOST[:PORT][/PATH]", args.url));
    }
    let mut request =
        Request::get(url).body(Empty::<Bytes>::new()).map_err(|e| Failure::usage(e.to_string()))?;
    for header in &args.headers {
        let (name, value) =
            header_of(header).ok_or_else(|| Failure::usage("a header is written as 'Name: value'"))?;
        request.headers_mut().append(name, value);
    }
    let sent = Client::builder(TokioExecutor::new()).build_http().request(request);
    let status = match tokio::time::timeout(Duration::from_secs(args.timeout), sent).await {
        Ok(Ok(response)) => response.status().as_u16(),
        Ok(Err(error)) => return Err(failed!("{}: {}", args.url, root_cause(&error))),
        Err(_) => return Err(failed!("{}: no answer within {} seconds", args.url, args.timeout)),
    };
    if status != args.status {
        return Err(failed!("{} answered {status}, expected {}", args.url, args.status));
    }
    print(&format!("{} answered {status}\n", args.url));
    Ok(ExitCode::SUCCESS)
}

fn header_of(text: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':')?;
    Some((name.trim().parse().ok()?, value.trim().parse().ok()?))
}
