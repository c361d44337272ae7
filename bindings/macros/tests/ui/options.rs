//! Options that do not exist, or have values that no binding can have.

use scomp_macros::binding;

/// Has an option with a spelling mistake.
#[binding(effect = ["read"])]
fn misspelled() {}

/// Has a name that is not one of JavaScript.
#[binding(name = "orders.get order")]
fn with_space() {}

/// Has a name that is not a text.
#[binding(name = orders)]
fn without_quotes() {}

/// Never gets an answer.
#[binding(timeout_ms = 0)]
fn without_time() {}

/// Has no list of effects.
#[binding(effects = "read")]
fn without_list() {}

/// Has an effect without a name.
#[binding(effects = ["read", ""])]
fn with_empty_effect() {}

/// Is limited twice.
#[binding(concurrency = 1, concurrency = 2)]
fn limited_twice() {}

/// Has a value without a name.
#[binding("orders.get")]
fn without_option_name() {}

fn main() {
    misspelled();
    with_space();
    without_quotes();
    without_time();
    without_list();
    with_empty_effect();
    limited_twice();
    without_option_name();
}
