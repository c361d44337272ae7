//! Functions that cannot be bindings. They stay functions, so that no second error follows.

use scomp_macros::binding;

struct Input<T>(T);
struct State<T, U>(T, U);

#[binding]
fn without_description() {}

/// Is generic.
#[binding]
fn generic<T>(value: T) -> T {
    value
}

/// Borrows.
#[binding]
fn borrowing(text: &str) -> usize {
    text.len()
}

/// Has an argument without a name.
#[binding]
fn unnamed((a, b): (u32, u32)) -> u32 {
    a + b
}

/// Takes the whole input and a part of it.
#[binding]
fn with_both(Input(all): Input<Vec<u32>>, part: u32) -> usize {
    all.len() + part as usize
}

/// Has two states in one.
#[binding]
fn with_two_states(_state: State<u32, u32>) {}

/// Is unsafe.
#[binding]
unsafe fn dangerous() {}

/// Does not say what it returns.
#[binding]
fn without_output_type() -> std::fmt::Result {
    Ok(())
}

struct Shop;

impl Shop {
    /// Is a method.
    #[binding]
    fn method(&self) {}
}

/// Is not a function.
#[binding]
struct NotAFunction;

fn main() {
    without_description();
    generic(borrowing("") + with_both(Input(Vec::new()), unnamed((1, 2))));
    with_two_states(State(1, 2));
    let _ = without_output_type();
    Shop.method();
}
