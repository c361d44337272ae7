//! Who is measured side by side: the floors, ours, and the servers that a user might take instead.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::server::Served;

/// How a contender is judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The least that the machine needs for such work.
    Floor,
    /// The server of this project.
    Ours,
    /// Another server for the same work.
    Peer,
}

/// A server that takes part.
#[derive(Clone)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) part: Part,
    launch: Launch,
}

#[derive(Clone)]
enum Launch {
    /// This program in that role.
    Role(&'static str),
    /// Another program, in the folder of the peers.
    Program(PathBuf, &'static [&'static str]),
}

impl Contender {
    /// Starts it as a process of its own.
    pub(crate) fn start(&self) -> Result<Served> {
        match &self.launch {
            Launch::Role(role) => Served::role(role),
            Launch::Program(program, arguments) => {
                let mut command = Command::new(program);
                command.args(*arguments).current_dir(folder()).stderr(Stdio::inherit());
                Served::start(command)
            }
        }
    }
}

/// An echo that flushes each answer: the floor under a round trip.
pub(crate) fn echo() -> Contender {
    Contender { name: "axum echo", part: Part::Floor, launch: Launch::Role("echo-each") }
}

/// An echo that flushes once per batch: the floor under load.
pub(crate) fn batched_echo() -> Contender {
    Contender { name: "axum echo, batched", part: Part::Floor, launch: Launch::Role("echo-batched") }
}

/// Ours, with the binding `lookup` that the peers have too.
pub(crate) fn ours() -> Contender {
    Contender { name: "scomp-serve", part: Part::Ours, launch: Launch::Role("scomp-0") }
}

/// Ours and the peers that are installed.
pub(crate) fn servers() -> Vec<Contender> {
    let node = PathBuf::from("node");
    let deno = folder().join("node_modules/deno/deno");
    let all = [
        ("Node, node:vm", "ws", node.clone(), &["serve.mjs", "node-vm"] as &[_]),
        ("Deno, node:vm", "deno", deno, &["run", "--quiet", "-A", "serve.mjs", "node-vm"]),
        (
            "Node, quickjs-emscripten",
            "quickjs-emscripten",
            node.clone(),
            &["serve.mjs", "quickjs-emscripten"],
        ),
        ("Node, isolated-vm", "isolated-vm", node.clone(), &["serve.mjs", "isolated-vm"]),
        ("Node, worker_threads", "ws", node, &["serve.mjs", "worker"]),
    ];
    let mut servers = vec![ours()];
    for (name, package, program, arguments) in all {
        let launch = Launch::Program(program, arguments);
        let peer = Contender { name, part: Part::Peer, launch };
        let is_installed = folder().join("node_modules").join(package).exists();
        if is_installed && peer.start().is_ok() {
            servers.push(peer);
        } else {
            println!("- {name} is not installed here and is left out");
        }
    }
    servers
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers")
}
