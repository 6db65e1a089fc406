//! How much clients may make the server remember (rules V35). Each bound is asked before anything is allocated, and a client's own before those of
//! all, so that who has no measure meets his own.

use crate::rpc::RECORD_BYTES_MAX;
use crate::v3::READ_BYTES_MAX;

/// Most confirmed clients, of all minor versions together.
pub const CLIENTS_MAX: usize = 4096;
/// Most introductions that wait to be confirmed.
pub const WAITING_MAX: usize = 1024;
/// Most of them from one address, as of what an address may hold open: a farm of machines behind a gateway is one.
pub const OF_ADDRESS_MAX: usize = CLIENTS_MAX / 2;
/// Most introductions from one address that wait.
pub const WAITING_OF_ADDRESS_MAX: usize = WAITING_MAX / 2;

/// Most sessions of a client; one more is NOSPC.
pub const SESSIONS_MAX: usize = 16;
/// Most connections of a session; others work, but are not bound: nothing is called back on them, and they cannot destroy it.
pub const CONNECTIONS_MAX: usize = 64;
/// Most slots of a session, and so most requests of it at once.
pub const SLOTS_MAX: u32 = 64;
/// Most slots of its backchannel, and so most calls over it at once.
pub const BACK_SLOTS_MAX: u32 = 4;
/// Most operations of a compound in a session: a client is told this number, so it can be lower than that of minor version 0.
pub const OPS_MAX: u32 = 64;
/// Most operations of a compound of minor version 0, where no session says how many.
pub const OPS_OUTSIDE_MAX: u32 = 128;
/// Longest tag of a compound, and of what is answered to a call.
pub const TAG_BYTES_MAX: usize = 1024;
/// Longest results that a slot keeps: those of every operation that changes something, but for long names and attributes.
pub const KEPT_BYTES_MAX: usize = 2048;
/// As much where memory is short.
pub const KEPT_BYTES_SHORT: usize = 1024;
/// All sessions with all that their slots may keep, bytes.
pub const SESSIONS_BYTES_MAX: usize = 64 << 20;
/// Where less than this is left of it, memory is short.
pub const SESSIONS_BYTES_SHORT: usize = SESSIONS_BYTES_MAX / 2;
/// Then a session gets this part of what is left, so that there is always some for who comes next.
pub const SESSIONS_SHARE: usize = 1024;

/// Most slots of persistent sessions: for what their last requests have changed every pool keeps room four times over, as sessions of lives before are there as well
/// (`tally_store::marks::MARKS_MAX`).
pub const SLOTS_LASTING_MAX: u32 = 16_384;
/// Of one address: sixteen mounts that ask for all slots.
pub const SLOTS_LASTING_OF_ADDRESS_MAX: u32 = SLOTS_LASTING_MAX / 16;
/// Of a session where half of all are given away.
pub const SLOTS_LASTING_SHORT: u32 = 16;
/// Most operations of one request in a persistent session that change something which is remembered; no client sends more than two.
pub const MARKS_OF_REQUEST_MAX: usize = 4;

/// Shortest requests and replies of a channel: a SEQUENCE with its RPC header is as long as that.
pub const MESSAGE_BYTES_MIN: u32 = 128;
/// Longest requests: the longest record that is taken in.
pub const REQUEST_BYTES_MAX: u32 = RECORD_BYTES_MAX as u32;
/// Longest replies: a READ of as much as may be asked for, and what stands around it.
pub const REPLY_BYTES_MAX: u32 = READ_BYTES_MAX + (64 << 10);

/// Most open-owners of a client, and of all: past either, and past those of opens and locks below, DELAY in sessions and RESOURCE in minor version 0.
pub const OWNERS_OF_CLIENT_MAX: usize = 16_384;
/// Of all clients.
pub const OWNERS_MAX: usize = 131_072;
/// Longest name of an owner; a longer one is BADXDR.
pub const OWNER_BYTES_MAX: usize = 1024;
/// All results that owners of minor version 0 may be told again, bytes. Past it nobody is refused: the oldest are kept no longer.
pub const OWNERS_KEPT_BYTES_MAX: usize = 64 << 20;
/// How many owners are looked at for one that has nothing open and may be forgotten, where there are too many.
pub const OWNERS_LOOKED_AT: usize = 8;
/// Most opens of a client, with those that were revoked and that it has not freed.
pub const OPENS_OF_CLIENT_MAX: usize = 65_536;
/// Of all clients.
pub const OPENS_MAX: usize = 262_144;
/// Of the clients of one address: with what stands below them they take some 740 bytes each, so that one address has less than 64 MiB.
pub const OPENS_OF_ADDRESS_MAX: usize = OPENS_MAX / 4;
/// Most open-owners of the clients of one address.
pub const OWNERS_OF_ADDRESS_MAX: usize = OWNERS_MAX / 2;
/// Most stateids of locks of a client; of lock-owners there may be as many as of open-owners.
pub const LOCKS_OF_CLIENT_MAX: usize = 65_536;
/// Of all clients.
pub const LOCKS_MAX: usize = 262_144;
/// Most who wait for locks of one file; who comes then polls.
pub const WAITERS_OF_FILE_MAX: usize = 1024;
/// Of one client.
pub const WAITERS_OF_CLIENT_MAX: usize = 1024;
/// Of all: some 22 MiB with the longest names.
pub const WAITERS_MAX: usize = 16_384;
/// How many who wait in one file are looked at when something of it is free.
pub const WAITERS_LOOKED_AT: usize = 64;
/// How many owners one waits for over another are followed where somebody looks whether he waits for himself.
pub const DEADLOCK_STEPS_MAX: u32 = 64;
/// Most calls to clients that wait for their answers, of all sessions: some 6 MiB. Of a session it is the slots of its backchannel.
pub const CALLS_MAX: usize = 4096;
/// Of these, most of the clients of one address: others are called beside one where nobody answers.
pub const CALLS_OF_ADDRESS_MAX: usize = CALLS_MAX / 2;
/// And most of one client: those of all slots that it can have.
pub const CALLS_OF_CLIENT_MAX: usize = SESSIONS_MAX * BACK_SLOTS_MAX as usize;
/// Longest names of a client's lock-owners together: of those there can be, 256 bytes each, where some twenty are usual. They are kept, as others are told them.
pub const LOCK_NAMES_BYTES_OF_CLIENT_MAX: usize = OWNERS_OF_CLIENT_MAX * 256;
/// Of all clients.
pub const LOCK_NAMES_BYTES_MAX: usize = OWNERS_MAX * 256;
/// Most revoked opens of a client; at one more all that it has is revoked.
pub const REVOKED_OF_CLIENT_MAX: usize = 4096;
/// Most delegations of a client, with those that were revoked and that it has not freed; past it and past the next it opens files without any.
pub const DELEGATIONS_OF_CLIENT_MAX: usize = 16_384;
/// Of all clients: some 16 MiB.
pub const DELEGATIONS_MAX: usize = 65_536;
/// Who has more is asked to give back what it does not use (CB_RECALL_ANY).
pub const DELEGATIONS_OF_CLIENT_MANY: usize = DELEGATIONS_OF_CLIENT_MAX / 10 * 9;
/// Where all have more it is who has most.
pub const DELEGATIONS_MANY: usize = DELEGATIONS_MAX / 10 * 9;
/// Of how many files it is remembered that a delegation was recalled a moment ago; where there are more the oldest are forgotten.
pub const RECALLED_FILES_MAX: usize = 16_384;
/// Most requests that wait without a worker for a delegation to come back; others are told to come again.
pub const PARKED_MAX: usize = 1024;
/// Most claims of hosts that lock by NLM that are kept without an answer, as it is not known yet whether they may claim that: others send them again.
pub const HELD_MAX: usize = 512;
/// Of one host: Linux claims one behind the other.
pub const HELD_OF_HOST_MAX: usize = 8;
/// What one compound copies from file to file: as long as that takes a worker has nothing else to do. A COPY may end short (RFC 7862 §15.2.3), and its client goes on.
pub const COPY_BYTES_MAX: u64 = 4 << 20;

const _: () = assert!(OPS_MAX <= OPS_OUTSIDE_MAX && CALLS_OF_CLIENT_MAX < CALLS_MAX);
const _: () = assert!(OWNERS_OF_CLIENT_MAX < OWNERS_MAX && OPENS_OF_CLIENT_MAX < OPENS_MAX);
const _: () = assert!(DELEGATIONS_OF_CLIENT_MAX < DELEGATIONS_MAX);
// Nobody is promised here what there is no room for below.
const _: () = assert!(OPENS_MAX <= tally_vfs::OPENS_MAX && OPENS_OF_CLIENT_MAX <= tally_vfs::OPENS_OF_CLIENT_MAX);
const _: () = assert!(DELEGATIONS_MAX <= tally_vfs::DELEGATIONS_MAX);
const _: () = assert!(DELEGATIONS_OF_CLIENT_MAX <= tally_vfs::DELEGATIONS_OF_CLIENT_MAX);
const _: () = assert!(LOCKS_OF_CLIENT_MAX < LOCKS_MAX && LOCK_NAMES_BYTES_OF_CLIENT_MAX < LOCK_NAMES_BYTES_MAX);
const _: () = assert!(KEPT_BYTES_SHORT <= KEPT_BYTES_MAX && SESSIONS_BYTES_SHORT < SESSIONS_BYTES_MAX);
