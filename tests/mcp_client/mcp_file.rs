//! `--mcp FILE`: servers as other programs configure them.

use serde_json::json;

use crate::program::Program;
use crate::servers::{HOSTILE, published};
use crate::support::Folder;

#[test]
fn servers_of_a_file_are_packages() {
    let file = json!({"mcpServers": {
        "every-thing": {"command": "node", "args": [published("server-everything"), "stdio"]},
        "scripted": {"command": "node", "args": ["hostile.mjs", "${MODE:-plain}"], "env": {"SECRET": "${env:KEY}"}},
        "off": {"command": "not-a-program", "disabled": true},
    }});
    // The paths of a file start in its folder.
    let folder = Folder::with(&[("mcp.json", &file.to_string()), ("hostile.mjs", HOSTILE)]);
    let path = folder.path().join("mcp.json");
    let path = path.to_str().unwrap();
    let code = "[await every_thing.echo({message: 'a'}), await scripted.echo({text: 'b'}), await scripted.repeats({})]";
    let program = Program::new(["eval", "--json", "-e", code, "--mcp", path]).variable(("KEY", "k3y-value"));
    let done = program.run();
    let value = "[\"Echo: a\",\"b\",\"${KEY} and \\\"${KEY}\\\"\"]\n";
    assert_eq!((done.code, done.stdout.as_str()), (0, value), "{}", done.stderr);
    let listed = Program::new(["check", "--mcp", path]).variable(("KEY", "k3y-value")).run();
    assert!(listed.stdout.contains("  every_thing.get_sum [read]\n"), "{}", listed.stdout);
    assert!(listed.stdout.contains(&format!("scripted ({path})\n")), "{}", listed.stdout);
}

#[test]
fn problems_of_a_file_are_listed_with_their_places() {
    let file = json!({"mcpServers": {
        "a-b": {"command": "node", "args": ["hostile.mjs"], "env": {"X": "${MISSING}"}},
        "a.b": {"command": "node", "args": ["hostile.mjs"]},
        "gone": {"command": "./no-such-program"},
        "old": {"type": "sse", "url": "http://127.0.0.1/"},
        "odd": {"command": 5},
    }});
    let folder = Folder::with(&[("mcp.json", &file.to_string()), ("hostile.mjs", HOSTILE)]);
    let path = folder.path().join("mcp.json");
    let done = Program::new(["check", "--mcp", path.to_str().unwrap()]).run();
    assert_eq!(done.code, 1);
    for expected in [
        "/mcpServers/a-b/env/X: the environment has no `MISSING`",
        "/mcpServers/a.b: `a_b` is already declared in ",
        "/mcpServers/gone: `./no-such-program` cannot be started: ",
        "/mcpServers/old/type: unsupported transport \"sse\"",
        "/mcpServers/odd/command/0: expected string, got number",
    ] {
        assert!(done.stderr.contains(expected), "{expected}\n{}", done.stderr);
    }
}
