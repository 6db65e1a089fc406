//! Where there are so many delegations that soon nobody is given one, whose they are is asked for those that it does not use (CB_RECALL_ANY, RFC 8881 §20.6). Which these are it
//! knows alone, so nothing is taken of what does not come back.

use bytes::Bytes;

use crate::v4::house::House;
use crate::v4::state::{Callback, ClientId, Errand};
use crate::xdr::Encoder;

const CB_RECALL_ANY: u32 = 8;
/// `RCA4_TYPE_MASK_RDATA_DLG` and `RCA4_TYPE_MASK_WDATA_DLG`.
const OF_FILES: u32 = 1 << 0 | 1 << 1;

impl House {
    /// A client wants one more.
    pub(in crate::v4) fn ask_for_fewer(&self, client: ClientId) {
        if let Some((client, keeps)) = self.delegations().too_many(client, self.now()) {
            // One that cannot be called is asked later.
            let _called = self.call(None, &Errand::RecallAny(client), &Callback::new(cb_recall_any(keeps)));
        }
    }
}

/// `CB_RECALL_ANY4args`: how many may be kept, and of which kinds.
fn cb_recall_any(keeps: u32) -> Bytes {
    let mut words = Encoder::new();
    words.u32(CB_RECALL_ANY).u32(keeps).u32(1).u32(OF_FILES);
    words.into_vec().into()
}
