//! How much work a schema can make of a value, from its graph alone.
//!
//! A value is visited by every subschema that applies to it in place, and a child by every one that leads there. Both
//! multiply along the way: two branches that each lead to the same child visit it twice, its child four times. The
//! validator remembers results only for recursive references to objects and arrays. So the cost of one value is
//! bounded at registration, and at each check it is multiplied by the size of the value. Where that exceeds the limit, `walk`
//! visits the value itself.

use std::collections::HashMap;

use super::cost::Cost;
use super::extent::Extent;
use super::pattern::EIGHTHS;
use super::shape::{Node, Shape};
use super::{SchemaError, schema_error};

/// Most subschemas one inside the other on one value.
/// People nest half a dozen; each is a frame on the stack, for every level of the value.
pub(super) const IN_PLACE_DEPTH_MAX: usize = 64;

/// Most visits to one value from one place of the schema.
/// A union of a thousand variants with ten parts each passes.
pub(super) const IN_PLACE_VISITS_MAX: u64 = 10_000;

/// Most copies of subschemas that the compiler makes for `unevaluatedProperties` and `unevaluatedItems`: each of these
/// has its own of everything in place below it, through references. Some thousand bytes each.
pub(super) const MARKERS_MAX: usize = 20_000;

/// What one such copy takes, and each name in it. Measured: 1,400 bytes with one name.
const MARKER_BYTES: usize = 1_536;
const MARKER_NAME_BYTES: usize = 96;

/// Most steps of the survey itself, which runs once, at registration: a fraction of a second.
const SURVEY_STEPS_MAX: u64 = 1_000_000;

/// Up to this many steps a value and eighths a byte, the size of a message is bound enough.
const COST_UNCOUNTED_MAX: u64 = 8;

/// What the validator does with a subschema in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Says whether the value is valid.
    Validate,
    /// Marks what was evaluated, for `unevaluated…`; every alternative on the way is validated again.
    Mark,
}

/// Bounds on the work of one check.
#[derive(Debug)]
pub(super) struct Work {
    /// Subschemas one inside the other on one value.
    pub(super) in_place_depth: usize,
    /// Bytes of the copies that the compiler makes for `unevaluated…`.
    pub(super) markers_bytes: usize,
    /// Steps that finding out took.
    pub(super) survey_steps: u64,
    /// The most that any one value costs.
    most: Cost,
}

impl Work {
    pub(super) fn of(shape: &Shape) -> Result<Self, SchemaError> {
        let mut survey = Survey { shape, places: HashMap::new(), steps: 0, depth: 0 };
        let most = survey.most()?;
        let markers_bytes = markers_bytes(shape)?;
        Ok(Self { in_place_depth: survey.depth, markers_bytes, survey_steps: survey.steps, most })
    }

    /// Whether no value of that extent can cost more than `steps_max`.
    pub(super) fn is_affordable(&self, extent: &Extent, steps_max: u64) -> bool {
        let Cost { steps, per_byte, per_name_byte, backtracking, name_backtracking, unique, .. } = self.most;
        // Whether a number is large is found by the walk.
        let steps = steps.saturating_add(self.most.per_number.max(self.most.per_large_number));
        let per_byte = per_byte.max(per_name_byte);
        let backtracking = backtracking.max(name_backtracking);
        if steps <= COST_UNCOUNTED_MAX && per_byte <= COST_UNCOUNTED_MAX && backtracking == 0 && unique == 0 {
            return true;
        }
        let of_texts = extent.bytes.saturating_mul(per_byte) / EIGHTHS;
        let of_backtracking =
            extent.longest.saturating_mul(extent.bytes).saturating_mul(backtracking) / EIGHTHS;
        let of_comparisons = extent.parts.saturating_mul(extent.parts).saturating_add(extent.bytes);
        extent
            .parts
            .saturating_mul(steps)
            .saturating_add(of_texts)
            .saturating_add(of_backtracking)
            .saturating_add(of_comparisons.saturating_mul(unique))
            <= steps_max
    }
}

/// What the subschemas that apply in place, all together, do with one value.
#[derive(Default)]
struct InPlaceWork {
    visits: u64,
    cost: Cost,
    /// Subschemas that go through the names of all properties, or all items, to mark them.
    marks: u64,
    named: HashMap<String, Vec<usize>>,
    each_property: Vec<usize>,
    each_name: Vec<usize>,
    prefix: HashMap<usize, Vec<usize>>,
    each_item: Vec<usize>,
}

impl InPlaceWork {
    fn targets(&self) -> Vec<usize> {
        let each = [&self.each_property, &self.each_name, &self.each_item];
        let lists = self.named.values().chain(self.prefix.values()).chain(each);
        let mut targets: Vec<usize> = lists.flatten().copied().collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// The most that this value or any one below it costs.
    fn most(&self, cost_of: impl Fn(usize) -> Cost) -> Cost {
        let sum = |targets: &Vec<usize>| {
            targets.iter().fold(Cost::default(), |sum, target| sum.plus(cost_of(*target)))
        };
        let largest = |lists: Vec<Cost>| lists.into_iter().fold(Cost::default(), Cost::max);
        let marking = Cost { steps: self.marks, ..Cost::default() };
        let of_named = largest(self.named.values().map(sum).collect());
        let of_prefix = largest(self.prefix.values().map(sum).collect());
        let of_property = of_named.plus(sum(&self.each_property)).plus(marking);
        let of_item = of_prefix.plus(sum(&self.each_item)).plus(marking);
        self.cost.max(of_property).max(of_item).max(sum(&self.each_name))
    }

    fn collect(&mut self, node: &Node, mode: Mode) {
        self.visits += 1;
        match mode {
            Mode::Validate => {
                self.cost = self.cost.plus(node.cost).plus(Cost { steps: 1, ..Cost::default() });
                for (name, target) in &node.named {
                    self.named.entry(name.clone()).or_default().push(*target);
                }
                for (at, target) in node.prefix.iter().enumerate() {
                    self.prefix.entry(at).or_default().push(*target);
                }
                self.each_name.extend(&node.each_name);
            }
            Mode::Mark => {
                self.marks += 1;
                let Cost { per_name_byte, name_backtracking, .. } = node.cost;
                self.cost =
                    self.cost.plus(Cost { steps: 1, per_name_byte, name_backtracking, ..Cost::default() });
            }
        }
        // To know which children `unevaluated…` or `contains` has seen, they are visited once more.
        self.each_property.extend(&node.each_property);
        self.each_item.extend(&node.each_item);
    }
}

enum Place {
    /// On the way down: met again, it is a recursion, which the validator remembers.
    Open(Cost),
    Done(Cost),
}

struct Survey<'a> {
    shape: &'a Shape,
    places: HashMap<usize, Place>,
    steps: u64,
    depth: usize,
}

impl Survey<'_> {
    /// From the root down and back, without recursion: a chain of references may be as long as the document.
    fn most(&mut self) -> Result<Cost, SchemaError> {
        let visit = Cost { steps: 1, ..Cost::default() };
        let mut path = vec![self.enter(0)?];
        while let Some((node, applied, targets)) = path.last_mut() {
            if let Some(target) = targets.pop() {
                if !self.places.contains_key(&target) {
                    let entered = self.enter(target)?;
                    path.push(entered);
                }
                continue;
            }
            let most = applied.most(|target| match self.places.get(&target) {
                Some(Place::Open(cost) | Place::Done(cost)) => *cost,
                None => visit,
            });
            self.places.insert(*node, Place::Done(most));
            path.pop();
        }
        match self.places.get(&0) {
            Some(Place::Done(most)) => Ok(*most),
            Some(Place::Open(_)) | None => Ok(visit),
        }
    }

    fn enter(&mut self, node: usize) -> Result<(usize, InPlaceWork, Vec<usize>), SchemaError> {
        let mut applied = InPlaceWork::default();
        self.apply(node, Mode::Validate, &mut Vec::new(), &mut applied)?;
        self.places.insert(node, Place::Open(applied.cost));
        let targets = applied.targets();
        Ok((node, applied, targets))
    }

    /// Goes as the validator does: a subschema that is already at work on this value is not entered again.
    fn apply(
        &mut self,
        at: usize,
        mode: Mode,
        path: &mut Vec<(usize, Mode)>,
        applied: &mut InPlaceWork,
    ) -> Result<(), SchemaError> {
        let Some(node) = self.shape.nodes.get(at).filter(|_| !path.contains(&(at, mode))) else {
            return Ok(());
        };
        if path.len() >= IN_PLACE_DEPTH_MAX {
            let message = format!("expected at most {IN_PLACE_DEPTH_MAX} subschemas nested on one value");
            return Err(schema_error("", message));
        }
        applied.collect(node, mode);
        self.steps += 1 + (node.named.len() + node.each_property.len() + node.each_item.len()) as u64 / 8;
        if applied.visits > IN_PLACE_VISITS_MAX || self.steps > SURVEY_STEPS_MAX {
            let message = "too many subschemas apply to one value; checking it would take too long";
            return Err(schema_error("", message));
        }
        path.push((at, mode));
        self.depth = self.depth.max(path.len());
        for next in &node.in_place {
            self.apply(*next, Mode::Validate, path, applied)?;
            if mode == Mode::Mark {
                self.apply(*next, Mode::Mark, path, applied)?;
            }
        }
        if mode == Mode::Validate && node.marks {
            self.apply(at, Mode::Mark, path, applied)?;
        }
        path.pop();
        Ok(())
    }
}

/// Bytes of the copies that `unevaluated…` makes of what is in place, counted as the compiler makes them.
fn markers_bytes(shape: &Shape) -> Result<usize, SchemaError> {
    let (mut markers, mut bytes) = (0_usize, 0_usize);
    for (at, node) in shape.nodes.iter().enumerate() {
        if node.marks {
            // One for properties and one for items.
            count_markers(shape, at, &mut Vec::new(), &mut |node| {
                markers += 2;
                bytes += 2 * MARKER_BYTES
                    + node.named.keys().map(|name| MARKER_NAME_BYTES + name.len()).sum::<usize>();
                markers <= MARKERS_MAX
            })?;
        }
    }
    Ok(bytes)
}

fn count_markers(
    shape: &Shape,
    at: usize,
    path: &mut Vec<usize>,
    count: &mut impl FnMut(&Node) -> bool,
) -> Result<(), SchemaError> {
    let Some(node) = shape.nodes.get(at).filter(|_| !path.contains(&at)) else {
        return Ok(());
    };
    if path.len() >= IN_PLACE_DEPTH_MAX || !count(node) {
        let message = "too many subschemas in place of `unevaluatedProperties` and `unevaluatedItems`";
        return Err(schema_error("", message));
    }
    path.push(at);
    for next in &node.in_place {
        count_markers(shape, *next, path, count)?;
    }
    path.pop();
    Ok(())
}
