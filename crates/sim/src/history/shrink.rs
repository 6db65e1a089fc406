//! Looking for a shorter history that fails, too.

use super::{Failure, Plan, run};

/// Looks for a shorter history that fails, too, within so many runs.
#[must_use]
pub fn shrink(plan: &Plan, failure: Failure, mut runs: usize) -> (Plan, Failure) {
    let mut attempt = |candidate: Plan, best: &mut (Plan, Failure)| -> bool {
        if runs == 0 {
            return false;
        }
        runs -= 1;
        match run(&candidate) {
            Err(shorter) => {
                *best = (candidate, shorter);
                true
            }
            Ok(_) => false,
        }
    };
    let mut best = (plan.clone(), failure);
    let mut cut = plan.steps / 2;
    while cut > 0 {
        let candidate = Plan { steps: best.0.steps.saturating_sub(cut), ..best.0.clone() };
        if !attempt(candidate, &mut best) {
            cut /= 2;
        }
    }
    let mut chunk = best.0.steps.div_ceil(4).max(1);
    loop {
        let mut at = 0;
        while at < best.0.steps {
            let mut candidate = best.0.clone();
            candidate.skipped.extend((at..at + chunk).filter(|step| !best.0.skipped.contains(step)));
            if candidate.skipped.len() > best.0.skipped.len() {
                attempt(candidate, &mut best);
            }
            at += chunk;
        }
        if chunk == 1 {
            return best;
        }
        chunk = chunk.div_ceil(2);
    }
}
