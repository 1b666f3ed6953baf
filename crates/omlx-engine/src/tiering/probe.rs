//! How much of a prompt is known, and where: the look that a request gets, without the request.

use omlx_api::{Heat, Known};
use omlx_blocks::BlockKey;
use omlx_kv::tier::Lies;

use super::fetching::{estimate, names};
use crate::engine::Engine;

impl Engine {
    /// What a request with this prompt would find now, were it admitted at once.
    pub(crate) fn known(&self, tokens: &[u32]) -> Known {
        let (ledger, tiering) = (self.sched.ledger(), self.tiering.as_ref());
        let find = |key: &BlockKey| tiering.and_then(|tiering| tiering.tiers.find(key));
        let (trail, block) = (ledger.trail(tokens), ledger.block());
        let lack = ledger.lack(&trail, tokens, &|key| find(key).is_some());
        let missing = names(ledger, &trail, tokens, &lack);
        let pays = |tiering: &super::Tiering| {
            tiering.pays(estimate(&tiering.tiers, &self.kv, &missing), lack.there - lack.here)
        };
        let fetched = !missing.is_empty() && tiering.is_some_and(pays);
        // A part of a block counts as the block: where it is hot, so are the tokens that there are of it.
        let mut blocks = vec![Heat::Cold; tokens.len().div_ceil(block)];
        blocks[..lack.there.div_ceil(block)].fill(Heat::Hot);
        for (_, index, key) in &missing {
            let heat = match find(key) {
                Some(Lies::Ram) => Heat::Ram,
                Some(Lies::Disk) => Heat::Disk,
                None => Heat::Cold,
            };
            blocks[*index] = blocks[*index].max(heat);
        }
        Known { block, cached: if fetched { lack.there } else { lack.here }, kept: lack.there, blocks }
    }
}
