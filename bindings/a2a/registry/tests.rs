//! Binding, losing and changing the states of agents.

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

fn reached(registry: &Registry, name: &str) -> Result<ConnectionId, &'static str> {
    registry.reach(name).map_err(|refusal| refusal.code.name())
}

#[test]
fn configured_agents_are_there_and_offline() {
    let registry = registry();
    assert_eq!(registry.names().len(), 12);
    assert_eq!(reached(&registry, "steward"), Err("AGENT_OFFLINE"));
    assert_eq!(reached(&registry, "nobody"), Err("AGENT_NOT_FOUND"));
    assert_eq!(
        registry.workspaces(Some("steward")),
        json!([{"agent": "steward", "path": "~/.openclaw/agents/steward"}])
    );
}

#[test]
fn the_last_one_to_bind_a_name_has_it() {
    let mut registry = registry();
    let first = registry.bind("coder", None, A).unwrap();
    let online = change("coder", Status::Online, Status::Offline);
    assert_eq!(first, Bound { displaced: None, change: Some(online) });
    assert_eq!(registry.bind("coder", None, B).unwrap(), Bound { displaced: Some(A), change: None });
    assert_eq!(reached(&registry, "coder"), Ok(B));
    assert_eq!(registry.unbind("coder", A), None);
    assert_eq!(registry.unbind("coder", B), Some(change("coder", Status::Offline, Status::Online)));
}

#[test]
fn binding_ones_own_name_again_keeps_the_state() {
    let mut registry = registry();
    registry.bind("coder", None, A).unwrap();
    registry.set_status("coder", Status::Busy);
    assert_eq!(registry.bind("coder", None, A).unwrap(), Bound { displaced: None, change: None });
    assert_eq!(reached(&registry, "coder"), Err("AGENT_BUSY"));
}

#[test]
fn a_strangers_name_is_gone_with_it() {
    let mut registry = registry();
    registry.bind("visitor", Some("guest"), A).unwrap();
    assert_eq!(registry.names_of(A), ["visitor"]);
    registry.unbind("visitor", A);
    assert!(!registry.knows("visitor"));
    assert!(registry.knows("coder"));
}

#[test]
fn the_state_decides_whether_an_agent_is_reached() {
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
        assert_eq!(reached(&registry, "coder"), outcome, "{status:?}");
    }
}

#[test]
fn the_last_place_is_given_and_no_other() {
    let mut registry = registry();
    for number in registry.names().len()..AGENTS_MAX {
        registry.bind(&format!("visitor-{number}"), None, A).unwrap();
    }
    assert_eq!(registry.bind("late", None, B).unwrap_err().code, ErrorCode::ConnectionRefused);
    assert!(registry.bind("coder", None, B).is_ok(), "one that is there takes no place");
}

#[test]
fn name_that_differs_only_in_case_is_refused() {
    let mut registry = registry();
    registry.bind("annie", None, A).unwrap();
    for name in ["ANNIE", "Annie", "Coder"] {
        let refusal = registry.bind(name, None, B).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::ConnectionRefused, "{name}");
    }
    assert_eq!(registry.bind("annie", None, B).unwrap().displaced, Some(A));
    registry.unbind("annie", B);
    registry.bind("ANNIE", None, A).unwrap();
}
