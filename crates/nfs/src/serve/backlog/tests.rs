use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use tally_base::PoolGuid;

use super::*;
use crate::exports::{Exports, PoolExports, Resolved};
use crate::serve::ServeOptions;
use crate::serve::hub::Hub;
use crate::serve::work::{Connection, Work};
use crate::service::Service;
use crate::stats::{Held, Holder};
use crate::xdr::Encoder;

struct Nothing;

impl Exports for Nothing {
    fn resolve(&self, _: &str) -> Option<Resolved> {
        None
    }
    fn pool(&self, _: PoolGuid) -> Option<Arc<dyn PoolExports>> {
        None
    }
    fn pools(&self) -> Vec<Arc<dyn PoolExports>> {
        Vec::new()
    }
    fn list(&self) -> Vec<(String, Vec<String>)> {
        Vec::new()
    }
}

/// A connection from this address, as far as the account knows.
fn connection(hub: &Arc<Hub>, listener: &TcpListener, number: u8) -> (Arc<Connection>, TcpStream) {
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ours = listener.accept().unwrap().0;
    let peer = SocketAddr::from(([10, 0, 0, number], 1000));
    hub.open(ours, peer).unwrap();
    let found = hub.all_connections().into_iter().find(|connection| connection.link.peer() == peer);
    (found.expect("it was let in"), theirs)
}

fn work(hub: &Arc<Hub>, connection: &Arc<Connection>, bytes: usize) -> Box<Work> {
    let mut null = Encoder::new();
    null.u32(1).u32(0).u32(2).u32(100_003).u32(3).u32(0).u64(0).u64(0);
    let job = hub.service.open(null.into_vec().into(), &connection.link, Instant::now()).unwrap_or_else(|_| panic!());
    Box::new(Work { job, connection: connection.clone(), charge: hub.charge(connection, bytes) })
}

fn push(connection: &Connection, work: Box<Work>) -> Added<Box<Work>> {
    let bytes = work.charge.bytes();
    connection.backlog.push(work, bytes, &connection.account)
}

/// Requests of one who takes no replies are no work any more, and that may be what others wait for: they are read again.
#[test]
fn who_waits_for_room_is_read_when_work_becomes_debt() {
    let options = ServeOptions { record_bytes_max: 1 << 20, ..ServeOptions::default() };
    let hub =
        Hub::start(Arc::new(Service::new(Arc::new(Nothing))), (Vec::new(), Vec::new()), options, crate::serve::BODIES)
            .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ends: Vec<_> = (1..=4).map(|number| connection(&hub, &listener, number)).collect();
    let [parked, waiting, first, second] = [0, 1, 2, 3].map(|at: usize| &ends[at].0);
    assert!(matches!(push(parked, work(&hub, parked, 10)), Added::List));
    assert!(matches!(parked.backlog.next(&parked.account, false), Next::Parked { .. }));
    let busy = [work(&hub, first, 400_000), work(&hub, second, 300_000)];
    let more = work(&hub, parked, 400_000);
    hub.arm(waiting);
    assert!(waiting.paused.load(SeqCst), "too much work is in the house");
    hub.push_run(more);
    assert!(!waiting.paused.load(SeqCst), "nobody tells it any more");
    drop(busy);
    parked.drop_backlog();
    assert_eq!(hub.ledger.house().held(), Held::default());
    assert_eq!(hub.stop(), 0);
}
