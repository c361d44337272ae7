//! Links the program so that heap images outlive it: at fixed addresses, and the engine apart from everything else.
//!
//! Only the program of this package is linked so. Tests, examples and programs that use the library stay position
//! independent; images work there too, but not from one process to the next. The running program finds out by itself
//! how it was linked (`src/image/build`), so a linker that cannot do this costs a feature and not correctness.

use std::env;
use std::path::Path;

const LAYOUT: &str = "src/image/engine.ld";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={LAYOUT}");
    if !is_supported_target() {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // Not every linker knows the script's language; the usual two do.
    if !has_own_linker() {
        let folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", Path::new(&folder).join(LAYOUT).display());
    }
}

fn is_supported_target() -> bool {
    let is = |key: &str, value: &str| env::var(key).is_ok_and(|found| found == value);
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        // A static program is linked with other start files, which this flag does not fit.
        && !features.split(',').any(|feature| feature == "crt-static")
}

fn has_own_linker() -> bool {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    env::var_os("RUSTC_LINKER").is_some() || flags.contains("fuse-ld=") || flags.contains("linker=")
}
