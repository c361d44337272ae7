//! The patterns of the vectors: what a message must be like, and what is remembered of it.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// What names stand for, and what was remembered.
#[derive(Default)]
pub struct Memory {
    pub names: HashMap<String, Value>,
    pub bound: HashMap<String, Value>,
}

impl Memory {
    /// A value with its names replaced.
    pub fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.names.get(text).cloned().unwrap_or_else(|| value.clone()),
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(members) => match members.get("$get") {
                Some(name) => self.bound[name.as_str().unwrap()].clone(),
                None => members.iter().map(|(key, value)| (key.clone(), self.filled(value))).collect(),
            },
            scalar => scalar.clone(),
        }
    }

    /// Why a value does not fit a pattern, if it does not.
    pub fn misfit(&mut self, pattern: &Value, value: Option<&Value>) -> Option<String> {
        match pattern {
            Value::Object(members) => match members.iter().next() {
                Some((operator, argument)) if operator.starts_with('$') => {
                    self.operator(operator, argument, value)
                }
                _ => self.members(members, value),
            },
            Value::Array(patterns) => {
                let items = value.and_then(Value::as_array).filter(|items| items.len() == patterns.len());
                let Some(items) = items else { return Some(format!("{value:?} is no list like {pattern}")) };
                patterns.iter().zip(items).find_map(|(pattern, item)| self.misfit(pattern, Some(item)))
            }
            _ => self.unequal(pattern, value),
        }
    }

    fn members(&mut self, members: &Map<String, Value>, value: Option<&Value>) -> Option<String> {
        let Some(Value::Object(object)) = value else { return Some(format!("{value:?} is no object")) };
        members.iter().find_map(|(key, pattern)| {
            self.misfit(pattern, object.get(key)).map(|misfit| format!("{key}: {misfit}"))
        })
    }

    fn unequal(&self, wanted: &Value, value: Option<&Value>) -> Option<String> {
        let wanted = self.filled(wanted);
        (value != Some(&wanted)).then(|| format!("{value:?} instead of {wanted}"))
    }

    fn operator(&mut self, operator: &str, argument: &Value, value: Option<&Value>) -> Option<String> {
        match (operator, value) {
            ("$absent", None) => None,
            ("$absent", Some(value)) => Some(format!("{value} must be absent")),
            (_, None) => Some("missing".to_owned()),
            ("$any", Some(_)) => None,
            ("$bind", Some(value)) => {
                self.bound.insert(argument.as_str().unwrap().to_owned(), value.clone());
                None
            }
            ("$re", Some(value)) => {
                assert_eq!(argument, ".+", "the one expression in use");
                value.as_str().is_none_or(str::is_empty).then(|| format!("{value} is no text"))
            }
            ("$not", Some(value)) => {
                (self.filled(argument) == *value).then(|| format!("{value} must be another"))
            }
            ("$oneOf", Some(_)) => {
                let patterns = argument.as_array().unwrap();
                let misfits: Vec<_> = patterns.iter().map(|pattern| self.misfit(pattern, value)).collect();
                misfits.iter().all(Option::is_some).then(|| format!("{misfits:?}"))
            }
            ("$exact" | "$get", _) => {
                let wanted =
                    if operator == "$get" { &self.bound[argument.as_str().unwrap()] } else { argument };
                self.unequal(&wanted.clone(), value)
            }
            ("$ids", Some(value)) => {
                let sorted = |list: &Value, id: fn(&Value) -> &Value| {
                    let mut ids: Vec<String> =
                        list.as_array().into_iter().flatten().map(|item| id(item).to_string()).collect();
                    ids.sort();
                    ids
                };
                let (wanted, found) = (sorted(argument, |id| id), sorted(value, |item| &item["id"]));
                (wanted != found).then(|| format!("{found:?} instead of {wanted:?}"))
            }
            ("$contains", Some(value)) => argument.as_array().unwrap().iter().find_map(|pattern| {
                let items = value.as_array().into_iter().flatten();
                let mut fits = items.map(|item| self.misfit(pattern, Some(item)).is_none());
                (!fits.any(|fits| fits)).then(|| format!("nothing in {value} is like {pattern}"))
            }),
            _ => panic!("unknown operator {operator}"),
        }
    }
}
