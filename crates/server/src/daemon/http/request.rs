//! The head of a request, as far as anybody here cares: method, path, query, and whether it was meant for us.

use std::net::IpAddr;

use super::response::Status;

/// Longest head. A browser's has a kilobyte or two.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;
/// Most headers in it.
const HEADERS_MAX: usize = 64;

/// A request that may be answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Only the answer's head is wanted.
    pub(super) head_only: bool,
    /// As it was sent; known paths have no escapes.
    pub(super) path: String,
    query: String,
}

impl Request {
    /// The value of `name` in the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Names under which this server may be called, besides addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub(in crate::daemon) struct HostNames(Vec<String>);

impl HostNames {
    pub(in crate::daemon) fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().filter(|name| !name.is_empty()).collect())
    }

    /// Whether a Host header says one of them, with any port.
    fn know(&self, host: &str) -> bool {
        if let Some(rest) = host.strip_prefix('[') {
            let Some((address, port)) = rest.split_once(']') else { return false };
            return address.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6()) && is_port(port);
        }
        let (name, port) = host.find(':').map_or((host, ""), |at| host.split_at(at));
        let known =
            || self.0.iter().map(String::as_str).chain(["localhost"]).any(|known| known.eq_ignore_ascii_case(name));
        is_port(port) && (name.parse::<IpAddr>().is_ok() || known())
    }
}

/// Nothing, or a colon and a number.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok())
}

/// Reads a head; `None` if it is not complete yet.
pub(super) fn parse(head: &[u8], names: &HostNames) -> Result<Option<Request>, Status> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if head.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => return Err(Status::TooLong),
        Err(_) => return Err(Status::BadRequest),
    }
    let (Some(method), Some(target)) = (parsed.method, parsed.path) else { return Err(Status::BadRequest) };
    let mut hosts = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(Status::BadRequest) };
    let host = std::str::from_utf8(host.value).map_err(|_| Status::BadRequest)?;
    if !names.know(host.trim()) {
        return Err(Status::Misdirected);
    }
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Status::MethodNotAllowed),
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Ok(Some(Request { head_only, path: path.to_owned(), query: query.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(head: &str) -> Result<Option<Request>, Status> {
        parse(head.as_bytes(), &HostNames::new(["nas.example".into(), String::new()]))
    }

    #[test]
    fn only_what_was_meant_for_us_is_answered() {
        let cases = [
            ("127.0.0.1:12050", true),
            ("127.0.0.1", true),
            ("192.168.1.7:80", true),
            ("[::1]:12050", true),
            ("[::1]", true),
            ("localhost:12050", true),
            ("LOCALHOST", true),
            ("nas.example:1", true),
            ("evil.example", false),
            ("evil.example:12050", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("[::1", false),
            ("[evil.example]:1", false),
            ("[127.0.0.1]", false),
            ("localhost:99999", false),
            ("localhost:1:2", false),
            ("", false),
        ];
        for (host, is_allowed) in cases {
            let answer = told(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(answer.is_ok(), is_allowed, "{host}: {answer:?}");
        }
    }

    #[test]
    fn heads_are_read_or_refused() {
        let request = told("GET /api/history?a=1&since=7 HTTP/1.1\r\nhost: [::1]\r\n\r\n").unwrap().unwrap();
        assert_eq!(
            (request.path.as_str(), request.parameter("since"), request.head_only),
            ("/api/history", Some("7"), false)
        );
        assert_eq!((request.parameter("sinc"), request.parameter("b")), (None, None));
        assert!(told("HEAD / HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap().unwrap().head_only);
        assert_eq!(told("GET / HTTP/1.1\r\nHost: local"), Ok(None));
        let refusals = [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), Status::BadRequest),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".to_owned(), Status::BadRequest),
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), Status::MethodNotAllowed),
            ("PUT /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), Status::Misdirected),
            ("\x16\x03\x01\x02\x00".to_owned(), Status::BadRequest),
            (format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(HEAD_BYTES_MAX)), Status::TooLong),
            (format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1)), Status::TooLong),
        ];
        for (head, status) in refusals {
            assert_eq!(told(&head), Err(status), "{}", head.get(..40).unwrap_or(&head));
        }
    }

    /// Damage of a right head at every place must never panic.
    #[test]
    fn no_byte_panics() {
        let head = b"GET /api/history?since=1 HTTP/1.1\r\nHost: [::1]:12050\r\nAccept: */*\r\n\r\n";
        for at in 0..head.len() {
            for byte in 0..=255 {
                let mut damaged = head.to_vec();
                damaged[at] = byte;
                let _ = parse(&damaged, &HostNames::default());
                let _ = parse(&damaged[..at], &HostNames::default());
            }
        }
    }
}
