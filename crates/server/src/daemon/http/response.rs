//! What is sent back: a status, a few headers that say how far a browser may trust it, and a body.

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Timeout,
    Misdirected,
    TooLong,
    Unavailable,
}

impl Status {
    const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Timeout => "408 Request Timeout",
            Self::Misdirected => "421 Misdirected Request",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Ok => "",
            Self::BadRequest => "This is not a request that can be understood.\n",
            Self::NotFound => "There is /, /metrics, /api/observation and /api/history.\n",
            Self::MethodNotAllowed => "Everything here is for reading: GET or HEAD.\n",
            Self::Timeout => "The request did not come in time.\n",
            Self::Misdirected => {
                "This name is none of this server's. Use its address, or add the name to `host_names` in the section \
                 [http] of the configuration.\n"
            }
            Self::TooLong => "The head of the request is too long.\n",
            Self::Unavailable => "The server cannot be observed now.\n",
        }
    }
}

/// On every answer. The page loads its own files and nothing else, runs no script that stands in it, and cannot be put
/// into another page; nobody guesses types; nothing is kept.
const HEADERS: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
X-Content-Type-Options: nosniff\r\n\
Cross-Origin-Resource-Policy: same-origin\r\n\
Referrer-Policy: no-referrer\r\n\
Cache-Control: no-store\r\n\
Connection: close\r\n";

#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: Status,
    pub(super) content_type: &'static str,
    pub(super) body: Cow<'static, [u8]>,
}

impl Response {
    /// Content that is there.
    pub(super) fn ok(content_type: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { status: Status::Ok, content_type, body: body.into() }
    }

    /// Why there is none, in words.
    pub(super) fn refusal(status: Status) -> Self {
        let body = Cow::Borrowed(status.message().as_bytes());
        Self { status, content_type: "text/plain; charset=utf-8", body }
    }

    /// The bytes before the body.
    pub(super) fn head(&self) -> String {
        let allow = if self.status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}{HEADERS}\r\n",
            self.status.line(),
            self.content_type,
            self.body.len()
        )
    }
}
