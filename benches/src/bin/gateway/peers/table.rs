//! The peers' table: one map behind one lock.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use super::messages::{
    CommonResponse, HeaderMutation, HeaderValue, HeaderValueOption, HeadersResponse, HttpStatus,
    ImmediateResponse, ProcessingRequest, ProcessingResponse, Response,
};
use crate::fleet;

const OVERWRITE_OR_ADD: i32 = 2;

#[derive(Default)]
pub(super) struct Table(RwLock<HashMap<String, String>>);

impl Table {
    pub(super) fn read(text: &str) -> Self {
        let rows = text.lines().filter_map(|line| line.split_once(' '));
        Self(RwLock::new(rows.map(|(id, ip)| (id.to_owned(), ip.to_owned())).collect()))
    }

    /// Moves a sandbox that nobody asks for.
    pub(super) fn change(&self, number: usize) {
        let id = fleet::id('c', number % fleet::SIDE);
        let ip = fleet::side_address(number % fleet::SIDE, number / fleet::SIDE % 2 == 1).to_string();
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(id, ip);
    }

    pub(super) fn answer(&self, request: &ProcessingRequest) -> ProcessingResponse {
        let headers = request.request_headers.iter().filter_map(|part| part.headers.as_ref());
        let authority = headers.flat_map(|map| &map.headers).find(|header| header.key == ":authority");
        let host =
            authority.and_then(|header| std::str::from_utf8(&header.raw_value).ok()).unwrap_or_default();
        ProcessingResponse { response: Some(self.route(host)) }
    }

    fn route(&self, host: &str) -> Response {
        let label = host.split_once('.').map_or(host, |(label, _)| label);
        let Some((port, id)) = label.split_once('-') else {
            return refuse("not addressed to a sandbox\n");
        };
        let routes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match routes.get(id).map(String::as_str) {
            None => refuse("unknown sandbox\n"),
            Some("-") => refuse("sandbox is not running\n"),
            Some(ip) => forward(format!("{ip}:{port}")),
        }
    }
}

fn forward(upstream: String) -> Response {
    let header =
        HeaderValue { key: "x-envoy-original-dst-host".to_owned(), raw_value: upstream.into_bytes() };
    let set = HeaderValueOption { header: Some(header), append_action: OVERWRITE_OR_ADD };
    let mutation = HeaderMutation { set_headers: vec![set] };
    Response::RequestHeaders(HeadersResponse {
        response: Some(CommonResponse { header_mutation: Some(mutation) }),
    })
}

fn refuse(why: &str) -> Response {
    let status = HttpStatus { code: 502 };
    Response::Immediate(ImmediateResponse { status: Some(status), body: why.as_bytes().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::super::messages::{HeaderMap, HttpHeaders};
    use super::*;
    use crate::fleet::Fleet;

    fn asked(host: &str) -> Response {
        let table = Table::read(&Fleet { addresses: 10, routes: 10 }.plain_file());
        let header = |key: &str, value: &str| HeaderValue { key: key.to_owned(), raw_value: value.into() };
        let headers = HeaderMap { headers: vec![header(":path", "/"), header(":authority", host)] };
        let request_headers = Some(HttpHeaders { headers: Some(headers), end_of_stream: true });
        table.answer(&ProcessingRequest { request_headers }).response.expect("an answer")
    }

    #[test]
    fn a_running_sandbox_is_named_in_the_header_and_others_are_refused() {
        assert_eq!(asked(&fleet::host(80, 's', 4)), forward("127.1.0.5:80".to_owned()));
        assert_eq!(asked(&fleet::host(80, 'p', 4)), refuse("sandbox is not running\n"));
        assert_eq!(asked(&fleet::host(80, 'u', 4)), refuse("unknown sandbox\n"));
        assert_eq!(asked("example.test"), refuse("not addressed to a sandbox\n"));
    }

    #[test]
    fn a_change_moves_a_sandbox_back_and_forth() {
        let table = Table::read(&Fleet { addresses: 10, routes: 10 }.plain_file());
        let host = fleet::host(80, 'c', 7);
        table.change(fleet::SIDE + 7);
        assert_eq!(table.route(&host), forward("127.201.0.8:80".to_owned()));
        table.change(7);
        assert_eq!(table.route(&host), forward("127.200.0.8:80".to_owned()));
    }
}
