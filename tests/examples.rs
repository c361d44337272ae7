//! Runs the examples of the protocols as their first lines say, and compares what they print.
//!
//! `examples/<name>/client.js` begins with the two commands, `$`, and the output, `>`. The ports that it names are
//! replaced by free ones, there and in the example's own files.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::Folder;

/// A process that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Replaces the port of the example in all its files.
fn move_to_port(folder: &Path, from: &str, to: u16) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            move_to_port(&path, from, to);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            std::fs::write(&path, text.replace(&format!(":{from}"), &format!(":{to}"))).unwrap();
        }
    }
}

fn ports_in(text: &str) -> BTreeSet<String> {
    let behind = text.split("127.0.0.1:").skip(1);
    behind.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect()).collect()
}

fn lines_with<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().take_while(|line| line.starts_with("//")).filter_map(move |line| line.strip_prefix(mark))
}

fn program(line: &str, root: &Path) -> Command {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("scomp-serve"), "{line}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_scomp-serve"));
    command.args(words).current_dir(root).env("SCOMP_LOG", "error");
    command
}

fn run(name: &str) {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
    let root = Folder::with(&[]);
    let copy = Folder::copy_of(&original);
    let moved_to = root.path().join("examples").join(name);
    std::fs::create_dir_all(moved_to.parent().unwrap()).unwrap();
    std::fs::rename(copy.path(), &moved_to).unwrap();
    let stated = std::fs::read_to_string(original.join("client.js")).unwrap();
    for port in ports_in(&stated) {
        move_to_port(root.path(), &port, free_port());
    }
    let client = std::fs::read_to_string(moved_to.join("client.js")).unwrap();
    let commands: Vec<&str> = lines_with(&client, "// $ ").collect();
    let [serve, evaluate] = &commands[..] else { panic!("expected two commands, got {commands:?}") };
    let mut server = Server(program(serve, root.path()).stdout(Stdio::piped()).spawn().unwrap());
    let mut listening = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut listening).unwrap();
    assert!(listening.starts_with("listening on"), "{listening}");
    let output = program(evaluate, root.path()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let wanted: Vec<&str> = lines_with(&client, "// > ").collect();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(printed.lines().collect::<Vec<_>>(), wanted, "{stderr}");
}

#[test]
fn holon() {
    run("holon");
}

#[test]
fn a2a() {
    run("a2a");
}

#[test]
fn exoclaw_with_a_script_as_agent() {
    run("exoclaw/script");
}

#[test]
fn exoclaw_with_a_model_as_agent() {
    run("exoclaw/model");
}

#[test]
fn memory() {
    run("memory");
}
