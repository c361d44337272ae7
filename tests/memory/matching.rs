//! Matches messages against the patterns of the vectors, and binds values of messages to names.

use std::collections::HashMap;

use serde_json::{Map, Value};

#[derive(Default)]
pub struct Matcher {
    pub names: HashMap<String, Value>,
    pub bound: HashMap<String, Value>,
}

impl Matcher {
    /// Replaces names and `$get` in a value.
    pub fn substitute(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.names.get(text).cloned().unwrap_or_else(|| value.clone()),
            Value::Array(items) => items.iter().map(|item| self.substitute(item)).collect(),
            Value::Object(members) => match members.get("$get") {
                Some(name) => self.bound[name.as_str().unwrap()].clone(),
                None => members.iter().map(|(key, value)| (key.clone(), self.substitute(value))).collect(),
            },
            scalar => scalar.clone(),
        }
    }

    /// `None` if the value matches the pattern, otherwise the reason.
    pub fn find_mismatch(&mut self, pattern: &Value, value: Option<&Value>) -> Option<String> {
        match pattern {
            Value::Object(members) => match members.iter().next() {
                Some((operator, argument)) if operator.starts_with('$') => {
                    self.match_operator(operator, argument, value)
                }
                _ => self.match_members(members, value),
            },
            Value::Array(patterns) => {
                let items = value.and_then(Value::as_array).filter(|items| items.len() == patterns.len());
                let Some(items) = items else {
                    return Some(format!("{value:?}: expected a list like {pattern}"));
                };
                patterns.iter().zip(items).find_map(|(pattern, item)| self.find_mismatch(pattern, Some(item)))
            }
            _ => self.compare(pattern, value),
        }
    }

    fn match_members(&mut self, members: &Map<String, Value>, value: Option<&Value>) -> Option<String> {
        let Some(Value::Object(object)) = value else {
            return Some(format!("{value:?}: expected an object"));
        };
        members.iter().find_map(|(key, pattern)| {
            self.find_mismatch(pattern, object.get(key)).map(|mismatch| format!("{key}: {mismatch}"))
        })
    }

    fn compare(&self, wanted: &Value, value: Option<&Value>) -> Option<String> {
        let wanted = self.substitute(wanted);
        (value != Some(&wanted)).then(|| format!("{value:?}: expected {wanted}"))
    }

    fn match_operator(&mut self, operator: &str, argument: &Value, value: Option<&Value>) -> Option<String> {
        match (operator, value) {
            ("$absent", None) => None,
            ("$absent", Some(value)) => Some(format!("{value}: expected no value")),
            (_, None) => Some("missing".to_owned()),
            ("$any", Some(_)) => None,
            ("$bind", Some(value)) => {
                self.bound.insert(argument.as_str().unwrap().to_owned(), value.clone());
                None
            }
            ("$re", Some(value)) => {
                assert_eq!(argument, ".+", "unsupported expression");
                value.as_str().is_none_or(str::is_empty).then(|| format!("{value}: expected a text"))
            }
            ("$not", Some(value)) => {
                (self.substitute(argument) == *value).then(|| format!("{value}: expected another value"))
            }
            ("$oneOf", Some(_)) => {
                let patterns = argument.as_array().unwrap();
                let mismatches: Vec<_> =
                    patterns.iter().map(|pattern| self.find_mismatch(pattern, value)).collect();
                mismatches.iter().all(Option::is_some).then(|| format!("{mismatches:?}"))
            }
            ("$exact" | "$get", _) => {
                let wanted =
                    if operator == "$get" { &self.bound[argument.as_str().unwrap()] } else { argument };
                self.compare(&wanted.clone(), value)
            }
            ("$ids", Some(value)) => {
                let sorted = |list: &Value, id: fn(&Value) -> &Value| {
                    let mut ids: Vec<String> =
                        list.as_array().into_iter().flatten().map(|item| id(item).to_string()).collect();
                    ids.sort();
                    ids
                };
                let (wanted, found) = (sorted(argument, |id| id), sorted(value, |item| &item["id"]));
                (wanted != found).then(|| format!("{found:?}: expected {wanted:?}"))
            }
            ("$contains", Some(value)) => argument.as_array().unwrap().iter().find_map(|pattern| {
                let items = value.as_array().into_iter().flatten();
                let mut fits = items.map(|item| self.find_mismatch(pattern, Some(item)).is_none());
                (!fits.any(|fits| fits)).then(|| format!("{value}: expected an item like {pattern}"))
            }),
            _ => panic!("unknown operator {operator}"),
        }
    }
}
