//! Which documents are reached, and the limits for hostile links.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;

#[derive(Default)]
struct TestDocuments {
    documents: HashMap<String, Arc<Data>>,
    loads: usize,
}

impl TestDocuments {
    fn new(documents: Value) -> Self {
        let documents = documents.as_object().unwrap().iter();
        let documents =
            documents.map(|(id, document)| (id.clone(), Arc::new(Data::from_plain(document.clone()))));
        Self { documents: documents.collect(), loads: 0 }
    }
}

impl DocumentSource for TestDocuments {
    fn resolves(&self, entity: &Entity) -> bool {
        entity.scope == Scope::Space
    }

    fn load(&mut self, entity: &Entity) -> Result<DocumentState, TraverseError> {
        self.loads += 1;
        Ok(match self.documents.get(&entity.id) {
            Some(document) => DocumentState { seq: 1, document: Some(Arc::clone(document)) },
            None => DocumentState::default(),
        })
    }
}

fn link(id: &str) -> Value {
    json!({"/": {"link@1": {"id": id, "path": []}}})
}

fn ids(graph: &Graph, source: &TestDocuments) -> Vec<String> {
    let exists = |entity: &&Entity| source.documents.contains_key(&entity.id);
    graph.tracked().keys().filter(exists).map(|entity| entity.id.clone()).collect()
}

fn run(source: &mut TestDocuments, root: &str, path: &[&str], schema: Value) -> Result<Graph, TraverseError> {
    let mut graph = Graph::default();
    let (root, path) =
        (Entity::new(root, Scope::Space), path.iter().map(|step| (*step).to_owned()).collect());
    let schema = Data::from_plain(schema);
    graph.add_roots("here", source, [(&root, &path, Some(&schema))])?;
    Ok(graph)
}

fn reached(documents: Value, root: &str, path: &[&str], schema: Value) -> Vec<String> {
    let mut source = TestDocuments::new(documents);
    let graph = run(&mut source, root, path, schema).unwrap();
    ids(&graph, &source)
}

#[test]
fn links_in_both_representations_are_followed() {
    let documents = json!({
        "r": {"value": {"old": link("a"), "new": {"/Link@1": {"id": "b", "path": []}}}},
        "a": {"value": 1}, "b": {"value": 2},
    });
    assert_eq!(reached(documents, "r", &[], json!(true)), ["a", "b", "r"]);
}

#[test]
fn link_into_a_document_or_its_own_is_followed() {
    let documents = json!({
        "r": {"value": {"here": {"/": {"link@1": {"path": ["inner"]}}}, "inner": link("a")}},
        "a": {"value": {"deep": link("b"), "other": link("c")}},
        "b": {"value": 1}, "c": {"value": 2},
        "s": {"value": {"/": {"link@1": {"id": "a", "path": ["deep"]}}}},
    });
    assert_eq!(reached(documents.clone(), "r", &["here"], json!(true)), ["a", "b", "c", "r"]);
    assert_eq!(reached(documents, "s", &[], json!(true)), ["a", "b", "s"]);
}

#[test]
fn links_to_other_spaces_or_missing_documents_are_ignored() {
    let documents = json!({
        "r": {"value": [
            {"/": {"link@1": {"id": "a", "path": [], "space": "there"}}},
            link("gone"),
            {"/": {"link@1": {"id": "b", "path": [], "space": "here"}}},
        ]},
        "a": {"value": 1}, "b": {"value": 2},
    });
    assert_eq!(reached(documents, "r", &[], json!(true)), ["b", "r"]);
}

#[test]
fn link_schema_restricts_an_unconstrained_query() {
    let narrow = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let documents = json!({
        "r": {"value": {"/": {"link@1": {"id": "a", "path": [], "schema": narrow}}}},
        "a": {"value": {"name": link("n"), "more": link("m")}},
        "n": {"value": "N"}, "m": {"value": 1},
        "bad": {"value": {"/": {"link@1": {"id": "a", "path": [], "schema": "nonsense"}}}},
    });
    assert_eq!(reached(documents.clone(), "r", &[], json!(true)), ["a", "n", "r"]);
    assert_eq!(reached(documents, "bad", &[], json!(true)), ["a", "bad", "m", "n"]);
}

#[test]
fn link_is_followed_unless_its_schema_admits_nothing() {
    let documents =
        json!({"r": {"value": {"a": link("a")}}, "a": {"value": {"b": link("b")}}, "b": {"value": 1}});
    let of = |schema: Value| reached(documents.clone(), "r", &[], json!({"properties": {"a": schema}}));
    assert_eq!(of(json!(true)), ["a", "b", "r"]);
    assert_eq!(of(json!({"type": "string"})), ["a", "r"]);
    assert_eq!(of(json!({"type": "unknown"})), ["a", "r"]);
    assert_eq!(of(json!({"asCell": true, "type": "object"})), ["a", "b", "r"]);
    for nothing in
        [json!(false), json!({"not": true}), json!({"$ref": "#/none"}), json!({"asCell": ["opaque"]})]
    {
        assert_eq!(of(nothing.clone()), ["r"], "{nothing}");
    }
}

#[test]
fn metadata_is_followed_and_the_source_is_not() {
    let documents = json!({
        "r": {"value": 1, "pattern": link("p"), "source": {"/": "s"}, "internal": [{"link": link("i")}], "cfc": {"schemaHash": "h"}},
        "p": {"value": link("x"), "result": link("q")},
        "q": {}, "i": {}, "cid:h": {}, "s": {}, "x": {},
    });
    assert_eq!(reached(documents, "r", &[], json!(false)), ["cid:h", "i", "p", "q", "r"]);
}

#[test]
fn item_of_the_wrong_type_ends_its_list() {
    let items = json!({"type": "array", "items": {"type": "object", "properties": {"name": true}}});
    let documents = json!({
        "r": {"value": [link("a"), 5, link("b")]},
        "t": {"value": [link("a"), link("text"), link("b")]},
        "a": {"value": {}}, "b": {"value": {}}, "text": {"value": "no object"},
    });
    assert_eq!(reached(documents.clone(), "r", &[], items.clone()), ["a", "r"]);
    assert_eq!(reached(documents, "t", &[], items), ["a", "t", "text"]);
}

#[test]
fn changed_document_is_walked_without_its_neighbours() {
    let chain: serde_json::Map<String, Value> = (0..1000)
        .map(|number| {
            (format!("{number:04}"), json!({"value": {"next": link(&format!("{:04}", number + 1))}}))
        })
        .collect();
    let mut source = TestDocuments::new(Value::Object(chain));
    let mut graph = run(&mut source, "0000", &[], json!(true)).unwrap();
    assert_eq!(ids(&graph, &source).len(), 1000);
    graph.take_added();
    source.loads = 0;
    source.documents.insert("new".to_owned(), Arc::new(Data::from_plain(json!({"value": 1}))));
    let changed = json!({"value": {"next": link("0501"), "more": link("new")}});
    source.documents.insert("0500".to_owned(), Arc::new(Data::from_plain(changed)));
    let found = graph.refresh("here", &mut source, [Entity::new("0500", Scope::Space)]).unwrap();
    assert_eq!(found.iter().map(|entity| entity.id.as_str()).collect::<Vec<_>>(), ["0500", "new"]);
    assert_eq!(graph.take_added(), [Entity::new("new", Scope::Space)]);
    assert!(source.loads <= 4, "{} loads", source.loads);
}

#[test]
fn created_link_target_is_found_by_its_own_change() {
    let mut source = TestDocuments::new(json!({"r": {"value": link("later")}}));
    let mut graph = run(&mut source, "r", &[], json!(true)).unwrap();
    assert!(graph.tracked().contains_key(&Entity::new("later", Scope::Space)));
    source.documents.insert("later".to_owned(), Arc::new(Data::from_plain(json!({"value": link("r")}))));
    let found = graph.refresh("here", &mut source, [Entity::new("later", Scope::Space)]).unwrap();
    assert_eq!(found.len(), 1);
}

#[test]
fn user_scope_without_principal_is_rejected_as_a_root() {
    let mut source = TestDocuments::new(
        json!({"r": {"value": {"/": {"link@1": {"id": "a", "path": [], "scope": "user"}}}}}),
    );
    assert!(run(&mut source, "r", &[], json!(true)).is_ok());
    let (root, path) = (Entity::new("a", Scope::User), Path::new());
    let result = Graph::default().add_roots("here", &mut source, [(&root, &path, None)]);
    assert!(matches!(result, Err(TraverseError::PrincipalRequired("user"))));
}

#[test]
fn circular_links_terminate() {
    let documents =
        json!({"a": {"value": link("b")}, "b": {"value": link("a")}, "self": {"value": link("self")}});
    assert_eq!(reached(documents.clone(), "a", &[], json!(true)), ["a", "b"]);
    assert_eq!(reached(documents.clone(), "self", &["x", "y"], json!(true)), ["self"]);
    assert_eq!(reached(documents, "self", &[], json!({"type": "string"})), ["self"]);
}

#[test]
fn link_that_extends_its_own_path_ends_at_the_limit() {
    let growing = json!({"/": {"link@1": {"path": ["a", "a"]}}});
    let mut source = TestDocuments::new(json!({"r": {"value": {"a": growing}}}));
    let graph = run(&mut source, "r", &["a"], json!(true)).unwrap();
    let longest =
        graph.tracked().values().flat_map(|tracked| &tracked.entries).map(|entry| entry.path.len()).max();
    assert_eq!(longest, Some(PATH_STEPS_MAX));
}

#[test]
fn traversal_past_the_document_limit_fails() {
    let (mut graph, mut source, path) = (Graph::default(), TestDocuments::default(), Path::new());
    let roots: Vec<Entity> =
        (0..=TRACKED_MAX).map(|number| Entity::new(number.to_string(), Scope::Space)).collect();
    let (last, allowed) = roots.split_last().unwrap();
    graph.add_roots("here", &mut source, allowed.iter().map(|root| (root, &path, None))).unwrap();
    assert_eq!(graph.tracked().len(), TRACKED_MAX);
    let result = graph.add_roots("here", &mut source, [(last, &path, None)]);
    assert!(matches!(result, Err(TraverseError::TooManyDocuments)));
}

#[test]
fn traversal_past_the_entry_point_limit_fails() {
    let (mut graph, mut source, root) =
        (Graph::default(), TestDocuments::default(), Entity::new("r", Scope::Space));
    let paths: Vec<Path> = (0..=ENTRIES_MAX).map(|number| vec![number.to_string()]).collect();
    let (last, allowed) = paths.split_last().unwrap();
    graph.add_roots("here", &mut source, allowed.iter().map(|path| (&root, path, None))).unwrap();
    let result = graph.add_roots("here", &mut source, [(&root, last, None)]);
    assert!(matches!(result, Err(TraverseError::TooManyDocuments)));
}

#[test]
fn traversal_past_the_step_limit_fails() {
    let branches: Vec<Value> = (0..1000)
        .map(|number| json!({"properties": {number.to_string(): true}, "additionalProperties": true}))
        .collect();
    let members: serde_json::Map<String, Value> =
        (0..2000).map(|number| (number.to_string(), json!(1))).collect();
    let mut source = TestDocuments::new(json!({"r": {"value": members}}));
    let result = run(&mut source, "r", &[], json!({"anyOf": branches}));
    assert!(matches!(result, Err(TraverseError::TooManySteps)));
}

#[test]
fn selected_link_is_followed_without_a_schema() {
    let documents = json!({
        "r": {"value": {"at": link("a"), "below": {"more": link("c")}}},
        "whole": {"value": link("a")},
        "a": {"value": link("b"), "result": link("m")},
        "b": {"value": {"more": link("c")}},
        "m": {"value": link("c")},
        "c": {"value": 1},
    });
    // The chain is followed to its end, but not what is below it or what its metadata links to.
    let schemas = [Some(Data::Bool(false)), None, Some(Data::from_plain(json!({"not": true})))];
    for schema in &schemas {
        for (root, path) in [("r", vec!["at".to_owned()]), ("whole", vec![])] {
            let (mut source, mut graph) = (TestDocuments::new(documents.clone()), Graph::default());
            let entity = Entity::new(root, Scope::Space);
            graph.add_roots("here", &mut source, [(&entity, &path, schema.as_ref())]).unwrap();
            let mut expected = vec!["a", "b", "m", root];
            expected.sort_unstable();
            assert_eq!(ids(&graph, &source), expected, "{root} {schema:?}");
        }
    }
    assert_eq!(reached(documents, "r", &["below"], json!(false)), ["r"]);
}

#[test]
fn selected_link_is_followed_again_when_its_target_changes() {
    let mut source =
        TestDocuments::new(json!({"r": {"value": link("a")}, "a": {"value": 1}, "b": {"value": 2}}));
    let mut graph = run(&mut source, "r", &[], json!(false)).unwrap();
    assert_eq!(ids(&graph, &source), ["a", "r"]);
    source.documents.insert("a".to_owned(), Arc::new(Data::from_plain(json!({"value": link("b")}))));
    graph.refresh("here", &mut source, [Entity::new("a", Scope::Space)]).unwrap();
    assert_eq!(ids(&graph, &source), ["a", "b", "r"]);
}

#[test]
fn nested_definitions_take_precedence_over_root_ones() {
    let documents = json!({
        "r": {"value": {"a": {"x": link("x"), "y": link("y")}, "b": {"x": link("x"), "y": link("y")}}},
        "x": {"value": 1},
        "y": {"value": 1},
    });
    let only = |key: &str| json!({"type": "object", "properties": {key: true}});
    let nested = json!({"$ref": "#/$defs/T", "$defs": {"T": only("x")}});
    let schema = |root: Value| json!({"properties": {"a": nested}, "$defs": root});
    assert_eq!(reached(documents.clone(), "r", &[], schema(json!({}))), ["r", "x"]);
    assert_eq!(reached(documents.clone(), "r", &[], schema(json!({"T": only("y")}))), ["r", "x"]);
    // Root definitions still apply beside nested ones, and within their own targets.
    let outer = json!({
        "properties": {"a": {"$ref": "#/$defs/U", "$defs": {"T": only("x")}}, "b": {"$ref": "#/$defs/T"}},
        "$defs": {"T": only("y"), "U": {"$ref": "#/$defs/T"}},
    });
    assert_eq!(reached(documents, "r", &[], outer), ["r", "y"]);
}

#[test]
fn all_of_with_a_true_branch_follows_everything() {
    let documents = json!({
        "r": {"value": {"a": {"deep": link("a")}, "b": link("b")}},
        "a": {"value": 1},
        "b": {"value": link("c")},
        "c": {"value": 1},
    });
    let narrow = json!({"type": "object", "properties": {"a": {"properties": {"none": true}}}});
    let named = json!({"allOf": [{"$ref": "#/$defs/Any"}, narrow], "$defs": {"Any": {}}});
    for schema in [
        json!({"allOf": [true, narrow]}),
        json!({"allOf": [narrow, {}]}),
        json!({"allOf": [{"description": "any"}], "properties": {"a": false}}),
        json!({"allOf": [{"anyOf": [narrow, true]}]}),
        named,
    ] {
        assert_eq!(reached(documents.clone(), "r", &[], schema.clone()), ["a", "b", "c", "r"], "{schema}");
    }
    assert_eq!(reached(documents.clone(), "r", &[], json!({"allOf": [narrow]})), ["r"]);
    assert_eq!(reached(documents, "r", &[], json!({"allOf": [true, false]})), ["r"]);
}
