//! The gate by itself; `tests/gate.rs` has it behind a socket.

use axum::http::HeaderValue;
use axum::http::header::{HOST, ORIGIN};

use super::super::settings::{AuthSettings, TokenSettings};
use super::*;

fn gate(tokens: &[(&str, &str)]) -> Gate {
    let tokens = tokens.iter().map(|(principal, token)| TokenSettings::of_token(*principal, token));
    let auth = AuthSettings { tokens: tokens.collect(), file: None };
    Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap()
}

fn headers(pairs: &[(axum::http::HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("localhost:7400"));
    for (name, value) in pairs {
        headers.insert(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn admitted(gate: &Gate, value: &str) -> Result<String, Refusal> {
    gate.admit(&Uri::default(), &headers(&[(AUTHORIZATION, value)])).map(|principal| principal.name.clone())
}

#[test]
fn token_identifies_its_principal() {
    let gate = gate(&[("ann", "first"), ("bob", "second")]);
    assert!(!gate.is_open());
    assert_eq!(admitted(&gate, "Bearer first"), Ok("ann".to_owned()));
    assert_eq!(admitted(&gate, "bEARER second"), Ok("bob".to_owned()));
    assert_eq!(admitted(&gate, "Bearer third"), Err(Refusal::WrongToken));
    assert_eq!(admitted(&gate, "Bearer "), Err(Refusal::NoToken));
    assert_eq!(admitted(&gate, "Basic first"), Err(Refusal::NoToken));
    assert_eq!(gate.admit(&Uri::default(), &headers(&[])).unwrap_err(), Refusal::NoToken);
}

#[test]
fn browser_token_is_read_from_the_subprotocol() {
    let gate = gate(&[("ann", "fi/rst?")]);
    let offer = format!("scomp.v0, bearer.{}", BASE64_URL_SAFE_NO_PAD.encode("fi/rst?"));
    let admitted = gate.admit(&Uri::default(), &headers(&[(SEC_WEBSOCKET_PROTOCOL, &offer)]));
    assert_eq!(admitted.unwrap().name, "ann");
    let other = gate.admit(&Uri::default(), &headers(&[(SEC_WEBSOCKET_PROTOCOL, "scomp.v0, bearer.!!")]));
    assert_eq!(other.unwrap_err(), Refusal::NoToken);
}

#[test]
fn wrong_header_is_refused_despite_a_valid_subprotocol() {
    let gate = gate(&[("ann", "first")]);
    let offer = format!("bearer.{}", BASE64_URL_SAFE_NO_PAD.encode("first"));
    let both = headers(&[(AUTHORIZATION, "Bearer other"), (SEC_WEBSOCKET_PROTOCOL, offer.as_str())]);
    assert_eq!(gate.admit(&Uri::default(), &both).unwrap_err(), Refusal::WrongToken);
}

#[test]
fn open_gate_admits_only_names_of_this_machine() {
    let gate = Gate::open();
    assert!(gate.is_open());
    assert_eq!(gate.admit(&Uri::default(), &headers(&[])).unwrap().name, "anonymous");
    let rebound = headers(&[(HOST, "evil.example"), (ORIGIN, "http://evil.example")]);
    assert_eq!(gate.admit(&Uri::default(), &rebound).unwrap_err(), Refusal::ForeignHost);
}

#[test]
fn unauthenticated_peers_have_no_role() {
    for gate in [Gate::open(), gate(&[("ann", "first")])] {
        assert!(
            gate.admit_unauthenticated(&Uri::default(), &headers(&[(HOST, "localhost")]), true)
                .unwrap()
                .roles
                .is_empty()
        );
        assert!(gate.unauthenticated().roles.is_empty());
        assert_eq!(gate.local().roles, Roles::all());
        assert!(Arc::ptr_eq(&gate.local().account, &gate.unauthenticated().account));
    }
}

#[test]
fn foreign_page_is_refused_even_with_a_token() {
    let gate = gate(&[("ann", "first")]);
    let page = headers(&[(AUTHORIZATION, "Bearer first"), (ORIGIN, "https://elsewhere.example")]);
    assert_eq!(gate.admit(&Uri::default(), &page).unwrap_err(), Refusal::ForeignOrigin);
}

#[test]
fn two_tokens_of_one_principal_share_its_account() {
    let gate = gate(&[("ann", "old"), ("ann", "new")]);
    let (old, new) = (gate.owner_of(b"old").unwrap(), gate.owner_of(b"new").unwrap());
    assert!(Arc::ptr_eq(&old.account, &new.account));
}

fn refusal(tokens: Vec<TokenSettings>) -> String {
    let auth = AuthSettings { tokens, file: None };
    Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap_err().to_string()
}

#[test]
fn one_token_for_two_principals_is_refused() {
    let message = refusal(vec![
        TokenSettings::of_token("ann", "shared"),
        TokenSettings::of_token("eve", "own"),
        TokenSettings { place: "SCOMP_TOKEN".to_owned(), ..TokenSettings::of_token("bob", "shared") },
    ]);
    let expected = "SCOMP_TOKEN: \"bob\" has the same token as \"ann\" at auth.tokens[0]; ";
    assert!(message.starts_with(expected) && message.lines().count() == 1, "{message}");
}

#[test]
fn one_token_in_two_entries_of_a_principal_is_refused() {
    // Which of the two sets roles and policy would depend on their order. Hexadecimal digits of either case are equal.
    let first = TokenSettings::of_token("ann", "shared");
    let second = TokenSettings { sha256: first.sha256.to_uppercase(), ..first.clone() };
    assert!(refusal(vec![first, second]).contains("the same token"));
}

#[test]
fn everything_wrong_with_tokens_is_listed() {
    let bad_hash = TokenSettings { sha256: "12".to_owned(), ..TokenSettings::of_token("ann", "x") };
    let message = refusal(vec![
        bad_hash,
        TokenSettings::of_token("anonymous", "y"),
        TokenSettings::of_token("", "z"),
        TokenSettings::of_token("bob", "z"),
    ]);
    let places: Vec<&str> = message.lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, ["auth.tokens[0]", "auth.tokens[1]", "auth.tokens[2]", "auth.tokens[3]"], "{message}");
}

#[test]
fn environment_adds_a_token_and_a_file() {
    let path = std::env::temp_dir().join(format!("scomp-tokens-{}.toml", std::process::id()));
    let entry = TokenSettings::of_token("ci", "from-file");
    let text = format!("[[tokens]]\nprincipal = \"ci\"\nsha256 = \"{}\"\n", entry.sha256);
    std::fs::write(&path, text).unwrap();
    let lookup = |name: &str| match name {
        "SCOMP_TOKEN" => Some("from-env".to_owned()),
        "SCOMP_TOKENS_FILE" => path.to_str().map(str::to_owned),
        _ => None,
    };
    let auth = AuthSettings::default().with_environment(lookup).unwrap();
    assert!(!format!("{auth:?}").contains("from-env"));
    let gate = Gate::new(&auth, OriginSettings::default(), &Quotas::default()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(admitted(&gate, "Bearer from-env"), Ok("default".to_owned()));
    // The only token of a simple set-up operates the server; one of the table has the roles it is given.
    assert_eq!(gate.owner_of(b"from-env").unwrap().roles, Roles::all());
    assert!(gate.owner_of(b"from-file").unwrap().roles.is_empty());
    assert_eq!(admitted(&gate, "Bearer from-file"), Ok("ci".to_owned()));
}

#[test]
fn token_file_without_tokens_is_refused() {
    let path = std::env::temp_dir().join(format!("scomp-no-tokens-{}.toml", std::process::id()));
    std::fs::write(&path, "# none yet\n").unwrap();
    let auth = AuthSettings { tokens: Vec::new(), file: Some(path.clone()) };
    let made = Gate::new(&auth, OriginSettings::default(), &Quotas::default());
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(made, Err(GateError::NoTokens { .. })));
}

#[test]
fn bad_token_hash_is_refused_with_the_reason() {
    let with = |sha256: &str| AuthSettings {
        tokens: vec![TokenSettings { sha256: sha256.to_owned(), ..TokenSettings::of_token("ann", "x") }],
        file: None,
    };
    for bad in ["", "12", &"z".repeat(64), &"é".repeat(32)] {
        let error = Gate::new(&with(bad), OriginSettings::default(), &Quotas::default()).unwrap_err();
        assert!(error.to_string().contains("\"ann\": sha256 has to be 64 hexadecimal digits"));
    }
    let empty = AuthSettings::default().with_environment(|_| Some(String::new()));
    assert!(matches!(empty, Err(GateError::EmptyToken)));
}

#[test]
fn self_authenticating_package_refuses_foreign_hosts() {
    let foreign = headers(&[(HOST, "evil.example:7400")]);
    assert_eq!(
        Gate::open().admit_unauthenticated(&Uri::default(), &foreign, true).unwrap_err(),
        Refusal::ForeignHost
    );
    assert!(Gate::open().admit_unauthenticated(&Uri::default(), &headers(&[]), true).is_ok());
    // On a public address of its own, and on a server that may be public, other names are right.
    assert!(Gate::open().admit_unauthenticated(&Uri::default(), &foreign, false).is_ok());
    assert!(gate(&[("ann", "first")]).admit_unauthenticated(&Uri::default(), &foreign, true).is_ok());
}

#[test]
fn empty_token_is_refused_at_start() {
    for empty in ["", " \t"] {
        let message = refusal(vec![TokenSettings::of_token("ann", empty)]);
        assert_eq!(message, "auth.tokens[0]: the token of \"ann\": sha256 is that of an empty token");
    }
}

#[test]
fn empty_token_in_a_request_counts_as_missing() {
    let gate = gate(&[("ann", "first")]);
    let blank = format!("bearer.{}", BASE64_URL_SAFE_NO_PAD.encode(" "));
    for offer in ["bearer.", "scomp.v0, bearer.=", blank.as_str()] {
        let refused = gate.admit(&Uri::default(), &headers(&[(SEC_WEBSOCKET_PROTOCOL, offer)]));
        assert_eq!(refused.unwrap_err(), Refusal::NoToken, "{offer}");
    }
}

#[test]
fn principal_without_a_readable_name_is_refused() {
    for name in ["", " ", "\t\n", "\u{7}", "\u{3000}", "ann\n"] {
        let message = refusal(vec![TokenSettings::of_token(name, "first")]);
        assert_eq!(message, format!("auth.tokens[0]: {name:?} cannot be the principal of a token"));
    }
}

#[test]
fn quotas_of_tokens_are_checked_with_their_place() {
    let quotas = Quotas { messages_per_second: Some(f64::NAN), ..Quotas::default() };
    let token = TokenSettings { quotas: Some(quotas.clone()), ..TokenSettings::of_token("ann", "first") };
    assert_eq!(
        refusal(vec![token]),
        "auth.tokens[0].quotas.messages_per_second: expected a positive number, got NaN"
    );
    let by_default = Gate::new(&AuthSettings::default(), OriginSettings::default(), &quotas);
    assert_eq!(
        by_default.unwrap_err().to_string(),
        "quotas.messages_per_second: expected a positive number, got NaN"
    );
}
