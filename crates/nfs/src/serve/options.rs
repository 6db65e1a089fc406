//! Bounds that whoever starts a server may set.

use std::num::NonZero;
use std::time::Duration;

/// How much the server takes on at once.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Most threads. A cold READ and a device write each hold one.
    pub workers_max: usize,
    /// Most threads that run at once: those in a device or behind a lock do not. More than there are processors only
    /// wait for each other, each with replies in hand.
    pub workers_running_max: usize,
    /// Most connections at once; who comes on top takes an idle one's place, or is closed.
    pub connections_max: usize,
    /// Most requests of one connection that are in the house.
    pub requests_per_connection_max: usize,
    /// Bytes of requests that can be carried out, all connections together; of an address half of it.
    pub record_bytes_max: usize,
    /// Bytes of what waits for peers, all connections together; of an address half of it: records that have not arrived
    /// in full, replies that are not taken, and requests behind those.
    pub debt_bytes_max: usize,
    /// Bytes of replies that wait for one connection's socket before its requests wait too.
    pub output_bytes_max: usize,
    /// How long a record may pause before it is complete.
    pub record_silence_max: Duration,
    /// How long a record may take that comes slowly.
    pub record_time_max: Duration,
    /// How long a client may take nothing of its replies.
    pub unread_time_max: Duration,
    /// How long [`super::Server::stop`] waits for requests in the house.
    pub stop_patience: Duration,
    /// Whether a worker may write the log for its own request. Off only to measure what it gains.
    pub drive_in_place: bool,
    /// At which port the portmappers of hosts are that lock for version 3. Another one only in tests, which play hosts.
    pub hosts_portmapper: u16,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            workers_max: 32,
            // One more, since a thread that is to run is not always on a processor.
            workers_running_max: std::thread::available_parallelism().map_or(1, NonZero::get) + 1,
            connections_max: 4096,
            requests_per_connection_max: 256,
            record_bytes_max: 256 << 20,
            debt_bytes_max: 256 << 20,
            output_bytes_max: 4 << 20,
            record_silence_max: Duration::from_secs(10),
            record_time_max: Duration::from_secs(60),
            unread_time_max: Duration::from_secs(60),
            stop_patience: Duration::from_secs(10),
            drive_in_place: true,
            hosts_portmapper: crate::rpcbind::PORT,
        }
    }
}
