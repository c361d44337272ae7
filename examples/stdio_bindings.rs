//! An executable that serves bindings over stdio. A declaration names it:
//!
//! ```json
//! { "package": "clock", "command": ["./stdio_bindings"] }
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use scomp::binding::{BindingError, Call};
use scomp::package::Package;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[derive(Serialize, schemars::JsonSchema)]
struct Time {
    seconds: u64,
}

async fn now(_: Nothing, _: Call) -> Result<Time, BindingError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Time { seconds: since.as_secs() })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let package = Package::new("clock").bind("clock.now", "Seconds since 1970.", now);
    Ok(scomp::serve_stdio(package).await?)
}
