//! What a check of one value costs at most, found by going where the validator would, without its memory.
//!
//! Costlier than the bound from the graph (`work`), and closer: a pattern is charged only for the texts that it is
//! matched with. It also serves the listing of failures, which has no memory either, and copies values.

use serde_json::{Map, Value};

use super::cost::{Cost, comparison_steps};
use super::pattern::EIGHTHS;
use super::shape::{Node, Shape};
use super::work::Mode;

/// Most visits of the walk itself, whatever they cost: about a tenth of a second.
const WALK_VISITS_MAX: u64 = 4_000_000;

/// What a value takes in memory beside its texts, when a failure keeps a copy of it.
const VALUE_BYTES: u64 = 72;

/// Up to this many items the validator compares all pairs.
const PAIRWISE_ITEMS_MAX: usize = 15;

/// Whether a check of the value stays within `steps_max`.
pub(super) fn is_check_within(shape: &Shape, instance: &Value, steps_max: u64) -> bool {
    Walk { shape, visits_left: WALK_VISITS_MAX, steps_left: steps_max, copies_left: None }.allows(instance)
}

/// Whether the listing of all failures stays within `steps_max`, and the values that it copies within `bytes_max`.
pub(super) fn is_listing_within(shape: &Shape, instance: &Value, steps_max: u64, bytes_max: u64) -> bool {
    let mut walk =
        Walk { shape, visits_left: steps_max, steps_left: steps_max, copies_left: Some(bytes_max) };
    walk.allows(instance)
}

/// Something that subschemas apply to.
#[derive(Clone, Copy)]
enum Part<'v> {
    Value(&'v Value),
    Name(&'v str),
}

impl<'v> Part<'v> {
    fn text(self) -> Option<&'v str> {
        match self {
            Self::Value(value) => value.as_str(),
            Self::Name(name) => Some(name),
        }
    }
}

struct Walk<'a> {
    shape: &'a Shape,
    visits_left: u64,
    steps_left: u64,
    /// Bytes of values that may still be copied, where each visit may copy its value.
    copies_left: Option<u64>,
}

impl Walk<'_> {
    fn allows(&mut self, instance: &Value) -> bool {
        self.visit(0, Mode::Validate, Part::Value(instance), &mut Vec::new()).is_some()
    }

    /// As deep as the validator goes, on the same stack, in smaller frames. `None` when the steps are used up.
    fn visit(&mut self, at: usize, mode: Mode, part: Part<'_>, path: &mut Vec<(usize, Mode)>) -> Option<()> {
        let Some(node) = self.shape.nodes.get(at).filter(|_| !path.contains(&(at, mode))) else {
            return Some(());
        };
        self.visits_left = self.visits_left.checked_sub(1)?;
        self.charge(node, mode, part)?;
        path.push((at, mode));
        for next in &node.in_place {
            self.visit(*next, Mode::Validate, part, path)?;
            if mode == Mode::Mark {
                self.visit(*next, Mode::Mark, part, path)?;
            }
        }
        if mode == Mode::Validate && node.marks {
            self.visit(at, Mode::Mark, part, path)?;
        }
        path.pop();
        match part {
            Part::Value(value) => self.descend(node, mode, value),
            Part::Name(_) => Some(()),
        }
    }

    fn descend(&mut self, node: &Node, mode: Mode, value: &Value) -> Option<()> {
        match value {
            Value::Object(members) => {
                if mode == Mode::Validate {
                    self.descend_named(node, members)?;
                }
                let names: &[usize] = if mode == Mode::Validate { &node.each_name } else { &[] };
                if node.each_property.is_empty() && names.is_empty() {
                    return Some(());
                }
                for (name, member) in members {
                    self.visit_all(&node.each_property, Part::Value(member))?;
                    self.visit_all(names, Part::Name(name))?;
                }
            }
            Value::Array(items) => {
                if mode == Mode::Validate {
                    for (next, item) in node.prefix.iter().zip(items) {
                        self.visit_all(&[*next], Part::Value(item))?;
                    }
                }
                if !node.each_item.is_empty() {
                    items.iter().try_for_each(|item| self.visit_all(&node.each_item, Part::Value(item)))?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Some(())
    }

    /// Looks up the names of the schema or those of the value, whichever are fewer.
    fn descend_named(&mut self, node: &Node, members: &Map<String, Value>) -> Option<()> {
        if node.named.len() <= members.len() {
            let found = node.named.iter().filter_map(|(name, next)| Some((*next, members.get(name)?)));
            found.into_iter().try_for_each(|(next, member)| self.visit_all(&[next], Part::Value(member)))
        } else {
            let found = members.iter().filter_map(|(name, member)| Some((*node.named.get(name)?, member)));
            found.into_iter().try_for_each(|(next, member)| self.visit_all(&[next], Part::Value(member)))
        }
    }

    fn visit_all(&mut self, nodes: &[usize], part: Part<'_>) -> Option<()> {
        nodes.iter().try_for_each(|next| self.visit(*next, Mode::Validate, part, &mut Vec::new()))
    }

    fn charge(&mut self, node: &Node, mode: Mode, part: Part<'_>) -> Option<()> {
        let mut steps = 1;
        if mode == Mode::Validate {
            steps += node.cost.steps;
            if let Part::Value(Value::Number(number)) = part {
                steps += node.cost.number_steps(number);
            }
            if let Some(text) = part.text() {
                steps += text_steps(text, node.cost.per_byte, node.cost.backtracking);
            }
        }
        match part {
            Part::Value(Value::Object(members)) => {
                if mode == Mode::Mark {
                    steps += members.len() as u64;
                }
                let Cost { per_name_byte, name_backtracking, .. } = node.cost;
                if per_name_byte > 0 {
                    let of_name = |name: &String| text_steps(name, per_name_byte, name_backtracking);
                    steps += members.keys().map(of_name).sum::<u64>();
                }
            }
            Part::Value(Value::Array(items)) => {
                if mode == Mode::Mark {
                    steps += items.len() as u64;
                } else if node.cost.unique > 0 {
                    steps += uniqueness_steps(items);
                }
            }
            Part::Value(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))
            | Part::Name(_) => {}
        }
        self.steps_left = self.steps_left.checked_sub(steps)?;
        self.charge_copy(part)
    }

    /// A failure inside an alternative keeps a copy of the value that it is about.
    fn charge_copy(&mut self, part: Part<'_>) -> Option<()> {
        let Some(mut left) = self.copies_left else {
            return Some(());
        };
        let mut pending = match part {
            Part::Value(value) => vec![value],
            Part::Name(name) => {
                left = left.checked_sub(VALUE_BYTES + name.len() as u64)?;
                Vec::new()
            }
        };
        while let Some(value) = pending.pop() {
            let texts = match value {
                Value::Object(members) => {
                    pending.extend(members.values());
                    members.keys().map(String::len).sum()
                }
                Value::Array(items) => {
                    pending.extend(items);
                    0
                }
                Value::String(text) => text.len(),
                Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            };
            left = left.checked_sub(VALUE_BYTES + texts as u64)?;
        }
        self.copies_left = Some(left);
        Some(())
    }
}

fn text_steps(text: &str, per_byte: u64, backtracking: u64) -> u64 {
    let bytes = text.len() as u64;
    let of_all = bytes.saturating_mul(per_byte);
    let of_rests = bytes.saturating_mul(bytes).saturating_mul(backtracking);
    of_all.saturating_add(of_rests) / EIGHTHS
}

/// Scalars and arrays are hashed with a secret; objects are not, so all of them may be compared with each other.
fn uniqueness_steps(items: &[Value]) -> u64 {
    let once: usize = items.iter().map(comparison_steps).sum();
    let objects = items.iter().filter(|item| item.is_object() || item.is_array()).count() as u64;
    let pairs = objects.saturating_mul(objects) / 4;
    // Few items are compared in pairs, without a hash.
    let rounds = if items.len() <= PAIRWISE_ITEMS_MAX { items.len() as u64 } else { 2 };
    (once as u64).saturating_mul(rounds).saturating_add(pairs)
}
