//! What stands where: the page, its data, and the metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use super::request::{HostNames, Request};
use super::response::{Response, Status};
use crate::control::holdings::HoldingCounts;
use crate::control::observation::{AccountReport, Observation, ObservedDataset};
use crate::control::report::{OpsReport, PoolReport};
use crate::daemon::history::History;
use crate::daemon::metrics;

/// For how long an observation is given to others who ask: it goes through every counter there is.
pub(super) const FRESH: Duration = Duration::from_millis(500);

const JSON: &str = "application/json";

/// The files of the page: path, type, content.
const FILES: [(&str, &str, &str); 8] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/page/main.js", JAVASCRIPT, include_str!("page/main.js")),
    ("/page/words.js", JAVASCRIPT, include_str!("page/words.js")),
    ("/page/heat.js", JAVASCRIPT, include_str!("page/heat.js")),
    ("/page/charts.js", JAVASCRIPT, include_str!("page/charts.js")),
    ("/page/tables.js", JAVASCRIPT, include_str!("page/tables.js")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Looks at the daemon.
pub(in crate::daemon) struct Look {
    /// At everything but the datasets.
    pub(in crate::daemon) server: Box<dyn Fn() -> Observation + Send + Sync>,
    /// At the datasets, or at so many of them that matter most.
    pub(in crate::daemon) datasets: Box<dyn Fn(Option<usize>) -> Vec<ObservedDataset> + Send + Sync>,
}

/// Everything that can be asked for.
pub(in crate::daemon) struct Site {
    look: Look,
    host_names: HostNames,
    history: Arc<History>,
    last: Mutex<Option<(Instant, Arc<Observation>)>>,
}

impl Site {
    /// Of what `look` sees, for those who call the server by one of `host_names`.
    pub(in crate::daemon) fn new(look: Look, host_names: impl IntoIterator<Item = String>) -> Self {
        Self {
            look,
            host_names: HostNames::new(host_names),
            history: Arc::new(History::default()),
            last: Mutex::default(),
        }
    }

    pub(super) const fn host_names(&self) -> &HostNames {
        &self.host_names
    }

    pub(in crate::daemon) const fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// An observation without datasets that is at most [`FRESH`] old. Whoever comes while one is made waits for it.
    pub(in crate::daemon) fn observation(&self) -> Arc<Observation> {
        let mut last = self.last.lock();
        if let Some((_, seen)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Arc::clone(seen);
        }
        let seen = Arc::new((self.look.server)());
        *last = Some((Instant::now(), Arc::clone(&seen)));
        seen
    }

    /// The answer to a request.
    pub(super) fn answer(&self, request: &Request) -> Response {
        let answer = match request.path.as_str() {
            "/metrics" => {
                let (seen, datasets) = (self.observation(), (self.look.datasets)(None));
                let text = metrics::render(&seen, &datasets, self.history.start_unix_seconds());
                Some(Response::ok(metrics::CONTENT_TYPE, text.into_bytes()))
            }
            "/api/observation" => {
                let most = request.parameter("datasets").and_then(|number| number.parse().ok());
                json(&Told::of(&self.observation(), &(self.look.datasets)(most), request))
            }
            "/api/history" => {
                let since = request.parameter("since").and_then(|number| number.parse().ok()).unwrap_or(0);
                json(&self.history.report(since))
            }
            path => {
                let file = FILES.iter().find(|(known, ..)| *known == path);
                let found = file.map(|(_, content_type, text)| Response::ok(content_type, text.as_bytes()));
                Some(found.unwrap_or_else(|| Response::refusal(Status::NotFound)))
            }
        };
        answer.unwrap_or_else(|| Response::refusal(Status::Unavailable))
    }
}

/// An [`Observation`] as it is told, put together of what is at hand.
#[derive(Serialize)]
struct Told<'a> {
    uptime_seconds: f64,
    pools: &'a [PoolReport],
    datasets: &'a [ObservedDataset],
    dataset_count: u64,
    ops: &'a OpsReport,
    holdings: Option<&'a HoldingCounts>,
    accounts: &'a [AccountReport],
}

impl<'a> Told<'a> {
    /// With `accounts=none` without the accounts, which are megabytes where there are many clients.
    fn of(seen: &'a Observation, datasets: &'a [ObservedDataset], request: &Request) -> Self {
        let with_accounts = request.parameter("accounts") != Some("none");
        Self {
            uptime_seconds: seen.uptime_seconds,
            pools: &seen.pools,
            datasets,
            dataset_count: seen.dataset_count,
            ops: &seen.ops,
            holdings: seen.holdings.as_ref(),
            accounts: if with_accounts { &seen.accounts } else { &[] },
        }
    }
}

fn json(value: &impl serde::Serialize) -> Option<Response> {
    serde_json::to_vec(value).ok().map(|body| Response::ok(JSON, body))
}
