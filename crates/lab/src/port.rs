//! Ports of loopback for servers under test.

use std::net::TcpListener;

use anyhow::Result;

/// One that nobody listens on now. Somebody else may take it first.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
