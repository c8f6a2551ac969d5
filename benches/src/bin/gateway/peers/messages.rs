//! The part of `envoy.service.ext_proc.v3` that a router of requests needs. Members of a `oneof` of which
//! only one is used stand as plain optional fields: on the wire they are the same.

/// From Envoy: the headers of a request.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProcessingRequest {
    #[prost(message, optional, tag = "2")]
    pub(crate) request_headers: Option<HttpHeaders>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HttpHeaders {
    #[prost(message, optional, tag = "1")]
    pub(crate) headers: Option<HeaderMap>,
    #[prost(bool, tag = "3")]
    pub(crate) end_of_stream: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub(crate) headers: Vec<HeaderValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) raw_value: Vec<u8>,
}

/// To Envoy: go on with these headers, or answer this.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ProcessingResponse {
    #[prost(oneof = "Response", tags = "1, 7")]
    pub(crate) response: Option<Response>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    RequestHeaders(HeadersResponse),
    #[prost(message, tag = "7")]
    Immediate(ImmediateResponse),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HeadersResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) response: Option<CommonResponse>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct CommonResponse {
    #[prost(message, optional, tag = "2")]
    pub(crate) header_mutation: Option<HeaderMutation>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HeaderMutation {
    #[prost(message, repeated, tag = "1")]
    pub(crate) set_headers: Vec<HeaderValueOption>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<HeaderValue>,
    /// 2: overwrite or add.
    #[prost(int32, tag = "3")]
    pub(crate) append_action: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ImmediateResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<HttpStatus>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HttpStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
}
