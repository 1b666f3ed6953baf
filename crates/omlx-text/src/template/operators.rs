//! The operators of templates, as Python has them, each within the budget of the render.

use std::cmp::Ordering;

use minijinja::value::{Rest, Tuple, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

use crate::template::python::escape;
use crate::template::text::text;
use crate::template::{list, percent};

/// Adds the functions that stand for operators.
pub(crate) fn install(env: &mut Environment<'_>) {
    env.add_function("operator +", add);
    env.add_function("operator *", multiply);
    env.add_function("operator %", remainder);
    env.add_function("operator ~", join);
    env.add_function("operator ==", |state: &State, a: &Value, b: &Value| same(state, a, b));
    env.add_function("operator !=", |state: &State, a: &Value, b: &Value| same(state, a, b).map(|same| !same));
    env.add_function("operator <", |state: &State, a: &Value, b: &Value| order(state, a, b).map(Ordering::is_lt));
    env.add_function("operator <=", |state: &State, a: &Value, b: &Value| order(state, a, b).map(Ordering::is_le));
    env.add_function("operator >", |state: &State, a: &Value, b: &Value| order(state, a, b).map(Ordering::is_gt));
    env.add_function("operator >=", |state: &State, a: &Value, b: &Value| order(state, a, b).map(Ordering::is_ge));
    env.add_function("operator in", within);
    env.add_function("operator [:]", slice);
    env.add_function("operator []", |state: &State, items: Rest<Value>| list::build(state, items.to_vec()));
    env.add_function("operator ()", |state: &State, items: Rest<Value>| {
        list::admit(state, Value::from(Tuple::from(items.to_vec())))
    });
    env.add_function("operator {}", |state: &State, pairs: Rest<Value>| {
        let pairs = pairs.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        list::admit(state, Value::from_pairs(pairs))
    });
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, reason.into()))
}

fn unsupported<T>(operator: &str, a: &Value, b: &Value) -> Result<T, Error> {
    refuse(format!("{operator} of a {} and a {}", a.kind(), b.kind()))
}

/// Numbers as Python computes with them; `True` is 1.
enum Pair {
    Whole(i128, i128),
    Float(f64, f64),
}

fn numbers(a: &Value, b: &Value) -> Option<Pair> {
    let number = |v: &Value| matches!(v.kind(), ValueKind::Number | ValueKind::Bool);
    let whole = |v: &Value| v.is_integer() || v.kind() == ValueKind::Bool;
    if !number(a) || !number(b) {
        return None;
    }
    if whole(a) && whole(b) {
        return Some(Pair::Whole(i128::try_from(a.clone()).ok()?, i128::try_from(b.clone()).ok()?));
    }
    Some(Pair::Float(f64::try_from(a.clone()).ok()?, f64::try_from(b.clone()).ok()?))
}

fn whole(result: Option<i128>) -> Result<Value, Error> {
    match result {
        Some(result) => Ok(i64::try_from(result).map_or_else(|_| Value::from(result), Value::from)),
        None => refuse("a whole number of more than 127 bits"),
    }
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

pub(crate) fn add(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(first), Some(second)) = (a.as_str(), b.as_str()) {
        state.consume_fuel((first.len() + second.len()) as u64 / 64)?;
        if a.is_safe() || b.is_safe() {
            return Ok(Value::from_safe_string(format!("{}{}", escape(a), escape(b))));
        }
        return Ok(Value::from([first, second].concat()));
    }
    match numbers(a, b) {
        Some(Pair::Whole(a, b)) => whole(a.checked_add(b)),
        Some(Pair::Float(a, b)) => Ok(Value::from(a + b)),
        None if is_list(a) && is_list(b) && a.is_tuple() == b.is_tuple() => list::concat(state, a, b),
        None => unsupported("+", a, b),
    }
}

fn multiply(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    match numbers(a, b) {
        Some(Pair::Whole(a, b)) => return whole(a.checked_mul(b)),
        Some(Pair::Float(a, b)) => return Ok(Value::from(a * b)),
        None => {}
    }
    let (repeated, times) = if a.as_str().is_some() || is_list(a) { (a, b) } else { (b, a) };
    let whole = times.is_integer() || times.kind() == ValueKind::Bool;
    let (true, Ok(times)) = (whole, i128::try_from(times.clone())) else { return unsupported("*", a, b) };
    // as in Python, a negative count is none
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    if let Some(text) = repeated.as_str() {
        let bytes = text.len().checked_mul(times).map_or(u64::MAX, |bytes| bytes as u64);
        state.consume_fuel(bytes / 64)?;
        let text = text.repeat(times);
        return Ok(if repeated.is_safe() { Value::from_safe_string(text) } else { Value::from(text) });
    }
    if is_list(repeated) { list::repeat(state, repeated, times) } else { unsupported("*", a, b) }
}

/// `%`: a remainder, or for texts what the filter `format` does.
fn remainder(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    if a.as_str().is_some() {
        let args = if b.is_tuple() { b.try_iter()?.collect() } else { vec![b.clone()] };
        return percent::format(state, a, &args);
    }
    match numbers(a, b) {
        Some(Pair::Whole(_, 0)) => refuse("modulo by zero"),
        Some(Pair::Whole(a, b)) => {
            let rest = a.checked_rem(b).unwrap_or(0);
            whole(Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }))
        }
        Some(Pair::Float(_, 0.0)) => refuse("modulo by zero"),
        Some(Pair::Float(a, b)) => {
            let rest = a % b;
            let rest = if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest };
            Ok(Value::from(if rest == 0.0 { 0f64.copysign(b) } else { rest }))
        }
        None => unsupported("%", a, b),
    }
}

fn join(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    let mut joined = text(state, a)?;
    let second = text(state, b)?;
    joined.push_str(&second);
    Ok(Value::from(joined))
}

/// Pays for comparing two values.
fn pay(state: &State, a: &Value, b: &Value) -> Result<(), Error> {
    let least = match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => a.len().min(b.len()) as u64,
        _ if a.as_object().is_some() && b.as_object().is_some() => {
            list::measure(state, a)?.weight.min(list::measure(state, b)?.weight)
        }
        _ => 0,
    };
    state.consume_fuel(least / 64)
}

fn same(state: &State, a: &Value, b: &Value) -> Result<bool, Error> {
    pay(state, a, b)?;
    Ok(a == b)
}

fn order(state: &State, a: &Value, b: &Value) -> Result<Ordering, Error> {
    pay(state, a, b)?;
    Ok(a.cmp(b))
}

fn within(state: &State, item: &Value, container: &Value) -> Result<bool, Error> {
    if item.as_object().is_some() && container.as_object().is_some() {
        state.consume_fuel(list::measure(state, container)?.weight / 64)?;
    }
    minijinja::tests::is_in(state, item, container)
}

fn slice(state: &State, value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let number = |bound: &Value| if bound.is_none() { Ok(None) } else { i64::try_from(bound.clone()).map(Some) };
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?.unwrap_or(1));
    if step == 0 {
        return refuse("a slice's step must not be zero");
    }
    if let Some(text) = value.as_str() {
        state.consume_fuel(text.len() as u64 / 16)?;
        let chars: Vec<char> = text.chars().collect();
        let cut: String = places(chars.len(), start, stop, step).map(|at| chars[at]).collect();
        return Ok(if value.is_safe() { Value::from_safe_string(cut) } else { Value::from(cut) });
    }
    if value.is_undefined() || value.is_none() {
        return list::build(state, Vec::new());
    }
    if !is_list(value) {
        return refuse(format!("a {} cannot be sliced", value.kind()));
    }
    let items = list::collect(state, value)?;
    let cut: Vec<Value> = places(items.len(), start, stop, step).map(|at| items[at].clone()).collect();
    if value.is_tuple() { Ok(Value::from(Tuple::from(cut))) } else { list::build(state, cut) }
}

/// The indexes of a slice, by Python's rules.
fn places(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |bound: Option<i64>, open: i64| match bound {
        None => open,
        Some(at) if at < 0 => at.saturating_add(len).max(low),
        Some(at) => at.min(high),
    };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let (start, stop) = (bound(start, first), bound(stop, last));
    std::iter::successors(Some(start), move |at| at.checked_add(step))
        .take_while(move |at| if step > 0 { *at < stop } else { *at > stop })
        .filter_map(|at| usize::try_from(at).ok())
}
