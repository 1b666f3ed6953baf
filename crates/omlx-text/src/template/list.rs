//! The lists that templates build, and the measure that bounds every value a template can build.
//!
//! The engine concatenates lists lazily and pays for none of it, so that a few doublings would be more than any machine
//! holds. Here a list is built at once, is paid for in fuel, and knows its weight: about the bytes that writing it
//! out takes, things that it holds several times counted several times. A weight and a depth have limits, and so
//! printing, comparing and dropping any value have one too.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Deeper nesting is refused; request bodies cannot be deeper than 128 anyway.
pub(crate) const MAX_DEPTH: u32 = 200;
/// The heaviest value that a template may build.
const MAX_WEIGHT: u64 = 64 << 20;
/// Items that one unit of fuel pays for where they are copied; and where they are looked through.
const COPIED_PER_FUEL: u64 = 8;
const WEIGHED_PER_FUEL: u64 = 4;

/// A list with its measure.
#[derive(Debug)]
pub(crate) struct List {
    items: Vec<Value>,
    measure: Measure,
}

/// What a value takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measure {
    pub(crate) weight: u64,
    depth: u32,
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }
}

/// A list of these items, paid for.
pub(crate) fn build(state: &State, items: Vec<Value>) -> Result<Value, Error> {
    state.consume_fuel(items.len() as u64 / COPIED_PER_FUEL + 1)?;
    let measure = around(state, items.iter())?;
    Ok(Value::from_object(List { items, measure }))
}

/// The list, several times over.
pub(crate) fn repeat(state: &State, list: &Value, times: usize) -> Result<Value, Error> {
    let all = list.len().and_then(|len| len.checked_mul(times)).map_or(u64::MAX, |all| all as u64);
    // before they are there: that is what it would be about
    state.consume_fuel(all / COPIED_PER_FUEL)?;
    let once = collect(state, list)?;
    let measure = measure(state, list)?;
    let measure = Measure { weight: measure.weight.saturating_mul(times as u64), ..measure };
    checked(measure)?;
    let mut items = Vec::with_capacity(once.len() * times);
    for _ in 0..times {
        items.extend(once.iter().cloned());
    }
    Ok(if list.is_tuple() { tuple(items) } else { Value::from_object(List { items, measure }) })
}

/// Two lists as one.
pub(crate) fn concat(state: &State, first: &Value, second: &Value) -> Result<Value, Error> {
    let mut items = collect(state, first)?;
    items.extend(collect(state, second)?);
    let (a, b) = (measure(state, first)?, measure(state, second)?);
    let measure = Measure { weight: a.weight.saturating_add(b.weight), depth: a.depth.max(b.depth) };
    checked(measure)?;
    Ok(if first.is_tuple() { tuple(items) } else { Value::from_object(List { items, measure }) })
}

fn tuple(items: Vec<Value>) -> Value {
    Value::from(minijinja::value::Tuple::from(items))
}

/// The items of a list, paid for before they are copied.
pub(crate) fn collect(state: &State, list: &Value) -> Result<Vec<Value>, Error> {
    state.consume_fuel(list.len().unwrap_or(0) as u64 / COPIED_PER_FUEL)?;
    let mut items = Vec::new();
    for item in list.try_iter()? {
        if items.len() % 64 == 63 && list.len().is_none() {
            state.consume_fuel(64 / COPIED_PER_FUEL)?;
        }
        items.push(item);
    }
    Ok(items)
}

/// A container that the engine built, if it is within the limits.
pub(crate) fn admit(state: &State, value: Value) -> Result<Value, Error> {
    measure(state, &value)?;
    Ok(value)
}

/// What a value takes; an error where that is beyond the limits.
pub(crate) fn measure(state: &State, value: &Value) -> Result<Measure, Error> {
    let mut walk = Walk { state, seen: 0 };
    let measure = walk.value(value, 0)?;
    state.consume_fuel(walk.seen / WEIGHED_PER_FUEL)?;
    checked(measure)?;
    Ok(measure)
}

fn around<'a>(state: &State, items: impl Iterator<Item = &'a Value>) -> Result<Measure, Error> {
    let mut walk = Walk { state, seen: 0 };
    let mut all = Measure { weight: 8, depth: 1 };
    for item in items {
        let one = walk.value(item, 1)?;
        all.weight = all.weight.saturating_add(one.weight);
        all.depth = all.depth.max(one.depth + 1);
    }
    state.consume_fuel(walk.seen / WEIGHED_PER_FUEL)?;
    checked(all)?;
    Ok(all)
}

fn checked(measure: Measure) -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::new(ErrorKind::InvalidOperation, reason));
    if measure.depth > MAX_DEPTH {
        return refuse(format!("lists and dicts nested deeper than {MAX_DEPTH}"));
    }
    if measure.weight > MAX_WEIGHT {
        return refuse(format!("a list or dict that would take more than {MAX_WEIGHT} bytes"));
    }
    Ok(())
}

struct Walk<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    seen: u64,
}

impl Walk<'_, '_, '_> {
    fn value(&mut self, value: &Value, depth: u32) -> Result<Measure, Error> {
        if let Some(text) = value.as_str() {
            return Ok(Measure { weight: text.len() as u64 + 8, depth: 0 });
        }
        if let Some(list) = value.downcast_object_ref::<List>() {
            return Ok(list.measure);
        }
        let kind = value.kind();
        if !matches!(kind, ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
            return Ok(Measure { weight: 8, depth: 0 });
        }
        if depth > MAX_DEPTH {
            return Ok(Measure { weight: 0, depth: 1 });
        }
        let mut all = Measure { weight: 8, depth: 1 };
        for item in value.try_iter()? {
            self.seen += 1;
            if self.seen >= 4096 {
                self.state.consume_fuel(std::mem::take(&mut self.seen) / WEIGHED_PER_FUEL)?;
            }
            let key = self.value(&item, depth + 1)?;
            let held = if kind == ValueKind::Map { self.value(&value.get_item(&item)?, depth + 1)? } else { key };
            let both = if kind == ValueKind::Map { key.weight.saturating_add(held.weight) } else { key.weight };
            all.weight = all.weight.saturating_add(both);
            all.depth = all.depth.max(key.depth + 1).max(held.depth + 1);
        }
        Ok(all)
    }
}
