//! The header of a call (RFC 5531 §9), and who makes it.
//!
//! ```text
//!  byte 0     4      8        12        16        20          24
//!  ┌──────┬──────┬────────┬─────────┬─────────┬───────────┬────────────┬──────────┬───────────
//!  │ xid  │ CALL │ rpc: 2 │ program │ version │ procedure │ credential │ verifier │ arguments
//!  └──────┴──────┴────────┴─────────┴─────────┴───────────┴────────────┴──────────┴───────────
//! ```
//!
//! Credential and verifier are each a flavor and at most 400 bytes.

use bytes::Bytes;
use smallvec::SmallVec;
use tally_vfs::Cred;

use super::reply::{AuthProblem, Reply};
use crate::xdr::{Decoder, Garbage};

const CALL: u32 = 0;
const RPC_VERSION: u32 = 2;
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;
/// Longest body of a credential or verifier (RFC 5531 §8.2).
const AUTH_BYTES_MAX: usize = 400;
/// Longest machine name in AUTH_SYS (RFC 5531, appendix A).
pub(crate) const MACHINE_NAME_MAX: usize = 255;
/// Most supplementary groups in AUTH_SYS.
pub(crate) const GROUPS_MAX: u32 = 16;

/// Who makes the call, as they say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// AUTH_NONE.
    Nobody,
    /// AUTH_SYS.
    Unix(Cred),
}

/// A call whose header was understood.
#[derive(Clone, Debug)]
pub struct Call {
    /// Chosen by the client; the reply carries it.
    pub xid: u32,
    /// RPC program.
    pub program: u32,
    /// Of the program, as the client would have it.
    pub version: u32,
    /// By its number in the program; 0 does nothing.
    pub procedure: u32,
    /// Whom the credential names; nothing proves it.
    pub identity: Identity,
    record: Bytes,
    arguments_at: usize,
}

/// Why a record gets no further.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// It is no call: nothing can be answered, and the stream is not to be trusted.
    NotACall,
    /// This answer goes out, and the connection lives on.
    Answer(Box<Reply>),
}

impl Call {
    /// Reads the header of `record`.
    pub fn parse(record: Bytes) -> Result<Self, Refusal> {
        let mut words = Decoder::new(&record, 0);
        let (Ok(xid), Ok(CALL)) = (words.u32(), words.u32()) else { return Err(Refusal::NotACall) };
        let Ok(rpc_version) = words.u32() else { return Err(Refusal::NotACall) };
        if rpc_version != RPC_VERSION {
            return Err(Refusal::Answer(Reply::rpc_mismatch(xid).into()));
        }
        let (Ok(program), Ok(version), Ok(procedure)) = (words.u32(), words.u32(), words.u32()) else {
            return Err(Refusal::NotACall);
        };
        let identity =
            identity(&mut words).map_err(|problem| Refusal::Answer(Reply::auth_error(xid, problem).into()))?;
        // The verifier of AUTH_NONE and AUTH_SYS is empty by definition; whatever it says is passed over.
        if words.u32().is_err() || words.opaque(AUTH_BYTES_MAX).is_err() {
            return Err(Refusal::Answer(Reply::auth_error(xid, AuthProblem::BadVerifier).into()));
        }
        let arguments_at = words.position();
        Ok(Self { xid, program, version, procedure, identity, record, arguments_at })
    }

    /// The procedure's arguments.
    #[must_use]
    pub fn arguments(&self) -> Decoder<'_> {
        self.arguments_from(self.arguments_at)
    }

    /// What is left of them from that byte of the record on.
    #[must_use]
    pub fn arguments_from(&self, at: usize) -> Decoder<'_> {
        Decoder::new(&self.record, at)
    }

    /// Whether this is the other one, sent again.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.xid == other.xid && self.record == other.record
    }

    /// Bytes of the whole record.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.record.len()
    }

    /// A hash of who asks what: equal for a retransmission, other for another request under the same xid.
    /// Of the credential only the ids count, as its time stamp may change from one transmission to the next; and
    /// where it is not believed, only `user`, as who it is.
    #[must_use]
    pub fn fingerprint(&self, user: Option<u32>) -> u64 {
        self.fingerprint_from(self.arguments_at, user)
    }

    /// The same of the arguments from that byte of the record on. Marks keep it on disks over restarts (rules V5): a build that gives another value for the same
    /// request knows none of those before it.
    #[must_use]
    pub fn fingerprint_from(&self, at: usize, user: Option<u32>) -> u64 {
        let arguments = self.record.get(at..).unwrap_or_default();
        let mut ids: SmallVec<[u8; 128]> = SmallVec::new();
        if let Some(uid) = user {
            // Of a length that no list of ids has.
            ids.push(1);
            ids.extend_from_slice(&uid.to_be_bytes());
        } else if let Identity::Unix(cred) = &self.identity {
            for id in [cred.uid, cred.gid].iter().chain(&cred.groups) {
                ids.extend_from_slice(&id.to_be_bytes());
            }
        }
        ((tally_base::block_checksum(arguments) ^ tally_base::block_checksum(&ids).rotate_left(64)) >> 64) as u64
    }
}

fn identity(words: &mut Decoder<'_>) -> Result<Identity, AuthProblem> {
    let bad = |Garbage| AuthProblem::BadCredential;
    let flavor = words.u32().map_err(bad)?;
    let body = words.opaque_shared(AUTH_BYTES_MAX).map_err(bad)?;
    match flavor {
        AUTH_NONE => Ok(Identity::Nobody),
        AUTH_SYS => unix(&body).map(Identity::Unix).map_err(bad),
        _ => Err(AuthProblem::RejectedCredential),
    }
}

/// The body of AUTH_SYS: stamp, machine name, uid, gid, groups.
fn unix(body: &Bytes) -> Result<Cred, Garbage> {
    let mut words = Decoder::new(body, 0);
    words.u32()?;
    words.opaque(MACHINE_NAME_MAX)?;
    let (uid, gid) = (words.u32()?, words.u32()?);
    let count = words.u32()?;
    if count > GROUPS_MAX {
        return Err(Garbage);
    }
    let groups = (0..count).map(|_| words.u32()).collect::<Result<_, _>>()?;
    Ok(Cred { uid, gid, groups, checked: false })
}

#[cfg(test)]
mod tests;
