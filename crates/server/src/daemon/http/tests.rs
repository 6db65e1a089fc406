use std::io::{Read, Write};
use std::net::TcpStream;

use super::site::Look;
use super::*;
use crate::config::HttpListen;
use crate::control::observation::{Observation, ObservedDataset};
use crate::control::report::{DatasetReport, PoolReport};

fn start() -> (HttpServer, SocketAddr) {
    let server = || {
        let pools = vec![PoolReport { name: "tank".into(), state: "ONLINE".into(), ..PoolReport::default() }];
        Observation { uptime_seconds: 7.0, pools, dataset_count: 10_000, ..Observation::default() }
    };
    let named = |number| DatasetReport { name: format!("tank/{number}"), ..DatasetReport::default() };
    let datasets = move |most: Option<usize>| {
        let all = (0..10_000).take(most.unwrap_or(usize::MAX));
        all.map(|number| ObservedDataset { dataset: named(number), ..ObservedDataset::default() }).collect()
    };
    let look = Look { server: Box::new(server), datasets: Box::new(datasets) };
    let site = Arc::new(Site::new(look, ["nas".to_owned()]));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = HttpServer::start(listener, site).unwrap();
    let address = server.address().unwrap();
    (server, address)
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

#[test]
fn what_there_is_is_answered_and_nothing_else() {
    let (_server, address) = start();
    let cases = [
        ("GET /", "200 OK", "<!doctype html>"),
        ("GET /page/main.js", "200 OK", "api/history"),
        ("GET /page/style.css", "200 OK", "prefers-color-scheme"),
        ("GET /page/icon.svg", "200 OK", "<svg"),
        ("GET /metrics", "200 OK", "tally_pool_state{pool=\"tank\",guid=\"\",state=\"ONLINE\"} 1\n"),
        ("GET /metrics?x", "200 OK", "Content-Type: text/plain; version=0.0.4"),
        ("GET /api/observation", "200 OK", "\"uptime_seconds\":7.0"),
        ("GET /api/history?since=nonsense", "200 OK", "\"samples\":[]"),
        ("GET /page", "404 Not Found", "/metrics"),
        ("GET /../etc/passwd", "404 Not Found", ""),
        ("POST /metrics", "405 Method Not Allowed", "Allow: GET, HEAD\r\n"),
        ("GET / HTTP/1.1 HTTP/1.1", "400 Bad Request", ""),
    ];
    for (line, status, content) in cases {
        let answer = ask(address, &format!("{line} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")) && answer.contains(content), "{line}: {answer}");
        assert!(answer.contains("default-src 'none'") && answer.contains("nosniff"), "{answer}");
        assert!(!answer.to_lowercase().contains("access-control"), "other origins must not read this");
    }
    let foreign = ask(address, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(foreign.starts_with("HTTP/1.1 421 ") && !foreign.contains("tank"), "{foreign}");
    let head = ask(address, "HEAD /metrics HTTP/1.1\r\nHost: nas\r\n\r\n");
    let (_, body) = head.split_once("\r\n\r\n").unwrap();
    assert!(body.is_empty() && !head.contains("Content-Length: 0"), "{head}");
}

/// With ten thousand datasets each look of the page was megabytes, every two seconds, and a table that no browser shows.
#[test]
fn the_page_gets_the_datasets_that_matter_most() {
    let (_server, address) = start();
    let of = |query: &str| ask(address, &format!("GET /api/observation{query} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    let count = |answer: &str| answer.matches("\"name\":\"tank/").count();
    assert_eq!((count(&of("?accounts=none&datasets=100")), count(&of(""))), (100, 10_000));
    assert!(of("?datasets=0").contains("\"dataset_count\":10000"));
    let page = ask(address, &format!("GET /page/main.js HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    assert!(page.contains("api/observation?accounts=none&datasets="), "{page}");
}

#[test]
fn the_page_asks_nobody_else_and_runs_nothing_that_stands_in_it() {
    let (_server, address) = start();
    for path in [
        "/",
        "/page/main.js",
        "/page/words.js",
        "/page/heat.js",
        "/page/charts.js",
        "/page/tables.js",
        "/page/style.css",
    ] {
        let answer = ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let outside: Vec<_> = body.match_indices("//").filter(|(at, _)| body[..*at].ends_with(':')).collect();
        let namespace = body.matches("http://www.w3.org/2000/svg").count();
        assert_eq!(outside.len(), namespace, "{path} names a place outside");
        for word in ["innerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=\"", " onclick="] {
            assert!(!body.contains(word), "{path} has {word}");
        }
    }
}

/// Connections that send a byte and nothing more held all places for five seconds, and were there again before anybody
/// else: dashboard and Prometheus saw nothing as long as that went on.
#[test]
fn who_sends_no_whole_head_takes_nobodys_place() {
    let (_server, address) = start();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut held = Vec::new();
    for round in 0..CONNECTIONS_MAX * 3 {
        let mut slow = TcpStream::connect(address).unwrap();
        // The first of them are hung up on meanwhile.
        let _ = slow.write_all(b"G");
        held.push(slow);
        if round >= CONNECTIONS_MAX {
            let answer = ask(address, &request);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{round}: {answer}");
        }
    }
    let mut first = &held[0];
    first.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(first.read(&mut [0]).map_or(true, |count| count == 0), "the first went, with no answer");
}

#[test]
fn a_server_that_is_dropped_lets_go_of_its_port() {
    let (server, address) = start();
    let idle = TcpStream::connect(address).unwrap();
    drop(server);
    drop(idle);
    TcpListener::bind(address).unwrap();
}

#[test]
fn a_port_that_is_taken_is_an_error_only_where_it_was_asked_for() {
    let (_server, address) = start();
    let error = listen(Some(HttpListen::At(address))).unwrap_err().to_string();
    assert!(error.contains("--http off") && error.contains(&address.to_string()), "{error}");
    assert!(listen(Some(HttpListen::Off)).unwrap().is_none());
    assert_eq!("off".parse(), Ok(HttpListen::Off));
    assert_eq!("[::1]:80".parse::<HttpListen>().unwrap().to_string(), "[::1]:80");
    assert!("12050".parse::<HttpListen>().is_err());
}
