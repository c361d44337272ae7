//! Broken configurations of every kind: each message names the file or the variable, the place, the cause and what was
//! expected, and `check` finds what a start finds.

use crate::folder::Folder;
use crate::program::{Done, Program};

/// A settings file, and what is said after its path.
const SETTINGS: &[(&str, &str)] = &[
    ("listen = ", ":1: not valid TOML: "),
    ("a = 1\na = 2\n", ":2: not valid TOML: duplicate key"),
    ("[limits\n", ":1: not valid TOML: "),
    ("lisen = '127.0.0.1:1'", ":1: lisen: unknown setting; did you mean `listen`?"),
    ("[limits]\ncpu_max = 1", ":2: limits.cpu_max: unknown setting; did you mean `cpu_ms_max`?"),
    ("[limit]\n", ":1: limit: unknown setting; did you mean `limits`?"),
    ("colour = 'red'", ":1: colour: unknown setting; expected one of listen, bindings, mcp_files, stdio"),
    ("listen = 7400", ":1: listen: expected a text in quotes, got 7400"),
    ("listen = 'localhost'", ":1: listen: the port is missing; expected HOST:PORT"),
    ("listen = ':7400'", ":1: listen: the host is missing; expected HOST:PORT"),
    ("listen = '::1:7400'", ":1: listen: an IPv6 address stands in brackets, as in [::1]:7400"),
    ("listen = 'localhost:http'", ":1: listen: the port is not a number up to 65535; expected HOST:PORT"),
    ("bindings = true", ":1: bindings: expected a path in quotes, got true"),
    ("bindings = ''", ":1: bindings: expected a path in quotes, got \"\""),
    ("mcp_files = 'mcp.json'", ":1: mcp_files: expected a list of texts, such as [\"…\"], got \"mcp.json\""),
    ("stdio = 'yes'", ":1: stdio: expected true or false, got \"yes\""),
    ("shards = 0", ":1: shards: expected 1 to 1024, got 0"),
    ("shards = 2.5", ":1: shards: expected a whole number from 0 on, got 2.5"),
    ("shards = -1", ":1: shards: expected a whole number from 0 on, got -1"),
    (
        "drain_ms = '5 parsecs'",
        ":1: drain_ms: expected a number of milliseconds, or a duration such as \"5s\"",
    ),
    ("drain_ms = '64MiB'", ":1: drain_ms: expected a number of milliseconds"),
    ("drain_ms = 31536000001", ":1: drain_ms: expected 0 to 31536000000, got 31536000001"),
    ("limits = 5", ":1: limits: expected a table, got 5"),
    ("[limits]\nmemory_bytes_max = 64", ":2: limits.memory_bytes_max: expected 1048576 to 184549376, got 64"),
    (
        "[limits]\nmemory_bytes_max = '1GB'",
        ":2: limits.memory_bytes_max: expected a number of bytes, or a size",
    ),
    ("[limits]\nstack_bytes_max = '32MiB'", ":2: limits.stack_bytes_max: expected 65536 to 16777216"),
    ("[limits]\ncpu_ms_max = 0", ":2: limits.cpu_ms_max: expected 1 to 31536000000, got 0"),
    ("[limits]\nqueued_evals_max = 0", ":2: limits.queued_evals_max: expected at least 1, got 0"),
    ("[limits]\nvalue_depth_max = 500", ":2: limits.value_depth_max: expected 1 to 120, got 500"),
    ("[limits]\nmessage_bytes_max = 10", ":2: limits.message_bytes_max: expected 256 to 1073741824, got 10"),
    (
        "[limits]\ninvoke_depth_max = 4294967296",
        ":2: limits.invoke_depth_max: expected a whole number from 0 to",
    ),
    (
        "[limits]\nclient_calls_open_max = 9000",
        ":2: limits.client_calls_open_max: expected 1 to 8192, got 9000",
    ),
    ("[limits]\nfloating_calls = 1", ":2: limits.floating_calls: expected true or false, got 1"),
    ("[sessions]\nsessions_max = 0", ":2: sessions.sessions_max: expected at least 1, got 0"),
    ("[server]\nconnections_max = 0", ":2: server.connections_max: expected at least 1, got 0"),
    ("[log]\nformat = 'xml'", ":2: log.format: expected \"text\" or \"json\", got \"xml\""),
    ("[log]\nlevel = 'scomp=loud'", ":2: log.level: expected a level such as info"),
    (
        "[origins]\nallow = ['app.example']",
        ":2: origins.allow[0]: it has no scheme; expected \"*\" or an origin",
    ),
    (
        "[origins]\nallow = ['https://a.example/app']",
        ":2: origins.allow[0]: it has more than scheme, host and port",
    ),
    (
        "[origins]\nallow = ['https://*.example']",
        ":2: origins.allow[0]: a part of a name cannot be a wildcard",
    ),
    ("[quotas]\nsessions_max = 0", ":2: quotas.sessions_max: expected at least 1, got 0"),
    (
        "[quotas]\nmessages_per_second = nan",
        ":2: quotas.messages_per_second: expected a positive number, got NaN",
    ),
    ("[tls]\ncert = 'cert.pem'", ":1: tls.key: missing; expected: PEM file with its private key."),
    ("[tls]\ncert = 'c.pem'\nkey = 'k.pem'", ":1: tls: cannot read "),
    ("[audit]\npath = 'none/audit.jsonl'", ":2: audit.path: "),
    ("[audit]\nmax_bytes = 1", ":2: audit.max_bytes: expected at least 4096, got 1"),
    (
        "[[auth.tokens]]\nprincipal = 'ann'",
        ":1: auth.tokens[0].sha256: missing; expected: SHA-256 of the token",
    ),
    (
        "[[auth.tokens]]\nprincipal = 'ann'\ntoken = 's'",
        ":3: auth.tokens[0].token: unknown setting; expected one of",
    ),
    (
        "[[auth.tokens]]\nprincipal = 'ann'\nsha256 = 'abc'",
        ":1: auth.tokens[0]: the token of \"ann\": sha256 has to be",
    ),
    (
        "[[auth.tokens]]\nprincipal = 'ann'\nsha256 = 'abc'\nroles = ['root']",
        ":4: auth.tokens[0].roles[0]: expected \"operator\" or \"approver\", got \"root\"",
    ),
    ("[auth]\nfile = 'none.toml'", "none.toml: cannot be read: "),
    ("[auth]\nfile = 'empty.toml'", "empty.toml: the token file has no tokens; add a [[tokens]]"),
    (
        "[auth]\nfile = 'tokens.toml'",
        "tokens.toml:2: tokens[0].principle: unknown setting; did you mean `principal`?",
    ),
];

/// A variable, and what is said.
const VARIABLES: &[(&str, &str, &str)] = &[
    ("SCOMP_SHARDS", "many", "SCOMP_SHARDS: shards: expected a whole number from 0 on, got \"many\""),
    ("SCOMP_LIMITS_CPU", "1", "SCOMP_LIMITS_CPU: unknown variable; "),
    ("SCOMP_TLS_CERT", "c.pem", "SCOMP_TLS_CERT: tls.key: missing; expected"),
    ("SCOMP_TOKEN", " ", "SCOMP_TOKEN is empty: set it to a token, or unset it"),
    ("SCOMP_LISTEN", "0.0.0.0:7400", "is reachable from other machines, but no authentication is configured"),
    ("SCOMP_BINDINGS", "/nonexistent", "/nonexistent: cannot be read: "),
];

/// A file below the folder of bindings with its content, and what is said after the folder.
const BINDINGS: &[(&str, &str, &str)] = &[
    ("a.json", "{", "a.json: "),
    (
        "a.json",
        r#"{"package": "a", "rust": "nothing"}"#,
        "a.json: /rust: no built-in package `nothing`; expected one of",
    ),
    (
        "a.json",
        r#"{"package": "a", "command": ["no-such-program"]}"#,
        "a.json: /command: `no-such-program` cannot be started: ",
    ),
    (
        "a.json",
        r#"{"package": "a", "command": ["sh", "-c", "echo no database >&2; exit 3"]}"#,
        "a.json: /command: `sh` failed the handshake: ",
    ),
    ("services/tick.js", "let x = 1;\nlet = 2 +;\n", "services/tick.js:2:"),
    ("services/tick.ts", "const n: number = ;\n", "services/tick.ts:1:"),
];

fn check(folder: &Folder, variable: Option<(&str, &str)>) -> Done {
    let settings = folder.path().join("scomp.toml");
    let program = Program::new(["check", "--config", settings.to_str().unwrap()]);
    variable.into_iter().fold(program, Program::variable).run()
}

fn assert_found(case: &str, done: &Done, expected: &str) {
    assert_eq!((done.code, done.stdout.as_str()), (1, ""), "{case}: {}", done.stderr);
    let is_there = done.stderr.lines().any(|line| line.contains(expected));
    assert!(is_there, "{case}: expected {expected}\ngot {}", done.stderr);
}

#[test]
fn broken_settings_are_named_with_file_and_line() {
    for (text, expected) in SETTINGS {
        let folder = Folder::with(&[
            ("scomp.toml", text),
            ("empty.toml", ""),
            ("tokens.toml", "[[tokens]]\nprinciple = 'ann'\n"),
        ]);
        let file = folder.path().join("scomp.toml").display().to_string();
        let expected = if expected.starts_with(':') { file + expected } else { (*expected).to_owned() };
        assert_found(text, &check(&folder, None), &expected);
    }
}

#[test]
fn broken_variables_are_named() {
    for (name, value, expected) in VARIABLES {
        assert_found(name, &check(&Folder::with(&[("scomp.toml", "")]), Some((name, value))), expected);
    }
}

#[test]
fn broken_bindings_are_named_with_their_file() {
    for (name, content, expected) in BINDINGS {
        let folder = Folder::with(&[("scomp.toml", "bindings = 'b'"), (&format!("b/{name}"), content)]);
        let expected = folder.path().join("b").join(expected).display().to_string();
        assert_found(content, &check(&folder, None), &expected);
    }
    assert!(SETTINGS.len() + VARIABLES.len() + BINDINGS.len() >= 60);
}

#[test]
fn executable_that_ends_is_named_with_status_and_stderr() {
    let (name, content, _) = BINDINGS[3];
    let folder = Folder::with(&[("scomp.toml", "bindings = 'b'"), (&format!("b/{name}"), content)]);
    assert_found(content, &check(&folder, None), "; it ended with exit status: 3; it printed: no database");
}

#[test]
fn all_problems_are_listed_in_one_run() {
    let settings = "lisen = 'x'\nbindings = 'b'\n[limits]\ncpu_ms_max = 'soon'\nmemory_bytes_max = 1\n\
                    [tls]\ncert = 'c.pem'\nkey = 'k.pem'\n[origins]\nallow = ['app.example']\n";
    let folder = Folder::with(&[
        ("scomp.toml", settings),
        ("b/a.json", r#"{"package": "a", "rust": "nothing"}"#),
        ("b/services/tick.js", "let ="),
    ]);
    let done = check(&folder, Some(("SCOMP_SHARDS", "0")));
    let parts = [
        "scomp.toml:1: lisen",
        "scomp.toml:4: limits.cpu_ms_max",
        "scomp.toml:5: limits.memory_bytes_max",
        "scomp.toml:6: tls: ",
        "scomp.toml:10: origins.allow[0]",
        "environment variable SCOMP_SHARDS: shards",
        "b/a.json: /rust",
        "b/services/tick.js:1",
        "8 problems",
    ];
    for part in parts {
        assert_found("all", &done, part);
    }
}

#[test]
fn settings_that_have_no_effect_are_warnings() {
    let settings = "[limits]\ncpu_ms_max = '2min'\n[origins]\nallow = ['https://app.example/']\n";
    let folder = Folder::with(&[("scomp.toml", settings)]);
    let done = check(&folder, Some(("SCOMP_LISTN", "127.0.0.1:1")));
    assert_eq!(done.code, 0, "{}", done.stderr);
    for part in [
        "scomp.toml:2: limits.cpu_ms_max: 120000 has no effect: limits.wall_ms_max ends it at 60000",
        "warning: environment variable SCOMP_LISTN: unknown variable; did you mean `SCOMP_LISTEN`?",
    ] {
        assert!(done.stderr.contains(part), "{part} is not in {}", done.stderr);
    }
}

#[test]
fn paths_are_meant_from_the_folder_of_the_file() {
    let folder = Folder::with(&[
        ("deep/scomp.toml", "bindings = '../b'\n[auth]\nfile = 'tokens.toml'\n"),
        ("deep/tokens.toml", ""),
        ("b/orders.json", r#"{"package": "orders", "rust": "orders"}"#),
    ]);
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    folder.write("deep/tokens.toml", &format!("[[tokens]]\nprincipal = 'ann'\nsha256 = '{hash}'\n"));
    let settings = folder.path().join("deep/scomp.toml");
    let done = Program::new(["check", "--config", settings.to_str().unwrap()]).run();
    assert!(done.stdout.contains("orders.json") && done.code == 0, "{}{}", done.stdout, done.stderr);
    let shown = Program::new(["config", "show", "--config", settings.to_str().unwrap()]).run();
    let expected = format!("bindings = {:?}", folder.path().join("deep/../b").display().to_string());
    assert!(shown.stdout.contains(&expected), "{}", shown.stdout);
}

#[test]
fn config_prints_a_file_that_check_accepts() {
    let default = Program::new(["config", "default"]).run();
    assert_eq!(default.code, 0, "{}", default.stderr);
    let folder = Folder::with(&[("scomp.toml", &default.stdout)]);
    let done = check(&folder, None);
    assert_eq!(done.stdout, "0 packages, 0 bindings, 0 services, no problems\n", "{}", done.stderr);
    let schema = Program::new(["config", "schema"]).run().stdout;
    assert_eq!(schema.trim(), include_str!("../../docs/configuration.schema.json").trim());
}
