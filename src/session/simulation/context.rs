//! A JavaScript context without JavaScript: a script is a list of letters, each an operation.
//!
//! Roots are numbered across contexts, so that a root of an old context is never taken for one of the new. Functions
//! are numbered from 1 in each context, as the prelude does, so that a machine that confuses them is found out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::protocol::fn_ref::FnRef;
use crate::session::{ChargedTo, RefHolder, RootId};

/// What a root keeps alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rooted {
    /// An end of the promise of a call.
    Call(u64),
    /// The promise of an eval or invocation.
    Promise,
    /// A function, by its identity.
    Function(u64),
}

/// A part of a script that runs on its own: an eval, a function, or what these left behind.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// What it settles at its end, and for whom.
    pub(super) settles: Option<(ChargedTo, RefHolder)>,
    /// What it returns beside its functions.
    pub(super) name: String,
    /// The operations that are left.
    pub(super) operations: VecDeque<char>,
    /// Functions in its result.
    pub(super) exported: Vec<u64>,
    /// Whether it has ever been suspended, so that its promise is awaited.
    pub(super) is_awaited: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    last_root: u32,
    pub(super) live: BTreeMap<RootId, Rooted>,
    last_identity: u64,
    /// The bodies of functions.
    bodies: BTreeMap<u64, &'static str>,
    last_task: u64,
    pub(super) tasks: BTreeMap<u64, Task>,
    /// Which task waits for a call, if one does.
    pub(super) calls: BTreeMap<u64, Option<u64>>,
    /// Which task waits for a timer, if one does.
    pub(super) timers: BTreeMap<u64, Option<u64>>,
    last_timer: u64,
    /// Tasks that go on in the next turn.
    pub(super) jobs: VecDeque<u64>,
    /// Functions of the outside.
    pub(super) imports: BTreeSet<FnRef>,
    /// Lines that were printed in all contexts.
    pub(super) printed: u64,
}

impl Context {
    /// A fresh context in the place of this one.
    pub(super) fn replace(&mut self) {
        *self = Self { last_root: self.last_root, printed: self.printed, ..Self::default() };
    }

    pub(super) fn root(&mut self, rooted: Rooted) -> RootId {
        self.last_root += 1;
        let root = RootId(self.last_root);
        self.live.insert(root, rooted);
        root
    }

    /// Frees a root; each is freed once, in its own context.
    pub(super) fn free(&mut self, root: RootId) {
        let Some(rooted) = self.live.remove(&root) else { panic!("{root:?} is freed and not alive") };
        if let Rooted::Call(call) = rooted {
            // The second end of a call that is settled or dropped.
            self.calls.remove(&call);
        }
    }

    /// Makes a function; bodies differ so that some call back and some fail.
    pub(super) fn function(&mut self) -> u64 {
        const BODIES: [&str; 6] = ["p", "cf", "fp", "x", "s", "tf"];
        self.last_identity += 1;
        let identity = self.last_identity;
        let body = BODIES[usize::try_from(identity).unwrap_or_default() % BODIES.len()];
        self.bodies.insert(identity, body);
        identity
    }

    /// The body of the function that a root stands for.
    pub(super) fn body_of(&self, root: RootId) -> &'static str {
        match self.live.get(&root) {
            Some(Rooted::Function(identity)) => self.bodies[identity],
            other => panic!("{root:?} is called and is {other:?}"),
        }
    }

    pub(super) fn task(&mut self, task: Task) -> u64 {
        self.last_task += 1;
        self.tasks.insert(self.last_task, task);
        self.last_task
    }

    /// Leaves a task behind that nothing waits for.
    pub(super) fn detach(&mut self, operations: &str) -> u64 {
        self.task(Task {
            settles: None,
            name: String::new(),
            operations: operations.chars().collect(),
            exported: Vec::new(),
            is_awaited: true,
        })
    }

    pub(super) fn timer(&mut self, task: Option<u64>) -> u64 {
        self.last_timer += 1;
        self.timers.insert(self.last_timer, task);
        self.last_timer
    }
}
