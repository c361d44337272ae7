//! The keywords that lead from a subschema to others, and by what step.

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    InPlace,
    Named,
    EachProperty,
    EachName,
    Prefix,
    EachItem,
    /// Not applied in place; only references lead there.
    Aside,
}

pub(super) fn step_of(keyword: &str) -> Option<Step> {
    Some(match keyword {
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas"
        | "dependencies" => Step::InPlace,
        "properties" => Step::Named,
        "patternProperties" | "additionalProperties" | "unevaluatedProperties" => Step::EachProperty,
        "propertyNames" => Step::EachName,
        "prefixItems" => Step::Prefix,
        "items" | "additionalItems" | "unevaluatedItems" | "contains" => Step::EachItem,
        "$defs" | "definitions" | "contentSchema" => Step::Aside,
        _ => return None,
    })
}

pub(super) fn holds_a_map(keyword: &str) -> bool {
    matches!(
        keyword,
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "$defs" | "definitions"
    )
}
