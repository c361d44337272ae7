//! Binding names, unbinding them, and status changes.

use super::*;

const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);

fn registry() -> Registry {
    let agents = AGENTS_DEFAULT.map(|(name, role)| (name.to_owned(), role.to_owned()));
    Registry::new(agents, WORKSPACES_DEFAULT.to_owned())
}

fn change(agent: &str, status: Status, previous: Status) -> StatusChange {
    StatusChange { agent: agent.to_owned(), status, previous }
}

fn reach(registry: &Registry, name: &str) -> Result<ConnectionId, &'static str> {
    registry.reachable_connection(name).map_err(|error| error.code.name())
}

#[test]
fn configured_agents_exist_and_are_offline() {
    let registry = registry();
    assert_eq!(registry.names().len(), 12);
    assert_eq!(reach(&registry, "steward"), Err("AGENT_OFFLINE"));
    assert_eq!(reach(&registry, "unknown"), Err("AGENT_NOT_FOUND"));
    assert_eq!(
        registry.list_workspaces(Some("steward")),
        json!([{"agent": "steward", "path": "~/.openclaw/agents/steward"}])
    );
}

#[test]
fn last_connection_to_bind_a_name_has_it() {
    let mut registry = registry();
    let first = registry.bind("coder", None, A).unwrap();
    let online = change("coder", Status::Online, Status::Offline);
    assert_eq!(first, BindOutcome { displaced: None, change: Some(online) });
    assert_eq!(registry.bind("coder", None, B).unwrap(), BindOutcome { displaced: Some(A), change: None });
    assert_eq!(reach(&registry, "coder"), Ok(B));
    assert_eq!(registry.unbind("coder", A), None);
    assert_eq!(registry.unbind("coder", B), Some(change("coder", Status::Offline, Status::Online)));
}

#[test]
fn binding_own_name_again_keeps_the_status() {
    let mut registry = registry();
    registry.bind("coder", None, A).unwrap();
    registry.set_status("coder", Status::Busy);
    assert_eq!(registry.bind("coder", None, A).unwrap(), BindOutcome { displaced: None, change: None });
    assert_eq!(reach(&registry, "coder"), Err("AGENT_BUSY"));
}

#[test]
fn unconfigured_agent_is_removed_on_unbind() {
    let mut registry = registry();
    registry.bind("visitor", Some("guest"), A).unwrap();
    assert_eq!(registry.names_of_connection(A), ["visitor"]);
    registry.unbind("visitor", A);
    assert!(!registry.contains("visitor"));
    assert!(registry.contains("coder"));
}

#[test]
fn status_decides_whether_an_agent_is_reachable() {
    let mut registry = registry();
    registry.bind("coder", None, A).unwrap();
    let outcomes = [
        (Status::Idle, Ok(A)),
        (Status::Busy, Err("AGENT_BUSY")),
        (Status::Error, Err("AGENT_ERROR")),
        (Status::Offline, Err("AGENT_OFFLINE")),
        (Status::Online, Ok(A)),
    ];
    for (status, outcome) in outcomes {
        assert!(registry.set_status("coder", status).is_some());
        assert_eq!(registry.set_status("coder", status), None, "no change twice");
        assert_eq!(reach(&registry, "coder"), outcome, "{status:?}");
    }
}

#[test]
fn agent_past_the_limit_is_refused() {
    let mut registry = registry();
    for number in registry.names().len()..AGENTS_MAX {
        registry.bind(&format!("visitor-{number}"), None, A).unwrap();
    }
    assert_eq!(registry.bind("late", None, B).unwrap_err().code, ErrorCode::ConnectionRefused);
    assert!(registry.bind("coder", None, B).is_ok(), "a configured agent is counted already");
}

#[test]
fn name_that_differs_only_in_case_is_refused() {
    let mut registry = registry();
    registry.bind("annie", None, A).unwrap();
    for name in ["ANNIE", "Annie", "Coder"] {
        let error = registry.bind(name, None, B).unwrap_err();
        assert_eq!(error.code, ErrorCode::ConnectionRefused, "{name}");
    }
    assert_eq!(registry.bind("annie", None, B).unwrap().displaced, Some(A));
    registry.unbind("annie", B);
    registry.bind("ANNIE", None, A).unwrap();
}
