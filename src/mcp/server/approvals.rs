//! Calls of the scripts of a session that wait for a person to decide over them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::execution::cut;
use crate::client::Outcome;

/// Calls of a session that wait for a decision; further ones are refused. More than a person would look at.
pub(super) const PENDING_MAX: usize = 64;

/// Bytes of a call's input that are shown.
const INPUT_BYTES_MAX: usize = 2 << 10;

/// A call that needs approval, as it is shown to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ApprovalRequest {
    pub(super) id: String,
    #[serde(skip)]
    pub(super) eval: u64,
    pub(super) binding: String,
    /// As JSON, cut where it is long.
    pub(super) input: String,
    pub(super) effects: Vec<String>,
}

/// What a person decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) allow: bool,
    pub(super) reason: Option<String>,
}

impl Decision {
    pub(super) fn deny(reason: &str) -> Self {
        Self { allow: false, reason: Some(reason.to_owned()) }
    }

    /// Reads the answer to an elicitation; whatever is not clearly a yes is a no.
    pub(super) fn of_elicitation(answer: &Value) -> Self {
        let content = &answer["content"];
        let reason = content["reason"].as_str().filter(|reason| !reason.is_empty()).map(str::to_owned);
        if answer["action"] == "accept" && content["allow"] == true {
            return Self { allow: true, reason };
        }
        Self { allow: false, reason: reason.or_else(|| Some("the user declined".to_owned())) }
    }
}

/// The undecided calls of a session.
pub(super) struct Approvals {
    pending: Mutex<BTreeMap<String, (ApprovalRequest, oneshot::Sender<Decision>)>>,
    changed_tx: watch::Sender<u64>,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { pending: Mutex::default(), changed_tx: watch::Sender::new(0) }
    }
}

impl Approvals {
    /// Waits for a decision over a call. `id` names it; `request` is what the server says about it.
    pub(super) async fn ask(self: Arc<Self>, id: String, request: Value) -> Outcome {
        let (decision_tx, decision_rx) = oneshot::channel();
        let asked = ApprovalRequest {
            id: id.clone(),
            eval: request["evalId"].as_u64().unwrap_or_default(),
            binding: request["binding"].as_str().unwrap_or_default().to_owned(),
            input: cut(&request["input"].to_string(), INPUT_BYTES_MAX).to_owned(),
            effects: serde_json::from_value(request["effects"].clone()).unwrap_or_default(),
        };
        {
            let mut pending = self.pending.lock();
            if pending.len() >= PENDING_MAX {
                return Ok(json!({"allow": false, "reason": "too many calls wait for approval"}));
            }
            pending.insert(id.clone(), (asked, decision_tx));
        }
        let _forget = Forget { approvals: &self, id };
        self.changed_tx.send_modify(|changes| *changes += 1);
        let decision = decision_rx.await.unwrap_or_else(|_dropped| Decision::deny("the session was closed"));
        let mut answer = json!({"allow": decision.allow});
        if let Some(reason) = decision.reason {
            answer["reason"] = reason.into();
        }
        Ok(answer)
    }

    /// The undecided calls of an eval.
    pub(super) fn pending_of(&self, eval: u64) -> Vec<ApprovalRequest> {
        let pending = self.pending.lock();
        pending.values().map(|(request, _)| request).filter(|request| request.eval == eval).cloned().collect()
    }

    /// All undecided calls.
    pub(super) fn pending(&self) -> Vec<ApprovalRequest> {
        self.pending.lock().values().map(|(request, _)| request.clone()).collect()
    }

    /// Decides over a call; `false` if it does not wait any more.
    pub(super) fn decide(&self, id: &str, decision: Decision) -> bool {
        let waiting = self.pending.lock().remove(id);
        self.changed_tx.send_modify(|changes| *changes += 1);
        waiting.is_some_and(|(_, decision_tx)| decision_tx.send(decision).is_ok())
    }

    /// Changes with every call that comes or goes.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed_tx.subscribe()
    }
}

/// Forgets a call whose script does not wait for it any more.
struct Forget<'a> {
    approvals: &'a Approvals,
    id: String,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if self.approvals.pending.lock().remove(&self.id).is_some() {
            self.approvals.changed_tx.send_modify(|changes| *changes += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn request(eval: u64) -> Value {
        json!({"binding": "mail.send", "input": {"to": "ann"}, "effects": ["external"], "evalId": eval})
    }

    #[tokio::test]
    async fn call_waits_for_its_decision() {
        let approvals = Arc::new(Approvals::default());
        let mut asked = Box::pin(Arc::clone(&approvals).ask("p_1".into(), request(3)));
        assert!((&mut asked).now_or_never().is_none());
        let pending = approvals.pending_of(3);
        assert_eq!(
            (pending[0].binding.as_str(), pending[0].input.as_str()),
            ("mail.send", r#"{"to":"ann"}"#)
        );
        assert!(approvals.pending_of(4).is_empty());
        assert!(approvals.decide("p_1", Decision { allow: true, reason: None }));
        assert_eq!(asked.await, Ok(json!({"allow": true})));
        assert!(!approvals.decide("p_1", Decision { allow: true, reason: None }));
    }

    #[tokio::test]
    async fn call_that_is_given_up_is_forgotten() {
        let approvals = Arc::new(Approvals::default());
        let mut asked = Box::pin(Arc::clone(&approvals).ask("p_1".into(), request(3)));
        assert!((&mut asked).now_or_never().is_none() && approvals.pending().len() == 1);
        drop(asked);
        assert!(approvals.pending().is_empty());
    }

    #[tokio::test]
    async fn call_past_the_limit_is_refused() {
        let approvals = Arc::new(Approvals::default());
        let mut asked: Vec<_> = (0..PENDING_MAX)
            .map(|at| Box::pin(Arc::clone(&approvals).ask(format!("p_{at}"), request(1))))
            .collect();
        assert!(asked.iter_mut().all(|one| one.now_or_never().is_none()));
        let refused = Arc::clone(&approvals).ask("one more".into(), request(1)).await;
        assert_eq!(refused.unwrap()["allow"], false);
        assert_eq!(approvals.pending().len(), PENDING_MAX);
    }

    #[test]
    fn only_a_clear_yes_allows() {
        let allows = |answer: Value| Decision::of_elicitation(&answer).allow;
        assert!(allows(json!({"action": "accept", "content": {"allow": true}})));
        for no in [
            json!({"action": "accept", "content": {"allow": false}}),
            json!({"action": "accept"}),
            json!({"action": "decline", "content": {"allow": true}}),
            json!({"action": "accept", "content": {"allow": "true"}}),
            json!(7),
        ] {
            assert!(!allows(no.clone()), "{no}");
        }
    }
}
