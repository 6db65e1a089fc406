//! Requests of version 3 in the grace of a pool: what a client of version 4 had for writing before a restart it may still claim, with what it has written and not sent. Until it has,
//! files of that dataset are nobody's to read or change (rules V27).

use super::Service;
use crate::v3::{self, Procedure, Request};
use crate::v4::KeptOut;

impl Service {
    /// Whether a request has to come again for that: it waits for a moment first, as one does that is kept out by a delegation, if it `may_wait`.
    pub(super) fn keeps_waiting(&self, procedure: Procedure, request: &Request<'_>, may_wait: bool) -> Option<KeptOut> {
        let house = self.house.as_ref()?;
        if !procedure.meets_files() {
            return None;
        }
        // Before anybody looks for its pool, which may come meanwhile: then it comes again.
        let changed = self.exports.changed();
        request.is_as_of(changed);
        if house.is_open_to_all(changed) {
            return None;
        }
        let target = v3::first(request)?;
        house.keeps_waiting(&*self.exports, &*target.pool, (&*target.vfs, target.object), may_wait)
    }
}
