//! How much work a schema can make of a value.
//!
//! A value is visited by every subschema that applies to it in place, and a child by every one that leads there. Both
//! multiply along the way: two branches that each lead to the same child visit it twice, its child four times. The
//! validator remembers results only for recursive references to objects and arrays. So the visits of one value are
//! bounded at registration, from the graph alone, and at each check against the size of the value.

use std::collections::HashMap;

use serde_json::Value;

use super::shape::{Node, Shape};
use super::{SchemaError, refused};

/// Most subschemas one inside the other on one value.
/// People nest half a dozen; each is a frame on the stack, for every level of the value.
pub(super) const IN_PLACE_DEPTH_MAX: usize = 64;

/// Most visits to one value from one place of the schema.
/// A union of a thousand variants with ten parts each passes.
pub(super) const IN_PLACE_VISITS_MAX: u64 = 10_000;

/// Most steps of the survey itself, which runs once, at registration: a fraction of a second.
const SURVEY_STEPS_MAX: u64 = 4_000_000;

/// Up to this many visits a value, the size of the value is bound enough (a message has a limit) and is not counted.
const VISITS_UNCOUNTED_MAX: u64 = 8;

/// Bounds on the work of one check.
#[derive(Debug)]
pub(super) struct Work {
    /// Subschemas one inside the other on one value.
    pub(super) in_place_depth: usize,
    /// Visits to any one value.
    visits_max: u64,
}

impl Work {
    pub(super) fn of(shape: &Shape) -> Result<Self, SchemaError> {
        let mut survey = Survey { shape, places: HashMap::new(), steps: 0, depth: 0 };
        let visits_max = survey.visits_max()?;
        Ok(Self { in_place_depth: survey.depth, visits_max })
    }

    /// Whether all visits to all parts of the value stay within `steps_max`.
    pub(super) fn is_affordable(&self, instance: &Value, steps_max: u64) -> bool {
        if self.visits_max <= VISITS_UNCOUNTED_MAX {
            return true;
        }
        let parts_max = steps_max / self.visits_max;
        let mut parts = 0;
        let mut pending = vec![instance];
        while let Some(value) = pending.pop() {
            parts += 1;
            match value {
                Value::Object(members) => pending.extend(members.values()),
                Value::Array(items) => pending.extend(items),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
            if parts > parts_max {
                return false;
            }
        }
        true
    }
}

/// What the subschemas that apply in place, all together, do with one value.
#[derive(Default)]
struct Applied {
    visits: u64,
    named: HashMap<String, Vec<usize>>,
    each_property: Vec<usize>,
    prefix: HashMap<usize, Vec<usize>>,
    each_item: Vec<usize>,
}

impl Applied {
    fn targets(&self) -> Vec<usize> {
        let lists =
            self.named.values().chain(self.prefix.values()).chain([&self.each_property, &self.each_item]);
        let mut targets: Vec<usize> = lists.flatten().copied().collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// Most visits to this value or to any one below it.
    fn visits_max(&self, visits_of: impl Fn(usize) -> u64) -> u64 {
        let sum = |targets: &Vec<usize>| {
            targets.iter().fold(0_u64, |sum, target| sum.saturating_add(visits_of(*target)))
        };
        let of_named = self.named.values().map(sum).max().unwrap_or(0);
        let of_prefix = self.prefix.values().map(sum).max().unwrap_or(0);
        let of_property = of_named.saturating_add(sum(&self.each_property));
        let of_item = of_prefix.saturating_add(sum(&self.each_item));
        self.visits.max(of_property).max(of_item)
    }
}

enum Place {
    /// On the way down: met again, it is a recursion, which the validator remembers.
    Open(u64),
    Done(u64),
}

struct Survey<'a> {
    shape: &'a Shape,
    places: HashMap<usize, Place>,
    steps: u64,
    depth: usize,
}

impl Survey<'_> {
    /// From the root down and back, without recursion: a chain of references may be as long as the document.
    fn visits_max(&mut self) -> Result<u64, SchemaError> {
        let mut path = vec![self.enter(0)?];
        while let Some((node, applied, targets)) = path.last_mut() {
            if let Some(target) = targets.pop() {
                if !self.places.contains_key(&target) {
                    let entered = self.enter(target)?;
                    path.push(entered);
                }
                continue;
            }
            let visits = applied.visits_max(|target| match self.places.get(&target) {
                Some(Place::Open(visits) | Place::Done(visits)) => *visits,
                None => 1,
            });
            self.places.insert(*node, Place::Done(visits));
            path.pop();
        }
        match self.places.get(&0) {
            Some(Place::Done(visits)) => Ok(*visits),
            Some(Place::Open(_)) | None => Ok(1),
        }
    }

    fn enter(&mut self, node: usize) -> Result<(usize, Applied, Vec<usize>), SchemaError> {
        let mut applied = Applied::default();
        self.apply(node, &mut Vec::new(), &mut applied)?;
        self.places.insert(node, Place::Open(applied.visits));
        let targets = applied.targets();
        Ok((node, applied, targets))
    }

    /// Goes as the validator does: a subschema that is already at work on this value is not entered again.
    fn apply(&mut self, at: usize, path: &mut Vec<usize>, applied: &mut Applied) -> Result<(), SchemaError> {
        let Some(node) = self.shape.nodes.get(at) else {
            return Ok(());
        };
        self.steps += 1;
        applied.visits += 1;
        if path.len() >= IN_PLACE_DEPTH_MAX {
            return Err(refused(
                "",
                format!("expected at most {IN_PLACE_DEPTH_MAX} subschemas nested on one value"),
            ));
        }
        if applied.visits > IN_PLACE_VISITS_MAX || self.steps > SURVEY_STEPS_MAX {
            return Err(refused(
                "",
                "too many subschemas apply to one value; checking it would take too long",
            ));
        }
        path.push(at);
        self.depth = self.depth.max(path.len());
        applied.collect(node);
        let rounds = if node.evaluates_twice { 2 } else { 1 };
        for next in std::iter::repeat_n(&node.in_place, rounds).flatten() {
            if !path.contains(next) {
                self.apply(*next, path, applied)?;
            }
        }
        path.pop();
        Ok(())
    }
}

impl Applied {
    fn collect(&mut self, node: &Node) {
        for (name, target) in &node.named {
            self.named.entry(name.clone()).or_default().push(*target);
        }
        for (at, target) in node.prefix.iter().enumerate() {
            self.prefix.entry(at).or_default().push(*target);
        }
        // To know which children an alternative or `contains` has seen, they are visited once more.
        let rounds = if node.evaluates_twice { 2 } else { 1 };
        for _ in 0..rounds {
            self.each_property.extend(&node.each_property);
            self.each_item.extend(&node.each_item);
        }
    }
}

/// Whether a walk that remembers nothing, as the listing of failures is, ends within `steps_max`.
pub(super) fn is_walk_within(shape: &Shape, instance: &Value, steps_max: u64) -> bool {
    let mut walk = Walk { shape, steps_left: steps_max };
    walk.visit(0, instance, &mut Vec::new()).is_some()
}

struct Walk<'a> {
    shape: &'a Shape,
    steps_left: u64,
}

impl Walk<'_> {
    /// As deep as the validator goes, on the same stack, in smaller frames. `None` when the steps are used up.
    fn visit(&mut self, at: usize, value: &Value, path: &mut Vec<usize>) -> Option<()> {
        let Some(node) = self.shape.nodes.get(at) else {
            return Some(());
        };
        self.steps_left = self.steps_left.checked_sub(1)?;
        path.push(at);
        let rounds = if node.evaluates_twice { 2 } else { 1 };
        for next in std::iter::repeat_n(&node.in_place, rounds).flatten() {
            if !path.contains(next) {
                self.visit(*next, value, path)?;
            }
        }
        path.pop();
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    for next in node.named.get(name).into_iter().chain(&node.each_property) {
                        self.visit(*next, member, &mut Vec::new())?;
                    }
                }
            }
            Value::Array(items) => {
                for (position, item) in items.iter().enumerate() {
                    for next in node.prefix.get(position).into_iter().chain(&node.each_item) {
                        self.visit(*next, item, &mut Vec::new())?;
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Some(())
    }
}
