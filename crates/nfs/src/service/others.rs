//! What clients of version 4 are to requests of version 3: what they keep is asked for, what they have for writing they are asked about; and in the grace of a pool, what one had for writing before
//! a restart it may still claim, with what it has written and not sent. Until it has, files of that dataset are nobody's to read or change (rules V27).

use tally_vfs::ObjectRef;

use super::job::Job;
use super::{Service, Step};
use crate::exports::Place;
use crate::repeats::Told;
use crate::rpc::Reply;
use crate::v3::{self, Procedure, Request, Status};
use crate::v4::{KeptOut, Seen};

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
        // What was carried out before the restart is told so, and not sent away: its client would ask anew, and be told what it has done itself.
        if procedure.outlives_crashes() && request.was_carried_out(&target) {
            return None;
        }
        house.keeps_waiting(&*self.exports, &*target.pool, (&*target.vfs, target.object), may_wait)
    }

    /// What another client was given to keep is asked for: this goes on when it comes back, or comes again.
    pub(super) fn kept_out(&self, job: &mut Job, procedure: Procedure, object: ObjectRef) -> Step {
        let may_wait = !std::mem::replace(&mut job.was_kept_out, true);
        let dataset =
            job.about.dataset.and_then(|(pool, dataset)| self.exports.pool(pool).map(|pool| pool.place(dataset)));
        if let (Some(house), Some(Place::Here(vfs))) = (&self.house, dataset)
            && let KeptOut::Waits(promise) = house.kept_out(&*self.exports, (&*vfs, object), None, may_wait)
        {
            return Step::Again(promise);
        }
        Step::Reply(self.failure(job, procedure, Status::JukeBox))
    }

    /// A client that has a file for writing is asked what that is like.
    pub(super) fn look(&self, job: &mut Job, (object, fsid): (ObjectRef, u64)) -> Step {
        let place = job.about.dataset.and_then(|(pool, dataset)| Some(self.exports.pool(pool)?.place(dataset)));
        let seen = match (&self.house, place) {
            (Some(house), Some(Place::Here(vfs))) => house.look(&*self.exports, (&*vfs, object), None, job.look),
            _ => Seen::KeptOut(KeptOut::ComesAgain),
        };
        match seen {
            Seen::Attributes(attr) => {
                job.told = Some(Told::Ok);
                Step::Reply(Reply::success(job.call.xid, v3::attributes_told(&attr, fsid)))
            }
            Seen::Asks(ticket, promise) => {
                job.look = Some(ticket);
                Step::Again(promise)
            }
            Seen::KeptOut(KeptOut::Waits(promise)) => Step::Again(promise),
            Seen::KeptOut(KeptOut::ComesAgain) => Step::Reply(self.failure(job, Procedure::GetAttr, Status::JukeBox)),
            Seen::Failed(error) => Step::Reply(self.failure(job, Procedure::GetAttr, error.into())),
        }
    }
}
