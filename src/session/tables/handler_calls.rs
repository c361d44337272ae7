//! Handlers at work: for calls of the script, and for invokes of the client or of other handlers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::InvokedBy;
use crate::session::ChargedTo;

/// What a handler at work was called for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum HandlerWork {
    /// The script's call of that number.
    ScriptCall {
        /// The number of the script's call.
        call: u64,
        /// Who pays for it.
        charged_to: ChargedTo,
    },
    /// An invoke from outside.
    Invoke(InvokedBy),
}

/// See the module.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct HandlerCalls {
    work: BTreeMap<u64, HandlerWork>,
    /// The handler's number by the script's call.
    by_script_call: BTreeMap<u64, u64>,
}

impl HandlerCalls {
    /// Adds a handler that began to work.
    pub(crate) fn insert(&mut self, number: u64, work: HandlerWork) {
        if let HandlerWork::ScriptCall { call, .. } = work {
            self.by_script_call.insert(call, number);
        }
        self.work.insert(number, work);
    }

    /// Takes one that is done or cancelled.
    pub(crate) fn remove(&mut self, number: u64) -> Option<HandlerWork> {
        let work = self.work.remove(&number)?;
        if let HandlerWork::ScriptCall { call, .. } = work {
            self.by_script_call.remove(&call);
        }
        Some(work)
    }

    /// Who pays for the script's call of that number, if a handler works for it.
    pub(crate) fn charged_to(&self, script_call: u64) -> Option<ChargedTo> {
        match self.work.get(self.by_script_call.get(&script_call)?)? {
            HandlerWork::ScriptCall { charged_to, .. } => Some(*charged_to),
            HandlerWork::Invoke(_) => None,
        }
    }

    /// The handlers that work for calls of the script, in the order in which they began.
    pub(crate) fn for_script(&self, is_wanted: impl Fn(ChargedTo) -> bool) -> Vec<(u64, u64)> {
        let wanted = |(number, work): (&u64, &HandlerWork)| match work {
            HandlerWork::ScriptCall { call, charged_to } if is_wanted(*charged_to) => Some((*number, *call)),
            HandlerWork::ScriptCall { .. } | HandlerWork::Invoke(_) => None,
        };
        self.work.iter().filter_map(wanted).collect()
    }

    /// The handlers that work for invokes, in the order in which they began.
    pub(crate) fn for_invokes(&self) -> Vec<u64> {
        let invokes = self.work.iter().filter(|(_, work)| matches!(work, HandlerWork::Invoke(_)));
        invokes.map(|(number, _)| *number).collect()
    }

    /// The handler that works for another handler's request.
    pub(crate) fn for_request(&self, wanted: u64) -> Option<u64> {
        let is_wanted = |work: &HandlerWork| matches!(work, HandlerWork::Invoke(InvokedBy::Handler { request, .. }) if *request == wanted);
        self.work.iter().find(|(_, work)| is_wanted(work)).map(|(number, _)| *number)
    }
}
