//! Settings that would not protect from what they seem to: the program says so and does not start.

use crate::folder::Folder;
use crate::program::{Done, Program};

/// A folder of bindings, a settings file with these tokens, and a token file with those.
fn run(arguments: &[&str], tokens: &str, in_file: &str) -> Done {
    let folder = Folder::with(&[
        ("bindings/orders/declaration.json", r#"{"package": "orders", "rust": "orders"}"#),
        ("tokens.toml", in_file),
    ]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let settings = format!(
        "listen = '127.0.0.1:0'\nbindings = '{}'\n[auth]\nfile = '{}'\n{tokens}",
        at("bindings"),
        at("tokens.toml")
    );
    folder.write("scomp.toml", &settings);
    let config = at("scomp.toml");
    let arguments = arguments.iter().copied().chain(["--config", &config]);
    Program::new(arguments).run()
}

/// A token that is known by a hash of one repeated digit.
fn token(table: &str, principal: &str, digit: char, policy: &str) -> String {
    let hash: String = std::iter::repeat_n(digit, 64).collect();
    format!("[[{table}]]\nprincipal = '{principal}'\nsha256 = '{hash}'\npolicy = {{ {policy} }}\n")
}

#[test]
fn misspelled_deny_keeps_the_server_from_starting() {
    let wrong = token("tokens", "ann", 'a', "deny = ['getOrdr', 'extrenal']");
    let done = run(&[], "", &wrong);
    assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{}", done.stderr);
    for (name, meant) in [("getOrdr", "getOrder"), ("extrenal", "external")] {
        let expected = format!("tokens.toml:1: tokens[0].policy.deny: unknown name {name:?}");
        assert!(done.stderr.contains(&expected), "{}", done.stderr);
        assert!(done.stderr.contains(&format!("did you mean {meant:?}?")), "{}", done.stderr);
    }
}

#[test]
fn one_token_for_two_principals_keeps_the_server_from_starting() {
    let (ann, bob) = (token("auth.tokens", "ann", 'a', ""), token("tokens", "bob", 'a', ""));
    let done = run(&[], &ann, &bob);
    assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{}", done.stderr);
    let named = [
        "tokens.toml:1: tokens[0]: \"bob\" has the same token as \"ann\" at",
        "scomp.toml:5: auth.tokens[0];",
    ];
    assert!(named.iter().all(|part| done.stderr.contains(part)), "{}", done.stderr);
}

#[test]
fn check_lists_problems_of_policies() {
    let first = token("auth.tokens", "ann", 'a', "approve = ['wrote']");
    let second = token("tokens", "bob", 'b', "deny = ['mail.send'], allow = ['raed']");
    let done = run(&["check"], &first, &second);
    assert_eq!((done.code, done.stdout.as_str()), (1, ""), "{}", done.stderr);
    for part in [
        "scomp.toml:5: auth.tokens[0].policy.approve: unknown name \"wrote\"",
        "tokens.toml:1: tokens[0].policy.deny: unknown name \"mail.send\"",
        "warning: ",
        "tokens.toml:1: tokens[0].policy.allow: unknown name \"raed\"",
        "2 problems",
    ] {
        assert!(done.stderr.contains(part), "{part} is not in {}", done.stderr);
    }
}

#[test]
fn check_lists_problems_of_tokens() {
    let twice = token("tokens", "ann", 'a', "") + &token("tokens", "bob", 'a', "");
    let done = run(&["check"], "", &twice);
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("tokens.toml:5: tokens[1]: \"bob\" has the same token"), "{}", done.stderr);
}

#[test]
fn policy_that_tolerates_unknown_names_is_a_warning() {
    let tolerant = token("tokens", "ann", 'a', "deny = ['mail.send'], unknown = 'warn'");
    let done = run(&["check"], "", &tolerant);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stderr.contains("warning: ") && done.stderr.contains("\"mail.send\""), "{}", done.stderr);
}

#[test]
fn misspelled_deny_in_a_package_is_found() {
    let declaration = r#"{"package": "exoclaw", "rust": "exoclaw",
        "config": {"serve": {"policy": {"deny": ["extrenal"]}, "memory": {"path": "exoclaw.db"}}}}"#;
    let folder = Folder::with(&[("exoclaw/declaration.json", declaration)]);
    let done = Program::new(["check", "--bindings", folder.path().to_str().unwrap()]).run();
    assert_eq!(done.code, 1, "{}", done.stderr);
    let expected = "declaration.json: /config/serve/policy/deny: unknown name \"extrenal\"";
    assert!(done.stderr.contains(expected), "{}", done.stderr);
}

#[test]
fn quota_that_is_not_a_number_keeps_the_server_from_starting() {
    let limited = |table, name, digit, quotas: &str| token(table, name, digit, "") + quotas;
    let first = limited("auth.tokens", "ann", 'a', "quotas = { cpu_seconds_per_minute = nan }\n");
    let second = limited("tokens", "bob", 'b', "quotas = { messages_burst = -1.0 }\n");
    let done = run(&[], &first, &second);
    assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{}", done.stderr);
    for part in [
        "scomp.toml:5: auth.tokens[0].quotas.cpu_seconds_per_minute: expected a positive number, got NaN",
        "tokens.toml:1: tokens[0].quotas.messages_burst: expected a positive number, got -1",
    ] {
        assert!(done.stderr.contains(part), "{part} is not in {}", done.stderr);
    }
}

#[test]
fn more_threads_than_the_maximum_keep_the_server_from_starting() {
    let done = Program::new(["--listen", "127.0.0.1:0"]).variable(("SCOMP_SHARDS", "100000")).run();
    assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{}", done.stderr);
    assert!(done.stderr.contains("shards: expected 1 to 1024, got 100000"), "{}", done.stderr);
}
